/* Answers leave in the order of their requests (RFC 9112 9.3.2). */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "worker/http/access.h"
#include "worker/http/cors.h"
#include "worker/http/server.h"

void conn_answer(struct conn *c)
{
    struct request *r;

    if (c->conn_state == CONN_LEFT) /* abandon_ms is the time of each query */
        conn_again(c);
    while ((r = TAILQ_FIRST(&c->conn_requests)) != NULL && r->req_state == REQUEST_ANSWERED) {
        bool last = r->req_close;

        TAILQ_REMOVE(&c->conn_requests, r, req_link);
        c->conn_requests_n--;
        if (r->req_out.out_bytes == 0) {
            conn_emergency(c, r); /* not even its head could be had */
            last = true;
        } else {
            if (__builtin_expect(r->req_out.out_bytes > c->conn_server->server_share, 0) && r->req_route != NULL)
                c->conn_server->server_routes[r->req_route - c->conn_server->server_routes].route_large = true;
            if (c->conn_out.out_head == NULL)
                out_move(&c->conn_out, &r->req_out);
            else
                out_append(&c->conn_out, &r->req_out);
        }
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
        conn_emergency(c, NULL);
        return;
    }
    c->conn_reading = NULL;
    c->conn_closing = true;
    c->conn_linger = true;
    server_count(s, STAT_http_requests, 1);
    r->req_started_ns = s->server_now_ns;
    r->req_close = true;
    r->req_behind = false;
    r->req_state = REQUEST_ANSWERED;
    TAILQ_INSERT_TAIL(&c->conn_requests, r, req_link);
    c->conn_requests_n++;
    request_problem(r, status, &(struct problem){.problem_detail = {why, strlen(why)}});
    request_render(r);
    conn_answer(c);
}

void conn_emergency(struct conn *c, const struct request *r)
{
    struct server *s = c->conn_server;
    char cors[CORS_LINES_MAX];
    struct iovec iov[3] = {{s->server_emergency, s->server_emergency_len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};

    c->conn_closing = true;
    c->conn_linger = true;
    if (c->conn_requests_n == 0 && c->conn_out.out_bytes == 0 && c->conn_writable) {
        if (r != NULL && s->server_cors) {
            size_t begin = s->server_emergency_cors[0], end = s->server_emergency_cors[1];

            iov[0].iov_len = begin;
            iov[1] = (struct iovec){cors, cors_lines(r, cors)};
            iov[2] = (struct iovec){s->server_emergency + end, s->server_emergency_len - end};
            msg.msg_iovlen = 3;
        }
        (void)!sendmsg(c->conn_fd, &msg, MSG_NOSIGNAL);
        server_count(s, STAT_http_status_1xx + s->server_shed.shed_status / 100 - 1, 1);
        if (s->server_access != NULL)
            access_note_emergency(s->server_access, c, s->server_shed.shed_status, s->server_emergency_body);
    }
    conn_touch(c);
}
