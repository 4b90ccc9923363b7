/* The request as handlers see it (handler.h), from its first octet to its end. */
#include "worker/handler/request.h"

#include <arpa/inet.h>
#include <string.h>

#include "worker/http/forwarded.h"
#include "worker/http/server.h"

static void request_limit(struct request *r) __attribute__((noinline));

const struct http_request *request_http(const struct request *r)
{
    return &r->req_http;
}

struct slice request_arg(const struct request *r, unsigned i)
{
    AN(r->req_args != NULL);
    return r->req_args[i];
}

const struct slice *request_args(const struct request *r)
{
    return r->req_args;
}

struct slice request_peer(struct request *r)
{
    struct in6_addr peer;

    if (r->req_peer[0] == '\0' && r->req_conn != NULL) {
        peer = forwarded_client(r->req_server, &r->req_http, &r->req_conn->conn_peer);
        if (IN6_IS_ADDR_V4MAPPED(&peer))
            (void)inet_ntop(AF_INET, peer.s6_addr + 12, r->req_peer, sizeof(r->req_peer));
        else
            (void)inet_ntop(AF_INET6, &peer, r->req_peer, sizeof(r->req_peer));
    }
    return (struct slice){r->req_peer, strlen(r->req_peer)};
}

uint64_t request_started(const struct request *r)
{
    return r->req_started_ns;
}

struct out *request_out(struct request *r)
{
    struct out *o = &r->req_out;

    if (o->out_tail == NULL && o->out_error == OUT_OK) {
        struct buf *b = buf_get(o->out_buffers, BUF_DATA_MIN);

        o->out_limit = r->req_server->server_limits.limit_response_bytes;
        o->out_shared = false;
        if (__builtin_expect(r->req_behind, 0))
            request_limit(r);
        if (b == NULL) {
            o->out_error = OUT_NO_BUFFERS;
            return o;
        }
        b->buf_start = b->buf_end = REQUEST_HEAD_ROOM;
        o->out_head = o->out_tail = b;
    }
    return o;
}

/* One connection's answers that wait for others may take a small part of the buffers, whatever their number; what
 * would be longer is asked for again when it can be sent.  Not of a statement that may write: that is run once. */
static void request_limit(struct request *r)
{
    struct conn *c = r->req_conn;
    struct out *o = &r->req_out;

    if (c == NULL || conn_has_turn(c, r) || r->req_route == NULL || r->req_route->route_once ||
        o->out_limit <= r->req_server->server_share)
        return;
    o->out_limit = r->req_server->server_share;
    o->out_shared = true;
}

void request_status(struct request *r, unsigned status)
{
    r->req_status = (uint16_t)status;
}

void request_content_type(struct request *r, struct slice type)
{
    r->req_type = type;
}

void request_field(struct request *r, struct slice name, struct slice value)
{
    if (r->req_fields.out_head == NULL)
        out_init(&r->req_fields, r->req_out.out_buffers, 0);
    out_write(&r->req_fields, name.slice_p, name.slice_len);
    out_literal(&r->req_fields, ": ");
    out_write(&r->req_fields, value.slice_p, value.slice_len);
    out_literal(&r->req_fields, "\r\n");
}

bool request_unchanged(struct request *r)
{
    const char *etag = r->req_route->route_etag;
    uint32_t at = 0;
    struct slice value;
    bool found = false;

    if (!r->req_http.rq_conditional || etag[0] == '\0')
        return false;
    while (!found && http_field_find(&r->req_http, "if-none-match", 13, &at, &value))
        found = (value.slice_len == 1 && value.slice_p[0] == '*') ||
                memmem(value.slice_p, value.slice_len, etag, strlen(etag)) != NULL; /* weak or not: RFC 9110 13.1.2 */
    if (found) {
        request_clear(r);
        request_status(r, 304);
    }
    return found;
}

void request_clear(struct request *r)
{
    out_reset(&r->req_out);
}

void request_finish(struct request *r, enum handler_result result)
{
    struct conn *c = r->req_conn;

    CHECK_OBJ(r, REQUEST_MAGIC);
    if (r->req_state == REQUEST_ORPHANED) {
        request_free(r);
        return;
    }
    AN(r->req_state == REQUEST_SUSPENDED && c != NULL);
    AN(result != HANDLER_SUSPEND);
    if (__builtin_expect(r->req_out.out_error == OUT_SHARE, 0)) {
        request_defer(r);
        return;
    }
    if (result == HANDLER_CLOSE)
        r->req_close = true;
    if (r->req_server->server_draining && TAILQ_NEXT(r, req_link) == NULL && c->conn_reading == NULL)
        r->req_close = c->conn_linger = true; /* the last answer of this connection: say so */
    r->req_state = REQUEST_ANSWERED;
    request_render(r);
    conn_answer(c);
}

void request_look(struct request *r)
{
    CHECK_OBJ(r, REQUEST_MAGIC);
    if (r->req_conn != NULL)
        conn_look(r->req_conn);
}

void request_bequeath(struct request *heir)
{
    TAILQ_INSERT_TAIL(&heir->req_server->server_heirs, &heir->req_query, query_link);
}

void request_disinherit(struct request *heir)
{
    TAILQ_REMOVE(&heir->req_server->server_heirs, &heir->req_query, query_link);
}

bool request_abandoned(const struct request *r)
{
    return r->req_conn == NULL;
}

struct pg_query *request_query(struct request *r)
{
    struct pg_query *q = &r->req_query;

    if (q->magic != PG_QUERY_MAGIC) {
        memset(q, 0, sizeof(*q));
        q->magic = PG_QUERY_MAGIC;
    }
    return q;
}

struct request *request_of_query(struct pg_query *q)
{
    struct request *r = (struct request *)(void *)((char *)q - offsetof(struct request, req_query));

    CHECK_OBJ(r, REQUEST_MAGIC);
    return r;
}

enum handler_result request_submit(struct request *r)
{
    struct pg_pool *pool = r->req_query.query_statement->statement_pool;
    enum pg_outcome outcome = pg_pool_submit(pool, &r->req_query, r->req_server->server_now_ns);

    if (outcome == PG_DONE)
        return HANDLER_SUSPEND;
    request_outcome(r, outcome, NULL);
    return HANDLER_DONE;
}

void request_defer(struct request *r)
{
    struct conn *c = r->req_conn;

    request_clear(r);
    if (r->req_fields.out_head != NULL)
        out_reset(&r->req_fields);
    r->req_type = (struct slice){0};
    r->req_allow = 0;
    r->req_retry_after = 0;
    r->req_state = REQUEST_DEFERRED;
    if (r != TAILQ_FIRST(&c->conn_requests)) /* else it followed one of another connection */
        c->conn_serial = true;
    c->conn_held = true;
    conn_touch(c);
}

void request_release(struct request *r)
{
    struct buffers *bs = r->req_server->server_buffers;

    if (r->req_head_buf != NULL)
        buf_unref(bs, &r->req_head_buf);
    if (r->req_body_buf != NULL)
        buf_put(bs, &r->req_body_buf);
    if (r->req_out.out_head != NULL)
        out_reset(&r->req_out);
    if (r->req_fields.out_head != NULL)
        out_reset(&r->req_fields);
}

void request_free(struct request *r)
{
    struct server *s = r->req_server;

    request_release(r);
    r->magic = 0;
    if (r->req_extra) {
        s->server_extra--;
        server_call(s);
    }
    slab_put(s->server_requests, r);
}
