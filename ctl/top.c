/*
 * `vanillactl top`: rates per second from two readings, one screen, redrawn each second until q or Ctrl-C.  When stdout
 * is no terminal: one screen of text, after a second.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/ctl.h"
#include "ctl/figures.h"
#include "ctl/format.h"
#include "ctl/screen.h"
#include "ctl/table.h"
#include "ctl/terminal.h"
#include "shm/view.h"

#define TOP_PERIOD_MS 1000

struct top {                              /* two readings of one server */
    struct segment *top_before, *top_now; /* before: NULL when there is none that goes with the other */
    double top_seconds;                   /* between them; 0: no rates */
    struct timespec top_read;
};

static enum ctl_exit top_read(const struct ctl *ctl, struct top *top);
static bool top_same_server(const struct segment *a, const struct segment *b);
static void top_draw(const struct top *top, bool terminal);
static void top_put(char *text, unsigned columns, unsigned lines, bool terminal);
static void top_frame(const struct top *top, FILE *to);
static void top_server(const struct top *top, FILE *to);
static void top_workers(const struct top *top, FILE *to);
static void top_pools(const struct top *top, FILE *to);
static void top_routes(const struct top *top, FILE *to);
static double top_rate(const struct top *top, uint64_t before, uint64_t now);
static double top_total(const struct top *top, enum stat_worker counter);
static double top_worker(const struct top *top, unsigned slot, enum stat_worker counter);
static double top_pool(const struct top *top, unsigned pool, enum stat_pool counter);
static double top_route(const struct top *top, unsigned route, enum stat_route counter);
static void top_route_times(const struct top *top, unsigned route, struct histogram *h);
static double top_worker_sheds(const struct top *top, unsigned slot);
static void top_cell(struct table *t, double per_second);

enum ctl_exit command_top(const struct ctl *ctl)
{
    struct terminal terminal;
    struct top top;
    enum ctl_exit rc;
    bool go_on = true;

    memset(&top, 0, sizeof(top));
    rc = top_read(ctl, &top);
    if (rc != CTL_DONE) {
        if (top.top_now != NULL)
            top_draw(&top, false);
        segment_close(&top.top_now);
        return rc;
    }
    terminal_set(&terminal);
    if (terminal.terminal_out)
        top_draw(&top, true);
    while (go_on && terminal_wait(&terminal, TOP_PERIOD_MS)) {
        rc = top_read(ctl, &top);
        if (top.top_now != NULL)
            top_draw(&top, terminal.terminal_out);
        go_on = rc == CTL_DONE && ctl_flush() && terminal.terminal_out;
    }
    terminal_reset(&terminal);
    if (rc == CTL_NOT_RUNNING && terminal.terminal_out) /* it was said on the screen that is gone */
        ctl_failed("the server has ended");
    segment_close(&top.top_before);
    segment_close(&top.top_now);
    return rc;
}

static enum ctl_exit top_read(const struct ctl *ctl, struct top *top)
{
    struct timespec now;
    enum ctl_exit rc;

    segment_close(&top->top_before);
    top->top_before = top->top_now;
    rc = figures_open(ctl, &top->top_now);
    clock_gettime(CLOCK_MONOTONIC, &now);
    top->top_seconds =
        (double)(now.tv_sec - top->top_read.tv_sec) + (double)(now.tv_nsec - top->top_read.tv_nsec) / 1e9;
    top->top_read = now;
    if (top->top_before != NULL && top->top_now != NULL && !top_same_server(top->top_before, top->top_now))
        segment_close(&top->top_before);
    if (top->top_before == NULL)
        top->top_seconds = 0;
    return rc;
}

/* Whether cells of the same index mean the same: not after a reload or a restart. */
static bool top_same_server(const struct segment *a, const struct segment *b)
{
    struct view_server x, y;
    unsigned i;

    view_server(a, &x);
    view_server(b, &y);
    if (x.server_master_pid != y.server_master_pid || x.server_started_ns != y.server_started_ns ||
        view_workers(a) != view_workers(b) || view_pools(a) != view_pools(b) || view_routes(a) != view_routes(b))
        return false;
    for (i = 0; i < view_pools(a); i++)
        if (strcmp(view_pool_name(a, i), view_pool_name(b, i)) != 0)
            return false;
    for (i = 0; i < view_routes(a); i++)
        if (strcmp(view_route_method(a, i), view_route_method(b, i)) != 0 ||
            strcmp(view_route_path(a, i), view_route_path(b, i)) != 0)
            return false;
    return true;
}

/* Drawn into memory first, so that it can be cut to the screen and written at once, which does not flicker. */
static void top_draw(const struct top *top, bool terminal)
{
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    if (to == NULL)
        return;
    top_frame(top, to);
    if (fclose(to) == 0)
        top_put(text, terminal ? screen_columns() : 0, terminal ? screen_lines() : 0, terminal);
    free(text);
}

