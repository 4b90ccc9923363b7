/*
 * Equal requests under way at the same moment that share one query (`share = true`): the first one leads, those that
 * come before its answer follow and get a copy of it.  One table per worker and route; the requests themselves are
 * chained, so that there may be as many different questions at the same time as there are requests.  Nothing is kept
 * once the answer is there.
 *
 * A leader whose client leaves hands its place to the first who follows, whose own query is then sent.
 */
#ifndef VANILLA_WORKER_HANDLER_SHARE_H
#define VANILLA_WORKER_HANDLER_SHARE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "shm/assert.h"

struct request;
struct share;

enum share_role {                 /* of a request: where it is */
                  SHARE_ALONE,    /* nowhere */
                  SHARE_LEADS,    /* the table, and the first of its ring: others may join it */
                  SHARE_FOLLOWS,  /* the leader's ring */
                  SHARE_INHERITS, /* the first of its ring, whose leader has left: its query is still to be submitted */
                  SHARE_CLOSED,   /* the first of its ring, which nobody joins any more: it is being answered */
                  SHARE_ANSWERED  /* the list of those whose copy is complete and who are to be finished */
};

struct share_seat {
    struct request *seat_next, *seat_previous; /* the ring: who leads, then who follows, in the order of arrival */
    LIST_ENTRY(request) seat_link;             /* of the leader: others with the same hash */
};

/* values: how many parameter values tell two requests apart.  NULL: out of memory. */
struct share *share_new(unsigned values) MUSTCHECK;
void share_free(struct share **sp);

/* Before it is submitted: true when it follows another one (suspended; it is answered when the leader is).  Its query
 * must be ready to be submitted. */
bool share_join(struct share *s, struct request *r) MUSTCHECK;
/* It was submitted: from now on others may follow it. */
void share_lead(struct share *s, struct request *r);

/* The leader, or one who inherits, is about to be answered: nobody joins any more. */
void share_close(struct request *leader);
/* One of its followers, which is the caller's; NULL: that was the last. */
struct request *share_next(struct request *leader) MUSTCHECK;
/* Such a one has its copy; it is to be finished when all have theirs, for whatever that does to connections may make
 * others leave. */
void share_answered(struct share *s, struct request *follower);
/* The first of these, to be finished now; NULL: none left. */
struct request *share_take(struct share *s) MUSTCHECK;

/* Its client has left.  True: it has no query under way, and is nowhere any more.  False: it has one of its own.  When
 * others followed it, the first of them inherits: *heir (else NULL) is to be submitted when all who leave now have
 * left, and then leads (share_lead); when that is refused, it is to be closed and answered like a leader. */
bool share_leave(struct share *s, struct request *r, struct request **heir) MUSTCHECK;

#endif
