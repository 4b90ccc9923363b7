#include "worker/http/setup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/log.h"
#include "worker/http/access.h"
#include "worker/http/clients.h"
#include "worker/http/cors.h"
#include "worker/http/date.h"
#include "worker/http/memo.h"
#include "worker/http/respond.h"
#include "worker/route/exact.h"

#define LINGER_MS 2000u
#define BODY_LOOK_MS 5000u /* a body is looked at about as often */
#define SHARE_MOST 65536u  /* octets of one answer that waits for others, with enough memory for many such clients */
#define SHARE_LEAST 4096u
#define ETAG_LEAST 128u /* octets of a body below which telling that it has not changed saves nothing */

static size_t places(const struct server *s, size_t slots);
static int server_extras(struct server *s, const struct server_config *config);
static void route_etag(struct server_route *route);
static void route_date(struct server_route *route, const char date[29]);
static int route_fix(struct server_route *route);
static int route_init(struct server *s, const struct server_config *config, unsigned i, char why[256]);

int server_init(struct server *s, const struct server_config *config, char why[256])
{
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
    s->server_out_high = s->server_public ? SERVER_OUT_HIGH : 0;
    s->server_share = buffers_total(s->server_buffers) / 1024;
    if (s->server_share > SHARE_MOST)
        s->server_share = SHARE_MOST;
    if (s->server_share < SHARE_LEAST)
        s->server_share = SHARE_LEAST;
    s->server_conns_max = config->config_connections;
    s->server_conns_all = config->config_connections + config->config_spare;
    s->server_reserve_fd = -1;
    s->server_idle_ms = t->timeout_idle_ms;
    s->server_timeouts_ms[CONN_IDLE] = t->timeout_idle_ms / 8 + 1;
    s->server_timeouts_ms[CONN_HEAD] = t->timeout_header_ms;
    s->server_body_looks = (t->timeout_body_ms + BODY_LOOK_MS - 1) / BODY_LOOK_MS;
    s->server_timeouts_ms[CONN_BODY] = t->timeout_body_ms / s->server_body_looks;
    s->server_body_least = (uint32_t)((uint64_t)t->timeout_body_rate * s->server_timeouts_ms[CONN_BODY] / 1000);
    s->server_timeouts_ms[CONN_WRITE] = t->timeout_write_ms;
    s->server_timeouts_ms[CONN_LINGER] = LINGER_MS;
    for (i = 0; i < config->config_conf->conf_pools_n; i++)
        if (config->config_conf->conf_pools[i].pool_abandon_ms > s->server_timeouts_ms[CONN_LEFT])
            s->server_timeouts_ms[CONN_LEFT] = config->config_conf->conf_pools[i].pool_abandon_ms;
    for (i = 0; i < CONN_STATES; i++)
        TAILQ_INIT(&s->server_lists[i]);
    STAILQ_INIT(&s->server_dirty);
    TAILQ_INIT(&s->server_heirs);
    for (i = 0; i < routes->conf_routes_n; i++)
        if (routes->conf_routes[i].route_params_n > s->server_values_max)
            s->server_values_max = routes->conf_routes[i].route_params_n;
    s->server_conns = slab_new(sizeof(struct conn), s->server_conns_all);
    s->server_stubs = slab_new(stub_size(), s->server_conns_all);
    s->server_queue = config->config_queue;
    s->server_extra_max = config->config_slots + s->server_queue;
    s->server_requests =
        slab_new_growing(sizeof(struct request) + s->server_values_max * sizeof(struct param_value),
                         places(s, config->config_slots), places(s, config->config_slots + config->config_slots_more));
    s->server_router = router_new(routes);
    s->server_exact = exact_new(routes);
    s->server_memo = calloc(1, sizeof(*s->server_memo));
    s->server_routes = calloc(routes->conf_routes_n + 1, sizeof(*s->server_routes));
    if (s->server_conns == NULL || s->server_stubs == NULL || s->server_requests == NULL || s->server_router == NULL ||
        s->server_exact == NULL || s->server_memo == NULL || s->server_routes == NULL ||
        server_extras(s, config) != 0) {
        (void)snprintf(why, 256, "out of memory");
        return -1;
    }
    for (i = 0; i < routes->conf_routes_n; i++)
        if (route_init(s, config, i, why) != 0)
            return -1;
    server_clock(s);
    s->server_now_ms = (uint32_t)(s->server_now_ns / 1000000u);
    server_date(s);
    emergency_init(s);
    return 0;
}

