/*
 * How the file stats.shm is laid out.  Numbers are in the machine's own byte order; offsets count from the file's
 * beginning.
 *
 *   header                        struct layout_header
 *   master's counters             uint64_t [STAT_MASTER_N], and their past, the same
 *   directory                     struct layout_pool [pools], struct layout_route [routes], strings
 *   past of the routes            struct stats_route [routes]
 *   worker 0's block, page aligned
 *       header                    struct layout_worker
 *       past                      uint64_t [STAT_WORKER_N], struct stats_pool [pools]
 *       its own, on a new line    uint64_t [STAT_WORKER_N], struct stats_pool [pools], struct stats_route [routes]
 *   worker 1's block ...
 *
 * "Past" is what workers of an earlier generation counted (segment_carry): the master alone writes it, so that each
 * cell has one writer, and readers add it to the worker's own.
 *
 * The fields down to layout_server_version stay where they are in all versions to come: they are what an older or newer
 * reader needs to say so.
 */
#ifndef VANILLA_SHM_LAYOUT_H
#define VANILLA_SHM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/stats.h"

#define LAYOUT_MAGIC "vanilla" /* with its NUL */
#define LAYOUT_VERSION 1u
#define LAYOUT_PAGE 4096u
#define LAYOUT_LINE 64u

/* More than any server has, and few enough that no sum of sizes overflows. */
#define LAYOUT_WORKERS_MAX 4096u
#define LAYOUT_POOLS_MAX 4096u
#define LAYOUT_ROUTES_MAX 65536u
#define LAYOUT_STRINGS_MAX (64u << 20)
#define LAYOUT_TOTAL_MAX ((uint64_t)1 << 32)

struct layout_header {
    char layout_magic[8];
    uint32_t layout_version, layout_header_size;
    uint64_t layout_hash;                                                                     /* counters_hash() */
    uint32_t layout_stats_worker, layout_stats_pool, layout_stats_route, layout_stats_master; /* how many of each */
    char layout_server_version[32];

    uint64_t layout_total; /* the file's size */
    uint32_t layout_workers, layout_pools, layout_routes, layout_strings_len;
    uint64_t layout_off_master, layout_off_pools, layout_off_routes, layout_off_strings, layout_off_past;
    uint64_t layout_off_blocks, layout_block_size;

    /* From here on the master changes them while running. */
    uint64_t layout_started_realtime_ns, layout_started_monotonic_ns; /* the server, not this file */
    uint64_t layout_master_pid;
    uint64_t layout_master_ticks; /* its start time, field 22 of /proc/PID/stat; 0: not known */
    uint64_t layout_generation;
    uint64_t layout_stale_ns; /* CLOCK_REALTIME; 0: not marked */
};

struct layout_pool {
    uint64_t pool_name; /* offset into the strings */
    uint64_t pool_max_inflight;
};

struct layout_route {
    uint64_t route_method, route_path; /* offsets into the strings */
    uint64_t route_pool;               /* index; UINT64_MAX: none */
};

struct layout_worker {
    uint64_t worker_slot, worker_pid, worker_cpu, worker_state, worker_generation;
    uint64_t worker_started_ns, worker_ready_ns, worker_heartbeat_ns; /* CLOCK_MONOTONIC; 0: not yet */
};

/* Where everything is, worked out from the counts. */
struct layout_map {
    uint64_t map_master, map_pools, map_routes, map_strings, map_past, map_blocks, map_block_size, map_total;
    uint64_t map_worker_past, map_worker_own; /* within a block */
};

/* A mapping of the file, or a private copy of it. */
struct segment {
    unsigned magic;
#define SEGMENT_MAGIC 0x5e93e217u
    bool segment_mapped; /* else a copy */
    uint8_t *segment_base;
    unsigned segment_workers, segment_pools, segment_routes, segment_strings_len;
    struct layout_map segment_map;
};

/* Returns 0, or -1 when a count is beyond its maximum. */
int layout_map(struct layout_map *map, uint64_t workers, uint64_t pools, uint64_t routes, uint64_t strings_len);

static inline struct layout_header *layout_header(const struct segment *s)
{
    return (struct layout_header *)(void *)s->segment_base;
}
static inline uint64_t *layout_master(const struct segment *s)
{
    return (uint64_t *)(void *)(s->segment_base + s->segment_map.map_master);
}
static inline struct layout_pool *layout_pools(const struct segment *s)
{
    return (struct layout_pool *)(void *)(s->segment_base + s->segment_map.map_pools);
}
static inline struct layout_route *layout_routes(const struct segment *s)
{
    return (struct layout_route *)(void *)(s->segment_base + s->segment_map.map_routes);
}
static inline char *layout_strings(const struct segment *s)
{
    return (char *)s->segment_base + s->segment_map.map_strings;
}
static inline struct stats_route *layout_past(const struct segment *s)
{
    return (struct stats_route *)(void *)(s->segment_base + s->segment_map.map_past);
}
static inline struct layout_worker *layout_worker(const struct segment *s, unsigned slot)
{
    return (struct layout_worker *)(void *)(s->segment_base + s->segment_map.map_blocks +
                                            slot * s->segment_map.map_block_size);
}
/* The three arrays of a worker's past (no routes: NULL) and of its own. */
static inline struct stats layout_worker_past(const struct segment *s, unsigned slot)
{
    uint8_t *p = (uint8_t *)layout_worker(s, slot) + s->segment_map.map_worker_past;
    struct stats st = {(uint64_t *)(void *)p, (struct stats_pool *)(void *)(p + sizeof(uint64_t[STAT_WORKER_N])), NULL};

    return st;
}
static inline struct stats layout_worker_own(const struct segment *s, unsigned slot)
{
    uint8_t *p = (uint8_t *)layout_worker(s, slot) + s->segment_map.map_worker_own;
    struct stats st = {(uint64_t *)(void *)p, (struct stats_pool *)(void *)(p + sizeof(uint64_t[STAT_WORKER_N])), NULL};

    st.stats_routes = (struct stats_route *)(void *)(st.stats_pools + s->segment_pools);
    return st;
}

static inline uint64_t layout_load(const uint64_t *cell)
{
    return __atomic_load_n(cell, __ATOMIC_RELAXED);
}

#endif
