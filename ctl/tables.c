#include "ctl/tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "ctl/ctl.h"
#include "ctl/figures.h"
#include "ctl/format.h"
#include "ctl/table.h"
#include "shm/view.h"

static void tables_who(const struct segment *s);
static const char *tables_ago(char *to, uint64_t then_ns, bool stale);
static void tables_worker(struct table *t, const struct segment *s, unsigned slot, bool stale);
static void tables_pool(struct table *t, const struct segment *s, unsigned pool);
static void tables_route(struct table *t, const struct segment *s, unsigned route, bool cached);

enum ctl_exit command_workers(const struct ctl *ctl)
{
    return figures_print(ctl, tables_who);
}

enum ctl_exit command_pools(const struct ctl *ctl)
{
    return figures_print(ctl, tables_pools);
}

enum ctl_exit command_routes(const struct ctl *ctl)
{
    return figures_print(ctl, tables_routes);
}

void tables_server(const struct segment *s)
{
    char up[FORMAT_MAX], since[FORMAT_MAX], version[sizeof(((struct view_server *)0)->server_version)], *p;
    struct view_server server;
    struct view_worker w;
    unsigned i, ready = 0;

    view_server(s, &server);
    for (i = 0; i < view_workers(s); i++) {
        view_worker(s, i, &w);
        ready += w.worker_state == WORKER_STATE_READY;
    }
    snprintf(version, sizeof(version), "%s", server.server_version);
    for (p = version; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~')
            *p = '?';
    printf("vanilla %s, pid %" PRId64 ", %s %s (since %s), generation %" PRIu64 ", workers ready %u of %u\n", version,
           server.server_master_pid, server.server_stale ? "ended after" : "up",
           format_duration(up, server.server_uptime_ns), format_time(since, server.server_started_ns),
           server.server_generation, ready, view_workers(s));
}

void tables_workers(const struct segment *s)
{
    static const char *const headings[] = {">WORKER", ">PID",         ">CPU",      "STATE", ">GENERATION", ">UP",
                                           ">SEEN",   ">CONNECTIONS", ">REQUESTS", ">SHED", NULL};
    struct table *t = table_new(headings);
    struct view_server server;
    unsigned i;

    view_server(s, &server);
    for (i = 0; i < view_workers(s); i++)
        tables_worker(t, s, i, server.server_stale);
    table_print(&t, stdout);
}

static void tables_worker(struct table *t, const struct segment *s, unsigned slot, bool stale)
{
    char text[FORMAT_MAX];
    struct view_worker w;

    view_worker(s, slot, &w);
    table_number(t, slot);
    table_text(t, "%" PRId64, w.worker_pid);
    if (w.worker_cpu >= 0)
        table_text(t, "%d", w.worker_cpu);
    else
        table_text(t, "-");
    table_text(t, "%s", view_state_name(w.worker_state));
    table_number(t, w.worker_generation);
    table_text(t, "%s",
               tables_ago(text, w.worker_started_ns, stale || !view_counts(w.worker_state, COUNTER_KIND_GAUGE)));
    table_text(t, "%s", tables_ago(text, w.worker_heartbeat_ns, stale));
    table_number(t, view_worker_counter(s, slot, STAT_http_connections));
    table_number(t, view_worker_counter(s, slot, STAT_http_requests));
    table_number(
        t, view_worker_counter(s, slot, STAT_shed_pool_full) + view_worker_counter(s, slot, STAT_shed_queue_timeout) +
               view_worker_counter(s, slot, STAT_shed_pool_down) + view_worker_counter(s, slot, STAT_shed_buffers) +
               view_worker_counter(s, slot, STAT_shed_connections));
}

static void tables_who(const struct segment *s)
{
    tables_workers(s);
    fputc('\n', stdout);
    tables_shares(s);
}

void tables_shares(const struct segment *s)
{
    static const char *const headings[] = {">WORKER", "POOL", ">UP", ">SLOTS", ">INFLIGHT", ">WAITING", NULL};
    static const enum stat_pool columns[] = {STAT_pool_up, STAT_pool_slots, STAT_pool_inflight, STAT_pool_waiting};
    struct table *t = table_new(headings);
    struct view_worker w;
    unsigned slot, pool, i;

    for (slot = 0; slot < view_workers(s); slot++) {
        view_worker(s, slot, &w);
        for (pool = 0; pool < view_pools(s); pool++) {
            table_number(t, slot);
            table_text(t, "%s", view_pool_name(s, pool));
            for (i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
                table_number(t, view_counts(w.worker_state, COUNTER_KIND_GAUGE)
                                    ? view_worker_pool(s, slot, pool, columns[i])
                                    : 0);
        }
    }
    table_print(&t, stdout);
}

/* How long since a moment of CLOCK_MONOTONIC; "-" when there was none, or when the clock may be another boot's. */
static void tables_who(const struct segment *s);
static const char *tables_ago(char *to, uint64_t then_ns, bool stale)
{
    struct timespec ts;
    uint64_t now;

    if (stale || then_ns == 0)
        return "-";
    clock_gettime(CLOCK_MONOTONIC, &ts);
    now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return format_duration(to, now > then_ns ? now - then_ns : 0);
}

void tables_pools(const struct segment *s)
{
    static const char *const headings[] = {
        "POOL",   ">CONNECTIONS", ">UP",   ">MAX_INFLIGHT", ">SLOTS",   ">INFLIGHT", ">WAITING", ">QUERIES",
        ">BATCH", ">ROWS",        ">SHED", ">ERRORS",       ">RETRIED", ">UNKNOWN",  ">LOST",    NULL};
    struct table *t = table_new(headings);
    unsigned i;

    for (i = 0; i < view_pools(s); i++)
        tables_pool(t, s, i);
    table_print(&t, stdout);
}

static void tables_pool(struct table *t, const struct segment *s, unsigned pool)
{
    static const enum stat_pool before[] = {STAT_pool_slots, STAT_pool_inflight, STAT_pool_waiting, STAT_pool_queries};
    char text[FORMAT_MAX];
    unsigned i;

    table_text(t, "%s", view_pool_name(s, pool));
    table_number(t, view_pool(s, pool, STAT_pool_connections));
    table_number(t, view_pool(s, pool, STAT_pool_up));
    table_number(t, view_pool_max_inflight(s, pool));
    for (i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        table_number(t, view_pool(s, pool, before[i]));
    table_text(t, "%s",
               format_ratio(text, view_pool(s, pool, STAT_pool_queries), view_pool(s, pool, STAT_pool_syncs), 1));
    table_number(t, view_pool(s, pool, STAT_pool_rows));
    table_number(t, view_pool_shed(s, pool));
    table_number(t, view_pool(s, pool, STAT_pool_errors));
    table_number(t, view_pool(s, pool, STAT_pool_retried));
    table_number(t, view_pool(s, pool, STAT_pool_lost));
    table_number(t, view_pool(s, pool, STAT_pool_disconnects));
}

/* BATCH is queries by syncs. */
void tables_pools_more(const struct segment *s)
{
    static const enum stat_pool shown[] = {STAT_pool_connections, STAT_pool_up,         STAT_pool_slots,
                                           STAT_pool_inflight,    STAT_pool_waiting,    STAT_pool_queries,
                                           STAT_pool_rows,        STAT_pool_errors,     STAT_pool_retried,
                                           STAT_pool_lost,        STAT_pool_disconnects};
    static const char *const headings[] = {"POOL", "COUNTER", ">TOTAL", "UNIT", NULL};
    struct table *t = table_new(headings);
    unsigned pool, i, j;

    for (pool = 0; pool < view_pools(s); pool++)
        for (i = 0; i < STAT_POOL_N; i++) {
            for (j = 0; j < sizeof(shown) / sizeof(shown[0]) && shown[j] != (enum stat_pool)i; j++)
                ;
            if (j < sizeof(shown) / sizeof(shown[0]) || view_pool(s, pool, (enum stat_pool)i) == 0)
                continue;
            table_text(t, "%s", view_pool_name(s, pool));
            table_text(t, "%s.%s", counters_pool[i].counter_group, counters_pool[i].counter_name);
            table_number(t, view_pool(s, pool, (enum stat_pool)i));
            table_text(t, "%s", counters_pool[i].counter_unit);
        }
    table_print(&t, stdout);
}

void tables_routes(const struct segment *s)
{
    static const char *const headings[] = {"METHOD", "PATH", "POOL", ">REQUESTS", ">SHED", ">4XX",
                                           ">5XX",   ">P50", ">P99", "STATE",     NULL};
    /* While a route has cache_ms, or, of an ended server, had hits to show. */
    bool cached = view_total(s, STAT_memory_cache) > 0 || view_total(s, STAT_cache_hits) > 0;
    struct table *t = table_new(headings);
    unsigned i;

    if (cached)
        table_column(t, ">HITS");
    for (i = 0; i < view_routes(s); i++)
        tables_route(t, s, i, cached);
    table_print(&t, stdout);
}

static void tables_route(struct table *t, const struct segment *s, unsigned route, bool cached)
{
    char text[FORMAT_MAX];
    struct histogram h;
    int pool = view_route_pool(s, route);

    table_text(t, "%s", view_route_method(s, route));
    table_text(t, "%s", view_route_path(s, route));
    table_text(t, "%s", pool >= 0 ? view_pool_name(s, (unsigned)pool) : "-");
    table_number(t, view_route(s, route, STAT_route_requests));
    table_number(t, view_route(s, route, STAT_route_shed));
    table_number(t, view_route(s, route, STAT_route_errors_4xx));
    table_number(t, view_route(s, route, STAT_route_errors_5xx));
    view_route_histogram(s, route, &h);
    if (histogram_count(h.histogram_cells) == 0) {
        table_text(t, "-");
        table_text(t, "-");
    } else {
        table_text(t, "%s", format_us(text, histogram_quantile(h.histogram_cells, 0.50)));
        table_text(t, "%s", format_us(text, histogram_quantile(h.histogram_cells, 0.99)));
    }
    table_text(t, "%s", view_route(s, route, STAT_route_broken) != 0 ? "broken" : "ok");
    if (cached)
        table_number(t, view_route(s, route, STAT_route_cache_hits));
}
