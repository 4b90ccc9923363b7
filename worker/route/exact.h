/*
 * Routes whose path has no parameter, found by the whole path at once: what the router would find too, for less.
 * A path that is here octet by octet has no escapes to decode, and a literal path wins over parameters.
 */
#ifndef VANILLA_WORKER_ROUTE_EXACT_H
#define VANILLA_WORKER_ROUTE_EXACT_H

#include <stdint.h>
#include <string.h>

#include "conf/conf.h"
#include "worker/mem/slice.h"

struct exact_slot {
    struct slice slot_path; /* slice_p NULL: empty */
    int slot_route;
};

struct exact {
    uint32_t exact_mask; /* slots, a power of two, less one */
    struct exact_slot exact_slots[];
};

/* Start-up: of all GET routes without parameters.  NULL: out of memory.  Freed with free(). */
struct exact *exact_new(const struct conf *conf) MUSTCHECK;

static inline uint32_t exact_hash(struct slice path)
{
    const char *end = path.slice_p + path.slice_len;
    uint64_t first, last;

    if (path.slice_len >= 8) {
        memcpy(&first, path.slice_p, 8);
        memcpy(&last, end - 8, 8);
    } else if (path.slice_len >= 4) {
        uint32_t a, b;

        memcpy(&a, path.slice_p, 4);
        memcpy(&b, end - 4, 4);
        first = a;
        last = b;
    } else {
        first = path.slice_len > 0 ? (unsigned char)path.slice_p[0] : 0;
        last = path.slice_len > 0 ? (unsigned char)end[-1] : 0;
    }
    first = (first ^ (last << 1) ^ path.slice_len) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(first >> 32);
}

/* The GET route of this very path, or -1: ask the router. */
static inline int exact_find(const struct exact *e, struct slice path)
{
    uint32_t at = exact_hash(path);

    for (;; at++) {
        const struct exact_slot *slot = &e->exact_slots[at & e->exact_mask];

        if (slot->slot_path.slice_p == NULL)
            return -1;
        if (slot->slot_path.slice_len == path.slice_len &&
            memcmp(slot->slot_path.slice_p, path.slice_p, path.slice_len) == 0)
            return slot->slot_route;
    }
}

#endif
