/* `vanillactl budget`: what each worker has reserved, and what more would cost. */
#include <stdio.h>

#include "ctl/ctl.h"
#include "ctl/figures.h"
#include "ctl/format.h"
#include "ctl/table.h"
#include "shm/view.h"

static void budget_print(const struct segment *s);
static void budget_row(struct table *t, uint64_t connections, uint64_t requests, uint64_t buffers, uint64_t cache,
                       uint64_t used, uint64_t peak);
static void budget_each(const struct segment *s);
static void budget_pool(const struct segment *s, unsigned pool);

enum ctl_exit command_budget(const struct ctl *ctl)
{
    return figures_print(ctl, budget_print);
}

static void budget_print(const struct segment *s)
{
    static const char *const headings[] = {"WORKER", ">CONNECTIONS", ">REQUESTS",  ">BUFFERS", ">CACHE",
                                           ">SUM",   ">USED NOW",    ">USED PEAK", NULL};
    struct table *t = table_new(headings);
    struct view_worker w;
    unsigned i;

    for (i = 0; i < view_workers(s); i++) {
        view_worker(s, i, &w);
        if (!view_counts(w.worker_state, COUNTER_KIND_GAUGE)) /* a dead worker holds nothing */
            continue;
        table_text(t, "%u", i);
        budget_row(
            t, view_worker_counter(s, i, STAT_memory_connections), view_worker_counter(s, i, STAT_memory_requests),
            view_worker_counter(s, i, STAT_memory_buffers_total), view_worker_counter(s, i, STAT_memory_cache),
            view_worker_counter(s, i, STAT_memory_buffers_used), view_worker_counter(s, i, STAT_memory_buffers_peak));
    }
    table_text(t, "server");
    budget_row(t, view_total(s, STAT_memory_connections), view_total(s, STAT_memory_requests),
               view_total(s, STAT_memory_buffers_total), view_total(s, STAT_memory_cache),
               view_total(s, STAT_memory_buffers_used), view_total(s, STAT_memory_buffers_peak));
    table_print(&t, stdout);
    printf("\nBUFFERS and CACHE are limits, USED is of the buffers; the server's peak is that of the worker with the "
           "highest.\n\n");
    budget_each(s);
    for (i = 0; i < view_pools(s); i++)
        budget_pool(s, i);
}

static void budget_row(struct table *t, uint64_t connections, uint64_t requests, uint64_t buffers, uint64_t cache,
                       uint64_t used, uint64_t peak)
{
    char text[FORMAT_MAX];

    table_text(t, "%s", format_bytes(text, connections));
    table_text(t, "%s", format_bytes(text, requests));
    table_text(t, "%s", format_bytes(text, buffers));
    table_text(t, "%s", format_bytes(text, cache));
    table_text(t, "%s", format_bytes(text, connections + requests + buffers + cache));
    table_text(t, "%s", format_bytes(text, used));
    table_text(t, "%s", format_bytes(text, peak));
}

/* What is reserved for connections is of several sizes; the requests are all alike. */
static void budget_each(const struct segment *s)
{
    uint64_t connections = view_total(s, STAT_memory_connections), connection = view_total(s, STAT_memory_connection);
    uint64_t requests = view_total(s, STAT_memory_requests), request = view_total(s, STAT_memory_request);
    char text[FORMAT_MAX];

    if (connection > 0)
        printf(
            "connections: %llu octets each; with room for heads that are slow in coming and the table of client %s in "
            "all workers\n",
            (unsigned long long)connection, format_bytes(text, connections));
    if (request > 0)
        printf("requests: %llu of %llu octets each, %s in all workers\n", (unsigned long long)(requests / request),
               (unsigned long long)request, format_bytes(text, requests));
}

static void budget_pool(const struct segment *s, unsigned pool)
{
    /* One that has the slot, and one that is its client's next: the first may be left behind (worker/http/setup.c). */
    uint64_t each = 2 * view_total(s, STAT_memory_request), connections = view_pool(s, pool, STAT_pool_connections);
    char text[FORMAT_MAX];

    printf("raising max_inflight of pool %s by one (now %u) costs %llu octets per connection: %llu connections, %s\n",
           view_pool_name(s, pool), view_pool_max_inflight(s, pool), (unsigned long long)each,
           (unsigned long long)connections, format_bytes(text, each * connections));
}
