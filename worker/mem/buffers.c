#include "worker/mem/buffers.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define BUFFERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BUFFERS_ASAN 1
#endif
#endif
#ifdef BUFFERS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ORDERS 20u       /* 4 KiB << 19 is 2 GiB */
#define CACHE_ORDERS 3u  /* 4, 8 and 16 KiB blocks ... */
#define CACHE_MAX 64u    /* ... are kept back, this many of each, before they are merged with their buddies */
#define STATE_FREE 0x80u /* of a block's first unit: it is on the free list of its order */

/* A free block: on the list of its order, or (no prev) in its order's cache. */
struct spare {
    struct spare *spare_prev, *spare_next;
};

struct buffers_arena {
    size_t arena_units; /* of BUF_MIN_SIZE; the arena begins as the largest aligned blocks that fill it */
    size_t arena_size;
    unsigned char *arena_memory;
    uint8_t *arena_state; /* per unit of BUF_MIN_SIZE; meaningful at the first unit of a block */
    struct spare arena_free[ORDERS];
    struct spare *arena_cache[CACHE_ORDERS];
    unsigned arena_cached[CACHE_ORDERS];
};

static unsigned order_for(size_t size);
static struct spare *block_take(struct buffers_arena *a, unsigned order);
static void block_release(struct buffers_arena *a, struct spare *s, unsigned order);
static bool cache_flush(struct buffers *b);
static void spare_link(struct buffers_arena *a, struct spare *s, unsigned order);
static void spare_unlink(struct buffers_arena *a, struct spare *s);
static size_t unit_of(const struct buffers_arena *a, const void *p);

struct buffers *buffers_new(size_t bytes)
{
    struct buffers *b = calloc(1, sizeof(*b));
    struct buffers_arena *a = calloc(1, sizeof(*a));
    size_t unit = 0;
    unsigned o;

    if (b == NULL || a == NULL) {
        free(b);
        free(a);
        return NULL;
    }
    b->magic = BUFFERS_MAGIC;
    b->buffers_arena = a;
    a->arena_units = bytes <= BUF_MIN_SIZE ? 1 : bytes / BUF_MIN_SIZE;
    a->arena_size = a->arena_units * BUF_MIN_SIZE;
    b->buffers_scarce_at = a->arena_size - a->arena_size / 8;
    a->arena_memory =
        mmap(NULL, a->arena_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->arena_state = calloc(a->arena_units, 1);
    if (a->arena_memory == MAP_FAILED || a->arena_state == NULL) {
        if (a->arena_memory != MAP_FAILED)
            munmap(a->arena_memory, a->arena_size);
        free(a->arena_state);
        free(a);
        free(b);
        errno = ENOMEM;
        return NULL;
    }
    for (o = 0; o < ORDERS; o++)
        a->arena_free[o].spare_prev = a->arena_free[o].spare_next = &a->arena_free[o];
    while (unit < a->arena_units) {
        o = ORDERS - 1;
        while (unit % ((size_t)1 << o) != 0 || unit + ((size_t)1 << o) > a->arena_units)
            o--;
        spare_link(a, (struct spare *)(a->arena_memory + unit * BUF_MIN_SIZE), o);
        unit += (size_t)1 << o;
    }
    return b;
}

void buffers_free(struct buffers **bp)
{
    struct buffers *b = *bp;

    if (b == NULL)
        return;
    CHECK_OBJ(b, BUFFERS_MAGIC);
    ASAN_UNPOISON_MEMORY_REGION(b->buffers_arena->arena_memory, b->buffers_arena->arena_size);
    munmap(b->buffers_arena->arena_memory, b->buffers_arena->arena_size);
    free(b->buffers_arena->arena_state);
    free(b->buffers_arena);
    b->magic = 0;
    free(b);
    *bp = NULL;
}

struct buf *buf_get_slow(struct buffers *b, size_t size)
{
    struct buffers_arena *a = b->buffers_arena;
    unsigned order = size <= BUF_DATA_MIN ? 0 : order_for(size);
    struct spare *s;
    struct buf *buf;

