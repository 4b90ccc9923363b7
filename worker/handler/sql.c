/*
 * `sql`: parameters out of the request, one statement, rows as JSON.  Rows are rendered as they arrive, straight
 * from the connection's receive buffer into the answer.
 */
#include "worker/handler/sql.h"

#include <stdio.h>
#include <string.h>

#include "worker/handler/kept.h"
#include "worker/handler/request.h"
#include "worker/handler/share.h"
#include "worker/http/server.h"
#include "worker/json/shape.h"
#include "worker/json/write.h"
#include "worker/pg/pool.h"
#include "worker/route/params.h"

#define SQL_MAGIC 0x59115911u

struct sql { /* per worker and route */
    unsigned magic;
    const struct conf_route *sql_route;
    struct pg_statement sql_statement;
    struct params *sql_params;
    struct json_shape *sql_shape; /* row and rows: of the current description */
    char sql_why[256];
    bool sql_unusual;        /* one of these two is to be looked at */
    struct kept *sql_kept;   /* NULL: no answer is kept */
    struct share *sql_share; /* NULL: each request has its own query */
    char *sql_label;         /* "GET /items/{id}" */
    bool sql_wants_peer;     /* a parameter is conn.ip */
    char *sql_open;          /* `{"items":`, before what the statement returns; "" without `wrap` */
    size_t sql_open_len;
};

static int sql_new(const struct handler_setup *setup, void **state, char why[256]);
static int sql_wrap(struct sql *sql);
static void sql_free(void *state);
static enum handler_result sql_request(struct request *r, void *state);
static enum handler_result sql_request_unusual(struct request *r, struct sql *sql) __attribute__((noinline));
static bool sql_abandon(struct request *r, void *state);
static void sql_inherit(struct request *heir, void *state);
static void sql_finish_all(struct sql *sql, struct request *leader, enum pg_outcome outcome,
                           const struct pg_error *error);
static void sql_copy(struct request *follower, const struct request *leader);
static bool sql_is_shed(enum pg_outcome outcome);
static const char *sql_described(struct pg_statement *s, void *arg);
static int sql_bind(struct pg_query *q, struct out *o);
static int sql_row(struct pg_query *q, char *cells, size_t len, unsigned columns);
static int sql_cell(struct out *o, const struct sql *sql, char *cells, size_t len);
static void sql_restart(struct pg_query *q);
static void sql_done(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error);
static void sql_long(struct pg_query *q);
static void sql_failed(struct request *r, const struct sql *sql, enum pg_outcome outcome, const struct pg_error *error);
static void sql_no_row(struct request *r);
static void sql_finish_rows(struct request *r, struct sql *sql);
static void sql_bad_parameter(struct request *r, const struct params_error *error);
static struct sql *sql_of(struct pg_query *q);

const struct handler handler_sql = {
    .handler_abi = HANDLER_ABI,
    .handler_name = "sql",
    .handler_new = sql_new,
    .handler_free = sql_free,
    .handler_request = sql_request,
    .handler_abandon = sql_abandon,
    .handler_inherit = sql_inherit,
};

static const struct pg_query_ops sql_ops = {
    .query_bind = sql_bind,
    .query_row = sql_row,
    .query_restart = sql_restart,
    .query_done = sql_done,
    .query_long = sql_long,
};

