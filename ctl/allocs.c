/* `vanillactl allocs`: the proof that a request allocates nothing. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/figures.h"
#include "ctl/format.h"
#include "ctl/table.h"
#include "shm/view.h"

static void allocs_print(const struct segment *s);

enum ctl_exit command_allocs(const struct ctl *ctl)
{
    return figures_print(ctl, allocs_print);
}

static void allocs_print(const struct segment *s)
{
    static const char *const headings[] = {"SCOPE", ">CALLS", ">PER REQUEST", "MEANING", NULL};
    uint64_t requests = view_total(s, STAT_http_requests), calls;
    struct table *t = table_new(headings);
    char text[FORMAT_MAX];
    unsigned i;

    printf("requests  %llu\n\n", (unsigned long long)requests);
    for (i = 0; i < STAT_WORKER_N; i++) {
        if (strcmp(counters_worker[i].counter_group, "alloc") != 0)
            continue;
        calls = view_total(s, (enum stat_worker)i);
        table_text(t, "%s", counters_worker[i].counter_name);
        table_number(t, calls);
        /* What happened before the worker was ready is no request's, and these three hold it. */
        table_text(t, "%s",
                   i == STAT_alloc_start || i == STAT_alloc_frees || i == STAT_alloc_bytes
                       ? "-"
                       : format_ratio(text, calls, requests, 3));
        table_text(t, "%s", counters_worker[i].counter_meaning);
    }
    table_print(&t, stdout);
}
