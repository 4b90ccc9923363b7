/*
 * The header of the PROXY protocol (haproxy.org, proxy-protocol.txt, versions 1 and 2), which a proxy sends before the
 * first request to say whose connection it passes on.  Read strictly: whoever may send one may say anything, and a
 * header that two readers understand differently is no header.
 */
#ifndef VANILLA_WORKER_HTTP_PROXY_H
#define VANILLA_WORKER_HTTP_PROXY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

enum proxy_result { PROXY_MORE, PROXY_DONE, PROXY_BAD };

struct proxy_header {
    uint32_t proxy_len;            /* octets of the header */
    bool proxy_has_address;        /* else (LOCAL, UNKNOWN, unix): the connection's own stands */
    struct in6_addr proxy_address; /* IPv4 mapped */
};

#define PROXY_V1_MAX 107u  /* with its CRLF */
#define PROXY_V2_MAX 2048u /* address and extensions; no proxy sends as much */

/* Reads the header at the beginning of n octets.  PROXY_MORE: all that is there may begin one.  What is refused does
 * not depend on how the octets were cut. */
enum proxy_result proxy_parse(const char *octets, size_t n, struct proxy_header *header) MUSTCHECK;

#endif
