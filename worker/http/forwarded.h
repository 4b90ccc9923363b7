/*
 * Whose request it is.  A proxy that is trusted says so in X-Forwarded-For or Forwarded (RFC 7239); nobody else is
 * believed.
 *
 * Each proxy adds the address that it saw at the right.  So from the right: addresses of trusted proxies are passed
 * over, and the first other one is the client's; what stands left of that is hearsay.  An address that cannot be read
 * ends the walk, and the proxy that reported it stands for the client.  Most proxies write one of the two fields and
 * pass the other on as the client sent it: where both are there and do not agree, the proxy itself stands for the
 * client.
 */
#ifndef VANILLA_WORKER_HTTP_FORWARDED_H
#define VANILLA_WORKER_HTTP_FORWARDED_H

#include "worker/http/server.h"

/* Whether there are trusted proxies at all; whether this address (IPv4 mapped; all zero: a unix socket) is one. */
static inline bool server_has_trusted(const struct server *s)
{
    return s->server_conf->conf_trusted_n > 0 || s->server_conf->conf_trusted_unix;
}
bool server_trusts(const struct server *s, const struct in6_addr *address);

/* The client's address: the connection's peer, or as told by proxies.  All zero: a unix socket. */
struct in6_addr forwarded_client(const struct server *s, const struct http_request *rq, const struct in6_addr *peer);

/* One member of a list of X-Forwarded-For, or the value of a `for` (unquoted): an address of either version, perhaps in
 * brackets, perhaps with a port.  False: it is not. */
bool forwarded_address(struct slice text, struct in6_addr *address) MUSTCHECK;

#endif
