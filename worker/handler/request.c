/* The request as handlers see it (handler.h), and its answer. */
#include "worker/handler/request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "worker/http/access.h"
#include "worker/http/cors.h"
#include "worker/http/forwarded.h"
#include "worker/http/respond.h"
#include "worker/http/server.h"
#include "worker/http/status.h"
#include "worker/json/write.h"
#include "worker/pg/sqlstate.h"

#define LOG_AGAIN_NS UINT64_C(1000000000)

static const struct {
    enum stat_worker shed_stat;
    enum stat_pool shed_pool_stat;
    struct slice shed_detail;
} sheds[] = {
    [SHED_POOL_FULL] = {STAT_shed_pool_full, STAT_pool_shed_pool_full,
                        SLICE_LITERAL("every database connection is busy")},
    [SHED_QUEUE_TIMEOUT] = {STAT_shed_queue_timeout, STAT_pool_shed_queue_timeout,
                            SLICE_LITERAL("no database connection became free in time")},
    [SHED_POOL_DOWN] = {STAT_shed_pool_down, STAT_pool_shed_pool_down, SLICE_LITERAL("the database cannot be reached")},
    [SHED_BUFFERS] = {STAT_shed_buffers, STAT_pool_shed_buffers, SLICE_LITERAL("the buffers are full")},
    [SHED_CONNECTIONS] = {STAT_shed_connections, STAT_POOL_N, SLICE_LITERAL("too many connections")},
};

static void request_limit(struct request *r) __attribute__((noinline));
static void render_other(struct request *r) __attribute__((noinline));
static void render_careful(struct request *r) __attribute__((noinline));
static inline bool render_usual(struct request *r);
static void render_error(struct request *r);
static void put_head(struct request *r, const char *head, size_t len);
static void render_nothing(struct request *r);
static bool statement_ran(const struct request *r);
static void request_send_away(struct request *r);
static unsigned request_allowed(const struct request *r);
static unsigned request_same(unsigned method);
static void log_failure(const struct request *r, const char *what, const char *why);
static void problem_member(struct out *o, const char *name, size_t name_len, struct slice value);
static bool is_optimistic(unsigned status);

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

void request_problem(struct request *r, unsigned status, const struct problem *p)
{
    struct slice title = p->problem_title.slice_p != NULL ? p->problem_title : http_status_reason(status);
    struct out *o;

    request_clear(r);
    if (p->problem_coded) /* RFC 9110 12.5.3 and 15.5.16 */
        request_field(r, SLICE_LITERAL("Accept-Encoding"), SLICE_LITERAL("identity"));
    r->req_status = (uint16_t)status;
    r->req_type = SLICE_LITERAL("application/problem+json");
    r->req_retry_after = p->problem_retry_after;
    o = request_out(r);
    out_literal(o, "{\"type\":\"about:blank\",\"title\":");
    json_write_string(o, title.slice_p, title.slice_len);
    out_literal(o, ",\"status\":");
    out_u64(o, status);
    problem_member(o, ",\"detail\":", 10, p->problem_detail);
    problem_member(o, ",\"parameter\":", 13, p->problem_parameter);
    problem_member(o, ",\"sqlstate\":", 12, p->problem_sqlstate);
    out_literal(o, "}");
}

void request_shed(struct request *r, enum request_shed_cause cause)
{
    unsigned status =
        r->req_route != NULL ? r->req_route->route_conf->route_shed_status : r->req_server->server_shed.shed_status;

    if (!r->req_shed) /* else there was no buffer to say so the first time: it is one answer all the same */
        r->req_shed = (uint8_t)(1 + cause);
    if (is_optimistic(status)) { /* the operator wants the client to believe that it went well */
        request_clear(r);
        r->req_status = (uint16_t)status;
        r->req_retry_after = true;
        return;
    }
    request_problem(r, status,
                    &(struct problem){.problem_detail = sheds[cause].shed_detail, .problem_retry_after = true});
}

