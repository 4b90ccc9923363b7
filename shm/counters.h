/* counters.def as data, for all that prints or sums counters. */
#ifndef VANILLA_SHM_COUNTERS_H
#define VANILLA_SHM_COUNTERS_H

#include <stdint.h>

#include "shm/stats.h"

enum counter_kind { COUNTER_KIND_COUNTER, COUNTER_KIND_GAUGE, COUNTER_KIND_PEAK, COUNTER_KIND_SIZE };

struct counter {
    const char *counter_group, *counter_name; /* "http", "requests" */
    enum counter_kind counter_kind;
    const char *counter_unit;
    const char *counter_family, *counter_labels; /* Prometheus; labels "" or `code="2xx"` */
    const char *counter_meaning;
};

/* By enum stat_worker, stat_pool, stat_route, stat_master. */
extern const struct counter counters_worker[STAT_WORKER_N], counters_pool[STAT_POOL_N], counters_route[STAT_ROUTE_N],
    counters_master[STAT_MASTER_N];

/* A hash of the whole table's scopes, groups, names and kinds (FNV-1a): equal means that cells mean the same. */
uint64_t counters_hash(void);

#endif
