#include "worker/route/exact.h"

#include <stdlib.h>

struct exact *exact_new(const struct conf *conf)
{
    uint32_t slots = 16;
    struct exact *e;
    unsigned i;

    while (slots < 4 * conf->conf_routes_n)
        slots *= 2;
    e = calloc(1, sizeof(*e) + slots * sizeof(e->exact_slots[0]));
    if (e == NULL)
        return NULL;
    e->exact_mask = slots - 1;
    for (i = 0; i < conf->conf_routes_n; i++) {
        const struct conf_route *route = &conf->conf_routes[i];
        const char *brace = strchr(route->route_path, '{');
        struct slice path = {route->route_path, strlen(route->route_path)};
        uint32_t at;

        if (route->route_method != METHOD_GET)
            continue;
        if (brace != NULL) {
            if (strchr(brace, '/') != NULL)
                continue; /* more segments behind the parameter */
            path.slice_len = (size_t)(brace - route->route_path);
            e->exact_any_parameter = true;
        } else {
            e->exact_lengths |= UINT64_C(1) << (path.slice_len % 64);
        }
        at = exact_hash(path);
        while (e->exact_slots[at & e->exact_mask].slot_path.slice_p != NULL)
            at++;
        e->exact_slots[at & e->exact_mask] = (struct exact_slot){path, (int)i, brace != NULL};
    }
    return e;
}
