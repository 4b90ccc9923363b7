#include "shm/layout.h"

static uint64_t layout_align(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

int layout_map(struct layout_map *map, uint64_t workers, uint64_t pools, uint64_t routes, uint64_t strings_len)
{
    uint64_t scalars = sizeof(uint64_t[STAT_WORKER_N]) + pools * sizeof(struct stats_pool);

    if (workers > LAYOUT_WORKERS_MAX || pools > LAYOUT_POOLS_MAX || routes > LAYOUT_ROUTES_MAX ||
        strings_len > LAYOUT_STRINGS_MAX)
        return -1;
    map->map_master = layout_align(sizeof(struct layout_header), LAYOUT_LINE);
    map->map_pools = layout_align(map->map_master + sizeof(uint64_t[2 * STAT_MASTER_N]), LAYOUT_LINE);
    map->map_routes = map->map_pools + pools * sizeof(struct layout_pool);
    map->map_strings = map->map_routes + routes * sizeof(struct layout_route);
    map->map_past = layout_align(map->map_strings + strings_len, LAYOUT_LINE);
    map->map_blocks = layout_align(map->map_past + routes * sizeof(struct stats_route), LAYOUT_PAGE);
    map->map_worker_past = layout_align(sizeof(struct layout_worker), LAYOUT_LINE);
    map->map_worker_own = layout_align(map->map_worker_past + scalars, LAYOUT_LINE);
    map->map_block_size =
        layout_align(map->map_worker_own + scalars + routes * sizeof(struct stats_route), LAYOUT_PAGE);
    map->map_total = map->map_blocks + workers * map->map_block_size;
    return map->map_total > LAYOUT_TOTAL_MAX ? -1 : 0;
}
