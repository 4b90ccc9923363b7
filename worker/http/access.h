/*
 * The access log: a line for each answer, put together in memory of its own and written once per turn.  Nothing is ever
 * waited for: while the log's reader is too slow, lines are dropped and counted (log.dropped).
 */
#ifndef VANILLA_WORKER_HTTP_ACCESS_H
#define VANILLA_WORKER_HTTP_ACCESS_H

#include <stdint.h>

#include "worker/http/server.h"

struct access;

#define ACCESS_LINE_MAX 4096u /* what a pipe takes in one piece */
#define ACCESS_ABANDONED 499u /* the status in the line of a request that nobody waits for any more; never sent */

/* Start-up.  NULL with errno; freed by access_free, which nulls the pointer. */
struct access *access_new(bool json) MUSTCHECK;
void access_free(struct access **ap);

/* The answer of a request is made: its status, and the octets of its body. */
void access_note(struct access *a, struct request *r, uint64_t body);
/* The request will not be answered: its client has left, as a rule. */
void access_note_abandoned(struct access *a, struct request *r);
/* An answer without a request, or whose request was not read. */
void access_note_emergency(struct access *a, const struct conn *c, unsigned status, uint64_t body);
/* The turn is over. */
void access_flush(struct access *a);

/* The value of traceparent when it is valid (W3C Trace Context 1, 3.2), its first 55 octets; slice_p NULL: not. */
struct slice access_traceparent(struct slice value);

#endif
