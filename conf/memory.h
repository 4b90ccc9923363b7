/* The memory of one struct conf: blocks that are freed all together, because everything in it lives as long as it. */
#ifndef VANILLA_CONF_MEMORY_H
#define VANILLA_CONF_MEMORY_H

#include <stddef.h>

struct memory_block;

struct memory {
    struct memory_block *memory_blocks;
};

/* n zeroed octets, aligned for anything.  Never NULL: when the machine has no memory left the process says so and
 * ends, as libconfig would beside it, only with a reason. */
void *memory_get(struct memory *m, size_t n) __attribute__((returns_nonnull));

/* A copy of the first n octets of s, with a NUL behind. */
char *memory_text(struct memory *m, const char *s, size_t n) __attribute__((returns_nonnull));

/* printf into memory of m. */
char *memory_format(struct memory *m, const char *format, ...) __attribute__((returns_nonnull, format(printf, 2, 3)));

/* Frees all that m handed out. */
void memory_free(struct memory *m);

#endif
