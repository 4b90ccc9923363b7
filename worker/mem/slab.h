/* Objects of one size, all reserved at start: get and put are a pop and a push; memory is touched on first use. */
#ifndef VANILLA_WORKER_MEM_SLAB_H
#define VANILLA_WORKER_MEM_SLAB_H

#include <stddef.h>

#include "shm/assert.h"

struct slab;

/* Reserves room for n objects of `size` octets (rounded up to 64: no two share a cache line).  NULL with errno.
 * slab_free nulls the pointer. */
struct slab *slab_new(size_t size, size_t n) MUSTCHECK;
/* As slab_new, with address space for `room` >= n of them: slab_grow may raise n up to that later. */
struct slab *slab_new_growing(size_t size, size_t n, size_t room) MUSTCHECK;
void slab_grow(struct slab *s, size_t n);
void slab_free(struct slab **sp);

/* An object, zeroed only when it is fresh, or NULL when all are in use. */
void *slab_get(struct slab *s) MUSTCHECK;
void slab_put(struct slab *s, void *object);

size_t slab_used(const struct slab *s);
size_t slab_object_size(const struct slab *s);
size_t slab_bytes(const struct slab *s);

#endif
