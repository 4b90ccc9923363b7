#include "shm/view.h"

#include <limits.h>
#include <string.h>
#include <time.h>

#include "shm/alive.h"
#include "shm/layout.h"

static enum worker_state view_state(const struct segment *s, unsigned slot);
static uint64_t view_last_sign(const struct segment *s, const struct view_server *server);
static uint64_t view_clock(clockid_t clock);

void view_server(const struct segment *s, struct view_server *out)
{
    const struct layout_header *h;
    uint64_t generation, now;
    unsigned i;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    h = layout_header(s);
    memset(out, 0, sizeof(*out));
    memcpy(out->server_version, h->layout_server_version, sizeof(out->server_version) - 1);
    out->server_master_pid = (int64_t)layout_load(&h->layout_master_pid);
    out->server_started_ns = layout_load(&h->layout_started_realtime_ns);
    out->server_monotonic_ns = layout_load(&h->layout_started_monotonic_ns);
    out->server_generation = layout_load(&h->layout_generation);
    for (i = 0; i < s->segment_workers; i++) {
        generation = layout_load(&layout_worker(s, i)->worker_generation);
        if (generation > out->server_generation)
            out->server_generation = generation;
    }
    out->server_stale_ns = layout_load(&h->layout_stale_ns);
    /* The server's own processes, which have it mapped, need not ask whether it runs (nor read a file to learn it). */
    out->server_stale = out->server_stale_ns != 0 ||
                        (!s->segment_mapped && !alive(out->server_master_pid, layout_load(&h->layout_master_ticks)));
    if (!out->server_stale) {
        now = view_clock(CLOCK_MONOTONIC);
        out->server_uptime_ns = now > out->server_monotonic_ns ? now - out->server_monotonic_ns : 0;
        return;
    }
    if (out->server_stale_ns == 0)
        out->server_stale_ns = view_last_sign(s, out);
    if (out->server_stale_ns > out->server_started_ns)
        out->server_uptime_ns = out->server_stale_ns - out->server_started_ns;
}

/* The latest time that any worker wrote, in CLOCK_REALTIME; the start when there is none. */
static uint64_t view_last_sign(const struct segment *s, const struct view_server *server)
{
    struct view_worker w;
    uint64_t last = server->server_monotonic_ns;
    unsigned i;

    for (i = 0; i < s->segment_workers; i++) {
        view_worker(s, i, &w);
        if (w.worker_started_ns > last)
            last = w.worker_started_ns;
        if (w.worker_heartbeat_ns > last)
            last = w.worker_heartbeat_ns;
    }
    return server->server_started_ns + (last - server->server_monotonic_ns);
}

static uint64_t view_clock(clockid_t clock)
{
    struct timespec ts;

    AZ(clock_gettime(clock, &ts));
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

unsigned view_workers(const struct segment *s)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    return s->segment_workers;
}

unsigned view_pools(const struct segment *s)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    return s->segment_pools;
}

unsigned view_routes(const struct segment *s)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    return s->segment_routes;
}

void view_worker(const struct segment *s, unsigned slot, struct view_worker *out)
{
    const struct layout_worker *w;
    uint64_t cpu;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers);
    w = layout_worker(s, slot);
    out->worker_slot = slot;
    out->worker_pid = (int64_t)layout_load(&w->worker_pid);
    cpu = layout_load(&w->worker_cpu);
    out->worker_cpu = cpu > INT_MAX ? -1 : (int)cpu;
    out->worker_state = view_state(s, slot);
    out->worker_generation = layout_load(&w->worker_generation);
    out->worker_started_ns = layout_load(&w->worker_started_ns);
    out->worker_ready_ns = layout_load(&w->worker_ready_ns);
    out->worker_heartbeat_ns = layout_load(&w->worker_heartbeat_ns);
}

static enum worker_state view_state(const struct segment *s, unsigned slot)
{
    uint64_t state = layout_load(&layout_worker(s, slot)->worker_state);

    return state > WORKER_STATE_LEFT ? WORKER_STATE_NONE : (enum worker_state)state;
}

const char *view_state_name(enum worker_state state)
{
    switch (state) {
    case WORKER_STATE_STARTING:
        return "starting";
    case WORKER_STATE_READY:
        return "ready";
    case WORKER_STATE_DRAINING:
        return "draining";
    case WORKER_STATE_DEAD:
        return "dead";
    case WORKER_STATE_LEFT:
        return "left";
    case WORKER_STATE_NONE:
        break;
    }
    return "none";
}

const char *view_pool_name(const struct segment *s, unsigned pool)
{
    AN(pool < s->segment_pools);
    return layout_strings(s) + layout_pools(s)[pool].pool_name;
}