static void top_put(char *text, unsigned columns, unsigned lines, bool terminal)
{
    unsigned line = 0;
    size_t i, width;
    char *p, *next;

    if (!terminal) {
        fputs(text, stdout);
        return;
    }
    fputs("\033[H", stdout);
    for (p = text; *p != '\0' && line < lines; p = next, line++) {
        next = strchr(p, '\n');
        next = next != NULL ? next + 1 : p + strlen(p);
        for (i = 0, width = 0; p + i < next && p[i] != '\n'; i++) { /* whole UTF-8 characters */
            width += ((unsigned char)p[i] & 0xc0) != 0x80;
            if (width > columns)
                break;
        }
        /* Erase first: at the right margin that would take the last character. */
        fputs(line > 0 ? "\n\033[K" : "\033[K", stdout);
        fwrite(p, 1, i, stdout);
    }
    if (line < lines)
        fputs("\n\033[J", stdout);
}

static void top_frame(const struct top *top, FILE *to)
{
    top_server(top, to);
    fputc('\n', to);
    top_workers(top, to);
    fputc('\n', to);
    top_pools(top, to);
    fputc('\n', to);
    top_routes(top, to);
}

static void top_server(const struct top *top, FILE *to)
{
    char up[FORMAT_MAX], in[FORMAT_MAX], out[FORMAT_MAX], per[FORMAT_MAX];
    const struct segment *s = top->top_now;
    struct view_server server;
    uint64_t requests, steady;

    view_server(s, &server);
    fprintf(to, "vanilla %.31s  up %s  generation %" PRIu64 "  workers %u  connections %" PRIu64 "\n",
            server.server_version, format_duration(up, server.server_uptime_ns), server.server_generation,
            view_workers(s), view_total(s, STAT_http_connections));
    fprintf(to, "requests %.0f/s  2xx %.0f  3xx %.0f  4xx %.0f  5xx %.0f  shed %.0f  in %s/s  out %s/s\n",
            top_total(top, STAT_http_requests), top_total(top, STAT_http_status_2xx),
            top_total(top, STAT_http_status_3xx), top_total(top, STAT_http_status_4xx),
            top_total(top, STAT_http_status_5xx),
            top_total(top, STAT_shed_pool_full) + top_total(top, STAT_shed_queue_timeout) +
                top_total(top, STAT_shed_pool_down) + top_total(top, STAT_shed_buffers) +
                top_total(top, STAT_shed_connections),
            format_bytes(in, (uint64_t)top_total(top, STAT_http_bytes_in)),
            format_bytes(out, (uint64_t)top_total(top, STAT_http_bytes_out)));
    requests = view_total(s, STAT_http_requests);
    steady = view_total(s, STAT_alloc_steady);
    fprintf(to, "allocations per request %s  buffers %s of", format_ratio(per, steady, requests, 3),
            format_bytes(in, view_total(s, STAT_memory_buffers_used)));
    fprintf(to, " %s\n", format_bytes(in, view_total(s, STAT_memory_buffers_total)));
}

static void top_workers(const struct top *top, FILE *to)
{
    static const char *const headings[] = {">WORKER",    ">CPU",     "STATE",    ">CONNECTIONS", ">REQUESTS/S",
                                           ">ACCEPTS/S", ">SHEDS/S", ">TURNS/S", ">BUFFERS",     NULL};
    const struct segment *s = top->top_now;
    struct table *t = table_new(headings);
    struct view_worker w;
    char text[FORMAT_MAX];
    unsigned i;

    for (i = 0; i < view_workers(s); i++) {
        view_worker(s, i, &w);
        table_number(t, i);
        table_text(t, "%d", w.worker_cpu);
        table_text(t, "%s", view_state_name(w.worker_state));
        table_number(t, view_worker_counter(s, i, STAT_http_connections));
        top_cell(t, top_worker(top, i, STAT_http_requests));
        top_cell(t, top_worker(top, i, STAT_http_accepted));
        top_cell(t, top_worker_sheds(top, i));
        top_cell(t, top_worker(top, i, STAT_loop_turns));
        table_text(t, "%s", format_bytes(text, view_worker_counter(s, i, STAT_memory_buffers_used)));
    }
    table_print(&t, to);
}

