/*
 * Answers of a route that are kept (`cache_ms`), for whoever asks the same within that time, in any worker: what a
 * handler does with shm/cache.h.  Kept are the route's success and the 404 of `there is no such row`, when parameters
 * and body fit in a cell; nothing else ever is.  An answer's age counts from when the request that brought it came, so
 * that nobody sees rows that are older than cache_ms.
 *
 * What is equal: all parameter values, octet by octet, as the client wrote them, with where they came from.  The fields
 * of an answer are made anew each time, so that none of them is somebody else's (Date, Connection, those of cors).
 */
#ifndef VANILLA_WORKER_HANDLER_KEPT_H
#define VANILLA_WORKER_HANDLER_KEPT_H

#include <stdbool.h>

#include "shm/assert.h"

struct cache;
struct conf_route;
struct kept;
struct request;

/* Of the route with that number, in worker `slot`.  NULL: out of memory. */
struct kept *kept_new(struct cache *cache, unsigned slot, const struct conf_route *route, unsigned number) MUSTCHECK;
void kept_free(struct kept **kp);

/* The parameters of r are found.  True: its status and its body are those of an answer that was kept; where the status
 * is 404 there is no body, it is always the same. */
bool kept_answer(struct kept *k, struct request *r) MUSTCHECK;

/* The answer of r, whose query went well, is complete but for its head: it is kept if it may be. */
void kept_store(struct kept *k, const struct request *r);

#endif
