/*
 * Host names to addresses, off the loop: libpq would look them up with getaddrinfo, which blocks.  evdns does it here,
 * on an event base of its own that is turned a little every few milliseconds while a look-up is under way, so that what
 * evdns allocates is counted where it belongs (scope connect).  /etc/resolv.conf and /etc/hosts are read anew each
 * time.
 */
#ifndef VANILLA_WORKER_PG_RESOLVE_H
#define VANILLA_WORKER_PG_RESOLVE_H

#include <event2/event.h>
#include <stdbool.h>

#include "shm/assert.h"

struct resolve;

struct resolve_answer {      /* lives during the callback */
    const char *answer_why;  /* NULL, or why there is nothing to connect to */
    const char *answer_host; /* comma lists of the same length, as libpq wants them, in the order of the names */
    const char *answer_hostaddr;
    const char *answer_port;
};

/* Whether a comma list of hosts has names in it (not only addresses, socket directories and empty parts). */
bool resolve_needed(const char *host) MUSTCHECK;
/* Begins; `done` is called once, from the loop.  ports: a comma list of one or as many as hosts; NULL or "": default.
 * The answer begins with entry number `first` (modulo how many there are).  NULL when memory is out. */
struct resolve *resolve_start(struct event_base *base, const char *host, const char *port, unsigned first,
                              void (*done)(void *arg, const struct resolve_answer *answer), void *arg) MUSTCHECK;
/* Forgets it (before or after `done`), nulls the pointer. */
void resolve_free(struct resolve **rp);

#endif
