/*
 * Field blocks seen lately.  A client sends the same fields with each request of a connection, and all clients of one
 * kind send the same; what the parser found in such a block is remembered, and a block that is equal octet by octet,
 * its empty line included, is not parsed again.  One server has one memo: the limits that a block met are part of the
 * result.
 */
#ifndef VANILLA_WORKER_HTTP_MEMO_H
#define VANILLA_WORKER_HTTP_MEMO_H

#include <stdint.h>
#include <string.h>

#include "worker/http/request.h"

#define MEMO_ENTRIES 4u
#define MEMO_BLOCK_MAX 1000u
#define MEMO_HEADS 8u
#define MEMO_HEAD_MAX 512u
#define MEMO_HEAD_PATIENCE 64u
#define MEMO_PATIENCE 8u /* one in so many unknown blocks is remembered, so that ever-changing ones cost little */

struct memo_slice {
    uint16_t memo_at, memo_len; /* within the block; memo_at UINT16_MAX: absent */
};

struct memo_entry {
    uint16_t entry_len; /* 0: empty */
    uint16_t entry_fields_n;
    uint16_t entry_seen; /* the parser's private bits */
    bool entry_cookies_more;
    struct memo_slice entry_host, entry_type, entry_cookie;
    char entry_block[MEMO_BLOCK_MAX];
};

/* A whole head, of a GET that came alone: the same resource asked for again. */
struct memo_head {
    uint32_t head_len; /* 0: empty */
    struct http_parser head_parser;
    struct http_request head_request; /* its slices point into head_octets */
    char head_octets[MEMO_HEAD_MAX];
};

struct http_memo { /* zeroed at start */
    uint32_t memo_misses, memo_head_misses, memo_last;
    struct memo_entry memo_entries[MEMO_ENTRIES];
    struct memo_head memo_heads[MEMO_HEADS]; /* by their length */
};

static inline struct slice memo_slice_out(struct memo_slice s, const char *block)
{
    if (s.memo_at == UINT16_MAX)
        return (struct slice){NULL, 0};
    return (struct slice){block + s.memo_at, s.memo_len};
}

static inline struct memo_slice memo_slice_in(struct slice s, const char *block)
{
    if (s.slice_p == NULL)
        return (struct memo_slice){UINT16_MAX, 0};
    return (struct memo_slice){(uint16_t)(s.slice_p - block), (uint16_t)s.slice_len};
}

/* The entry that equals the beginning of the len octets at `block`, or NULL. */
static inline const struct memo_entry *memo_find(struct http_memo *memo, const char *block, uint32_t len)
{
    unsigned i;

    for (i = 0; i < MEMO_ENTRIES; i++) { /* from the last one that was it */
        const struct memo_entry *e = &memo->memo_entries[(memo->memo_last + i) % MEMO_ENTRIES];

        if (e->entry_len != 0 && e->entry_len <= len && memcmp(e->entry_block, block, e->entry_len) == 0) {
            memo->memo_last = (memo->memo_last + i) % MEMO_ENTRIES;
            return e;
        }
    }
    return NULL;
}

/* Remembers a block of len octets, its empty line included, and what rq says of it.  The caller has made sure that it
 * frames no body and that nothing but these slices came out of it. */
static inline void memo_learn(struct http_memo *memo, const struct http_request *rq, uint16_t seen, const char *block,
                              uint32_t len)
{
    struct memo_entry *e;

    if (len > MEMO_BLOCK_MAX || memo->memo_misses++ % MEMO_PATIENCE != 0)
        return;
    e = &memo->memo_entries[memo->memo_misses / MEMO_PATIENCE % MEMO_ENTRIES];
    e->entry_len = (uint16_t)len;
    e->entry_fields_n = rq->rq_fields_n;
    e->entry_seen = seen;
    e->entry_cookies_more = rq->rq_cookies_more;
    e->entry_host = memo_slice_in(rq->rq_host, block);
    e->entry_type = memo_slice_in(rq->rq_content_type, block);
    e->entry_cookie = memo_slice_in(rq->rq_cookie, block);
    memcpy(e->entry_block, block, len);
}

static inline void memo_move(struct slice *s, ptrdiff_t by)
{
    if (s->slice_p != NULL)
        s->slice_p += by;
}

/* Whether all of the len octets at base are a head seen before: then p and rq are what parsing it would make of them.
 */
static inline bool memo_head_find(struct http_memo *memo, struct http_parser *p, struct http_request *rq,
                                  const char *base, uint32_t len)
{
    const struct memo_head *h = &memo->memo_heads[len % MEMO_HEADS];
    ptrdiff_t by = base - h->head_octets;

    if (h->head_len != len || len == 0 || memcmp(h->head_octets, base, len) != 0)
        return false;
    *p = h->head_parser;
    *rq = h->head_request;
    rq->rq_method_name.slice_p += by;
    rq->rq_target.slice_p += by;
    rq->rq_path.slice_p += by;
    rq->rq_fields.slice_p += by;
    rq->rq_host.slice_p += by;
    memo_move(&rq->rq_query, by);
    memo_move(&rq->rq_content_type, by);
    memo_move(&rq->rq_cookie, by);
    return true;
}

/* Remembers a complete head that begins at base and is all of the len octets there. */
static inline void memo_head_learn(struct http_memo *memo, const struct http_parser *p, const struct http_request *rq,
                                   const char *base, uint32_t len)
{
    struct memo_head *h = &memo->memo_heads[len % MEMO_HEADS];

    if (p->parser_head != len || len > MEMO_HEAD_MAX || rq->rq_method != METHOD_GET ||
        rq->rq_method_name.slice_p != base || rq->rq_target.slice_p[0] != '/' ||
        memo->memo_head_misses++ % MEMO_HEAD_PATIENCE != 0)
        return;
    h->head_len = len;
    h->head_parser = *p;
    h->head_request = *rq;
    memcpy(h->head_octets, base, len);
    http_request_rebase(&h->head_request, base, h->head_octets);
}

#endif
