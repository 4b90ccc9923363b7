#include "worker/mem/out.h"

#include "worker/mem/digits.h"

#define BLOCK_MAX (65536u - (unsigned)sizeof(struct buf)) /* long answers come in blocks of 64 KiB */
#define COPY_MAX 1024u                                    /* what out_append copies rather than relinks */

static struct buf *block_add(struct out *o, size_t n);
static bool over_limit(struct out *o, size_t n);
static void chain_cut(struct out *o, struct buf *tail, uint32_t end, size_t bytes);

void out_init(struct out *o, struct buffers *b, size_t limit)
{
    memset(o, 0, sizeof(*o));
    o->out_buffers = b;
    o->out_limit = limit;
}

void out_reset(struct out *o)
{
    while (o->out_head != NULL) {
        struct buf *b = o->out_head;

        o->out_head = b->buf_next;
        buf_put(o->out_buffers, &b);
    }
    o->out_tail = NULL;
    o->out_bytes = 0;
    o->out_error = OUT_OK;
}

unsigned char *out_reserve_slow(struct out *o, size_t n)
{
    struct buf *b = o->out_tail;

    AN(n <= OUT_RESERVE_MAX);
    if (o->out_error != OUT_OK || over_limit(o, n))
        return NULL;
    if (b == NULL || b->buf_size - b->buf_end < n) {
        b = block_add(o, n);
        if (b == NULL)
            return NULL;
    }
    return b->buf_data + b->buf_end;
}

/* All or nothing: half a message would put whoever reads it out of step. */
void out_write_slow(struct out *o, const void *p, size_t n)
{
    struct buf *tail = o->out_tail;
    uint32_t tail_end = tail != NULL ? tail->buf_end : 0;
    size_t bytes = o->out_bytes;
    const unsigned char *from = p;

    if (o->out_error != OUT_OK || n == 0 || over_limit(o, n))
        return;
    while (n > 0) {
        struct buf *b = o->out_tail;
        size_t room = b == NULL ? 0 : b->buf_size - b->buf_end;

        if (room == 0) {
            b = block_add(o, n);
            if (b == NULL) {
                chain_cut(o, tail, tail_end, bytes);
                return;
            }
            room = b->buf_size - b->buf_end;
        }
        if (room > n)
            room = n;
        memcpy(b->buf_data + b->buf_end, from, room);
        out_commit(o, room);
        from += room;
        n -= room;
    }
}

void out_u64(struct out *o, uint64_t v)
{
    char room[DIGITS_MAX];
    struct slice digits = digits_of(room, v);

    out_write(o, digits.slice_p, digits.slice_len);
}

void out_append(struct out *to, struct out *from)
{
    struct buf *tail = to->out_tail;

    AN(to->out_buffers == from->out_buffers);
    if (from->out_bytes == 0) {
        out_reset(from);
        return;
    }
    if (tail != NULL && from->out_bytes <= COPY_MAX && tail->buf_size - tail->buf_end >= from->out_bytes) {
        struct buf *b;

        for (b = from->out_head; b != NULL; b = b->buf_next) {
            memcpy(tail->buf_data + tail->buf_end, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
            tail->buf_end += b->buf_end - b->buf_start;
        }
        to->out_bytes += from->out_bytes;
        out_reset(from);
        return;
    }
    if (tail == NULL)
        to->out_head = from->out_head;
    else
        tail->buf_next = from->out_head;
    to->out_tail = from->out_tail;
    to->out_bytes += from->out_bytes;
    from->out_head = from->out_tail = NULL;
    from->out_bytes = 0;
    from->out_error = OUT_OK;
}

unsigned out_iovec(const struct out *o, struct iovec *iov, unsigned n)
{
    struct buf *b;
    unsigned i = 0;

    for (b = o->out_head; b != NULL && i < n; b = b->buf_next) {
        if (b->buf_end == b->buf_start)
            continue;
        iov[i].iov_base = b->buf_data + b->buf_start;
        iov[i].iov_len = b->buf_end - b->buf_start;
        i++;
    }
    return i;
}

void out_consume(struct out *o, size_t n)
{
    AN(n <= o->out_bytes);
    o->out_bytes -= n;
    while (o->out_head != NULL) {
        struct buf *b = o->out_head;
        size_t have = b->buf_end - b->buf_start;

        if (n < have) {
            b->buf_start += (uint32_t)n;
            return;
        }
        n -= have;
        o->out_head = b->buf_next;
        if (o->out_head == NULL)
            o->out_tail = NULL;
        buf_put(o->out_buffers, &b);
    }
}

struct out_mark out_hole(struct out *o, size_t n)
{
    struct out_mark m = {NULL, 0, o->out_bytes};
    unsigned char *p = out_reserve(o, n);

    if (p == NULL)
        return m;
    m.mark_buf = o->out_tail;
    m.mark_at = o->out_tail->buf_end;
    memset(p, 0, n);
    out_commit(o, n);
    return m;
}

void out_patch_be32(struct out_mark m, uint32_t v)
{
    unsigned char *p;

    if (m.mark_buf == NULL)
        return;
    p = m.mark_buf->buf_data + m.mark_at;
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

void out_rewind(struct out *o, struct out_mark m)
{
    if (m.mark_buf == NULL)
        return; /* the hole was never made, so nothing came after it either */
    chain_cut(o, m.mark_buf, m.mark_at, m.mark_bytes);
    o->out_error = OUT_OK;
}

/* Takes the chain back to when `tail` (NULL: nothing) was its last block and ended at `end`. */
static void chain_cut(struct out *o, struct buf *tail, uint32_t end, size_t bytes)
{
    struct buf *b = tail != NULL ? tail->buf_next : o->out_head;

    while (b != NULL) {
        struct buf *next = b->buf_next;

        buf_put(o->out_buffers, &b);
        b = next;
    }
    if (tail != NULL) {
        tail->buf_next = NULL;
        tail->buf_end = end;
    } else {
        o->out_head = NULL;
    }
    o->out_tail = tail;
    o->out_bytes = bytes;
}

/* A new last block, larger when much is waiting already. */
static struct buf *block_add(struct out *o, size_t n)
{
    size_t size = o->out_bytes;
    struct buf *b;

    if (size < n)
        size = n;
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (__builtin_expect(buffers_scarce(o->out_buffers), 0) && o->out_bytes > BUFFERS_LARGE) {
        o->out_error = OUT_NO_BUFFERS;
        return NULL;
    }
    b = buf_get(o->out_buffers, size);
    if (b == NULL && size > BUF_DATA_MIN)
        b = buf_get(o->out_buffers, BUF_DATA_MIN);
    if (b == NULL) {
        o->out_error = OUT_NO_BUFFERS;
        return NULL;
    }
    if (o->out_tail == NULL)
        o->out_head = b;
    else
        o->out_tail->buf_next = b;
    o->out_tail = b;
    return b;
}

static bool over_limit(struct out *o, size_t n)
{
    if (o->out_limit == 0 || o->out_bytes + n <= o->out_limit)
        return false;
    o->out_error = o->out_shared ? OUT_SHARE : OUT_LIMIT;
    return true;
}