static int sql_new(const struct handler_setup *setup, void **state, char why[256])
{
    struct sql *sql = calloc(1, sizeof(*sql));
    unsigned i;

    if (sql == NULL) {
        (void)snprintf(why, 256, "out of memory");
        return -1;
    }
    sql->magic = SQL_MAGIC;
    sql->sql_route = setup->setup_route;
    sql->sql_params = params_new(setup->setup_route);
    for (i = 0; i < setup->setup_route->route_params_n; i++)
        if (setup->setup_route->route_params[i].param_source == SOURCE_CONN_IP)
            sql->sql_wants_peer = true;
    if (setup->setup_route->route_share)
        sql->sql_share = share_new(setup->setup_route->route_params_n);
    if (setup->setup_route->route_cache_ms > 0)
        sql->sql_kept = kept_new(setup->setup_cache, setup->setup_slot, setup->setup_route, setup->setup_route_index);
    sql->sql_unusual = sql->sql_share != NULL || sql->sql_kept != NULL;
    if (asprintf(&sql->sql_label, "%s %s", conf_method_name(setup->setup_route->route_method),
                 setup->setup_route->route_path) < 0)
        sql->sql_label = NULL;
    if (sql->sql_params == NULL || sql->sql_label == NULL || sql_wrap(sql) != 0 ||
        (setup->setup_route->route_share && sql->sql_share == NULL) ||
        (setup->setup_route->route_cache_ms > 0 && sql->sql_kept == NULL)) {
        (void)snprintf(why, 256, "out of memory");
        sql_free(sql);
        return -1;
    }
    sql->sql_statement.magic = PG_STATEMENT_MAGIC;
    sql->sql_statement.statement_label = sql->sql_label;
    sql->sql_statement.statement_sql = setup->setup_route->route_sql;
    sql->sql_statement.statement_calls = setup->setup_route->route_calls;
    sql->sql_statement.statement_index = setup->setup_route_index;
    sql->sql_statement.statement_described = sql_described;
    sql->sql_statement.statement_arg = sql;
    (void)snprintf(sql->sql_statement.statement_name, sizeof(sql->sql_statement.statement_name), "v%u",
                   setup->setup_route_index);
    pg_pool_add_statement(setup->setup_pools[setup->setup_route->route_pool], &sql->sql_statement);
    *state = sql;
    return 0;
}

