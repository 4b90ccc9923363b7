#include "shm/report.h"
#include "shm/sink.h"
#include "shm/view.h"

static void json_server(struct sink *k, const struct view_server *server);
static void json_total(struct sink *k, const struct segment *s);
static void json_worker(struct sink *k, const struct segment *s, unsigned slot);
static void json_pool(struct sink *k, const struct segment *s, unsigned pool);
static void json_route(struct sink *k, const struct segment *s, unsigned route);
static void json_quantile(struct sink *k, const char *name, const struct histogram *h, double q);
static void json_counter(struct sink *k, const char *separator, const struct counter *counter, uint64_t v);

void report_json(const struct segment *s, void (*write)(void *arg, const char *p, size_t n), void *arg)
{
    struct view_server server;
    struct sink k;
    unsigned i;

    view_server(s, &server);
    sink_open(&k, write, arg);
    json_server(&k, &server);
    json_total(&k, s);
    sink_string(&k, ",\"workers\":[");
    for (i = 0; i < view_workers(s); i++) {
        sink_string(&k, i == 0 ? "" : ",");
        json_worker(&k, s, i);
    }
    sink_string(&k, "],\"pools\":[");
    for (i = 0; i < view_pools(s); i++) {
        sink_string(&k, i == 0 ? "" : ",");
        json_pool(&k, s, i);
    }
    sink_string(&k, "],\"routes\":[");
    for (i = 0; i < view_routes(s); i++) {
        sink_string(&k, i == 0 ? "" : ",");
        json_route(&k, s, i);
    }
    sink_string(&k, "]}\n");
    sink_close(&k);
}

static void json_server(struct sink *k, const struct view_server *server)
{
    sink_string(k, "{\"version\":\"");
    sink_json(k, server->server_version);
    sink_string(k, "\",\"pid\":");
    sink_signed(k, server->server_master_pid);
    sink_string(k, ",\"started_s\":");
    sink_fixed(k, server->server_started_ns / 1000000u, 3);
    sink_string(k, ",\"uptime_s\":");
    sink_fixed(k, server->server_uptime_ns / 1000000u, 3);
    sink_string(k, ",\"generation\":");
    sink_number(k, server->server_generation);
    sink_string(k, server->server_stale ? ",\"stale\":true,\"stale_since_s\":" : ",\"stale\":false");
    if (server->server_stale)
        sink_fixed(k, server->server_stale_ns / 1000000u, 3);
}

static void json_total(struct sink *k, const struct segment *s)
{
    unsigned i;

    sink_string(k, ",\"total\":{");
    for (i = 0; i < STAT_WORKER_N; i++)
        json_counter(k, i == 0 ? "" : ",", &counters_worker[i], view_total(s, (enum stat_worker)i));
    for (i = 0; i < STAT_MASTER_N; i++)
        json_counter(k, ",", &counters_master[i], view_master(s, (enum stat_master)i));
    sink_string(k, "}");
}

static void json_worker(struct sink *k, const struct segment *s, unsigned slot)
{
    struct view_worker w;
    unsigned i;

    view_worker(s, slot, &w);
    sink_string(k, "{\"slot\":");
    sink_number(k, slot);
    sink_string(k, ",\"pid\":");
    sink_signed(k, w.worker_pid);
    sink_string(k, ",\"cpu\":");
    sink_signed(k, w.worker_cpu);
    sink_strings(k, ",\"state\":\"", view_state_name(w.worker_state), "\",\"generation\":", NULL);
    sink_number(k, w.worker_generation);
    sink_string(k, ",\"counters\":{");
    for (i = 0; i < STAT_WORKER_N; i++)
        json_counter(k, i == 0 ? "" : ",", &counters_worker[i], view_worker_counter(s, slot, (enum stat_worker)i));
    sink_string(k, "}}");
}

static void json_counter(struct sink *k, const char *separator, const struct counter *counter, uint64_t v)
{
    sink_strings(k, separator, "\"", counter->counter_group, ".", counter->counter_name, "\":", NULL);
    sink_number(k, v);
}

static void json_pool(struct sink *k, const struct segment *s, unsigned pool)
{
    unsigned i;

    sink_string(k, "{\"name\":\"");
    sink_json(k, view_pool_name(s, pool));
    sink_string(k, "\",\"max_inflight\":");
    sink_number(k, view_pool_max_inflight(s, pool));
    sink_string(k, ",\"shed\":");
    sink_number(k, view_pool_shed(s, pool));
    for (i = 0; i < STAT_POOL_N; i++) {
        sink_strings(k, ",\"", counters_pool[i].counter_name, "\":", NULL);
        sink_number(k, view_pool(s, pool, (enum stat_pool)i));
    }
    sink_string(k, "}");
}

static void json_route(struct sink *k, const struct segment *s, unsigned route)
{
    struct histogram h;
    int pool = view_route_pool(s, route);
    unsigned i;

    sink_string(k, "{\"method\":\"");
    sink_json(k, view_route_method(s, route));
    sink_string(k, "\",\"path\":\"");
    sink_json(k, view_route_path(s, route));
    sink_string(k, "\",\"pool\":");
    if (pool >= 0) {
        sink_string(k, "\"");
        sink_json(k, view_pool_name(s, (unsigned)pool));
        sink_string(k, "\"");
    } else {
        sink_string(k, "null");
    }
    for (i = 0; i < STAT_ROUTE_N; i++) {
        sink_strings(k, ",\"", counters_route[i].counter_name, "\":", NULL);
        sink_number(k, view_route(s, route, (enum stat_route)i));
    }
    view_route_histogram(s, route, &h);
    sink_string(k, ",\"timed\":");
    sink_number(k, histogram_count(h.histogram_cells));
    sink_string(k, ",\"sum_us\":");
    sink_number(k, h.histogram_sum);
    json_quantile(k, "p50_us", &h, 0.50);
    json_quantile(k, "p90_us", &h, 0.90);
    json_quantile(k, "p99_us", &h, 0.99);
    json_quantile(k, "p999_us", &h, 0.999);
    sink_string(k, "}");
}

/* The middle of a cell is a whole number of microseconds or half of one. */
static void json_quantile(struct sink *k, const char *name, const struct histogram *h, double q)
{
    sink_strings(k, ",\"", name, "\":", NULL);
    sink_fixed(k, (uint64_t)(histogram_quantile(h->histogram_cells, q) * 10), 1);
}
