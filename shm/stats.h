/*
 * This process's own counters: plain stores into its block of the shared segment, or, before segment_attach (start-up,
 * unit tests), into private memory of the process.
 */
#ifndef VANILLA_SHM_STATS_H
#define VANILLA_SHM_STATS_H

#include <stdint.h>

#include "shm/histogram.h"

/* enum stat_worker { STAT_http_requests, ..., STAT_WORKER_N }, likewise POOL_*, ROUTE_*, MASTER_*: from counters.def,
 * one enum per scope. */
#define STAT_ENUM_WORKER(group, name) STAT_##group##_##name,
#define STAT_ENUM_POOL(group, name)
#define STAT_ENUM_ROUTE(group, name)
#define STAT_ENUM_MASTER(group, name)
#define STAT(scope, group, name, kind, unit, family, labels, meaning) STAT_ENUM_##scope(group, name)
enum stat_worker {
#include "shm/counters.def"
    STAT_WORKER_N
};
#undef STAT_ENUM_WORKER
#undef STAT_ENUM_POOL
#define STAT_ENUM_WORKER(group, name)
#define STAT_ENUM_POOL(group, name) STAT_##group##_##name,
enum stat_pool {
#include "shm/counters.def"
    STAT_POOL_N
};
#undef STAT_ENUM_POOL
#undef STAT_ENUM_ROUTE
#define STAT_ENUM_POOL(group, name)
#define STAT_ENUM_ROUTE(group, name) STAT_##group##_##name,
enum stat_route {
#include "shm/counters.def"
    STAT_ROUTE_N
};
#undef STAT_ENUM_ROUTE
#undef STAT_ENUM_MASTER
#define STAT_ENUM_ROUTE(group, name)
#define STAT_ENUM_MASTER(group, name) STAT_##group##_##name,
enum stat_master {
#include "shm/counters.def"
    STAT_MASTER_N
};
#undef STAT_ENUM_WORKER
#undef STAT_ENUM_POOL
#undef STAT_ENUM_ROUTE
#undef STAT_ENUM_MASTER
#undef STAT

struct stats_route { /* one route's cells in a worker's block */
    uint64_t route_counters[STAT_ROUTE_N];
    struct histogram route_us; /* of answers but sheds: from the request's head to the last octet rendered, us */
};

struct stats_pool {
    uint64_t pool_counters[STAT_POOL_N];
};

struct stats {
    uint64_t *stats_worker;           /* STAT_WORKER_N */
    struct stats_pool *stats_pools;   /* by pool index */
    struct stats_route *stats_routes; /* by route index */
};

/* Statically set to private arrays with STATS_PRIVATE_MAX pools and routes. */
#define STATS_PRIVATE_MAX 64
extern struct stats stats;
/* Back to them. */
void stats_private(void);

static inline void stat_store(uint64_t *cell, uint64_t v)
{
    __atomic_store_n(cell, v, __ATOMIC_RELAXED);
}
static inline void stat_add(enum stat_worker s, uint64_t n)
{
    stat_store(&stats.stats_worker[s], stats.stats_worker[s] + n);
}
static inline void stat_set(enum stat_worker s, uint64_t v)
{
    stat_store(&stats.stats_worker[s], v);
}
static inline void stat_pool_add(unsigned pool, enum stat_pool s, uint64_t n)
{
    stat_store(&stats.stats_pools[pool].pool_counters[s], stats.stats_pools[pool].pool_counters[s] + n);
}
static inline void stat_pool_set(unsigned pool, enum stat_pool s, uint64_t v)
{
    stat_store(&stats.stats_pools[pool].pool_counters[s], v);
}
static inline void stat_route_add(unsigned route, enum stat_route s, uint64_t n)
{
    stat_store(&stats.stats_routes[route].route_counters[s], stats.stats_routes[route].route_counters[s] + n);
}
static inline void stat_route_set(unsigned route, enum stat_route s, uint64_t v)
{
    stat_store(&stats.stats_routes[route].route_counters[s], v);
}

#endif
