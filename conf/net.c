#include "conf/net.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define V4_BITS 96u /* of an IPv6 address that stand before the IPv4 address mapped into it */

static bool net_is_bare(const struct conf_net *net);

void nets_read(const struct reader *rd, const config_setting_t *root, struct conf *conf)
{
    const config_setting_t *list = options_member(OPTION_TOP, root, "trusted_proxies");
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    conf->conf_trusted = memory_get(rd->reader_memory, (n != 0 ? n : 1) * sizeof *conf->conf_trusted);
    for (unsigned i = 0; i < n; i++) {
        const config_setting_t *element = config_setting_get_elem(list, i);
        const char *text = config_setting_get_string(element), *why;

        if (strcmp(text, "unix") == 0) {
            conf->conf_trusted_unix = true;
            continue;
        }
        why = net_parse(text, &conf->conf_trusted[conf->conf_trusted_n]);
        if (why == NULL)
            conf->conf_trusted_n++;
        else
            report_setting(rd->reader_report, element, "trusted proxy \"%.64s\": %s", text, why);
    }
}

const char *net_parse(const char *text, struct conf_net *net)
{
    static const char not_address[] = "not a numeric address; allowed: as in 10.0.0.0/8, 192.0.2.7, fd00::/8, unix";
    const char *slash = strchr(text, '/');
    size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);
    unsigned first = 0, bits;
    char host[INET6_ADDRSTRLEN];
    struct in_addr v4;

    if (n >= sizeof host)
        return not_address;
    memset(net, 0, sizeof *net);
    memcpy(host, text, n);
    host[n] = '\0';
    if (inet_pton(AF_INET, host, &v4) == 1) {
        net->net_address.s6_addr[10] = net->net_address.s6_addr[11] = 0xff;
        memcpy(net->net_address.s6_addr + 12, &v4, sizeof v4);
        first = V4_BITS;
    } else if (inet_pton(AF_INET6, host, &net->net_address) != 1) {
        return not_address;
    }
    bits = 128 - first;
    if (slash != NULL) {
        size_t digits = strspn(slash + 1, "0123456789");
        unsigned given = digits >= 1 && digits <= 3 ? (unsigned)strtoul(slash + 1, NULL, 10) : UINT_MAX;

        if (slash[1 + digits] != '\0' || given > bits)
            return "the length behind the / is not one; allowed: 0..32 for IPv4, 0..128 for IPv6";
        bits = given;
    }
    net->net_bits = first + bits;
    return net_is_bare(net) ? NULL : "the address has bits behind the length of its network; allowed: zeros there";
}

bool net_has(const struct conf_net *net, const struct in6_addr *address)
{
    unsigned octets = net->net_bits / 8, rest = net->net_bits % 8;

    return memcmp(net->net_address.s6_addr, address->s6_addr, octets) == 0 &&
           (rest == 0 || (net->net_address.s6_addr[octets] ^ address->s6_addr[octets]) >> (8 - rest) == 0);
}

static bool net_is_bare(const struct conf_net *net)
{
    for (unsigned bit = net->net_bits; bit < 128; bit++)
        if (net->net_address.s6_addr[bit / 8] >> (7 - bit % 8) & 1)
            return false;
    return true;
}