unsigned view_pool_max_inflight(const struct segment *s, unsigned pool)
{
    AN(pool < s->segment_pools);
    return (unsigned)layout_load(&layout_pools(s)[pool].pool_max_inflight);
}

const char *view_route_method(const struct segment *s, unsigned route)
{
    AN(route < s->segment_routes);
    return layout_strings(s) + layout_routes(s)[route].route_method;
}

const char *view_route_path(const struct segment *s, unsigned route)
{
    AN(route < s->segment_routes);
    return layout_strings(s) + layout_routes(s)[route].route_path;
}

int view_route_pool(const struct segment *s, unsigned route)
{
    uint64_t pool;

    AN(route < s->segment_routes);
    pool = layout_routes(s)[route].route_pool;
    return pool < s->segment_pools ? (int)pool : -1;
}

uint64_t view_worker_counter(const struct segment *s, unsigned slot, enum stat_worker counter)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers && counter < STAT_WORKER_N);
    return view_join(counters_worker[counter].counter_kind,
                     layout_load(&layout_worker_past(s, slot).stats_worker[counter]),
                     layout_load(&layout_worker_own(s, slot).stats_worker[counter]));
}

uint64_t view_worker_pool(const struct segment *s, unsigned slot, unsigned pool, enum stat_pool counter)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(slot < s->segment_workers && pool < s->segment_pools && counter < STAT_POOL_N);
    return view_join(counters_pool[counter].counter_kind,
                     layout_load(&layout_worker_past(s, slot).stats_pools[pool].pool_counters[counter]),
                     layout_load(&layout_worker_own(s, slot).stats_pools[pool].pool_counters[counter]));
}

uint64_t view_total(const struct segment *s, enum stat_worker counter)
{
    enum counter_kind kind = counters_worker[counter].counter_kind;
    uint64_t total = 0;
    unsigned i;

    for (i = 0; i < s->segment_workers; i++)
        if (view_counts(view_state(s, i), kind))
            total = view_join(kind, total, view_worker_counter(s, i, counter));
    return total;
}

uint64_t view_pool(const struct segment *s, unsigned pool, enum stat_pool counter)
{
    enum counter_kind kind = counters_pool[counter].counter_kind;
    uint64_t total = 0;
    unsigned i;

    for (i = 0; i < s->segment_workers; i++)
        if (view_counts(view_state(s, i), kind))
            total = view_join(kind, total, view_worker_pool(s, i, pool, counter));
    return total;
}

uint64_t view_pool_shed(const struct segment *s, unsigned pool)
{
    return view_pool(s, pool, STAT_pool_shed_pool_full) + view_pool(s, pool, STAT_pool_shed_queue_timeout) +
           view_pool(s, pool, STAT_pool_shed_pool_down) + view_pool(s, pool, STAT_pool_shed_buffers);
}

uint64_t view_route(const struct segment *s, unsigned route, enum stat_route counter)
{
    enum counter_kind kind = counters_route[counter].counter_kind;
    uint64_t total;
    unsigned i;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(route < s->segment_routes && counter < STAT_ROUTE_N);
    total = layout_load(&layout_past(s)[route].route_counters[counter]);
    for (i = 0; i < s->segment_workers; i++)
        if (view_counts(view_state(s, i), kind))
            total = view_join(kind, total,
                              layout_load(&layout_worker_own(s, i).stats_routes[route].route_counters[counter]));
    return total;
}

uint64_t view_master(const struct segment *s, enum stat_master counter)
{
    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(counter < STAT_MASTER_N);
    return layout_load(&layout_master(s)[counter]) + layout_load(&layout_master(s)[STAT_MASTER_N + counter]);
}

void view_route_histogram(const struct segment *s, unsigned route, struct histogram *out)
{
    const struct histogram *h;
    unsigned i, cell;

    CHECK_OBJ(s, SEGMENT_MAGIC);
    AN(route < s->segment_routes);
    memset(out, 0, sizeof(*out));
    for (i = 0; i <= s->segment_workers; i++) {
        h = i == 0 ? &layout_past(s)[route].route_us : &layout_worker_own(s, i - 1).stats_routes[route].route_us;
        out->histogram_sum += layout_load(&h->histogram_sum);
        for (cell = 0; cell < HISTOGRAM_CELLS; cell++)
            out->histogram_cells[cell] += layout_load(&h->histogram_cells[cell]);
    }
}

bool view_counts(enum worker_state state, enum counter_kind kind)
{
    return kind != COUNTER_KIND_GAUGE || (state != WORKER_STATE_DEAD && state != WORKER_STATE_LEFT);
}

uint64_t view_join(enum counter_kind kind, uint64_t total, uint64_t v)
{
    if (kind == COUNTER_KIND_PEAK || kind == COUNTER_KIND_SIZE)
        return v > total ? v : total;
    return total + v;
}
