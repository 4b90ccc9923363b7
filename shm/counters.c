#include "shm/counters.h"

#define ROW(group, name, kind, unit, family, labels, meaning) \
    {#group, #name, COUNTER_KIND_##kind, unit, family, labels, meaning},
#define NO_ROW(group, name, kind, unit, family, labels, meaning)
#define STAT(scope, group, name, kind, unit, family, labels, meaning) \
    ROW_##scope(group, name, kind, unit, family, labels, meaning)

#define ROW_WORKER ROW
#define ROW_POOL NO_ROW
#define ROW_ROUTE NO_ROW
#define ROW_MASTER NO_ROW
const struct counter counters_worker[STAT_WORKER_N] = {
#include "shm/counters.def"
};
#undef ROW_WORKER
#undef ROW_POOL
#define ROW_WORKER NO_ROW
#define ROW_POOL ROW
const struct counter counters_pool[STAT_POOL_N] = {
#include "shm/counters.def"
};
#undef ROW_POOL
#undef ROW_ROUTE
#define ROW_POOL NO_ROW
#define ROW_ROUTE ROW
const struct counter counters_route[STAT_ROUTE_N] = {
#include "shm/counters.def"
};
#undef ROW_ROUTE
#undef ROW_MASTER
#define ROW_ROUTE NO_ROW
#define ROW_MASTER ROW
const struct counter counters_master[STAT_MASTER_N] = {
#include "shm/counters.def"
};
#undef STAT

static const char counters_text[] =
#define STAT(scope, group, name, kind, unit, family, labels, meaning) #scope "\n" #group "\n" #name "\n" #kind "\n"
#include "shm/counters.def"
    ;
#undef STAT

uint64_t counters_hash(void)
{
    uint64_t h = 0xcbf29ce484222325u;
    const char *p;

    for (p = counters_text; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h;
}
