/* Answers that are not the route's own: sheds, problems (RFC 9457), and what a query that failed becomes. */
#include <stdio.h>
#include <string.h>

#include "conf/log.h"
#include "worker/handler/request.h"
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

static void send_away(struct request *r);
static unsigned methods_allowed(const struct request *r);
static unsigned methods_same(unsigned method);
static void log_failure(const struct request *r, const char *what, const char *why);
static void problem_member(struct out *o, const char *name, size_t name_len, struct slice value);
static bool is_optimistic(unsigned status);

void request_outcome(struct request *r, enum pg_outcome outcome, const struct pg_error *error)
{
    switch (outcome) {
    case PG_SHED_FULL:
        request_shed(r, SHED_POOL_FULL);
        send_away(r);
        return;
    case PG_SHED_TIMEOUT:
        request_shed(r, SHED_QUEUE_TIMEOUT);
        send_away(r);
        return;
    case PG_SHED_DOWN:
        request_shed(r, SHED_POOL_DOWN);
        send_away(r);
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
            r->req_allow = (uint16_t)(methods_allowed(r) & ~methods_same(r->req_http.rq_method));
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

/* A shed by a pool that has free slots in other workers: the client's next connection may be dealt to one of them. */
static void send_away(struct request *r)
{
    struct conn *c = r->req_conn;

    if (c == NULL || c->conn_requests_n > 1 || (c->conn_reading != NULL && c->conn_reading != r) ||
        (c->conn_buf != NULL && c->conn_buf->buf_start != c->conn_buf->buf_end))
        return; /* there is more to answer on this connection */
    if (pg_pool_send_away(r->req_query.query_statement->statement_pool))
        r->req_close = c->conn_linger = true;
}

/* The methods that the request's path has routes for. */
static unsigned methods_allowed(const struct request *r)
{
    struct route_match m;

    if (r->req_conn == NULL)
        return 0;
    router_match(r->req_server->server_router, METHOD_UNKNOWN, r->req_http.rq_path, &m);
    return m.match_allow;
}

/* The methods that do the same as this one. */
static unsigned methods_same(unsigned method)
{
    return method == METHOD_GET || method == METHOD_HEAD ? 1u << METHOD_GET | 1u << METHOD_HEAD : 1u << method;
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
