/*
 * The handler contract: everything that answers a request goes through it, the handlers in this folder and those that
 * somebody else writes.
 *
 * A handler is a table of functions.  At a worker's start handler_new makes its state for one route; it may allocate,
 * read files, prepare statements.  From then on handler_request is called for each request, on the worker's only
 * thread: it reads the request's slices (request_http, request_arg, ...), appends the response's body (request_out),
 * and returns
 *
 *   HANDLER_DONE     the response is complete;
 *   HANDLER_SUSPEND  it will be completed later, by request_finish(), for instance when a query is done;
 *   HANDLER_CLOSE    complete, and the connection is to be closed behind it.
 *
 * It must not block and must not allocate.  Slices of the request stay valid until the request is finished or
 * abandoned. When a client leaves while its request is suspended, handler_abandon is called once; from then on nothing
 * of the request may be read, and what is appended is dropped.  It returns true when nothing will come back any more
 * (the request is gone after that), false when request_finish() will still be called (a query's answer is on its way).
 * It must not finish or submit others on the spot: they may be the next to be abandoned, with the same connection
 * (request_bequeath).
 */
#ifndef VANILLA_WORKER_HANDLER_HANDLER_H
#define VANILLA_WORKER_HANDLER_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "shm/assert.h"
#include "worker/http/request.h"
#include "worker/mem/out.h"
#include "worker/pg/pool.h"

#define HANDLER_ABI 2u

struct cache;
struct request;

enum handler_result { HANDLER_DONE, HANDLER_SUSPEND, HANDLER_CLOSE };

/* What a handler may use when its state is made; lives as long as the worker. */
struct handler_setup {
    const struct conf *setup_conf;
    const struct conf_route *setup_route;
    unsigned setup_route_index;
    struct pg_pool *const *setup_pools; /* conf_pools_n of them; statements are added here, before the pools start */
    struct cache *setup_cache;          /* shm/cache.h; NULL: no route keeps answers */
    unsigned setup_slot;                /* the worker's */
};

struct handler {
    unsigned handler_abi; /* HANDLER_ABI */
    const char *handler_name;
    /* Per worker and route.  Returns 0 with *state (may be NULL), or -1 with a sentence in why: the worker does not
     * start. */
    int (*handler_new)(const struct handler_setup *setup, void **state, char why[256]);
    void (*handler_free)(void *state); /* may be NULL */
    enum handler_result (*handler_request)(struct request *r, void *state);
    bool (*handler_abandon)(struct request *r, void *state); /* may be NULL: nothing is ever suspended */
    /* May be NULL: request_bequeath is never called.  It is the request's turn to go on: to submit its query, or to be
     * finished. */
    void (*handler_inherit)(struct request *r, void *state);
    /* May be NULL.  When the answer to a plain GET never depends on the request: its body, as long-lived as the state.
     * The server may then send it without asking handler_request. */
    struct slice (*handler_fixed)(void *state);
};

/* --- what the request says; slices as described in http/request.h --- */

const struct http_request *request_http(const struct request *r);
/* The path's i-th `{...}`, still percent-encoded; valid inside handler_request only. */
struct slice request_arg(const struct request *r, unsigned i);
/* All of them, by number. */
const struct slice *request_args(const struct request *r);
/* The client's address as text. */
struct slice request_peer(struct request *r);
/* Nanoseconds, CLOCK_MONOTONIC: when the request's head was complete. */
uint64_t request_started(const struct request *r);

/* --- the response --- */

/* The body, appended to.  Beyond limits.response_bytes or the buffer budget its error is sticky and the answer becomes
 * a 500 or a shed. */
struct out *request_out(struct request *r);
/* Status of the answer; the route's own unless set. */
void request_status(struct request *r, unsigned status);
/* Content-Type; the route's own unless set.  Static or as long-lived as the route. */
void request_content_type(struct request *r, struct slice type);
/* One more field of the answer.  Name and value are copied; they must be valid (no CR, LF, NUL). */
void request_field(struct request *r, struct slice name, struct slice value);
/* A request for what the client has already, by If-None-Match and the ETag of a fixed answer: true, the answer is 304.
 */
bool request_unchanged(struct request *r);
/* Drops the body appended so far. */
void request_clear(struct request *r);

/* What a problem document says beside its status (RFC 9457).  Unused members are absent: slice_p NULL. */
struct problem {
    struct slice problem_title; /* absent: the status's reason phrase */
    struct slice problem_detail;
    struct slice problem_parameter; /* the name in the file of the parameter that is wrong */
    struct slice problem_sqlstate;
    bool problem_retry_after; /* send Retry-After: shed.retry_after */
    bool problem_coded;       /* it is about a content coding: send Accept-Encoding */
};
/* Makes the answer application/problem+json with this status. */
void request_problem(struct request *r, unsigned status, const struct problem *p);

enum request_shed_cause { SHED_POOL_FULL, SHED_QUEUE_TIMEOUT, SHED_POOL_DOWN, SHED_BUFFERS, SHED_CONNECTIONS };
/* Makes the answer a shed: the status that the operator chose, Retry-After; counted by its first cause when it is put
 * on the connection. */
void request_shed(struct request *r, enum request_shed_cause cause);

/* Completes a suspended request.  Never from inside handler_request. */
void request_finish(struct request *r, enum handler_result result);
/* Inside handler_abandon: another suspended request, whose query is not submitted, is to go on in place of the one that
 * leaves.  handler_inherit is called with it when all who leave now have left, unless it is one of them. */
void request_bequeath(struct request *heir);
/* Inside handler_abandon, when it is one of them. */
void request_disinherit(struct request *heir);
/* Whether the client has left: the answer will be dropped. */
bool request_abandoned(const struct request *r);
/* Looks whether its client has reset the connection, which can go unnoticed until something is sent (conn_read); then
 * it is abandoned. */
void request_look(struct request *r);

/* --- queries --- */

/* Each request has one query of its own; the handler fills in statement and ops and submits it. */
struct pg_query *request_query(struct request *r);
struct request *request_of_query(struct pg_query *q);
/* Submits it.  HANDLER_SUSPEND: query_done will be called; HANDLER_DONE: refused, and the answer says so already (shed,
 * broken). */
enum handler_result request_submit(struct request *r);
/* The answer for a query that did not end well (anything but PG_DONE): shed, 502, 500, or by SQLSTATE. */
void request_outcome(struct request *r, enum pg_outcome outcome, const struct pg_error *error);

/* The handlers of this folder. */
extern const struct handler handler_sql, handler_text;

#endif
