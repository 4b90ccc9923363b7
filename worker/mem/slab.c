#include "worker/mem/slab.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SLAB_MAGIC 0x51abf00du
#define SLAB_ALIGN 64u

struct slab_spare {
    struct slab_spare *spare_next;
};

struct slab {
    unsigned magic;
    size_t slab_size, slab_n, slab_room, slab_fresh, slab_taken; /* fresh: how many were ever handed out */
    struct slab_spare *slab_spare;
    unsigned char *slab_memory;
};

struct slab *slab_new(size_t size, size_t n)
{
    return slab_new_growing(size, n, n);
}

struct slab *slab_new_growing(size_t size, size_t n, size_t room)
{
    struct slab *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    AN(size > 0 && n > 0 && room >= n);
    s->magic = SLAB_MAGIC;
    s->slab_size = (size + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;
    s->slab_n = n;
    s->slab_room = room;
    s->slab_memory =
        mmap(NULL, s->slab_size * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->slab_memory == MAP_FAILED) {
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

void slab_free(struct slab **sp)
{
    struct slab *s = *sp;

    if (s == NULL)
        return;
    CHECK_OBJ(s, SLAB_MAGIC);
    munmap(s->slab_memory, s->slab_size * s->slab_room);
    s->magic = 0;
    free(s);
    *sp = NULL;
}

void slab_grow(struct slab *s, size_t n)
{
    CHECK_OBJ(s, SLAB_MAGIC);
    AN(n <= s->slab_room);
    if (n > s->slab_n) /* what was handed out once cannot be taken back */
        s->slab_n = n;
}

void *slab_get(struct slab *s)
{
    struct slab_spare *spare = s->slab_spare;

    CHECK_OBJ(s, SLAB_MAGIC);
    if (spare != NULL) {
        s->slab_spare = spare->spare_next;
        s->slab_taken++;
        return spare;
    }
    if (s->slab_fresh == s->slab_n)
        return NULL;
    s->slab_taken++;
    return s->slab_memory + s->slab_fresh++ * s->slab_size;
}

void slab_put(struct slab *s, void *object)
{
    struct slab_spare *spare = object;
    size_t at = (size_t)((unsigned char *)object - s->slab_memory);

    CHECK_OBJ(s, SLAB_MAGIC);
    AN(at < s->slab_size * s->slab_n && s->slab_taken > 0);
#ifdef VANILLA_POISON
    AN(at % s->slab_size == 0);
    memset(object, 0xa5, s->slab_size);
#endif
    spare->spare_next = s->slab_spare;
    s->slab_spare = spare;
    s->slab_taken--;
}

size_t slab_used(const struct slab *s)
{
    return s->slab_taken;
}

size_t slab_object_size(const struct slab *s)
{
    return s->slab_size;
}

size_t slab_bytes(const struct slab *s)
{
    return s->slab_size * s->slab_n;
}
