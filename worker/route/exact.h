/*
 * GET routes found without a walk: those whose path has no parameter, by the whole path, and those with one parameter
 * as the last segment, by what stands before it.  It is what the router would find too, for less: literal segments win
 * over parameters from left to right, so a path that begins with all the literals of such a route can only belong to
 * it, or to a literal path, which is looked for first.  Paths with escapes are the router's.
 */
#ifndef VANILLA_WORKER_ROUTE_EXACT_H
#define VANILLA_WORKER_ROUTE_EXACT_H

#include <stdint.h>
#include <string.h>

#include "conf/conf.h"
#include "worker/mem/slice.h"

struct exact_slot {
    struct slice slot_path; /* slice_p NULL: empty; ends in '/' where a parameter follows */
    int slot_route;
    bool slot_parameter; /* a parameter follows */
};

struct exact {
    uint32_t exact_mask; /* slots, a power of two, less one */
    bool exact_any_parameter;
    uint64_t exact_lengths; /* bit (length % 64): there is a whole path of that length */
    struct exact_slot exact_slots[];
};

/* Start-up.  NULL: out of memory.  Freed with free(). */
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

/* The route whose whole path, or whose path before its parameter, is this; -1: none. */
static inline int exact_slot_find(const struct exact *e, struct slice path, bool parameter)
{
    uint32_t at = exact_hash(path);

    for (;; at++) {
        const struct exact_slot *slot = &e->exact_slots[at & e->exact_mask];

        if (slot->slot_path.slice_p == NULL)
            return -1;
        if (slot->slot_path.slice_len == path.slice_len && slot->slot_parameter == parameter &&
            memcmp(slot->slot_path.slice_p, path.slice_p, path.slice_len) == 0)
            return slot->slot_route;
    }
}

/* The GET route of a path without escapes, or -1: ask the router.  *argument is the parameter, where there is one. */
static inline int exact_find(const struct exact *e, struct slice path, struct slice *argument)
{
    const char *last = path.slice_p + path.slice_len;
    int route = -1;

    if ((e->exact_lengths >> (path.slice_len % 64) & 1) != 0)
        route = exact_slot_find(e, path, false);
    if (route >= 0 || !e->exact_any_parameter)
        return route;
    while (last > path.slice_p && last[-1] != '/')
        last--;
    *argument = (struct slice){last, (size_t)(path.slice_p + path.slice_len - last)};
    if (argument->slice_len == 0)
        return -1;
    return exact_slot_find(e, (struct slice){path.slice_p, (size_t)(last - path.slice_p)}, true);
}

#endif
