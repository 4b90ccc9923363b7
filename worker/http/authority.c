#include "worker/http/authority.h"

#include <arpa/inet.h>

#include "worker/http/octet.h"

static const char *host_literal_end(const char *at, const char *end);

const char *authority_check(struct slice a, bool port_due)
{
    const char *at = a.slice_p, *end = at + a.slice_len;

    if (at < end && *at == '[') {
        if ((at = host_literal_end(at, end)) == NULL)
            return "the host is not an IPv6 address in brackets";
    } else {
        while (at < end && octet_is(*at, OCTET_REG_NAME))
            at++;
        while (at < end && *at == '%') {
            if (end - at < 3 || !octet_is(at[1], OCTET_HEX) || !octet_is(at[2], OCTET_HEX))
                return "the host has a '%' that is not followed by two hexadecimal digits";
            for (at += 3; at < end && octet_is(*at, OCTET_REG_NAME);)
                at++;
        }
        if (at == a.slice_p)
            return "the host is empty or begins with an octet that no host may hold";
    }
    if (at == end)
        return port_due ? "the target needs a port" : NULL;
    if (*at++ != ':')
        return "the host has an octet that no host may hold";
    if (port_due && at == end)
        return "the target needs a port";
    while (at < end && octet_is(*at, OCTET_DIGIT))
        at++;
    return at == end ? NULL : "the port is not a number";
}

/* IP-literal: "[" ( IPv6address / IPvFuture ) "]" (RFC 3986 3.2.2).  Where it ends, or NULL. */
static const char *host_literal_end(const char *at, const char *end)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const char *close = memchr(at, ']', (size_t)(end - at));

    if (close == NULL)
        return NULL;
    at++;
    if (close - at >= 4 && (*at | 0x20) == 'v' && octet_is(at[1], OCTET_HEX)) {
        while (octet_is(*++at, OCTET_HEX))
            ;
        if (*at++ != '.' || at == close)
            return NULL;
        while (at < close && (octet_is(*at, OCTET_REG_NAME) || *at == ':'))
            at++;
        return at == close ? close + 1 : NULL;
    }
    size_t len = (size_t)(close - at);
    if (len >= sizeof text || memchr(at, 0, len) != NULL)
        return NULL;
    memcpy(text, at, len);
    text[len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 ? close + 1 : NULL;
}
