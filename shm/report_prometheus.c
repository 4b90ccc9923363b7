#include <string.h>

#include "shm/report.h"
#include "shm/sink.h"
#include "shm/view.h"

/* Upper ends of the buckets in microseconds, and as they are written: seconds. */
static const struct bucket {
    uint64_t bucket_us;
    const char *bucket_le;
} buckets[] = {
    {100, "0.0001"}, {250, "0.00025"}, {500, "0.0005"}, {1000, "0.001"},  {2500, "0.0025"}, {5000, "0.005"},
    {10000, "0.01"}, {25000, "0.025"}, {50000, "0.05"}, {100000, "0.1"},  {250000, "0.25"}, {500000, "0.5"},
    {1000000, "1"},  {2500000, "2.5"}, {5000000, "5"},  {10000000, "10"},
};

/* Writes the samples of one counter. */
typedef void prometheus_samples(struct sink *k, const struct segment *s, const struct counter *counter, unsigned index);

static void prometheus_server(struct sink *k, const struct view_server *server);
static void prometheus_workers(struct sink *k, const struct segment *s);
static void prometheus_pools(struct sink *k, const struct segment *s);
static void prometheus_table(struct sink *k, const struct segment *s, const struct counter *table, unsigned n,
                             prometheus_samples *samples);
static void prometheus_family(struct sink *k, const struct counter *table, unsigned n, unsigned first);
static prometheus_samples prometheus_worker, prometheus_pool, prometheus_route, prometheus_master;
static void prometheus_route_labels(struct sink *k, const struct segment *s, unsigned route);
static void prometheus_histograms(struct sink *k, const struct segment *s);
static void prometheus_histogram(struct sink *k, const struct segment *s, unsigned route);
static void prometheus_bucket(struct sink *k, const struct segment *s, unsigned route, const char *le, uint64_t n);

void report_prometheus(const struct segment *s, void (*write)(void *arg, const char *p, size_t n), void *arg)
{
    struct view_server server;
    struct sink k;

    view_server(s, &server);
    sink_open(&k, write, arg);
    prometheus_server(&k, &server);
    prometheus_workers(&k, s);
    prometheus_table(&k, s, counters_master, STAT_MASTER_N, prometheus_master);
    prometheus_table(&k, s, counters_worker, STAT_WORKER_N, prometheus_worker);
    prometheus_pools(&k, s);
    prometheus_table(&k, s, counters_pool, STAT_POOL_N, prometheus_pool);
    prometheus_table(&k, s, counters_route, STAT_ROUTE_N, prometheus_route);
    prometheus_histograms(&k, s);
    sink_close(&k);
}

static void prometheus_server(struct sink *k, const struct view_server *server)
{
    sink_string(k, "# HELP vanilla_build_info The server's version; always 1.\n"
                   "# TYPE vanilla_build_info gauge\n"
                   "vanilla_build_info{version=\"");
    sink_label(k, server->server_version);
    sink_string(k, "\"} 1\n"
                   "# HELP vanilla_running 1 while the server runs; 0: it has ended, and these are its last figures.\n"
                   "# TYPE vanilla_running gauge\n"
                   "vanilla_running ");
    sink_number(k, !server->server_stale);
    sink_string(k, "\n"
                   "# HELP vanilla_start_time_seconds When the server started, since 1970.\n"
                   "# TYPE vanilla_start_time_seconds gauge\n"
                   "vanilla_start_time_seconds ");
    sink_fixed(k, server->server_started_ns / 1000000u, 3);
    sink_string(k, "\n"
                   "# HELP vanilla_generation Of the configuration: 1, as this version has no reload.\n"
                   "# TYPE vanilla_generation gauge\n"
                   "vanilla_generation ");
    sink_number(k, server->server_generation);
    sink_string(k, "\n");
}

static void prometheus_workers(struct sink *k, const struct segment *s)
{
    struct view_worker w;
    unsigned i;

    sink_string(k, "# HELP vanilla_worker_ready 1 while the worker takes requests.\n"
                   "# TYPE vanilla_worker_ready gauge\n");
    for (i = 0; i < view_workers(s); i++) {
        view_worker(s, i, &w);
        sink_string(k, "vanilla_worker_ready{worker=\"");
        sink_number(k, i);
        sink_string(k, "\"} ");
        sink_number(k, w.worker_state == WORKER_STATE_READY);
        sink_string(k, "\n");
    }
}

static void prometheus_pools(struct sink *k, const struct segment *s)
{
    unsigned i;

    sink_string(k, "# HELP vanilla_pool_max_inflight Queries that one connection takes at a time.\n"
                   "# TYPE vanilla_pool_max_inflight gauge\n");
    for (i = 0; i < view_pools(s); i++) {
        sink_string(k, "vanilla_pool_max_inflight{pool=\"");
        sink_label(k, view_pool_name(s, i));
        sink_string(k, "\"} ");
        sink_number(k, view_pool_max_inflight(s, i));
        sink_string(k, "\n");
    }
}

/* All counters of a family go where its first one stands, wherever the others are in the table. */
static void prometheus_table(struct sink *k, const struct segment *s, const struct counter *table, unsigned n,
                             prometheus_samples *samples)
{
    unsigned i, j;

    for (i = 0; i < n; i++) {
        for (j = 0; j < i && strcmp(table[j].counter_family, table[i].counter_family) != 0; j++)
            ;
        if (j < i)
            continue;
        prometheus_family(k, table, n, i);
        for (j = i; j < n; j++)
            if (strcmp(table[j].counter_family, table[i].counter_family) == 0)
                samples(k, s, &table[j], j);
    }
}

