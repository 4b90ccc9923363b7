/* A piece of somebody else's octets: not owned, not NUL-terminated, as long-lived as what it points into. */
#ifndef VANILLA_WORKER_MEM_SLICE_H
#define VANILLA_WORKER_MEM_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *slice_p; /* NULL: absent; else slice_len octets */
    size_t slice_len;
};

#define SLICE_LITERAL(s) ((struct slice){(s), sizeof(s) - 1})

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.slice_len == b.slice_len && (a.slice_len == 0 || memcmp(a.slice_p, b.slice_p, a.slice_len) == 0);
}

#endif
