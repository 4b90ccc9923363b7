#include "shm/stats.h"

/* Where figures go that nobody looks at: those of the master, of start-up and of unit tests. */
static uint64_t private_worker[STAT_WORKER_N];
static struct stats_pool private_pools[STATS_PRIVATE_MAX];
static struct stats_route private_routes[STATS_PRIVATE_MAX];

struct stats stats = {private_worker, private_pools, private_routes};

void stats_private(void)
{
    stats = (struct stats){private_worker, private_pools, private_routes};
}
