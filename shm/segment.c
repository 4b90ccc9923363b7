#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/alive.h"
#include "shm/counters.h"
#include "shm/layout.h"

static size_t segment_strings(const struct segment_shape *shape);
static int segment_make_file(const char *tmp, uint64_t size, void **base);
static void segment_fill(struct segment *s, const struct segment_shape *shape);
static void segment_fill_directory(struct segment *s, const struct segment_shape *shape);
static uint64_t segment_put_string(struct segment *s, size_t *used, const char *string);
static uint64_t segment_clock(clockid_t clock);
static void segment_clear(uint64_t *cells, const struct counter *table, unsigned n);

struct segment *segment_create(const char *path, const struct segment_shape *shape)
{
    char tmp[PATH_MAX];
    struct segment *s;
    void *base;
    int saved;

    if (snprintf(tmp, sizeof(tmp), "%s.%ld", path, (long)getpid()) >= (int)sizeof(tmp)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->segment_workers = shape->shape_workers;
    s->segment_pools = shape->shape_pools;
    s->segment_routes = shape->shape_routes;
    s->segment_strings_len = (unsigned)segment_strings(shape);
    if (layout_map(&s->segment_map, shape->shape_workers, shape->shape_pools, shape->shape_routes,
                   segment_strings(shape)) != 0) {
        free(s);
        errno = EINVAL;
        return NULL;
    }
    if (segment_make_file(tmp, s->segment_map.map_total, &base) != 0) {
        saved = errno;
        free(s);
        errno = saved;
        return NULL;
    }
    s->magic = SEGMENT_MAGIC;
    s->segment_mapped = true;
    s->segment_base = base;
    segment_fill(s, shape);
    if (rename(tmp, path) != 0) {
        saved = errno;
        unlink(tmp);
        segment_close(&s);
        errno = saved;
        return NULL;
    }
    return s;
}

/* The octets of all strings, with a NUL each and one more in front: offset 0 is the empty string. */
static size_t segment_strings(const struct segment_shape *shape)
{
    size_t n = 1;
    unsigned i;

    for (i = 0; i < shape->shape_pools; i++)
        n += strlen(shape->shape_pool_names[i]) + 1;
    for (i = 0; i < shape->shape_routes; i++)
        n += strlen(shape->shape_route_methods[i]) + strlen(shape->shape_route_paths[i]) + 2;
    return n;
}

static int segment_make_file(const char *tmp, uint64_t size, void **base)
{
    int fd, rc;

    unlink(tmp); /* of an earlier process of the same number */
    fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return -1;
    rc = fchmod(fd, 0640) == 0 ? 0 : errno;
    /* All of it now: a full file system is an error here, but a SIGBUS in a worker later. */
    if (rc == 0)
        rc = posix_fallocate(fd, 0, (off_t)size);
    if (rc == 0) {
        *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (*base == MAP_FAILED)
            rc = errno;
    }
    close(fd);
    if (rc == 0)
        return 0;
    unlink(tmp);
    errno = rc;
    return -1;
}

static void segment_fill(struct segment *s, const struct segment_shape *shape)
{
    struct layout_header *h = layout_header(s);
    unsigned i;

    memcpy(h->layout_magic, LAYOUT_MAGIC, sizeof(h->layout_magic));
    h->layout_version = LAYOUT_VERSION;
    h->layout_header_size = sizeof(*h);
    h->layout_hash = counters_hash();
    h->layout_stats_worker = STAT_WORKER_N;
    h->layout_stats_pool = STAT_POOL_N;
    h->layout_stats_route = STAT_ROUTE_N;
    h->layout_stats_master = STAT_MASTER_N;
    snprintf(h->layout_server_version, sizeof(h->layout_server_version), "%s", shape->shape_version);
    h->layout_total = s->segment_map.map_total;
    h->layout_workers = s->segment_workers;
    h->layout_pools = s->segment_pools;
    h->layout_routes = s->segment_routes;
    h->layout_strings_len = s->segment_strings_len;
    h->layout_off_master = s->segment_map.map_master;
    h->layout_off_pools = s->segment_map.map_pools;
    h->layout_off_routes = s->segment_map.map_routes;
    h->layout_off_strings = s->segment_map.map_strings;
    h->layout_off_past = s->segment_map.map_past;
    h->layout_off_blocks = s->segment_map.map_blocks;
    h->layout_block_size = s->segment_map.map_block_size;
    h->layout_started_realtime_ns = segment_clock(CLOCK_REALTIME);
    h->layout_started_monotonic_ns = segment_clock(CLOCK_MONOTONIC);
    h->layout_master_pid = (uint64_t)getpid();
    h->layout_master_ticks = alive_ticks(getpid());
    segment_fill_directory(s, shape);
    for (i = 0; i < s->segment_workers; i++) {
        layout_worker(s, i)->worker_slot = i;
        layout_worker(s, i)->worker_cpu = UINT64_MAX;
    }
}

static void segment_fill_directory(struct segment *s, const struct segment_shape *shape)
{
    struct layout_pool *pools = layout_pools(s);
    struct layout_route *routes = layout_routes(s);
    size_t used = 1;
    unsigned i;

    for (i = 0; i < s->segment_pools; i++) {
        pools[i].pool_name = segment_put_string(s, &used, shape->shape_pool_names[i]);
        pools[i].pool_max_inflight = shape->shape_pool_max_inflight[i];
    }
    for (i = 0; i < s->segment_routes; i++) {
        routes[i].route_method = segment_put_string(s, &used, shape->shape_route_methods[i]);
        routes[i].route_path = segment_put_string(s, &used, shape->shape_route_paths[i]);
        routes[i].route_pool = shape->shape_route_pools[i] < 0 ? UINT64_MAX : (uint64_t)shape->shape_route_pools[i];
    }
    AN(used == s->segment_strings_len);
}

static uint64_t segment_put_string(struct segment *s, size_t *used, const char *string)
{
    size_t at = *used, len = strlen(string) + 1;

    AN(at + len <= s->segment_strings_len);
    memcpy(layout_strings(s) + at, string, len);
    *used += len;
    return at;
}

static uint64_t segment_clock(clockid_t clock)
{
    struct timespec ts;

    AZ(clock_gettime(clock, &ts));
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void segment_close(struct segment **sp)
{
    struct segment *s = *sp;

    if (s == NULL)
        return;
    CHECK_OBJ(s, SEGMENT_MAGIC);
    if (s->segment_mapped) {
        /* Whoever was attached goes on counting, if only calls of free. */
        if ((uint8_t *)stats.stats_worker >= s->segment_base &&
            (uint8_t *)stats.stats_worker < s->segment_base + s->segment_map.map_total)
            stats_private();
        munmap(s->segment_base, s->segment_map.map_total);
    } else {
        free(s->segment_base);
    }
    s->magic = 0;
    free(s);
    *sp = NULL;
}

void segment_mark_stale(struct segment *s)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    stat_store(&layout_header(s)->layout_stale_ns, segment_clock(CLOCK_REALTIME));
}

void segment_master_add(struct segment *s, enum stat_master counter, uint64_t n)
{
    uint64_t *cell;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(counter < STAT_MASTER_N);
    cell = &layout_master(s)[counter];
    stat_store(cell, *cell + n);
}

void segment_set_generation(struct segment *s, uint64_t generation)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    stat_store(&layout_header(s)->layout_generation, generation);
}

