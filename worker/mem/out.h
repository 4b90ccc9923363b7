/*
 * An output chain: octets appended at the end, taken from the front; blocks come from the worker's buffers.
 * Answers to clients and messages to PostgreSQL are written into one.  An error is sticky: once a block
 * could not be had or the limit was reached, appending does nothing and out_error says why, so that writers
 * check once at the end.
 */
#ifndef VANILLA_WORKER_MEM_OUT_H
#define VANILLA_WORKER_MEM_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "worker/mem/buffers.h"

enum out_error {
    OUT_OK = 0,
    OUT_NO_BUFFERS, /* the worker's buffer budget is spent */
    OUT_LIMIT,      /* more than out_limit octets */
    OUT_SHARE       /* the same, where out_limit was a share of what it may be at another time (out_shared) */
};

struct out {
    struct buf *out_head, *out_tail; /* owned blocks, first to last; NULL when empty */
    struct buffers *out_buffers;     /* where blocks come from */
    size_t out_bytes;                /* octets waiting in the chain */
    size_t out_limit;                /* 0: none */
    enum out_error out_error;
    bool out_shared; /* see OUT_SHARE; set with out_limit */
};

/* The most that out_reserve can promise in one piece. */
#define OUT_RESERVE_MAX 3072u

void out_init(struct out *o, struct buffers *b, size_t limit);
/* Gives all blocks back, clears the error; limit and buffers stay. */
void out_reset(struct out *o);

/* Slow halves of the inline functions below. */
unsigned char *out_reserve_slow(struct out *o, size_t n) MUSTCHECK;
void out_write_slow(struct out *o, const void *p, size_t n);

/* Room for n (<= OUT_RESERVE_MAX) octets in one piece, or NULL (then out_error is set).  Follow with
 * out_commit(o, used <= n). */
static inline MUSTCHECK unsigned char *out_reserve(struct out *o, size_t n)
{
    struct buf *b = o->out_tail;

    if (__builtin_expect(b != NULL && b->buf_size - b->buf_end >= n && o->out_error == OUT_OK &&
                             (o->out_limit == 0 || o->out_bytes + n <= o->out_limit),
                         1))
        return b->buf_data + b->buf_end;
    return out_reserve_slow(o, n);
}

static inline void out_commit(struct out *o, size_t n)
{
    o->out_tail->buf_end += (uint32_t)n;
    o->out_bytes += n;
}

/* Appends n octets, over as many blocks as it takes; all of them or, with out_error set, none. */
static inline void out_write(struct out *o, const void *p, size_t n)
{
    struct buf *b = o->out_tail;

    if (__builtin_expect(b != NULL && b->buf_size - b->buf_end >= n && o->out_error == OUT_OK &&
                             (o->out_limit == 0 || o->out_bytes + n <= o->out_limit),
                         1)) {
        memcpy(b->buf_data + b->buf_end, p, n);
        b->buf_end += (uint32_t)n;
        o->out_bytes += n;
        return;
    }
    out_write_slow(o, p, n);
}

#define out_literal(o, s) out_write((o), (s), sizeof(s) - 1)

/* Decimal digits of v. */
void out_u64(struct out *o, uint64_t v);

/* Moves all of `from` behind what is in `to` (blocks are relinked, small ones copied); an error of `from`
 * does not travel.  `from` is empty afterwards. */
void out_append(struct out *to, struct out *from);

/* The same when `to` is empty. */
static inline void out_move(struct out *to, struct out *from)
{
    to->out_head = from->out_head;
    to->out_tail = from->out_tail;
    to->out_bytes = from->out_bytes;
    from->out_head = from->out_tail = NULL;
    from->out_bytes = 0;
}

/* Fills up to n iovecs with what waits in front; returns how many were filled. */
unsigned out_iovec(const struct out *o, struct iovec *iov, unsigned n);
/* Drops n octets (<= out_bytes) from the front; emptied blocks go back to the pool. */
void out_consume(struct out *o, size_t n);

/* A place in the chain to patch later (message lengths): valid while nothing is consumed past it. */
struct out_mark {
    struct buf *mark_buf;
    uint32_t mark_at;
    size_t mark_bytes; /* out_bytes when it was set */
};
/* Reserves n (<= 16) octets in one piece, to be patched by out_patch_be32 & co.; mark_buf NULL on error. */
struct out_mark out_hole(struct out *o, size_t n);
void out_patch_be32(struct out_mark m, uint32_t v);
/* Octets appended since the mark was set (the hole itself included). */
static inline size_t out_since(const struct out *o, struct out_mark m)
{
    return o->out_bytes - m.mark_bytes;
}
/* Drops what was appended since the mark, the hole included: a message that cannot be finished. */
void out_rewind(struct out *o, struct out_mark m);

#endif
