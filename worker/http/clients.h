/*
 * What each client address takes of a server: connections open, and requests by a token bucket.  A table of fixed size,
 * reserved at start; IPv6 addresses count by their /64.  Places are found by a keyed hash in small sets; one is given
 * to another address when its own has no connection and the least to remember.  Where a set is full of addresses with
 * connections, one more is not limited.
 */
#ifndef VANILLA_WORKER_HTTP_CLIENTS_H
#define VANILLA_WORKER_HTTP_CLIENTS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "shm/assert.h"

struct clients;

#define CLIENT_POLITE 8u /* connections of one address beyond its limit that are told so; further ones are not */

enum client_verdict {
    CLIENT_WELCOME,
    CLIENT_OVER,    /* one too many: tell it */
    CLIENT_FAR_OVER /* do not even tell it: has no place */
};

/* A table for a server of that many connections.  NULL with errno.  Freed by clients_free, which nulls the pointer. */
struct clients *clients_new(const struct conf_client *limits, unsigned connections) MUSTCHECK;
void clients_free(struct clients **csp);

/* A connection of an address (IPv4 mapped) begins, at a time in milliseconds of any clock that wraps.  *place is for
 * clients_leave; 0: there is nothing to leave. */
enum client_verdict clients_enter(struct clients *cs, const struct in6_addr *address, uint32_t now_ms,
                                  uint32_t *place) MUSTCHECK;
void clients_leave(struct clients *cs, uint32_t place);

/* A request of an address.  0: it may be run; else seconds after
 * which the next one may. */
unsigned clients_request(struct clients *cs, const struct in6_addr *address, uint32_t now_ms) MUSTCHECK;

size_t clients_bytes(const struct clients *cs);

#endif
