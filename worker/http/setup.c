#include "worker/http/setup.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker/http/date.h"
#include "worker/http/memo.h"
#include "worker/http/respond.h"
#include "worker/route/exact.h"

#define LINGER_MS 2000u

static void route_date(struct server_route *route, const char date[29]);
static int route_fix(struct server_route *route);
static int route_init(struct server *s, const struct server_config *config, unsigned i, char why[256]);

int server_init(struct server *s, const struct server_config *config, char why[256])
{
    size_t requests;
    const struct conf_timeouts *t = &config->config_conf->conf_timeouts;
    const struct conf *routes = config->config_routes;
    unsigned i;

    memset(s, 0, sizeof(*s));
    s->magic = SERVER_MAGIC;
    s->server_public = config->config_public;
    s->server_base = config->config_base;
    s->server_conf = config->config_conf;
    s->server_limits = config->config_conf->conf_limits;
    s->server_shed = config->config_conf->conf_shed;
    s->server_buffers = config->config_buffers;
    s->server_conns_max = config->config_connections;
    s->server_idle_ms = t->timeout_idle_ms;
    s->server_timeouts_ms[CONN_IDLE] = t->timeout_idle_ms / 8 + 1;
    s->server_timeouts_ms[CONN_HEAD] = t->timeout_header_ms;
    s->server_timeouts_ms[CONN_BODY] = t->timeout_body_ms;
    s->server_timeouts_ms[CONN_WRITE] = t->timeout_write_ms;
    s->server_timeouts_ms[CONN_LINGER] = LINGER_MS;
    for (i = 0; i < config->config_conf->conf_pools_n; i++)
        if (config->config_conf->conf_pools[i].pool_abandon_ms > s->server_timeouts_ms[CONN_LEFT])
            s->server_timeouts_ms[CONN_LEFT] = config->config_conf->conf_pools[i].pool_abandon_ms;
    for (i = 0; i < CONN_STATES; i++)
        TAILQ_INIT(&s->server_lists[i]);
    STAILQ_INIT(&s->server_dirty);
    for (i = 0; i < routes->conf_routes_n; i++)
        if (routes->conf_routes[i].route_params_n > s->server_values_max)
            s->server_values_max = routes->conf_routes[i].route_params_n;
    s->server_conns = slab_new(sizeof(struct conn), (size_t)config->config_connections + config->config_spare);
    requests = (size_t)config->config_connections + config->config_spare + config->config_requests;
    s->server_requests = slab_new_growing(sizeof(struct request) + s->server_values_max * sizeof(struct param_value),
                                          requests, requests + config->config_requests_more);
    s->server_router = router_new(routes);
    s->server_exact = exact_new(routes);
    s->server_memo = calloc(1, sizeof(*s->server_memo));
    s->server_routes = calloc(routes->conf_routes_n + 1, sizeof(*s->server_routes));
    if (s->server_conns == NULL || s->server_requests == NULL || s->server_router == NULL || s->server_exact == NULL ||
        s->server_memo == NULL || s->server_routes == NULL) {
        (void)snprintf(why, 256, "out of memory");
        return -1;
    }
    for (i = 0; i < routes->conf_routes_n; i++)
        if (route_init(s, config, i, why) != 0)
            return -1;
    server_clock(s);
    s->server_now_ms = (uint32_t)(s->server_now_ns / 1000000u);
    server_date(s);
    return 0;
}

void server_date(struct server *s)
{
    time_t now = time(NULL);
    unsigned i;

    if (now == s->server_second)
        return;
    s->server_second = now;
    http_date(now, s->server_date);
    for (i = 0; i < s->server_routes_n; i++)
        route_date(&s->server_routes[i], s->server_date);
}

static void route_date(struct server_route *route, const char date[29])
{
    if (route->route_date != NULL)
        memcpy(route->route_date, date, 29);
    if (route->route_fixed_date != NULL)
        memcpy(route->route_fixed_date, date, 29);
}

void server_fini(struct server *s)
{
    unsigned i, state;

    for (state = 0; state < CONN_STATES; state++) {
        struct conn *c;

        while ((c = TAILQ_FIRST(&s->server_lists[state])) != NULL)
            conn_close(c);
    }
    (void)server_flush(s);
    for (i = 0; i < s->server_routes_n; i++) {
        struct server_route *route = &s->server_routes[i];

        if (route->route_handler->handler_free != NULL)
            route->route_handler->handler_free(route->route_state);
        free(route->route_head);
        free(route->route_fixed);
    }
    free(s->server_routes);
    router_free(&s->server_router);
    free(s->server_exact);
    free(s->server_memo);
    slab_free(&s->server_conns);
    slab_free(&s->server_requests);
    buffers_free(&s->server_buffers);
    s->magic = 0;
}

static int route_init(struct server *s, const struct server_config *config, unsigned i, char why[256])
{
    const struct conf_route *conf = &config->config_routes->conf_routes[i];
    struct server_route *route = &s->server_routes[i];
    const struct handler_setup setup = {
        .setup_conf = config->config_conf,
        .setup_route = conf,
        .setup_route_index = i,
        .setup_pools = config->config_pools,
    };
    struct respond respond = {.respond_status = conf->route_status, .respond_date = s->server_date};
    char head[RESPOND_HEAD_MAX];
    size_t date;

    route->route_conf = conf;
    route->route_index = config->config_public ? (int)i : -1;
    if (config->config_handlers != NULL)
        route->route_handler = config->config_handlers[i];
    else
        route->route_handler = conf->route_handler == HANDLER_SQL ? &handler_sql : &handler_text;
    AN(route->route_handler->handler_abi == HANDLER_ABI);
    if (conf->route_content_type != NULL)
        respond.respond_type = (struct slice){conf->route_content_type, strlen(conf->route_content_type)};
    if (!respond_is_bodiless(conf->route_status)) {
        route->route_head_len = (uint32_t)respond_template(head, &respond, &date);
        route->route_head = malloc(route->route_head_len);
        if (route->route_head == NULL) {
            (void)snprintf(why, 256, "out of memory");
            return -1;
        }
        memcpy(route->route_head, head, route->route_head_len);
        route->route_date = route->route_head + date;
        if (route->route_head_len + 24 <= REQUEST_HEAD_ROOM)
            route->route_status = (uint16_t)conf->route_status;
    }
    if (route->route_handler->handler_new(&setup, &route->route_state, why) != 0) {
        free(route->route_head);
        return -1;
    }
    s->server_routes_n = i + 1;
    if (route->route_handler->handler_fixed != NULL && route->route_status != 0 && route_fix(route) != 0) {
        (void)snprintf(why, 256, "out of memory");
        return -1;
    }
    return 0;
}

/* Makes the whole answer ready; a large one is left to the handler, it is not worth it. */
static int route_fix(struct server_route *route)
{
    struct slice body = route->route_handler->handler_fixed(route->route_state);
    int digits;

    if (body.slice_len > BUF_DATA_MIN / 4)
        return 0;
    route->route_fixed = malloc(route->route_head_len + 24 + body.slice_len);
    if (route->route_fixed == NULL)
        return -1;
    memcpy(route->route_fixed, route->route_head, route->route_head_len);
    digits = snprintf(route->route_fixed + route->route_head_len, 24, "%zu\r\n\r\n", body.slice_len);
    route->route_fixed_len = route->route_head_len + (uint32_t)digits + (uint32_t)body.slice_len;
    memcpy(route->route_fixed + route->route_fixed_len - body.slice_len, body.slice_p, body.slice_len);
    route->route_fixed_date = route->route_fixed + (route->route_date - route->route_head);
    return 0;
}