/* HELP and TYPE.  Where a label tells a family's counters apart, their meanings stand one after the other. */
static void prometheus_family(struct sink *k, const struct counter *table, unsigned n, unsigned first)
{
    const struct counter *c = &table[first];
    unsigned i;

    sink_strings(k, "# HELP ", c->counter_family, " ", NULL);
    for (i = first; i < n; i++) {
        if (strcmp(table[i].counter_family, c->counter_family) != 0)
            continue;
        if (i > first)
            sink_string(k, "; ");
        if (table[i].counter_labels[0] != '\0') {
            sink_help(k, table[i].counter_labels);
            sink_string(k, ": ");
        }
        sink_help(k, table[i].counter_meaning);
    }
    sink_strings(k, "\n# TYPE ", c->counter_family, c->counter_kind == COUNTER_KIND_COUNTER ? " counter\n" : " gauge\n",
                 NULL);
}

static void prometheus_worker(struct sink *k, const struct segment *s, const struct counter *c, unsigned index)
{
    struct view_worker w;
    unsigned i;

    for (i = 0; i < view_workers(s); i++) {
        view_worker(s, i, &w);
        sink_strings(k, c->counter_family, "{", c->counter_labels, c->counter_labels[0] != '\0' ? "," : "", "worker=\"",
                     NULL);
        sink_number(k, i);
        sink_string(k, "\"} ");
        sink_number(k, view_counts(w.worker_state, c->counter_kind) ? view_worker_counter(s, i, (enum stat_worker)index)
                                                                    : 0);
        sink_string(k, "\n");
    }
}

static void prometheus_pool(struct sink *k, const struct segment *s, const struct counter *c, unsigned index)
{
    struct view_worker w;
    unsigned i, pool;

    for (pool = 0; pool < view_pools(s); pool++) {
        for (i = 0; i < view_workers(s); i++) {
            view_worker(s, i, &w);
            sink_strings(k, c->counter_family, "{", c->counter_labels, c->counter_labels[0] != '\0' ? "," : "",
                         "pool=\"", NULL);
            sink_label(k, view_pool_name(s, pool));
            sink_string(k, "\",worker=\"");
            sink_number(k, i);
            sink_string(k, "\"} ");
            sink_number(k, view_counts(w.worker_state, c->counter_kind)
                               ? view_worker_pool(s, i, pool, (enum stat_pool)index)
                               : 0);
            sink_string(k, "\n");
        }
    }
}

static void prometheus_route(struct sink *k, const struct segment *s, const struct counter *c, unsigned index)
{
    unsigned route;

    for (route = 0; route < view_routes(s); route++) {
        sink_strings(k, c->counter_family, "{", c->counter_labels, c->counter_labels[0] != '\0' ? "," : "", NULL);
        prometheus_route_labels(k, s, route);
        sink_string(k, "} ");
        sink_number(k, view_route(s, route, (enum stat_route)index));
        sink_string(k, "\n");
    }
}

static void prometheus_route_labels(struct sink *k, const struct segment *s, unsigned route)
{
    sink_string(k, "method=\"");
    sink_label(k, view_route_method(s, route));
    sink_string(k, "\",route=\"");
    sink_label(k, view_route_path(s, route));
    sink_string(k, "\"");
}

static void prometheus_master(struct sink *k, const struct segment *s, const struct counter *c, unsigned index)
{
    sink_string(k, c->counter_family);
    if (c->counter_labels[0] != '\0')
        sink_strings(k, "{", c->counter_labels, "}", NULL);
    sink_string(k, " ");
    sink_number(k, view_master(s, (enum stat_master)index));
    sink_string(k, "\n");
}

static void prometheus_histograms(struct sink *k, const struct segment *s)
{
    unsigned i;

    sink_string(
        k, "# HELP vanilla_route_duration_seconds From a request's head to the end of its answer; sheds are left out.\n"
           "# TYPE vanilla_route_duration_seconds histogram\n");
    for (i = 0; i < view_routes(s); i++)
        prometheus_histogram(k, s, i);
}

/* A cell that lies across a bucket's end belongs where its middle is.  The count is that of the copied cells, so that
 * it equals the last bucket whatever is being recorded meanwhile. */
static void prometheus_histogram(struct sink *k, const struct segment *s, unsigned route)
{
    struct histogram h;
    uint64_t n = 0;
    unsigned i, cell = 0;

    view_route_histogram(s, route, &h);
    for (i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++) {
        for (; cell < HISTOGRAM_CELLS && histogram_low(cell) + histogram_high(cell) <= 2 * buckets[i].bucket_us; cell++)
            n += h.histogram_cells[cell];
        prometheus_bucket(k, s, route, buckets[i].bucket_le, n);
    }
    n = histogram_count(h.histogram_cells);
    prometheus_bucket(k, s, route, "+Inf", n);
    sink_string(k, "vanilla_route_duration_seconds_sum{");
    prometheus_route_labels(k, s, route);
    sink_string(k, "} ");
    sink_fixed(k, h.histogram_sum, 6);
    sink_string(k, "\nvanilla_route_duration_seconds_count{");
    prometheus_route_labels(k, s, route);
    sink_string(k, "} ");
    sink_number(k, n);
    sink_string(k, "\n");
}

static void prometheus_bucket(struct sink *k, const struct segment *s, unsigned route, const char *le, uint64_t n)
{
    sink_string(k, "vanilla_route_duration_seconds_bucket{");
    prometheus_route_labels(k, s, route);
    sink_strings(k, ",le=\"", le, "\"} ", NULL);
    sink_number(k, n);
    sink_string(k, "\n");
}
