/*
 * The receiving side of one connection: octets in, whole backend messages out.  All connections of a pool read into one
 * shared space; only what is left of an unfinished message when the socket is empty is kept by the connection, in a
 * block that is given back when the message is complete.  So an idle connection holds nothing, and a burst is read with
 * few system calls.
 *
 * A message larger than reader_max, or one that no block can be had for, is handed out once without its body and its
 * octets are skipped: the connection stays in step.
 *
 *     p = reader_begin(r, &room);  n = recv(p, room);  reader_add(r, n);
 *     while ((rc = reader_next(r, &m)) == READER_MESSAGE) ...      (again until the socket is empty)
 *     if (reader_park(r, &m)) ...a message without a body
 */
#ifndef VANILLA_WORKER_PG_READER_H
#define VANILLA_WORKER_PG_READER_H

#include "worker/mem/buffers.h"
#include "worker/pg/codec.h"

struct reader_space { /* shared by a pool's connections, used by one at a time, empty between two reads */
    unsigned char *space_data;
    size_t space_size;
};

struct reader {
    unsigned char *reader_pos, *reader_end; /* what is read and not handed out, while reading; else NULL */
    struct reader_space *reader_space;
    struct buffers *reader_buffers;
    struct buf *reader_parked; /* the beginning of an unfinished message between reads; or all of a large one */
    size_t reader_large;       /* reader_parked is the block of a message of so many octets; 0: it is not */
    size_t reader_skip;        /* octets of an unwanted message still to come */
    size_t reader_max;         /* largest message taken, type and length word included; what fits the space always is */
    unsigned reader_few_n;     /* an unfinished header needs no block */
    unsigned char reader_few[8];
};

enum reader_rc {
    READER_MESSAGE,
    READER_MORE, /* the next message is not complete */
    READER_BAD   /* not a PostgreSQL message: the connection cannot be used any more */
};

void reader_init(struct reader *r, struct reader_space *space, struct buffers *b, size_t max);
/* Forgets everything, gives the block back. */
void reader_reset(struct reader *r);

/* Where to put what comes next, and how much at the most (never 0). */
unsigned char *reader_begin(struct reader *r, size_t *room) MUSTCHECK;
/* n <= room octets have been put there. */
void reader_add(struct reader *r, size_t n);
enum reader_rc reader_next_slow(struct reader *r, struct codec_message *m) MUSTCHECK;
/* The message that reader_next has just handed out is handed out again when something comes behind it.  False: there is
 * something already, or it fills a block of its own, or there is no block for it. */
bool reader_hold(struct reader *r, const struct codec_message *m) MUSTCHECK;
/* The socket is empty: moves what is unfinished out of the shared space.  True: no block for it; *m is the message, its
 * body NULL. */
bool reader_park(struct reader *r, struct codec_message *m) MUSTCHECK;

/* The next message; its body is valid until the next reader_begin or reader_park. */
static inline MUSTCHECK enum reader_rc reader_next(struct reader *r, struct codec_message *m)
{
    unsigned char *p = r->reader_pos;
    size_t have = (size_t)(r->reader_end - p), len;

    if (have < 5)
        return READER_MORE;
    len = (size_t)codec_be32(p + 1) - 4; /* less than 4 wraps and is hostile: the slow half refuses it */
    if (__builtin_expect(len > have - 5, 0))
        return reader_next_slow(r, m);
    m->message_type = p[0];
    m->message_body = p + 5;
    m->message_len = len;
    r->reader_pos = p + 5 + len;
    return READER_MESSAGE;
}

#endif