/* How many requests there may be: one for each connection whatever the others do; as many more, behind others of their
 * connection, as can be in the database or wait for it; and those whose clients have left, which have a slot until
 * their answers have come. */
static size_t places(const struct server *s, size_t slots)
{
    return s->server_conns_all + slots + s->server_queue + slots;
}

void server_slots(struct server *s, size_t slots)
{
    slab_grow(s->server_requests, places(s, slots));
    s->server_extra_max = slots + s->server_queue;
    server_call(s);
}

/* What only some want, and only of the public server.  -1: out of memory. */
static int server_extras(struct server *s, const struct server_config *config)
{
    const struct conf *conf = config->config_conf;

    if (!config->config_public)
        return 0;
    s->server_reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (conf->conf_client.client_connections != 0 || conf->conf_client.client_rate != 0) {
        s->server_clients = clients_new(&conf->conf_client, s->server_conns_all);
        if (s->server_clients == NULL)
            return -1;
    }
    if (log_access()) {
        s->server_access = access_new(conf->conf_log.log_json);
        if (s->server_access == NULL)
            return -1;
    }
    s->server_cors = cors_wanted(conf);
    s->server_careful = s->server_clients != NULL || s->server_access != NULL || s->server_cors;
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
    if (s->server_emergency_date != NULL)
        memcpy(s->server_emergency_date, s->server_date, sizeof(s->server_date));
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
    clients_free(&s->server_clients);
    access_free(&s->server_access);
    if (s->server_reserve_fd >= 0)
        close(s->server_reserve_fd);
    slab_free(&s->server_stubs);
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
        .setup_cache = config->config_cache,
        .setup_slot = config->config_slot,
    };
    struct respond respond = {.respond_status = conf->route_status,
                              .respond_date = s->server_date,
                              .respond_anonymous = !config->config_conf->conf_server_header};
    char head[RESPOND_HEAD_MAX];
    size_t date;

    route->route_conf = conf;
    route->route_index = config->config_public ? (int)i : -1;
    if (config->config_handlers != NULL)
        route->route_handler = config->config_handlers[i];
    else
        route->route_handler = conf->route_handler == HANDLER_SQL ? &handler_sql : &handler_text;
    AN(route->route_handler->handler_abi == HANDLER_ABI);
    route->route_once =
        route->route_handler != &handler_text &&
        !(route->route_handler == &handler_sql && config->config_conf->conf_pools[conf->route_pool].pool_read_only);
    if (conf->route_content_type != NULL)
        respond.respond_type = (struct slice){conf->route_content_type, strlen(conf->route_content_type)};
    if (route->route_handler->handler_new(&setup, &route->route_state, why) != 0)
        return -1;
    s->server_routes_n = i + 1;
    if (conf->route_method == METHOD_GET && conf->route_status == 200 && route->route_handler->handler_fixed != NULL) {
        route_etag(route);
        respond.respond_etag = (struct slice){route->route_etag, strlen(route->route_etag)};
    }
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
    if (route->route_handler->handler_fixed != NULL && route->route_status != 0 && route_fix(route) != 0) {
        (void)snprintf(why, 256, "out of memory");
        return -1;
    }
    return 0;
}

/* A strong validator of a fixed answer: its octets' hash (FNV-1a). */
static void route_etag(struct server_route *route)
{
    struct slice body = route->route_handler->handler_fixed(route->route_state);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t i;

    if (body.slice_len <= ETAG_LEAST)
        return;
    for (i = 0; i < body.slice_len; i++)
        hash = (hash ^ (unsigned char)body.slice_p[i]) * UINT64_C(0x100000001b3);
    (void)snprintf(route->route_etag, sizeof(route->route_etag), "\"%016llx\"", (unsigned long long)hash);
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
