/*
 * /live answers as long as the loop turns.  /ready is 200 when every pool has a connection and the worker is not
 * draining, else 503; either way it says what is missing, broken routes included (a broken route alone does not take
 * the server out of service: its neighbours work).  /metrics is the whole segment in Prometheus' format.  None waits
 * for the database.
 */
#include "worker/handler/admin.h"

#include <stdio.h>
#include <string.h>

#include "shm/report.h"
#include "worker/handler/sql.h"
#include "worker/http/server.h"
#include "worker/json/write.h"

static int admin_new(const struct handler_setup *setup, void **state, char why[256]);
static enum handler_result live_request(struct request *r, void *state);
static enum handler_result ready_request(struct request *r, void *state);
static enum handler_result metrics_request(struct request *r, void *state);
static bool ready_missing(struct out *o);
static void ready_broken(struct out *o);
static void metrics_write(void *arg, const char *p, size_t n);

static struct conf_route admin_routes[] = {
    {.route_method = METHOD_GET,
     .route_path = "/live",
     .route_status = 200,
     .route_content_type = "text/plain",
     .route_shed_status = 503},
    {.route_method = METHOD_GET,
     .route_path = "/ready",
     .route_status = 200,
     .route_content_type = "application/json",
     .route_shed_status = 503},
    {.route_method = METHOD_GET,
     .route_path = "/metrics",
     .route_status = 200,
     .route_content_type = "text/plain; version=0.0.4; charset=utf-8",
     .route_shed_status = 503},
};

const struct conf admin_conf = {
    .magic = CONF_MAGIC,
    .conf_routes = admin_routes,
    .conf_routes_n = sizeof(admin_routes) / sizeof(admin_routes[0]),
};

static const struct handler handler_live = {
    .handler_abi = HANDLER_ABI, .handler_name = "live", .handler_new = admin_new, .handler_request = live_request};
static const struct handler handler_ready = {
    .handler_abi = HANDLER_ABI, .handler_name = "ready", .handler_new = admin_new, .handler_request = ready_request};
static const struct handler handler_metrics = {.handler_abi = HANDLER_ABI,
                                               .handler_name = "metrics",
                                               .handler_new = admin_new,
                                               .handler_request = metrics_request};

const struct handler *const admin_handlers[] = {&handler_live, &handler_ready, &handler_metrics};

static const struct admin *subject;

void admin_subject(const struct admin *admin)
{
    subject = admin;
}

static int admin_new(const struct handler_setup *setup, void **state, char why[256])
{
    (void)setup;
    (void)why;
    *state = NULL;
    return 0;
}

static enum handler_result live_request(struct request *r, void *state)
{
    (void)state;
    out_literal(request_out(r), "ok\n");
    return HANDLER_DONE;
}

static enum handler_result ready_request(struct request *r, void *state)
{
    struct out *o = request_out(r);
    bool missing;

    (void)state;
    out_literal(o, "{\"missing\":[");
    missing = ready_missing(o);
    out_literal(o, "],\"broken\":[");
    ready_broken(o);
    if (missing)
        out_literal(o, "],\"ready\":false}\n");
    else
        out_literal(o, "],\"ready\":true}\n");
    if (missing) {
        request_status(r, 503);
        request_content_type(r, SLICE_LITERAL("application/json"));
    }
    return HANDLER_DONE;
}

static enum handler_result metrics_request(struct request *r, void *state)
{
    (void)state;
    report_prometheus(subject->admin_segment, metrics_write, request_out(r));
    return HANDLER_DONE;
}

static void metrics_write(void *arg, const char *p, size_t n)
{
    out_write(arg, p, n);
}

/* What keeps the worker from being ready, as the elements of a JSON array; false: nothing. */
static bool ready_missing(struct out *o)
{
    bool any = false;
    unsigned i;

    if (subject->admin_public->server_draining) {
        out_literal(o, "{\"reason\":\"draining\"}");
        any = true;
    }
    for (i = 0; i < subject->admin_conf->conf_pools_n; i++) {
        const char *name = subject->admin_conf->conf_pools[i].pool_name;
        const char *trouble = pg_pool_trouble(subject->admin_pools[i]);

        if (pg_pool_up(subject->admin_pools[i]) > 0)
            continue;
        if (any)
            out_literal(o, ",");
        out_literal(o, "{\"pool\":");
        json_write_string(o, name, strlen(name));
        out_literal(o, ",\"reason\":");
        if (trouble[0] == '\0')
            trouble = "not connected yet";
        json_write_string(o, trouble, strlen(trouble));
        out_literal(o, "}");
        any = true;
    }
    return any;
}

/* Routes whose statement PostgreSQL or its route refuses. */
static void ready_broken(struct out *o)
{
    const struct server *s = subject->admin_public;
    bool any = false;
    unsigned i;

    for (i = 0; i < s->server_routes_n; i++) {
        const struct server_route *route = &s->server_routes[i];
        const struct pg_statement *statement;
        const char *method = conf_method_name(route->route_conf->route_method);

        if (route->route_handler != &handler_sql)
            continue;
        statement = sql_statement(route->route_state);
        if (statement->statement_state != STATEMENT_BROKEN)
            continue;
        if (any)
            out_literal(o, ",");
        out_literal(o, "{\"method\":");
        json_write_string(o, method, strlen(method));
        out_literal(o, ",\"path\":");
        json_write_string(o, route->route_conf->route_path, strlen(route->route_conf->route_path));
        out_literal(o, ",\"reason\":");
        json_write_string(o, statement->statement_why, strlen(statement->statement_why));
        out_literal(o, "}");
        any = true;
    }
}
