/* Octets in, whole backend messages out. */
#include "worker/pg/reader.h"

#define MESSAGE_MAX 0x40000000u

static void reader_drop(struct reader *r, struct codec_message *m);
static bool reader_is_type(unsigned char c);

void reader_init(struct reader *r, struct reader_space *space, struct buffers *b, size_t max)
{
    memset(r, 0, sizeof *r);
    r->reader_space = space;
    r->reader_buffers = b;
    r->reader_max = max > space->space_size ? max : space->space_size;
}

void reader_reset(struct reader *r)
{
    if (r->reader_parked != NULL)
        buf_put(r->reader_buffers, &r->reader_parked);
    r->reader_pos = r->reader_end = NULL;
    r->reader_skip = r->reader_large = 0;
    r->reader_few_n = 0;
}

unsigned char *reader_begin(struct reader *r, size_t *room)
{
    unsigned char *space = r->reader_space->space_data;
    struct buf *b = r->reader_parked;
    size_t have;

    if (r->reader_large > 0) {
        if (b->buf_end < r->reader_large) { /* too large for the shared space: it grows where it is */
            r->reader_pos = b->buf_data;
            r->reader_end = b->buf_data + b->buf_end;
            /* No more than completes it, so that nothing of the next one is read into this block. */
            *room = r->reader_large - b->buf_end;
            return r->reader_end;
        }
        r->reader_large = 0; /* it has been handed out */
        r->reader_pos = r->reader_end = NULL;
        buf_put(r->reader_buffers, &r->reader_parked);
        b = NULL;
    }
    if (b != NULL) {
        have = b->buf_end;
        memcpy(space, b->buf_data, have);
        buf_put(r->reader_buffers, &r->reader_parked);
    } else if (r->reader_few_n > 0) {
        have = r->reader_few_n;
        memcpy(space, r->reader_few, have);
        r->reader_few_n = 0;
    } else {
        have = (size_t)(r->reader_end - r->reader_pos); /* left from the read before, in the same turn */
        if (have > 0 && r->reader_pos != space)
            memmove(space, r->reader_pos, have);
    }
    r->reader_pos = space;
    r->reader_end = space + have;
    *room = r->reader_space->space_size - have;
    return r->reader_end;
}

void reader_add(struct reader *r, size_t n)
{
    r->reader_end += n;
    if (r->reader_large > 0)
        r->reader_parked->buf_end += (uint32_t)n;
    if (__builtin_expect(r->reader_skip > 0, 0)) {
        /* While skipping, nothing is kept: all that is there is the new octets. */
        size_t drop = n < r->reader_skip ? n : r->reader_skip;

        r->reader_pos += drop;
        r->reader_skip -= drop;
    }
}

enum reader_rc reader_next_slow(struct reader *r, struct codec_message *m)
{
    unsigned char *p = r->reader_pos;
    size_t have = (size_t)(r->reader_end - p), total;
    uint32_t len = codec_be32(p + 1);
    struct buf *b;

    /* PostgreSQL's own limit is 1 GiB (MaxAllocSize); what is longer, or whose type is no letter or digit, is garbage,
     * and would keep us waiting for an end that never comes. */
    if (len < 4 || len > MESSAGE_MAX || !reader_is_type(p[0]))
        return READER_BAD;
    total = 1 + (size_t)len;
    if (r->reader_large > 0) /* still growing in its block */
        return READER_MORE;
    if (total > r->reader_max) {
        reader_drop(r, m);
        return READER_MESSAGE;
    }
    if (total <= r->reader_space->space_size)
        return READER_MORE;
    b = buf_get(r->reader_buffers, total);
    if (b == NULL) {
        reader_drop(r, m);
        return READER_MESSAGE;
    }
    memcpy(b->buf_data, p, have);
    b->buf_end = (uint32_t)have;
    r->reader_parked = b;
    r->reader_large = total;
    r->reader_pos = b->buf_data;
    r->reader_end = b->buf_data + have;
    return READER_MORE;
}

bool reader_hold(struct reader *r, const struct codec_message *m)
{
    size_t total = 5 + m->message_len;
    struct buf *b;

    if (m->message_body == NULL || r->reader_pos < r->reader_end || r->reader_large > 0 ||
        total == r->reader_space->space_size)
        return false;
    b = buf_get(r->reader_buffers, total);
    if (b == NULL)
        return false;
    memcpy(b->buf_data, r->reader_pos - total, total);
    b->buf_end = (uint32_t)total;
    r->reader_parked = b;
    return true;
}

bool reader_park(struct reader *r, struct codec_message *m)
{
    size_t have = (size_t)(r->reader_end - r->reader_pos);
    bool dropped = false;

    if (r->reader_large > 0) { /* it stays in its block until it is complete and handed out */
        if (have == 0) {
            r->reader_large = 0;
            buf_put(r->reader_buffers, &r->reader_parked);
        }
    } else if (have > 0 && have <= sizeof r->reader_few) {
        memcpy(r->reader_few, r->reader_pos, have);
        r->reader_few_n = (unsigned)have;
    } else if (have > 0) {
        struct buf *b = buf_get(r->reader_buffers, have);

        if (b != NULL) {
            memcpy(b->buf_data, r->reader_pos, have);
            b->buf_end = (uint32_t)have;
            r->reader_parked = b;
        } else {
            reader_drop(r, m);
            dropped = true;
        }
    }
    r->reader_pos = r->reader_end = NULL;
    return dropped;
}

/* The message at reader_pos, all of it that is there being the last that was read, is not taken. */
static void reader_drop(struct reader *r, struct codec_message *m)
{
    size_t have = (size_t)(r->reader_end - r->reader_pos), total = 1 + (size_t)codec_be32(r->reader_pos + 1);

    m->message_type = r->reader_pos[0];
    m->message_body = NULL;
    m->message_len = total - 5;
    r->reader_skip = total - have;
    r->reader_pos = r->reader_end;
}

static bool reader_is_type(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}