void request_count_shed(const struct request *r)
{
    const struct server_route *route = r->req_route;
    unsigned cause = r->req_shed - 1u;

    server_count(r->req_server, sheds[cause].shed_stat, 1);
    if (route == NULL || route->route_index < 0)
        return;
    stat_route_add((unsigned)route->route_index, STAT_route_shed, 1);
    if (route->route_handler == &handler_sql && cause != SHED_CONNECTIONS)
        stat_pool_add(route->route_conf->route_pool, sheds[cause].shed_pool_stat, 1);
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

/* A shed by a pool that has free slots in other workers: the client's next connection may be dealt to one of them. */
static void request_send_away(struct request *r)
{
    struct conn *c = r->req_conn;

    if (c == NULL || c->conn_requests_n > 1 || (c->conn_reading != NULL && c->conn_reading != r) ||
        (c->conn_buf != NULL && c->conn_buf->buf_start != c->conn_buf->buf_end))
        return; /* there is more to answer on this connection */
    if (pg_pool_send_away(r->req_query.query_statement->statement_pool))
        r->req_close = c->conn_linger = true;
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

void request_outcome(struct request *r, enum pg_outcome outcome, const struct pg_error *error)
{
    switch (outcome) {
    case PG_SHED_FULL:
        request_shed(r, SHED_POOL_FULL);
        request_send_away(r);
        return;
    case PG_SHED_TIMEOUT:
        request_shed(r, SHED_QUEUE_TIMEOUT);
        request_send_away(r);
        return;
    case PG_SHED_DOWN:
        request_shed(r, SHED_POOL_DOWN);
        request_send_away(r);
        return;
    case PG_SHED_BUFFERS:
        request_shed(r, SHED_BUFFERS);
        return;
    case PG_TOO_LARGE:
        request_clear(r);
        r->req_out.out_error = OUT_LIMIT; /* request_render makes the answer */
        return;
    case PG_NO_BUFFERS:
        request_clear(r);
        r->req_out.out_error = OUT_NO_BUFFERS;
        return;
    case PG_UNKNOWN:
        request_problem(r, 502,
                        &(struct problem){.problem_detail = SLICE_LITERAL(
                                              "outcome unknown: the connection to the database was lost while the "
                                              "statement ran, or a procedure failed on its way; it may or may not "
                                              "have taken effect")});
        log_failure(r, "outcome unknown", "the connection was lost, or a procedure failed on its way");
        return;
    case PG_BROKEN:
        request_problem(
            r, 500,
            &(struct problem){.problem_detail = SLICE_LITERAL("the route's statement cannot be run; see /ready")});
        return;
    case PG_ERROR: {
        const struct pg_sqlstate *s = pg_sqlstate_find(error->error_sqlstate);
        struct problem p = {.problem_detail = {s->sqlstate_title, strlen(s->sqlstate_title)},
                            /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): PG_ERROR brings its error */
                            .problem_sqlstate = {error->error_sqlstate, strlen(error->error_sqlstate)},
                            .problem_retry_after = s->sqlstate_retry_after};

        if (error->error_parameter > 0 && error->error_parameter <= r->req_route->route_conf->route_params_n) {
            const char *spec = r->req_route->route_conf->route_params[error->error_parameter - 1].param_spec;

            p.problem_parameter = (struct slice){spec, strlen(spec)};
        }
        if (r->req_server->server_conf->conf_expose_errors && error->error_message != NULL)
            p.problem_detail = (struct slice){error->error_message, strlen(error->error_message)};
        request_problem(r, s->sqlstate_status, &p);
        if (s->sqlstate_status == 405)
            r->req_allow = (uint16_t)(request_allowed(r) & ~request_same(r->req_http.rq_method));
        if (s->sqlstate_status >= 500)
            log_failure(r, error->error_sqlstate, error->error_message != NULL ? error->error_message : "");
        return;
    }
    case PG_DONE:
    case PG_INTERNAL:
        log_failure(r, "unusable answer", "a protocol error, or not what the route's result wants");
        break;
    }
    request_problem(r, 500,
                    &(struct problem){.problem_detail = SLICE_LITERAL("the database's answer could not be used")});
}

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

/* The methods that do the same as this one. */
static unsigned request_same(unsigned method)
{
    return method == METHOD_GET || method == METHOD_HEAD ? 1u << METHOD_GET | 1u << METHOD_HEAD : 1u << method;
}

/* The methods that the request's path has routes for. */
static unsigned request_allowed(const struct request *r)
{
    struct route_match m;

    if (r->req_conn == NULL)
        return 0;
    router_match(r->req_server->server_router, METHOD_UNKNOWN, r->req_http.rq_path, &m);
    return m.match_allow;
}

/* An answer 5xx that is the database's or the route's doing: one line, at most one a second, which says how many had
 * none. */
static void log_failure(const struct request *r, const char *what, const char *why)
{
    struct server *s = r->req_server;
    const struct conf_route *route = r->req_route->route_conf;
    char more[64] = "";

    if (s->server_now_ns - s->server_failure_ns < LOG_AGAIN_NS && s->server_failure_ns != 0) {
        s->server_failures++;
        return;
    }
    s->server_failure_ns = s->server_now_ns;
    if (s->server_failures > 0)
        (void)snprintf(more, sizeof(more), " (and %u more since the last such line)", s->server_failures);
    log_write(LOG_LEVEL_WARN, "%s %s: %s: %s%s", conf_method_name(route->route_method), route->route_path, what, why,
              more);
    s->server_failures = 0;
}

static void problem_member(struct out *o, const char *name, size_t name_len, struct slice value)
{
    if (value.slice_p == NULL)
        return;
    out_write(o, name, name_len);
    json_write_string(o, value.slice_p, value.slice_len);
}

static bool is_optimistic(unsigned status)
{
    return status < 300;
}
