/*
 * The formats for machines, shared by vanillactl and the admin listener.  Both work on a copy (segment_open) and on a
 * mapping; they allocate nothing and use no stdio, so a worker may call them on a request path.  `write` is handed text
 * in pieces and copies what it wants to keep; it cannot fail: remember an error in `arg` and ignore the rest.
 */
#ifndef VANILLA_SHM_REPORT_H
#define VANILLA_SHM_REPORT_H

#include <stddef.h>

#include "shm/segment.h"

/* Prometheus text exposition, version 0.0.4; Content-Type: text/plain; version=0.0.4; charset=utf-8.
 * WORKER counters carry worker="SLOT", POOL counters pool="NAME",worker="SLOT", ROUTE counters
 * method="GET",route="PATH" and are sums over workers.  The gauges of dead workers are 0. */
void report_prometheus(const struct segment *s, void (*write)(void *arg, const char *p, size_t n), void *arg);

/* `vanillactl stats --json` : one line, with its LF.  Totals as in shm/view.h. */
void report_json(const struct segment *s, void (*write)(void *arg, const char *p, size_t n), void *arg);

#endif
