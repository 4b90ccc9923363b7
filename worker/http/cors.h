/* Cross-origin resource sharing (fetch.spec.whatwg.org, "CORS protocol"): what tells a browser that a page of another
 * origin may read an answer.  Nobody is refused for an origin: without the fields the browser keeps the answer. */
#ifndef VANILLA_WORKER_HTTP_CORS_H
#define VANILLA_WORKER_HTTP_CORS_H

#include "worker/http/server.h"

/* Whether the file says anything about it, for any route. */
bool cors_wanted(const struct conf *conf);

/* Answers a preflight: OPTIONS with Origin and Access-Control-Request-Method, for a path with a route that shares.
 * False: the request is none of that. */
bool cors_preflight(struct request *r);

/* Adds to the answer of a request the fields that its route's, or the file's, cors has for its origin. */
void cors_dress(struct request *r);

#define CORS_LINES_MAX 512u
/* The same as field lines, where there is no buffer for them; returns their length.  A page whose origin is too long
 * for it does not get to see the answer. */
size_t cors_lines(const struct request *r, char text[CORS_LINES_MAX]);

#endif
