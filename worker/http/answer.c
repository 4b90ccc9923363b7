/* Answers leave in the order of their requests (RFC 9112 9.3.2). */
#include <string.h>

#include "worker/http/server.h"

static void answer_bare(struct conn *c, struct request *r) __attribute__((noinline));
static void answer_last(struct conn *c, struct request *r);

void conn_answer(struct conn *c)
{
    struct request *r;

    if (c->conn_state == CONN_LEFT) { /* abandon_ms is the time of each query */
        AN(c->conn_fd >= 0);
        conn_again(c);
    }
    while ((r = TAILQ_FIRST(&c->conn_requests)) != NULL && r->req_state == REQUEST_ANSWERED) {
        bool last = r->req_close;

        if (__builtin_expect(r->req_out.out_bytes == 0, 0)) {
            answer_bare(c, r);
            break;
        }
        TAILQ_REMOVE(&c->conn_requests, r, req_link);
        c->conn_requests_n--;
        if (__builtin_expect(r->req_shed, 0))
            request_count_shed(r);
        if (__builtin_expect(r->req_out.out_bytes > c->conn_server->server_share, 0) && r->req_route != NULL)
            c->conn_server->server_routes[r->req_route - c->conn_server->server_routes].route_large = true;
        if (c->conn_out.out_head == NULL)
            out_move(&c->conn_out, &r->req_out);
        else
            out_append(&c->conn_out, &r->req_out);
        request_free(r);
        if (!last)
            continue;
        c->conn_closing = true;
        conn_abandon(c); /* pipelined behind one that closes: never answered */
        server_inherit(c->conn_server);
        break;
    }
    conn_touch(c);
}

/* Not even its head could be had: its answer is the last, and needs no buffer, but those before it to be sent.  Until
 * then it stays the first; conn_order comes back. */
static void answer_bare(struct conn *c, struct request *r)
{
    TAILQ_REMOVE(&c->conn_requests, r, req_link);
    c->conn_requests_n--;
    c->conn_closing = true;
    conn_abandon(c);
    if (c->conn_out.out_bytes == 0) {
        conn_emergency(c, r);
        request_free(r);
    } else {
        TAILQ_INSERT_HEAD(&c->conn_requests, r, req_link);
        c->conn_requests_n++;
    }
    server_inherit(c->conn_server);
}

void conn_refuse(struct conn *c, unsigned status, const char *why)
{
    struct request *r = c->conn_reading;

    if (r == NULL) {
        conn_emergency(c, NULL);
        return;
    }
    answer_last(c, r);
    request_problem(r, status, &(struct problem){.problem_detail = {why, strlen(why)}});
    request_render(r);
    conn_answer(c);
}

void conn_no_buffers(struct conn *c)
{
    struct request *r = c->conn_reading;
    struct server *s = c->conn_server;
    struct route_match m;

    if (r == NULL) {
        if (c->conn_requests_n > 0 || c->conn_out.out_bytes > 0)
            c->conn_held = true; /* when these are sent there may be one */
        else
            conn_emergency(c, NULL);
        return;
    }
    answer_last(c, r);
    if (r->req_in_body && r->req_http.rq_method < METHODS_ROUTABLE && r->req_http.rq_path.slice_p[0] == '/') {
        router_match(s->server_router, r->req_http.rq_method, r->req_http.rq_path, &m);
        if (m.match_route >= 0)
            r->req_route = &s->server_routes[m.match_route];
    }
    request_shed(r, SHED_BUFFERS);
    request_render(r);
    conn_answer(c);
}

/* The request that is being read will be answered in its turn, and nothing behind it is read. */
static void answer_last(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;

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
}
