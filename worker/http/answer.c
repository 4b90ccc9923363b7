/* Answers leave in the order of their requests (RFC 9112 9.3.2). */
#include <string.h>
#include <sys/socket.h>

#include "worker/http/server.h"

void conn_answer(struct conn *c)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&c->conn_requests)) != NULL && r->req_state == REQUEST_ANSWERED) {
        bool last = r->req_close;

        TAILQ_REMOVE(&c->conn_requests, r, req_link);
        c->conn_requests_n--;
        if (r->req_out.out_bytes == 0) {
            conn_emergency(c); /* not even its head could be had */
            last = true;
        } else if (c->conn_out.out_head == NULL)
            out_move(&c->conn_out, &r->req_out);
        else
            out_append(&c->conn_out, &r->req_out);
        request_free(r);
        if (!last)
            continue;
        c->conn_closing = true;
        while ((r = TAILQ_FIRST(&c->conn_requests)) != NULL) { /* pipelined behind one that closes: never answered */
            TAILQ_REMOVE(&c->conn_requests, r, req_link);
            c->conn_requests_n--;
            request_abandon(r);
        }
    }
    conn_touch(c);
}

void conn_refuse(struct conn *c, unsigned status, const char *why)
{
    struct server *s = c->conn_server;
    struct request *r = c->conn_reading;

    if (r == NULL) {
        conn_emergency(c);
        return;
    }
    c->conn_reading = NULL;
    c->conn_closing = true;
    c->conn_linger = true;
    server_count(s, STAT_http_requests, 1);
    r->req_started_ns = s->server_now_ns;
    r->req_close = true;
    r->req_state = REQUEST_ANSWERED;
    TAILQ_INSERT_TAIL(&c->conn_requests, r, req_link);
    c->conn_requests_n++;
    request_problem(r, status, &(struct problem){.problem_detail = {why, strlen(why)}});
    request_render(r);
    conn_answer(c);
}

void conn_emergency(struct conn *c)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nServer: vanilla\r\nRetry-After: 1\r\n"
                                 "Content-Length: 0\r\nConnection: close\r\n\r\n";

    c->conn_closing = true;
    c->conn_linger = true;
    if (c->conn_requests_n == 0 && c->conn_out.out_bytes == 0 && c->conn_writable)
        (void)!send(c->conn_fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
    conn_touch(c);
}
