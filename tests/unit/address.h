/* Client addresses for tests. */
#ifndef VANILLA_TESTS_ADDRESS_H
#define VANILLA_TESTS_ADDRESS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "shm/assert.h"

/* As the server has them: IPv4 mapped. */
static inline struct in6_addr address(const char *text)
{
    struct in6_addr a = IN6ADDR_ANY_INIT;
    char mapped[64];

    snprintf(mapped, sizeof mapped, "%s%s", strchr(text, ':') == NULL ? "::ffff:" : "", text);
    AN(inet_pton(AF_INET6, mapped, &a) == 1);
    return a;
}

#endif
