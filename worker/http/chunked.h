/* Decodes the chunked transfer coding in place (RFC 9112 7.1). */
#ifndef VANILLA_WORKER_HTTP_CHUNKED_H
#define VANILLA_WORKER_HTTP_CHUNKED_H

#include <stdint.h>

#include "shm/assert.h"

enum http_chunked_result { CHUNKED_MORE, CHUNKED_DONE, CHUNKED_ERROR, CHUNKED_TOO_LARGE };

struct http_chunked {          /* zeroed at the start of a body */
    uint64_t chunked_left;     /* data octets of the current chunk still to come; its size while that is being read */
    uint64_t chunked_total;    /* decoded so far */
    uint32_t chunked_overhead; /* octets of extensions, of leading zeros and of trailers so far, over the whole body,
                                  against max_trailer */
    uint8_t chunked_state;     /* private to chunked.c */
    const char *chunked_why;   /* on error: a static sentence */
};

/* Reads in[0..len), writes decoded octets to out (out == in or any place at or before `in`: in place), adds to
 * *out_len, and sets *consumed to how many octets it took (on DONE what follows is the next request; on MORE all of
 * them).  ERROR: malformed, or more than max_trailer octets of overhead: the connection must be closed (400).
 * TOO_LARGE: over max_body (413, close).  Chunk extensions and trailers are checked and dropped, whatever their names
 * (RFC 9110 6.5.1), so none can change framing or routing.  The result does not depend on how the octets are cut. */
enum http_chunked_result http_chunked(struct http_chunked *c, const char *in, size_t len, size_t *consumed, char *out,
                                      size_t *out_len, uint64_t max_body, uint32_t max_trailer) MUSTCHECK;

#endif
