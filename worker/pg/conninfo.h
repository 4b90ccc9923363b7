/* A pool's connection string, as libpq wants it for one attempt. */
#ifndef VANILLA_WORKER_PG_CONNINFO_H
#define VANILLA_WORKER_PG_CONNINFO_H

#include <libpq-fe.h>

#include "conf/conf.h"
#include "shm/assert.h"

/* What the string, the environment, the service file and the defaults come to, as libpq sees it: to be freed with
 * PQconninfoFree; NULL with a reason in `why` when the string is not one.  Nothing is connected. */
PQconninfoOption *conninfo_read(const char *conninfo, char *why, size_t why_len) MUSTCHECK;
/* One of them: NULL when it is not set or empty. */
const char *conninfo_get(const PQconninfoOption *options, const char *name);
/* One that is a number of seconds; `otherwise` when it is not, or none of 1..INT_MAX. */
unsigned conninfo_seconds(const PQconninfoOption *options, const char *name, unsigned otherwise);

/* Begins to connect without blocking.  host, hostaddr, port: comma lists that replace the string's, or NULL.  Adds the
 * session settings of DESIGN 9 and the pool's own.  NULL: out of memory; failures show in PQstatus. */
PGconn *conninfo_connect(const struct conf_pool *pool, const PQconninfoOption *options, const char *host,
                         const char *hostaddr, const char *port) MUSTCHECK;

/* The same session settings as a statement that makes them for its transaction only, for pools behind a pooler.
 * Returns `to`. */
char *conninfo_local(const struct conf_pool *pool, char *to, size_t size);

#endif