/* What stands before the rows: the member's name, written once. */
static int sql_wrap(struct sql *sql)
{
    const char *wrap = sql->sql_route->route_wrap;
    struct buffers *bs;
    struct out o;

    if (wrap == NULL) {
        sql->sql_open = strdup("");
        return sql->sql_open == NULL ? -1 : 0;
    }
    bs = buffers_new((size_t)16 * BUF_MIN_SIZE + 8 * strlen(wrap));
    if (bs == NULL)
        return -1;
    out_init(&o, bs, 0);
    out_literal(&o, "{");
    json_write_string(&o, wrap, strlen(wrap));
    out_literal(&o, ":");
    sql->sql_open = malloc(o.out_bytes);
    if (sql->sql_open != NULL && o.out_error == OUT_OK) {
        struct buf *b;

        for (b = o.out_head; b != NULL; b = b->buf_next) {
            memcpy(sql->sql_open + sql->sql_open_len, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
            sql->sql_open_len += b->buf_end - b->buf_start;
        }
    }
    out_reset(&o);
    buffers_free(&bs);
    return sql->sql_open_len == 0 ? -1 : 0;
}

const struct pg_statement *sql_statement(const void *state)
{
    const struct sql *sql = state;

    CHECK_OBJ(sql, SQL_MAGIC);
    return &sql->sql_statement;
}

static void sql_free(void *state)
{
    struct sql *sql = state;

    CHECK_OBJ(sql, SQL_MAGIC);
    params_free(&sql->sql_params);
    share_free(&sql->sql_share);
    kept_free(&sql->sql_kept);
    free(sql->sql_open);
    free(sql->sql_label);
    if (sql->sql_shape != NULL)
        json_shape_free(&sql->sql_shape);
    sql->magic = 0;
    free(sql);
}

static enum handler_result sql_request(struct request *r, void *state)
{
    struct sql *sql = state;
    struct pg_statement *s = &sql->sql_statement;
    struct pg_query *q = request_query(r);
    struct slice peer = {NULL, 0};
    struct params_error error;

    CHECK_OBJ(sql, SQL_MAGIC);
    if (sql->sql_wants_peer)
        peer = request_peer(r);
    if (params_find(sql->sql_params, request_http(r), request_args(r), peer, r->req_values, &error) != 0) {
        sql_bad_parameter(r, &error);
        return HANDLER_DONE;
    }
    if (s->statement_state == STATEMENT_READY &&
        params_check(sql->sql_params, s->statement_params, r->req_values, &error) != 0) {
        pg_statement_doubt(s, r->req_server->server_now_ns);
        sql_bad_parameter(r, &error);
        return HANDLER_DONE;
    }
    q->query_statement = s;
    q->query_version = s->statement_version; /* that the values were checked against */
    q->query_ops = &sql_ops;
    r->req_rows = 0;
    if (__builtin_expect(!sql->sql_unusual, 1))
        return request_submit(r);
    return sql_request_unusual(r, sql);
}

/* What is kept comes first, then the query of another request, then its own. */
static enum handler_result sql_request_unusual(struct request *r, struct sql *sql)
{
    if (sql->sql_kept != NULL && kept_answer(sql->sql_kept, r)) {
        r->req_query.magic = 0; /* there is none: see statement_ran */
        if (r->req_status == 404)
            sql_no_row(r);
        return HANDLER_DONE;
    }
    if (sql->sql_share == NULL)
        return request_submit(r);
    if (sql->sql_statement.statement_state == STATEMENT_READY && share_join(sql->sql_share, r)) {
        stat_pool_add(sql->sql_route->route_pool, STAT_pool_shared, 1);
        return HANDLER_SUSPEND;
    }
    r->req_role = SHARE_ALONE;
    if (request_submit(r) != HANDLER_SUSPEND)
        return HANDLER_DONE;
    share_lead(sql->sql_share, r);
    return HANDLER_SUSPEND;
}

static bool sql_abandon(struct request *r, void *state)
{
    struct sql *sql = state;
    struct request *heir;
    bool idle;

    if (sql->sql_share == NULL)
        return pg_query_abandon(request_query(r));
    if (r->req_role == SHARE_INHERITS)
        request_disinherit(r);
    idle = share_leave(sql->sql_share, r, &heir);
    if (heir != NULL)
        request_bequeath(heir);
    return idle || pg_query_abandon(request_query(r));
}

/* The leader has left: its answer would be dropped row by row, so that the question is asked again. */
static void sql_inherit(struct request *heir, void *state)
{
    struct sql *sql = state;
    enum pg_outcome outcome =
        pg_pool_submit(sql->sql_statement.statement_pool, request_query(heir), heir->req_server->server_now_ns);

    if (outcome == PG_DONE) {
        share_lead(sql->sql_share, heir);
        return;
    }
    request_outcome(heir, outcome, NULL);
    sql_finish_all(sql, heir, outcome, NULL);
}

/* A leader's answer is complete but for its head: everybody who follows gets the same.  Nobody is finished before all
 * have it: finishing may close a connection behind its answer, and with it others who wait here, the leader too. */
static void sql_finish_all(struct sql *sql, struct request *leader, enum pg_outcome outcome,
                           const struct pg_error *error)
{
    struct request *f;

    share_close(leader);
    while ((f = share_next(leader)) != NULL) {
        if (sql_is_shed(outcome))
            request_outcome(f, outcome, error); /* counted one by one */
        else
            sql_copy(f, leader);
        share_answered(sql->sql_share, f);
    }
    request_finish(leader, HANDLER_DONE);
    while ((f = share_take(sql->sql_share)) != NULL)
        request_finish(f, HANDLER_DONE);
}

static void sql_copy(struct request *follower, const struct request *leader)
{
    const struct buf *b;

    follower->req_status = leader->req_status;
    follower->req_type = leader->req_type;
    follower->req_retry_after = leader->req_retry_after;
    for (b = leader->req_out.out_head; b != NULL; b = b->buf_next)
        out_write(request_out(follower), b->buf_data + b->buf_start, b->buf_end - b->buf_start);
    if (leader->req_out.out_error != OUT_OK)
        follower->req_out.out_error = leader->req_out.out_error;
}

static bool sql_is_shed(enum pg_outcome outcome)
{
    return outcome == PG_SHED_FULL || outcome == PG_SHED_TIMEOUT || outcome == PG_SHED_DOWN ||
           outcome == PG_SHED_BUFFERS;
}

/* A new description: compiles the shape of a row, or says why the route cannot work. */
static const char *sql_described(struct pg_statement *s, void *arg)
{
    struct sql *sql = arg;
    const struct conf_route *route = sql->sql_route;
    const char *names[1664]; /* PostgreSQL's MaxTupleAttributeNumber */
    const struct pg_type *types[1664];
    struct params_error error;
    struct json_shape *shape;
    char *why = NULL;
    unsigned i;

    CHECK_OBJ(sql, SQL_MAGIC);
    if (s->statement_params_n != route->route_params_n) {
        (void)snprintf(sql->sql_why, sizeof(sql->sql_why), "parameters: the statement has %u, the route gives %u",
                       s->statement_params_n, route->route_params_n);
        return sql->sql_why;
    }
    if (params_check_defaults(sql->sql_params, s->statement_params, &error) != 0) {
        (void)snprintf(sql->sql_why, sizeof(sql->sql_why), "the default of %s %s", error.error_param->param_spec,
                       error.error_why);
        return sql->sql_why;
    }
    if (route->route_result == RESULT_NONE)
        return NULL;
    if (s->statement_columns_n == 0)
        return "the statement returns no columns: its result can only be \"none\"";
    if ((route->route_result == RESULT_VALUE || route->route_result == RESULT_RAW) && s->statement_columns_n != 1)
        return "the results \"value\" and \"raw\" are of exactly one column";
    if (route->route_result == RESULT_VALUE || route->route_result == RESULT_RAW)
        return NULL;
    AN(s->statement_columns_n <= 1664);
    for (i = 0; i < s->statement_columns_n; i++) {
        names[i] = s->statement_columns[i].column_name;
        types[i] = s->statement_columns[i].column_type;
    }
    shape = json_shape_new(names, types, s->statement_columns_n, &why);
    if (shape == NULL) {
        (void)snprintf(sql->sql_why, sizeof(sql->sql_why), "%s", why != NULL ? why : "out of memory");
        free(why);
        return sql->sql_why;
    }
    if (sql->sql_shape != NULL)
        json_shape_free(&sql->sql_shape);
    sql->sql_shape = shape;
    return NULL;
}

static int sql_bind(struct pg_query *q, struct out *o)
{
    struct request *r = request_of_query(q);
    struct sql *sql = sql_of(q);
    struct params_error error;

    if (q->query_version != sql->sql_statement.statement_version) { /* described anew since they were checked */
        if (params_check(sql->sql_params, sql->sql_statement.statement_params, r->req_values, &error) != 0)
            return -1;
    }
    params_write(o, sql->sql_params, sql->sql_statement.statement_params, r->req_values);
    return 0;
}

static int sql_row(struct pg_query *q, char *cells, size_t len, unsigned columns)
{
    struct request *r = request_of_query(q);
    struct sql *sql = sql_of(q);
    struct out *o;

    switch (sql->sql_route->route_result) {
    case RESULT_NONE:
        return 0;
    case RESULT_ROWS:
        o = request_out(r);
        if (r->req_rows++ > 0) {
            out_literal(o, ",");
        } else {
            out_write(o, sql->sql_open, sql->sql_open_len);
            out_literal(o, "[");
        }
        return json_write_row(o, sql->sql_shape, cells, len, columns) != 0 || o->out_error != OUT_OK ? -1 : 0;
    case RESULT_ROW:
        if (r->req_rows++ > 0)
            return -1;
        o = request_out(r);
        if (sql->sql_open_len > 0)
            out_write(o, sql->sql_open, sql->sql_open_len);
        return json_write_row(o, sql->sql_shape, cells, len, columns);
    case RESULT_VALUE:
    case RESULT_RAW:
        if (r->req_rows++ > 0 || columns != 1)
            return -1;
        o = request_out(r);
        out_write(o, sql->sql_open, sql->sql_open_len);
        return sql_cell(o, sql, cells, len);
    }
    return -1;
}

/* The one cell of a `value` or `raw` result: Int32 length, octets. */
static int sql_cell(struct out *o, const struct sql *sql, char *cells, size_t len)
{
    const unsigned char *p = (const unsigned char *)cells;
    uint32_t n;

    if (len < 4)
        return -1;
    n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    if (n == UINT32_MAX) {
        if (sql->sql_route->route_result == RESULT_VALUE)
            out_literal(o, "null");
        return 0;
    }
    if (n > len - 4)
        return -1;
    if (sql->sql_route->route_result == RESULT_VALUE)
        json_write_value(o, sql->sql_statement.statement_columns[0].column_type, cells + 4, n);
    else
        out_write(o, cells + 4, n);
    return 0;
}

static void sql_restart(struct pg_query *q)
{
    struct request *r = request_of_query(q);

    request_clear(r);
    r->req_rows = 0;
}

static void sql_done(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error)
{
    struct request *r = request_of_query(q);
    struct sql *sql = sql_of(q);

    if (!request_abandoned(r)) {
        if (r->req_out.out_error != OUT_OK)
            ; /* too large, or no buffers: request_render says so */
        else if (outcome == PG_DONE)
            sql_finish_rows(r, sql);
        else
            sql_failed(r, sql, outcome, error);
        if (sql->sql_unusual && sql->sql_kept != NULL && outcome == PG_DONE)
            kept_store(sql->sql_kept, r);
        if (sql->sql_unusual && sql->sql_share != NULL) {
            sql_finish_all(sql, r, outcome, error);
            return;
        }
    }
    request_finish(r, HANDLER_DONE);
}

static void sql_long(struct pg_query *q)
{
    request_look(request_of_query(q));
}

static void sql_failed(struct request *r, const struct sql *sql, enum pg_outcome outcome, const struct pg_error *error)
{
    bool rows = r->req_rows > 1 && sql->sql_route->route_result != RESULT_ROWS;

    request_outcome(r, outcome, error);
    if (outcome == PG_INTERNAL && rows)
        request_problem(r, 500,
                        &(struct problem){.problem_detail = SLICE_LITERAL("the statement returned more than one row")});
}

static void sql_no_row(struct request *r)
{
    request_problem(r, 404, &(struct problem){.problem_detail = SLICE_LITERAL("there is no such row")});
}

/* The statement is through: completes the body. */
static void sql_finish_rows(struct request *r, struct sql *sql)
{
    const struct conf_route *route = sql->sql_route;
    struct out *o;
    unsigned i;

    if (route->route_result == RESULT_NONE)
        return;
    if (r->req_rows == 0 && route->route_result != RESULT_ROWS) {
        sql_no_row(r);
        return;
    }
    o = request_out(r);
    if (route->route_result == RESULT_ROWS) {
        if (r->req_rows == 0) {
            out_write(o, sql->sql_open, sql->sql_open_len);
            out_literal(o, "[");
        }
        out_literal(o, "]");
    }
    if (route->route_wrap == NULL)
        return;
    if (route->route_count != NULL) {
        out_literal(o, ",");
        json_write_string(o, route->route_count, strlen(route->route_count));
        out_literal(o, ":");
        out_u64(o, r->req_rows);
    }
    for (i = 0; i < route->route_echo_n; i++) {
        unsigned param = route->route_echo[i];

        out_literal(o, ",");
        json_write_string(o, route->route_echo_names[i], strlen(route->route_echo_names[i]));
        out_literal(o, ":");
        params_echo(o, sql->sql_params, param, sql->sql_statement.statement_params[param], &r->req_values[param]);
    }
    out_literal(o, "}");
}

static void sql_bad_parameter(struct request *r, const struct params_error *error)
{
    struct problem p = {.problem_detail = {error->error_why, strlen(error->error_why)},
                        .problem_coded = error->error_coded};

    r->req_query.magic = 0; /* there is none: see statement_ran */
    if (error->error_param != NULL)
        p.problem_parameter = (struct slice){error->error_param->param_spec, strlen(error->error_param->param_spec)};
    request_problem(r, error->error_status, &p);
}

static struct sql *sql_of(struct pg_query *q)
{
    struct sql *sql = q->query_statement->statement_arg;

    CHECK_OBJ(sql, SQL_MAGIC);
    return sql;
}
