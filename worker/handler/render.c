/* The answer as it goes on the wire: a head in front of the body that the handler made (RFC 9112 4, 5, 6). */
#include <string.h>

#include "worker/handler/request.h"
#include "worker/http/access.h"
#include "worker/http/cors.h"
#include "worker/http/respond.h"
#include "worker/http/server.h"

static inline bool render_usual(struct request *r);
static void render_other(struct request *r) __attribute__((noinline));
static void render_careful(struct request *r) __attribute__((noinline));
static void render_error(struct request *r);
static void render_nothing(struct request *r);
static void put_head(struct request *r, const char *head, size_t len);
static bool statement_ran(const struct request *r);

void request_render(struct request *r)
{
    if (r->req_out.out_error != OUT_OK)
        render_error(r);
    if (__builtin_expect(r->req_server->server_careful, 0))
        render_careful(r);
    else if (!render_usual(r))
        render_other(r);
    request_count(r, r->req_route, r->req_status);
}

/* Where answers have more fields, or a line in the log. */
static void render_careful(struct request *r)
{
    struct server *s = r->req_server;
    uint64_t body =
        r->req_http.rq_method == METHOD_HEAD || respond_is_bodiless(r->req_status) ? 0 : r->req_out.out_bytes;

    if (s->server_cors)
        cors_dress(r);
    if (!render_usual(r))
        render_other(r);
    if (s->server_access != NULL && r->req_out.out_bytes > 0)
        access_note(s->server_access, r, body);
}

/* Any answer at all. */
static void render_other(struct request *r)
{
    struct server *s = r->req_server;
    const struct server_route *route = r->req_route;
    char head[RESPOND_HEAD_MAX];
    struct respond respond = {0};

    if (route != NULL && r->req_status == route->route_conf->route_status && !r->req_shed) {
        const char *type = route->route_conf->route_content_type;

        if (r->req_type.slice_p == NULL && type != NULL)
            r->req_type = (struct slice){type, strlen(type)};
    }
    respond.respond_status = r->req_status;
    respond.respond_type = r->req_type;
    respond.respond_length = r->req_out.out_bytes;
    respond.respond_allow = r->req_allow;
    if (r->req_retry_after)
        respond.respond_retry_after =
            (r->req_retry_after == REQUEST_RETRY_OWN ? r->req_retry_s : s->server_shed.shed_retry_after) + 1u;
    respond.respond_anonymous = !s->server_conf->conf_server_header;
    if (route != NULL && (r->req_status == route->route_conf->route_status || r->req_status == 304))
        respond.respond_etag = (struct slice){route->route_etag, strlen(route->route_etag)};
    respond.respond_close = r->req_close;
    respond.respond_keep_alive = r->req_http.rq_minor == 0;
    respond.respond_date = s->server_date;
    if (r->req_http.rq_method == METHOD_HEAD || respond_is_bodiless(r->req_status))
        out_reset(&r->req_out);
    put_head(r, head, respond_head(head, &respond));
}

/* The answer that a route gives nearly always: its head is ready but for the length.  False: this is another one. */
static inline bool render_usual(struct request *r)
{
    const struct server_route *route = r->req_route;
    struct buf *b = r->req_out.out_head;
    size_t length = r->req_out.out_bytes;
    unsigned digits = 1;
    size_t limit = 10;
    char *p;

    if (route == NULL || r->req_status != route->route_status || b == NULL || r->req_type.slice_p != NULL ||
        (r->req_close | r->req_shed | r->req_retry_after) || r->req_http.rq_minor == 0 ||
        r->req_http.rq_method == METHOD_HEAD || r->req_fields.out_head != NULL ||
        b->buf_start < route->route_head_len + 24)
        return false;
    for (; length >= limit; limit *= 10) /* limits.response_bytes keeps it far from overflowing */
        digits++;
    b->buf_start -= route->route_head_len + digits + 4;
    r->req_out.out_bytes += route->route_head_len + digits + 4;
    p = (char *)b->buf_data + b->buf_start;
    memcpy(p, route->route_head, route->route_head_len);
    p += route->route_head_len + digits;
    memcpy(p, "\r\n\r\n", 4);
    do {
        *--p = (char)('0' + length % 10);
        length /= 10;
    } while (length > 0);
    return true;
}

/* The body could not be held: the answer becomes an error.  A shed means "not run, safe to retry", which is no lie for
 * what only reads; a statement that may have written something has run. */
static void render_error(struct request *r)
{
    if (r->req_out.out_error == OUT_LIMIT) {
        server_count(r->req_server, STAT_limit_response_bytes, 1);
        request_problem(
            r, 500,
            &(struct problem){.problem_detail = SLICE_LITERAL("the answer is larger than limits.response_bytes")});
    } else if (statement_ran(r)) {
        server_count(r->req_server, STAT_limit_buffers, 1);
        request_problem(r, 500,
                        &(struct problem){.problem_detail = SLICE_LITERAL(
                                              "the statement was run, but there is no buffer for its answer")});
    } else {
        request_shed(r, SHED_BUFFERS);
    }
}

/* Not even a head could be had: the answer will be one without a buffer (conn_emergency), which says as much. */
static void render_nothing(struct request *r)
{
    out_reset(&r->req_out);
    if (r->req_shed)
        return;
    if (statement_ran(r)) {
        if (r->req_status < 500)
            server_count(r->req_server, STAT_limit_buffers, 1);
        r->req_status = 500;
        return;
    }
    request_shed(r, SHED_BUFFERS);
    out_reset(&r->req_out);
}

/* Whether it may have written something.  What was shed has not run. */
static bool statement_ran(const struct request *r)
{
    const struct conf *conf = r->req_server->server_conf;
    const struct server_route *route = r->req_route;

    return !r->req_shed && route != NULL && route->route_handler == &handler_sql &&
           r->req_query.magic == PG_QUERY_MAGIC && !conf->conf_pools[route->route_conf->route_pool].pool_read_only;
}

/* Puts the head, the extra fields and the empty line in front of the body: into the room kept for it, or into a block
 * of its own. */
static void put_head(struct request *r, const char *head, size_t len)
{
    struct buf *b = r->req_out.out_head;
    struct out o;

    if (r->req_fields.out_head == NULL && b != NULL && b->buf_start >= len + 2) {
        unsigned char *p;

        b->buf_start -= (uint32_t)len + 2;
        p = b->buf_data + b->buf_start;
        memcpy(p, head, len);
        memcpy(p + len, "\r\n", 2);
        r->req_out.out_bytes += len + 2;
        return;
    }
    out_init(&o, r->req_out.out_buffers, 0);
    out_write(&o, head, len);
    if (r->req_fields.out_head != NULL)
        out_append(&o, &r->req_fields);
    out_literal(&o, "\r\n");
    if (o.out_error != OUT_OK) {
        out_reset(&o);
        render_nothing(r);
        return;
    }
    out_append(&o, &r->req_out);
    r->req_out = o;
}
