/* `vanillactl stats`, once or every few seconds. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/figures.h"
#include "ctl/screen.h"
#include "ctl/table.h"
#include "ctl/tables.h"
#include "shm/report.h"
#include "shm/view.h"

#define STATS_NAME_WIDTH 24 /* of the longest counter's name, and the totals' column after it */
#define STATS_TOTAL_WIDTH 22
#define STATS_WORKER_WIDTH 14

static void stats_print(const struct ctl *ctl, const struct segment *s);
static void stats_write(void *arg, const char *p, size_t n);
static void stats_table(const struct segment *s);
static void stats_sleep(double seconds);
static struct table *stats_group(const struct segment *s, const char *group, bool per_worker);
static struct table *stats_master(const struct segment *s);

enum ctl_exit command_stats(const struct ctl *ctl)
{
    bool screen = ctl->ctl_watch > 0 && !ctl->ctl_json && !ctl->ctl_prometheus && isatty(STDOUT_FILENO);
    struct segment *s;
    enum ctl_exit rc;

    for (;;) {
        rc = figures_open(ctl, &s);
        if (s != NULL) {
            if (screen)
                fputs("\033[H\033[2J", stdout);
            stats_print(ctl, s);
            segment_close(&s);
        }
        if (rc != CTL_DONE || ctl->ctl_watch <= 0 || !ctl_flush())
            return rc;
        stats_sleep(ctl->ctl_watch);
        if (!screen && !ctl->ctl_json)
            fputc('\n', stdout);
    }
}

static void stats_print(const struct ctl *ctl, const struct segment *s)
{
    if (ctl->ctl_json)
        report_json(s, stats_write, stdout);
    else if (ctl->ctl_prometheus)
        report_prometheus(s, stats_write, stdout);
    else
        stats_table(s);
}

static void stats_write(void *arg, const char *p, size_t n)
{
    fwrite(p, 1, n, arg);
}

static void stats_sleep(double seconds)
{
    struct timespec ts;

    ts.tv_sec = (time_t)seconds;
    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    nanosleep(&ts, NULL);
}

static void stats_table(const struct segment *s)
{
    const char *group = "";
    unsigned i, workers = view_workers(s);
    bool per_worker = workers > 1 &&
                      STATS_NAME_WIDTH + STATS_TOTAL_WIDTH + (uint64_t)workers * STATS_WORKER_WIDTH <= screen_columns();
    struct table *t;

    tables_server(s);
    for (i = 0; i < STAT_WORKER_N; i++) {
        if (strcmp(counters_worker[i].counter_group, group) == 0)
            continue;
        group = counters_worker[i].counter_group;
        fputc('\n', stdout);
        t = stats_group(s, group, per_worker);
        table_print(&t, stdout);
    }
    fputs("\n", stdout);
    t = stats_master(s);
    table_print(&t, stdout);
    fputs("\n", stdout);
    tables_pools(s);
    fputs("\n", stdout);
    tables_pools_more(s);
    fputs("\n", stdout);
    tables_routes(s);
}

static struct table *stats_group(const struct segment *s, const char *group, bool per_worker)
{
    static const char *const headings[] = {"COUNTER", ">TOTAL", NULL};
    struct table *t = table_new(headings);
    unsigned i, slot;
    char heading[32];

    for (slot = 0; per_worker && slot < view_workers(s); slot++) {
        snprintf(heading, sizeof(heading), ">WORKER %u", slot);
        table_column(t, heading);
    }
    table_column(t, "UNIT");
    for (i = 0; i < STAT_WORKER_N; i++) {
        if (strcmp(counters_worker[i].counter_group, group) != 0)
            continue;
        table_text(t, "%s.%s", group, counters_worker[i].counter_name);
        table_number(t, view_total(s, (enum stat_worker)i));
        for (slot = 0; per_worker && slot < view_workers(s); slot++)
            table_number(t, view_worker_counter(s, slot, (enum stat_worker)i));
        table_text(t, "%s", counters_worker[i].counter_unit);
    }
    return t;
}

static struct table *stats_master(const struct segment *s)
{
    static const char *const headings[] = {"COUNTER", ">TOTAL", "UNIT", NULL};
    struct table *t = table_new(headings);
    unsigned i;

    for (i = 0; i < STAT_MASTER_N; i++) {
        table_text(t, "%s.%s", counters_master[i].counter_group, counters_master[i].counter_name);
        table_number(t, view_master(s, (enum stat_master)i));
        table_text(t, "%s", counters_master[i].counter_unit);
    }
    return t;
}