void segment_set_max_inflight(struct segment *s, unsigned pool, unsigned max_inflight)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(pool < s->segment_pools);
    stat_store(&layout_pools(s)[pool].pool_max_inflight, max_inflight);
}

unsigned segment_free_slots(const struct segment *s, unsigned pool, unsigned but)
{
    unsigned slot, all = 0;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(pool < s->segment_pools);
    for (slot = 0; slot < s->segment_workers; slot++) {
        const uint64_t *c = layout_worker_own(s, slot).stats_pools[pool].pool_counters;
        uint64_t slots = layout_load(&c[STAT_pool_slots]);
        uint64_t taken = layout_load(&c[STAT_pool_inflight]) + layout_load(&c[STAT_pool_waiting]);

        if (slot != but && layout_load(&layout_worker(s, slot)->worker_state) == WORKER_STATE_READY && taken < slots)
            all += (unsigned)(slots - taken);
    }
    return all;
}

void segment_attach(struct segment *s, unsigned slot, int pid, int cpu, uint64_t generation)
{
    struct layout_worker *w;
    unsigned i;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers);
    stats = layout_worker_own(s, slot);
    segment_clear(stats.stats_worker, counters_worker, STAT_WORKER_N);
    for (i = 0; i < s->segment_pools; i++)
        segment_clear(stats.stats_pools[i].pool_counters, counters_pool, STAT_POOL_N);
    for (i = 0; i < s->segment_routes; i++)
        segment_clear(stats.stats_routes[i].route_counters, counters_route, STAT_ROUTE_N);
    w = layout_worker(s, slot);
    stat_store(&w->worker_pid, (uint64_t)pid);
    stat_store(&w->worker_cpu, cpu < 0 ? UINT64_MAX : (uint64_t)cpu);
    stat_store(&w->worker_generation, generation);
    stat_store(&w->worker_ready_ns, 0);
    segment_worker_state(s, slot, WORKER_STATE_STARTING);
}

static void segment_clear(uint64_t *cells, const struct counter *table, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++)
        if (table[i].counter_kind == COUNTER_KIND_GAUGE || table[i].counter_kind == COUNTER_KIND_SIZE)
            stat_store(&cells[i], 0);
}

void segment_worker_state(struct segment *s, unsigned slot, enum worker_state state)
{
    struct layout_worker *w;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers);
    w = layout_worker(s, slot);
    if (state == WORKER_STATE_STARTING)
        stat_store(&w->worker_started_ns, segment_clock(CLOCK_MONOTONIC));
    else if (state == WORKER_STATE_READY)
        stat_store(&w->worker_ready_ns, segment_clock(CLOCK_MONOTONIC));
    stat_store(&w->worker_state, (uint64_t)state);
}

void segment_heartbeat(struct segment *s, unsigned slot, uint64_t now_ns)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers);
    stat_store(&layout_worker(s, slot)->worker_heartbeat_ns, now_ns);
}
