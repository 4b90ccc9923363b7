/*
 * What a reader asks of a segment: of a copy that segment_open took, or, in a worker or the master, of the mapping
 * itself.  Nothing here allocates.  Indices are below the counts.  Strings live as long as the
 * segment.
 */
#ifndef VANILLA_SHM_VIEW_H
#define VANILLA_SHM_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/counters.h"
#include "shm/segment.h"

struct view_server {
    char server_version[32];
    int64_t server_master_pid;
    uint64_t server_generation;   /* the newest of any worker */
    uint64_t server_started_ns;   /* CLOCK_REALTIME */
    uint64_t server_monotonic_ns; /* the same moment in CLOCK_MONOTONIC, to make sense of the workers' times */
    bool server_stale;            /* marked, or its master is gone */
    uint64_t server_stale_ns;     /* stale: since when, or the last sign of life (CLOCK_REALTIME) */
    uint64_t server_uptime_ns;    /* until now, or until it ended */
};
void view_server(const struct segment *s, struct view_server *out);
/* How many there are. */
unsigned view_workers(const struct segment *s);
unsigned view_pools(const struct segment *s);
unsigned view_routes(const struct segment *s);

struct view_worker {
    unsigned worker_slot;
    int64_t worker_pid;
    int worker_cpu; /* -1: not pinned */
    enum worker_state worker_state;
    uint64_t worker_generation;
    uint64_t worker_started_ns, worker_ready_ns, worker_heartbeat_ns; /* CLOCK_MONOTONIC, 0: not yet */
};
void view_worker(const struct segment *s, unsigned slot, struct view_worker *out);
/* "none", "starting", "ready", "draining", "dead", "left". */
const char *view_state_name(enum worker_state state);

const char *view_pool_name(const struct segment *s, unsigned pool);
unsigned view_pool_max_inflight(const struct segment *s, unsigned pool);
const char *view_route_method(const struct segment *s, unsigned route);
const char *view_route_path(const struct segment *s, unsigned route);
int view_route_pool(const struct segment *s, unsigned route); /* index, or -1 */

/* One worker's figures, those of its predecessors in this slot included.  The gauges of a dead worker, or one
 * that left, are what they were at its end. */
uint64_t view_worker_counter(const struct segment *s, unsigned slot, enum stat_worker counter);
uint64_t view_worker_pool(const struct segment *s, unsigned slot, unsigned pool, enum stat_pool counter);

/* Over all workers: COUNTER and GAUGE are added up, but for the gauges of workers that are no more; of PEAK and SIZE it
 * is the largest. */
uint64_t view_total(const struct segment *s, enum stat_worker counter);
uint64_t view_pool(const struct segment *s, unsigned pool, enum stat_pool counter);
uint64_t view_pool_shed(const struct segment *s, unsigned pool); /* for any cause */
uint64_t view_route(const struct segment *s, unsigned route, enum stat_route counter);
uint64_t view_master(const struct segment *s, enum stat_master counter);
void view_route_histogram(const struct segment *s, unsigned route, struct histogram *out);

/* Whether a worker's cell of this kind counts in totals. */
bool view_counts(enum worker_state state, enum counter_kind kind);
/* Adds one worker's cell to a total. */
uint64_t view_join(enum counter_kind kind, uint64_t total, uint64_t v);

#endif
