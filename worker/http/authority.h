/* Host and port, as in Host and in targets (RFC 3986 3.2; without user name, RFC 9110 4.2.4). */
#ifndef VANILLA_WORKER_HTTP_AUTHORITY_H
#define VANILLA_WORKER_HTTP_AUTHORITY_H

#include <stdbool.h>

#include "shm/assert.h"
#include "worker/mem/slice.h"

/* Checks that a is a host, not empty, and maybe ':' and digits; port_due: with at least one digit, as CONNECT wants it
 * (RFC 9110 9.3.6).  Any text, also without what may stand behind it.  NULL, or a static sentence: what is wrong. */
const char *authority_check(struct slice a, bool port_due) MUSTCHECK;

#endif