static void top_pools(const struct top *top, FILE *to)
{
    static const char *const headings[] = {"POOL",   ">UP",     ">INFLIGHT", ">SLOTS",    ">WAITING", ">QUERIES/S",
                                           ">BATCH", ">ROWS/S", ">SHEDS/S",  ">ERRORS/S", NULL};
    const struct segment *s = top->top_now;
    struct table *t = table_new(headings);
    double queries, syncs;
    char text[FORMAT_MAX];
    unsigned i;

    for (i = 0; i < view_pools(s); i++) {
        queries = top_pool(top, i, STAT_pool_queries);
        syncs = top_pool(top, i, STAT_pool_syncs);
        table_text(t, "%s", view_pool_name(s, i));
        table_text(t, "%" PRIu64 "/%" PRIu64, view_pool(s, i, STAT_pool_up), view_pool(s, i, STAT_pool_connections));
        table_number(t, view_pool(s, i, STAT_pool_inflight));
        table_number(t, view_pool(s, i, STAT_pool_slots));
        table_number(t, view_pool(s, i, STAT_pool_waiting));
        top_cell(t, queries);
        table_text(t, "%s", syncs > 0 ? format_rate(text, queries / syncs) : "-");
        top_cell(t, top_pool(top, i, STAT_pool_rows));
        top_cell(t, top_pool(top, i, STAT_pool_shed_pool_full) + top_pool(top, i, STAT_pool_shed_queue_timeout) +
                        top_pool(top, i, STAT_pool_shed_pool_down) + top_pool(top, i, STAT_pool_shed_buffers));
        top_cell(t, top_pool(top, i, STAT_pool_errors));
    }
    table_print(&t, to);
}

static void top_routes(const struct top *top, FILE *to)
{
    static const char *const headings[] = {"METHOD", "PATH", ">REQUESTS/S", ">SHEDS/S", ">4XX/S",
                                           ">5XX/S", ">P50", ">P99",        NULL};
    const struct segment *s = top->top_now;
    struct table *t = table_new(headings);
    struct histogram h;
    char text[FORMAT_MAX];
    bool any;
    unsigned i;

    for (i = 0; i < view_routes(s); i++) {
        table_text(t, "%s", view_route_method(s, i));
        table_text(t, "%s", view_route_path(s, i));
        top_cell(t, top_route(top, i, STAT_route_requests));
        top_cell(t, top_route(top, i, STAT_route_shed));
        top_cell(t, top_route(top, i, STAT_route_errors_4xx));
        top_cell(t, top_route(top, i, STAT_route_errors_5xx));
        top_route_times(top, i, &h);
        any = histogram_count(h.histogram_cells) > 0;
        table_text(t, "%s", any ? format_us(text, histogram_quantile(h.histogram_cells, 0.50)) : "-");
        table_text(t, "%s", any ? format_us(text, histogram_quantile(h.histogram_cells, 0.99)) : "-");
    }
    table_print(&t, to);
}

/* A counter that went back was read in the middle of things; it is not a rate of 2^64. */
static double top_rate(const struct top *top, uint64_t before, uint64_t now)
{
    return now > before && top->top_seconds > 0 ? (double)(now - before) / top->top_seconds : 0;
}

static double top_total(const struct top *top, enum stat_worker counter)
{
    if (top->top_before == NULL)
        return 0;
    return top_rate(top, view_total(top->top_before, counter), view_total(top->top_now, counter));
}

static double top_worker(const struct top *top, unsigned slot, enum stat_worker counter)
{
    if (top->top_before == NULL)
        return 0;
    return top_rate(top, view_worker_counter(top->top_before, slot, counter),
                    view_worker_counter(top->top_now, slot, counter));
}

static double top_pool(const struct top *top, unsigned pool, enum stat_pool counter)
{
    if (top->top_before == NULL)
        return 0;
    return top_rate(top, view_pool(top->top_before, pool, counter), view_pool(top->top_now, pool, counter));
}

static double top_route(const struct top *top, unsigned route, enum stat_route counter)
{
    if (top->top_before == NULL)
        return 0;
    return top_rate(top, view_route(top->top_before, route, counter), view_route(top->top_now, route, counter));
}

/* The times of the requests between the two readings. */
static void top_route_times(const struct top *top, unsigned route, struct histogram *h)
{
    struct histogram before;
    unsigned i;

    view_route_histogram(top->top_now, route, h);
    if (top->top_before == NULL)
        memcpy(&before, h, sizeof(before));
    else
        view_route_histogram(top->top_before, route, &before);
    for (i = 0; i < HISTOGRAM_CELLS; i++)
        h->histogram_cells[i] -=
            h->histogram_cells[i] > before.histogram_cells[i] ? before.histogram_cells[i] : h->histogram_cells[i];
}

static double top_worker_sheds(const struct top *top, unsigned slot)
{
    return top_worker(top, slot, STAT_shed_pool_full) + top_worker(top, slot, STAT_shed_queue_timeout) +
           top_worker(top, slot, STAT_shed_pool_down) + top_worker(top, slot, STAT_shed_buffers) +
           top_worker(top, slot, STAT_shed_connections);
}

static void top_cell(struct table *t, double per_second)
{
    char text[FORMAT_MAX];

    table_text(t, "%s", format_rate(text, per_second));
}