    CHECK_OBJ(b, BUFFERS_MAGIC);
    if (__builtin_expect(order >= ORDERS || (size > BUFFERS_LARGE && b->buffers_taken + size > b->buffers_scarce_at),
                         0))
        return NULL;
    if (order < CACHE_ORDERS && a->arena_cache[order] != NULL) {
        s = a->arena_cache[order];
        a->arena_cache[order] = s->spare_next;
        a->arena_cached[order]--;
    } else {
        s = block_take(a, order);
        if (s == NULL && cache_flush(b))
            s = block_take(a, order);
        if (s == NULL)
            return NULL;
    }
    b->buffers_taken += (size_t)BUF_MIN_SIZE << order;
    if (b->buffers_taken > b->buffers_most)
        b->buffers_most = b->buffers_taken;
    buf = (struct buf *)s;
    ASAN_UNPOISON_MEMORY_REGION(buf, (size_t)BUF_MIN_SIZE << order);
    buf->magic = BUF_MAGIC;
    buf->buf_order = order;
    buf->buf_start = buf->buf_end = 0;
    buf->buf_size = (uint32_t)(((size_t)BUF_MIN_SIZE << order) - sizeof(*buf));
    buf->buf_refs = 1;
    buf->buf_next = NULL;
    return buf;
}

void buf_put_slow(struct buffers *b, struct buf *buf)
{
    struct buffers_arena *a = b->buffers_arena;
    unsigned order = buf->buf_order;
    struct spare *s;

    CHECK_OBJ(b, BUFFERS_MAGIC);
    CHECK_OBJ(buf, BUF_MAGIC);
    AN(buf->buf_refs == 1);
    buf->magic = 0;
    b->buffers_taken -= (size_t)BUF_MIN_SIZE << order;
#ifdef VANILLA_POISON
    memset(buf->buf_data, 0xa5, buf->buf_size);
#endif
    s = (struct spare *)buf;
    ASAN_POISON_MEMORY_REGION((char *)buf + sizeof(*s), ((size_t)BUF_MIN_SIZE << order) - sizeof(*s));
    if (order < CACHE_ORDERS && a->arena_cached[order] < CACHE_MAX) {
        s->spare_next = a->arena_cache[order];
        a->arena_cache[order] = s;
        a->arena_cached[order]++;
        return;
    }
    block_release(a, s, order);
}

size_t buffers_used(const struct buffers *b)
{
    return b->buffers_taken;
}

size_t buffers_peak(const struct buffers *b)
{
    return b->buffers_most;
}

size_t buffers_total(const struct buffers *b)
{
    return b->buffers_arena->arena_size;
}

/* The smallest order whose block holds `size` octets behind its header; ORDERS when there is none. */
static unsigned order_for(size_t size)
{
    size_t units;

    if (size > ((size_t)BUF_MIN_SIZE << (ORDERS - 1)) - sizeof(struct buf))
        return ORDERS;
    units = (size + sizeof(struct buf) - 1) / BUF_MIN_SIZE;
    return units == 0 ? 0 : 64u - (unsigned)__builtin_clzll(units);
}

/* Takes a free block of the order, splitting a larger one if need be. */
static struct spare *block_take(struct buffers_arena *a, unsigned order)
{
    unsigned o = order;
    struct spare *s;

    while (o < ORDERS && a->arena_free[o].spare_next == &a->arena_free[o])
        o++;
    if (o >= ORDERS)
        return NULL;
    s = a->arena_free[o].spare_next;
    spare_unlink(a, s);
    while (o > order) {
        o--;
        spare_link(a, (struct spare *)((unsigned char *)s + ((size_t)BUF_MIN_SIZE << o)), o);
    }
    return s;
}

/* Puts a block on its free list, merged with its buddy as long as that is free too. */
static void block_release(struct buffers_arena *a, struct spare *s, unsigned order)
{
    size_t unit = unit_of(a, s);

    while (order + 1 < ORDERS) {
        size_t buddy = unit ^ ((size_t)1 << order);

        if (buddy >= a->arena_units || a->arena_state[buddy] != (STATE_FREE | order))
            break;
        spare_unlink(a, (struct spare *)(a->arena_memory + buddy * BUF_MIN_SIZE));
        unit &= ~((size_t)1 << order);
        order++;
    }
    spare_link(a, (struct spare *)(a->arena_memory + unit * BUF_MIN_SIZE), order);
}

/* Merges what the caches hold back; false when they held nothing. */
static bool cache_flush(struct buffers *b)
{
    struct buffers_arena *a = b->buffers_arena;
    bool any = b->buffers_cached != NULL;
    unsigned o;

    while (b->buffers_cached != NULL) {
        struct buf *buf = b->buffers_cached;

        b->buffers_cached = buf->buf_next;
        buf->magic = 0;
        block_release(a, (struct spare *)buf, 0);
    }
    b->buffers_cached_n = 0;
    for (o = 0; o < CACHE_ORDERS; o++) {
        while (a->arena_cache[o] != NULL) {
            struct spare *s = a->arena_cache[o];

            a->arena_cache[o] = s->spare_next;
            block_release(a, s, o);
            any = true;
        }
        a->arena_cached[o] = 0;
    }
    return any;
}

static void spare_link(struct buffers_arena *a, struct spare *s, unsigned order)
{
    struct spare *list = &a->arena_free[order];

    ASAN_UNPOISON_MEMORY_REGION(s, sizeof(*s));
    a->arena_state[unit_of(a, s)] = (uint8_t)(STATE_FREE | order);
    s->spare_prev = list;
    s->spare_next = list->spare_next;
    list->spare_next->spare_prev = s;
    list->spare_next = s;
}

static void spare_unlink(struct buffers_arena *a, struct spare *s)
{
    s->spare_prev->spare_next = s->spare_next;
    s->spare_next->spare_prev = s->spare_prev;
    a->arena_state[unit_of(a, s)] = 0;
}

static size_t unit_of(const struct buffers_arena *a, const void *p)
{
    return (size_t)((const unsigned char *)p - a->arena_memory) / BUF_MIN_SIZE;
}
