/*
 * The response cache: cells in memory that the master maps before it forks.  Each worker has a region of its own and is
 * the only one that writes there; all may read all of them.
 *
 *   worker 0's region, page aligned
 *       index                     struct cache_index [cells]: a sequence and the hash of what the cell holds
 *       cells                     struct cache_cell [cells], CACHE_CELL octets each
 *   worker 1's region ...
 *
 * A sequence lock per cell, without a lock and without an atomic read-modify-write: the writer makes the sequence odd,
 * writes word by word, makes it even again.  A reader copies the words out between two looks at the sequence; when they
 * differ, or the number is odd, it has found nothing.  What is in a cell is believed only after its whole key was
 * compared: the hash only says where to look.  A worker that was killed in the middle of a write leaves an odd
 * sequence, which its successor puts right (cache_attach).
 *
 * The mapping belongs to one generation of the configuration, since routes are known by their number.
 */
#ifndef VANILLA_SHM_CACHE_H
#define VANILLA_SHM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

#define CACHE_CELL 4096u
#define CACHE_HEAD_WORDS 3u /* route and status, lengths, time */
#define CACHE_WORDS ((size_t)CACHE_CELL / 8 - CACHE_HEAD_WORDS)
#define CACHE_ROOM (CACHE_WORDS * 8) /* octets of a key and its answer, each rounded up to whole words */

struct cache;

/* What tells one question from all others: its route and any octets, of which a hash is made.  Two questions are the
 * same when all of it is. */
struct cache_key {
    uint32_t key_route;
    uint32_t key_len;
    const void *key_octets;
};

struct cache_answer {
    unsigned answer_status; /* 1..65535 */
    uint32_t answer_len;
    const void *answer_body; /* of cache_find: in the caller's copy */
    uint64_t answer_ns;      /* CLOCK_MONOTONIC: no part of it is older */
};

/* A reader's copy of a cell. */
struct cache_copy {
    uint64_t copy_words[CACHE_WORDS];
};

/* A region of `bytes` for each of `workers`, in memory that a fork shares; the kernel backs what is touched.  NULL with
 * errno.  cache_free nulls the pointer. */
struct cache *cache_new(unsigned workers, size_t bytes) MUSTCHECK;
void cache_free(struct cache **cp);

/* Octets of each worker's region; cells in it. */
size_t cache_bytes(const struct cache *c);
unsigned cache_cells(const struct cache *c);

/* Worker `slot` begins: what its predecessor was writing when it was killed is emptied, the rest stays. */
void cache_attach(struct cache *c, unsigned slot);

/* Whether a key and an answer of these lengths find room in a cell. */
bool cache_fits(size_t key_len, size_t answer_len);

/* Looks for the answer to `key` that is not older than `since_ns`: first in worker `slot`'s region, then in the
 * others'.  False: nobody has it. */
bool cache_find(const struct cache *c, unsigned slot, const struct cache_key *key, uint64_t since_ns,
                struct cache_copy *copy, struct cache_answer *answer) MUSTCHECK;

/* Worker `slot`, the only writer of its region, keeps an answer that fits (cache_fits): in the place of an earlier one
 * of the same key, else of the oldest of those that could be there. */
void cache_store(struct cache *c, unsigned slot, const struct cache_key *key, const struct cache_answer *answer);

#endif
