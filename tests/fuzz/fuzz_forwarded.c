/* Field lines of proxies: whatever stands in them, the client is the peer or an address that can be read there; what is
 * put in front of a proxy's own entry never changes who that is. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/http/forwarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct in6_addr client_of(const struct server *s, const char *name, const uint8_t *data, size_t size,
                                 const char *more)
{
    struct in6_addr peer;
    struct http_request rq = {0};
    size_t name_len = strlen(name), len = name_len + 2 + size + strlen(more) + 2;
    char *field = malloc(len);

    AN(field != NULL);
    memcpy(field, name, name_len);
    memcpy(field + name_len, ": ", 2);
    for (size_t i = 0; i < size; i++) /* as the parser lets it through */
        field[name_len + 2 + i] = (char)((data[i] < 0x20 && data[i] != '\t') || data[i] == 0x7f ? '.' : data[i]);
    memcpy(field + name_len + 2 + size, more, strlen(more));
    memcpy(field + len - 2, "\r\n", 2);
    rq.rq_fields = (struct slice){field, len};
    AN(inet_pton(AF_INET6, "::ffff:10.0.0.1", &peer) == 1);
    peer = forwarded_client(s, &rq, &peer);
    free(field);
    return peer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf_net net = {.net_bits = 104};
    struct conf conf = {.conf_trusted = &net, .conf_trusted_n = 1};
    static struct server s;
    struct in6_addr want, got;

    AN(inet_pton(AF_INET6, "::ffff:10.0.0.0", &net.net_address) == 1);
    AN(inet_pton(AF_INET6, "::ffff:203.0.113.7", &want) == 1);
    s.server_conf = &conf;
    got = client_of(&s, "X-Forwarded-For", data, size, ", 203.0.113.7");
    AN(IN6_ARE_ADDR_EQUAL(&got, &want));
    got = client_of(&s, "X-Forwarded-For", data, size, ", 203.0.113.7, 10.2.3.4");
    AN(IN6_ARE_ADDR_EQUAL(&got, &want));
    got = client_of(&s, "Forwarded", data, size, ", for=203.0.113.7");
    if (!IN6_ARE_ADDR_EQUAL(&got, &want)) { /* only when what is in front swallows it: then it is the proxy */
        AN(inet_pton(AF_INET6, "::ffff:10.0.0.1", &want) == 1);
        AN(IN6_ARE_ADDR_EQUAL(&got, &want));
    }
    got = client_of(&s, "Forwarded", data, size, "");
    AN(!IN6_IS_ADDR_UNSPECIFIED(&got));
    return 0;
}
