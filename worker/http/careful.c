/* What is looked at only where somebody has asked for it: limits of client addresses, preflights, the PROXY header, and
 * the end of a worker. */
#include <string.h>

#include "worker/http/clients.h"
#include "worker/http/cors.h"
#include "worker/http/forwarded.h"
#include "worker/http/proxy.h"
#include "worker/http/server.h"

static bool request_is_welcome(struct request *r);
static uint32_t now_ms(const struct server *s);

enum handler_result request_careful(struct conn *c, struct request *r, int route, const struct slice *argument)
{
    struct server *s = c->conn_server;

    if (s->server_draining)
        r->req_close = c->conn_closing = true;
    if (c->conn_shed == CONN_WELCOME) {
        if (s->server_clients != NULL && !request_is_welcome(r))
            return HANDLER_DONE;
        if (s->server_cors && r->req_http.rq_method == METHOD_OPTIONS && cors_preflight(r))
            return HANDLER_DONE;
    }
    return request_dispatch(c, r, route, argument);
}

/* Within its client's rate?  False: answered. */
static bool request_is_welcome(struct request *r)
{
    struct server *s = r->req_server;
    struct in6_addr client = forwarded_client(s, &r->req_http, &r->req_conn->conn_peer);
    unsigned wait;

    if (IN6_IS_ADDR_UNSPECIFIED(&client)) /* a unix socket: nobody in particular */
        return true;
    wait = clients_request(s->server_clients, &client, now_ms(s));
    if (wait == 0)
        return true;
    server_count(s, STAT_limit_client_rate, 1);
    request_problem(
        r, 429,
        &(struct problem){.problem_detail = SLICE_LITERAL("more requests per second than one client may send")});
    r->req_retry_after = REQUEST_RETRY_OWN;
    r->req_retry_s = (uint16_t)(wait < UINT16_MAX ? wait : UINT16_MAX);
    return false;
}

void request_turn_away(struct conn *c, struct request *r)
{
    if (c->conn_shed == CONN_SHED) {
        request_shed(r, SHED_CONNECTIONS);
        return;
    }
    request_problem(r, 429,
                    &(struct problem){.problem_detail = SLICE_LITERAL("more connections than one client may have"),
                                      .problem_retry_after = true});
}

bool conn_admit(struct conn *c)
{
    struct server *s = c->conn_server;

    if (IN6_IS_ADDR_UNSPECIFIED(&c->conn_peer) || server_trusts(s, &c->conn_peer))
        return true;
    switch (clients_enter(s->server_clients, &c->conn_peer, now_ms(s), &c->conn_client)) {
    case CLIENT_WELCOME:
        return true;
    case CLIENT_OVER:
        if (c->conn_shed == CONN_WELCOME)
            c->conn_shed = CONN_LIMITED;
        break;
    case CLIENT_FAR_OVER:
        break;
    }
    server_count(s, STAT_limit_client_connections, 1);
    return c->conn_client != 0;
}

bool conn_proxy_header(struct conn *c)
{
    struct server *s = c->conn_server;
    struct buf *b = c->conn_buf;
    struct proxy_header header;

    switch (proxy_parse((const char *)b->buf_data + b->buf_start, b->buf_end - b->buf_start, &header)) {
    case PROXY_MORE:
        if (!c->conn_eof)
            return false;
        break;
    case PROXY_DONE:
        b->buf_start += header.proxy_len;
        c->conn_proxy = false;
        c->conn_timed = false; /* a head has its own time */
        if (header.proxy_has_address)
            c->conn_peer = header.proxy_address;
        if (s->server_clients == NULL || conn_admit(c))
            return true;
        break;
    case PROXY_BAD:
        server_count(s, STAT_limit_proxy_header, 1);
        break;
    }
    /* Closed without a word: whoever is there does not speak to us. */
    buf_unref(s->server_buffers, &c->conn_buf);
    c->conn_closing = c->conn_eof = true;
    return false;
}

/* Finer than the tick's, so that a bucket is filled evenly. */
static uint32_t now_ms(const struct server *s)
{
    return (uint32_t)(s->server_now_ns / 1000000u);
}
