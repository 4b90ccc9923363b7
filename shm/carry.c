/* What is left of a generation of workers when the next one has a segment of its own. */
#include <string.h>

#include "shm/layout.h"
#include "shm/view.h"

static void carry_worker(struct segment *to, unsigned slot, const struct segment *from);
static void carry_pool(struct segment *to, unsigned slot, unsigned pool, const struct segment *from);
static void carry_route(struct segment *to, unsigned route, const struct segment *from);
static int carry_find_pool(const struct segment *from, const char *name);
static int carry_find_route(const struct segment *from, const char *method, const char *path);
static bool carry_kind(enum counter_kind kind);

void segment_carry(struct segment *to, const struct segment *from)
{
    struct layout_header *h;
    unsigned i;

    CHECK_OBJ(to, SEGMENT_MAGIC);
    CHECK_OBJ(from, SEGMENT_MAGIC);
    AN(to != from && to->segment_mapped);
    h = layout_header(to);
    stat_store(&h->layout_started_realtime_ns, layout_load(&layout_header(from)->layout_started_realtime_ns));
    stat_store(&h->layout_started_monotonic_ns, layout_load(&layout_header(from)->layout_started_monotonic_ns));
    for (i = 0; i < STAT_MASTER_N; i++)
        stat_store(&layout_master(to)[STAT_MASTER_N + i], view_master(from, (enum stat_master)i));
    for (i = 0; i < to->segment_workers; i++)
        carry_worker(to, i, from);
    for (i = 0; i < to->segment_routes; i++)
        carry_route(to, i, from);
}

/* Slot i of `to` takes those of slots i, i + workers, i + 2 * workers ... of `from`. */
static void carry_worker(struct segment *to, unsigned slot, const struct segment *from)
{
    struct stats past = layout_worker_past(to, slot);
    enum counter_kind kind;
    unsigned c, f;
    uint64_t v;

    for (c = 0; c < STAT_WORKER_N; c++) {
        kind = counters_worker[c].counter_kind;
        if (!carry_kind(kind))
            continue;
        v = 0;
        for (f = slot; f < from->segment_workers; f += to->segment_workers)
            v = view_join(kind, v, view_worker_counter(from, f, (enum stat_worker)c));
        stat_store(&past.stats_worker[c], v);
    }
    for (c = 0; c < to->segment_pools; c++)
        carry_pool(to, slot, c, from);
}

static void carry_pool(struct segment *to, unsigned slot, unsigned pool, const struct segment *from)
{
    struct stats past = layout_worker_past(to, slot);
    int old = carry_find_pool(from, view_pool_name(to, pool));
    enum counter_kind kind;
    unsigned c, f;
    uint64_t v;

    if (old < 0)
        return;
    for (c = 0; c < STAT_POOL_N; c++) {
        kind = counters_pool[c].counter_kind;
        if (!carry_kind(kind))
            continue;
        v = 0;
        for (f = slot; f < from->segment_workers; f += to->segment_workers)
            v = view_join(kind, v, view_worker_pool(from, f, (unsigned)old, (enum stat_pool)c));
        stat_store(&past.stats_pools[pool].pool_counters[c], v);
    }
}

static void carry_route(struct segment *to, unsigned route, const struct segment *from)
{
    struct stats_route *past = &layout_past(to)[route];
    int old = carry_find_route(from, view_route_method(to, route), view_route_path(to, route));
    struct histogram h;
    unsigned c;

    if (old < 0)
        return;
    for (c = 0; c < STAT_ROUTE_N; c++)
        if (carry_kind(counters_route[c].counter_kind))
            stat_store(&past->route_counters[c], view_route(from, (unsigned)old, (enum stat_route)c));
    view_route_histogram(from, (unsigned)old, &h);
    stat_store(&past->route_us.histogram_sum, h.histogram_sum);
    for (c = 0; c < HISTOGRAM_CELLS; c++)
        stat_store(&past->route_us.histogram_cells[c], h.histogram_cells[c]);
}

static int carry_find_pool(const struct segment *from, const char *name)
{
    unsigned i;

    for (i = 0; i < from->segment_pools; i++)
        if (strcmp(view_pool_name(from, i), name) == 0)
            return (int)i;
    return -1;
}

static int carry_find_route(const struct segment *from, const char *method, const char *path)
{
    unsigned i;

    for (i = 0; i < from->segment_routes; i++)
        if (strcmp(view_route_method(from, i), method) == 0 && strcmp(view_route_path(from, i), path) == 0)
            return (int)i;
    return -1;
}

static bool carry_kind(enum counter_kind kind)
{
    return kind == COUNTER_KIND_COUNTER || kind == COUNTER_KIND_PEAK;
}
