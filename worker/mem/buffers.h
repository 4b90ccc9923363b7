/*
 * The worker's buffers: one arena of `memory.buffers_mb`, reserved at start, dealt out in blocks of a power
 * of two (a buddy allocator with a free list per size, so that get and put of the common 4 KiB block are a pop and a
 * push).  Every octet that waits anywhere in a worker - unread requests, unsent answers, protocol messages
 * to and from PostgreSQL - lives in one of these blocks.  Nothing here calls malloc after buffers_new().
 */
#ifndef VANILLA_WORKER_MEM_BUFFERS_H
#define VANILLA_WORKER_MEM_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

/* The arena.  What is up here is for the inline functions below. */
struct buffers {
    unsigned magic;
    unsigned buffers_cached_n;          /* smallest blocks kept at hand ... */
    struct buf *buffers_cached;         /* ... through buf_next, their headers ready but for start and end */
    size_t buffers_taken, buffers_most; /* bytes handed out: now, and the most ever */
    size_t buffers_scarce_at;           /* so many handed out: what is left is not for what is large */
    struct buffers_arena *buffers_arena;
};
#define BUFFERS_MAGIC 0x0b0ffe25u
#define BUFFERS_CACHED_MAX 64u

#define BUF_MAGIC 0x0b0ffe12u
#define BUF_MIN_SIZE 4096u    /* smallest block, with its header */
#define BUFFERS_LARGE 131072u /* octets from which on a block, or a chain of them, is large */

/* One block.  Octets [buf_start, buf_end) of buf_data are filled; buf_size is the capacity of buf_data. */
struct buf {
    unsigned magic;
    uint32_t buf_order; /* block size is BUF_MIN_SIZE << buf_order */
    uint32_t buf_start, buf_end, buf_size;
    uint32_t buf_refs;    /* 1 from buf_get; for whoever shares the block: see buf_unref */
    struct buf *buf_next; /* for whoever owns the block: chains, free lists */
    unsigned char buf_data[];
};

#define BUF_DATA_MIN (BUF_MIN_SIZE - (unsigned)sizeof(struct buf)) /* capacity of the smallest block */

/* Reserves `bytes` (rounded down to whole blocks, at least one) of address space; the kernel backs what is touched.
 * Returns NULL with errno.  Freed by buffers_free, which nulls the pointer. */
struct buffers *buffers_new(size_t bytes) MUSTCHECK;
void buffers_free(struct buffers **bp);

struct buf *buf_get_slow(struct buffers *b, size_t size) MUSTCHECK;
void buf_put_slow(struct buffers *b, struct buf *buf);

/* Poisoning takes the long way. */
#if defined(VANILLA_POISON) || defined(__SANITIZE_ADDRESS__)
#define BUFFERS_FAST 0
#else
#define BUFFERS_FAST 1
#endif

/* A block with room for at least `size` octets, start = end = 0, next = NULL; NULL when the budget is spent
 * (the caller sheds, counts and says so; never a malloc).  The caller owns it until buf_put. */
static inline MUSTCHECK struct buf *buf_get(struct buffers *b, size_t size)
{
    struct buf *buf = b->buffers_cached;

    if (BUFFERS_FAST && size <= BUF_DATA_MIN && buf != NULL) {
        b->buffers_cached = buf->buf_next;
        b->buffers_cached_n--;
        b->buffers_taken += BUF_MIN_SIZE;
        if (b->buffers_taken > b->buffers_most)
            b->buffers_most = b->buffers_taken;
        buf->buf_start = buf->buf_end = 0;
        buf->buf_next = NULL;
        return buf;
    }
    return buf_get_slow(b, size);
}

/* Gives a block back and nulls the pointer.  In test builds (VANILLA_POISON) its octets are overwritten. */
static inline void buf_put(struct buffers *b, struct buf **bufp)
{
    struct buf *buf = *bufp;

    CHECK_OBJ(buf, BUF_MAGIC);
    *bufp = NULL;
    if (BUFFERS_FAST && buf->buf_order == 0 && b->buffers_cached_n < BUFFERS_CACHED_MAX) {
        buf->buf_next = b->buffers_cached;
        b->buffers_cached = buf;
        b->buffers_cached_n++;
        b->buffers_taken -= BUF_MIN_SIZE;
        return;
    }
    buf_put_slow(b, buf);
}

/* One reader less of a shared block: the last one puts it back.  Nulls the pointer. */
static inline void buf_unref(struct buffers *b, struct buf **bufp)
{
    struct buf *buf = *bufp;

    AN(buf->buf_refs > 0);
    if (--buf->buf_refs > 0) {
        *bufp = NULL;
        return;
    }
    buf->buf_refs = 1;
    buf_put(b, bufp);
}

/* Whether the last eighth has been begun: it is left to small requests and answers, so that a few large ones do not
 * take the others' (which last for moments) as well.  buf_get gives no large block out of it. */
static inline bool buffers_scarce(const struct buffers *b)
{
    return b->buffers_taken >= b->buffers_scarce_at;
}

/* Bytes handed out now, the most there ever were, and the arena's size; block sizes, with headers. */
size_t buffers_used(const struct buffers *b);
size_t buffers_peak(const struct buffers *b);
size_t buffers_total(const struct buffers *b);

#endif
