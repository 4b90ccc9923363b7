/*
 * The route table, compiled at start: one tree of segments; literal segments win over parameters (with backtracking).
 * Matching allocates nothing.
 */
#ifndef VANILLA_WORKER_ROUTE_ROUTER_H
#define VANILLA_WORKER_ROUTE_ROUTER_H

#include "conf/conf.h"
#include "shm/assert.h"
#include "worker/http/request.h"

#define ROUTER_SEGMENTS_MAX 64 /* conf_read refuses deeper paths; deeper requests are 404 */

struct router;

struct route_match {
    int match_route; /* index into conf_routes, or -1: not found, or method not allowed */
    unsigned
        match_allow; /* bit per enum conf_method: what the path allows (HEAD and OPTIONS come with GET; OPTIONS
                        with all); 0: no such path.  Complete when match_route is -1; else what was met on the way */
    struct slice match_args[ROUTER_SEGMENTS_MAX]; /* by `{...}` of the path, still percent-encoded */
    unsigned match_args_n;
    const char *match_bad; /* not NULL: 400, the path has a broken escape, %00 or bad UTF-8: a static sentence */
};

/* Compiles conf's routes (start-up: may allocate).  Owned by the caller until router_free. */
struct router *router_new(const struct conf *conf) MUSTCHECK;
void router_free(struct router **rp);

/* Finds the route of a method (enum conf_method; others only fill match_allow) and a path (rq_path).  A literal segment
 * matches a request segment that is equal after decoding.  HEAD finds the HEAD route, else the GET one.  A trailing
 * slash is significant; empty segments are segments, which literals match but no parameter does.  Where several routes
 * match the path, the first with this method is taken, literals before parameters from the left; match_allow speaks of
 * them all. */
void router_match(const struct router *r, unsigned method, struct slice path, struct route_match *m);

#endif
