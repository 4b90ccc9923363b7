/*
 * Equal requests under way at the same moment that share one query (`share = true`): the first one leads, those that
 * come before its answer follow and get a copy of it.  One table per worker and route, of a fixed size: when its place
 * is taken by others, a request asks for itself.  Nothing is kept once the answer is there.
 *
 * A leader whose client leaves hands its place to the first who follows, whose own query is then sent.
 */
#ifndef VANILLA_WORKER_HANDLER_SHARE_H
#define VANILLA_WORKER_HANDLER_SHARE_H

#include <stdbool.h>

#include "shm/assert.h"

struct request;
struct share;

/* values: how many parameter values tell two requests apart.  NULL: out of memory. */
struct share *share_new(unsigned values) MUSTCHECK;
void share_free(struct share **sp);

/* Before it is submitted: true when it follows another one (suspended; sql_done comes when the leader's does).  Its
 * query must be ready to be submitted. */
bool share_join(struct share *s, struct request *r) MUSTCHECK;
/* It was submitted: from now on others may follow it. */
void share_lead(struct share *s, struct request *r);

/* The leader is done: nobody joins any more. */
void share_close(struct request *leader);
/* One of its followers, which is the caller's to answer; NULL: that was the last. */
struct request *share_next(struct request *leader) MUSTCHECK;

/* Its client has left.  True: it followed, and is on no list any more.  False: it has a query of its own; when it led,
 * the first of its followers does so now, and *heir (else NULL) must be submitted by the caller; when that is refused,
 * it is to be answered like a leader. */
bool share_leave(struct request *r, struct request **heir) MUSTCHECK;

#endif
