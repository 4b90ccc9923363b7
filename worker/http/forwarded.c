#include "worker/http/forwarded.h"

#include <arpa/inet.h>
#include <string.h>

#include "conf/net.h"
#include "worker/http/octet.h"

/* The walk from the right, made from the left: what would be found if the list ended here. */
struct walk {
    const struct server *walk_server;
    bool walk_any;   /* there is such a field */
    bool walk_found; /* walk_address is the answer so far */
    struct in6_addr walk_address;
};

static void walk_x_forwarded_for(struct walk *w, const struct http_request *rq);
static void walk_forwarded(struct walk *w, const struct http_request *rq);
static bool forwarded_element(struct slice *rest, struct slice *node, char plain[64]);
static bool forwarded_value(const char **at, const char *end, struct slice *value, char plain[64]);
static void walk_step(struct walk *w, struct slice node);
static bool is_port(const char *at, const char *end);
static const char *skip_space(const char *at, const char *end);

bool server_trusts(const struct server *s, const struct in6_addr *address)
{
    const struct conf *conf = s->server_conf;
    unsigned i;

    if (IN6_IS_ADDR_UNSPECIFIED(address))
        return conf->conf_trusted_unix;
    for (i = 0; i < conf->conf_trusted_n; i++)
        if (net_has(&conf->conf_trusted[i], address))
            return true;
    return false;
}

struct in6_addr forwarded_client(const struct server *s, const struct http_request *rq, const struct in6_addr *peer)
{
    struct walk x = {.walk_server = s}, f = {.walk_server = s};

    if (!server_has_trusted(s) || !server_trusts(s, peer))
        return *peer;
    walk_x_forwarded_for(&x, rq);
    walk_forwarded(&f, rq);
    if (x.walk_any && f.walk_any &&
        !(x.walk_found && f.walk_found && IN6_ARE_ADDR_EQUAL(&x.walk_address, &f.walk_address)))
        return *peer;
    return x.walk_found ? x.walk_address : f.walk_found ? f.walk_address : *peer;
}

static void walk_step(struct walk *w, struct slice node)
{
    struct in6_addr address;

    if (!forwarded_address(node, &address)) {
        w->walk_found = false; /* nothing from here to the left is worth anything */
        return;
    }
    if (w->walk_found && server_trusts(w->walk_server, &address))
        return; /* a proxy that reports the one before */
    w->walk_found = true;
    w->walk_address = address;
}

static void walk_x_forwarded_for(struct walk *w, const struct http_request *rq)
{
    uint32_t at = 0;
    struct slice value;

    while (http_field_find(rq, "x-forwarded-for", 15, &at, &value)) {
        const char *p = value.slice_p, *end = p + value.slice_len;

        w->walk_any = true;
        while (p <= end) {
            const char *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
            struct slice member = octet_trim(p, comma != NULL ? comma : end);

            if (member.slice_len > 0) /* empty members are nothing (RFC 9110 5.6.1.2) */
                walk_step(w, member);
            if (comma == NULL)
                break;
            p = comma + 1;
        }
    }
}

static void walk_forwarded(struct walk *w, const struct http_request *rq)
{
    uint32_t at = 0;
    struct slice value;

    while (http_field_find(rq, "forwarded", 9, &at, &value)) {
        struct slice node;
        char plain[64];

        w->walk_any = true;
        while (value.slice_len > 0) {
            if (!forwarded_element(&value, &node, plain)) {
                w->walk_found = false; /* where an element ends is unknown: none of the field is worth anything */
                break;
            }
            if (node.slice_p != NULL)
                walk_step(w, node);
        }
    }
}

/* forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] ) (RFC 7239 4).  Takes one off `rest`, its comma
 * too. The node of its `for`; of length 0 when there is none, or more than one; NULL when the element is empty.  False:
 * malformed. */
static bool forwarded_element(struct slice *rest, struct slice *node, char plain[64])
{
    const char *at = rest->slice_p, *end = at + rest->slice_len;
    unsigned fors = 0;

    *node = (struct slice){NULL, 0};
    for (;;) {
        struct slice name, value;
        char octets[64];

        at = skip_space(at, end);
        name.slice_p = at;
        while (at < end && octet_is(*at, OCTET_TOKEN))
            at++;
        name.slice_len = (size_t)(at - name.slice_p);
        if (name.slice_len > 0) {
            if (node->slice_p == NULL)
                *node = (struct slice){"", 0};
            if (at == end || *at++ != '=' || !forwarded_value(&at, end, &value, octets))
                return false;
            if (octet_lower_eq(name, "for", 3)) {
                if (value.slice_p == octets) {
                    memcpy(plain, octets, value.slice_len);
                    value.slice_p = plain;
                }
                *node = ++fors == 1 ? value : (struct slice){"", 0};
            }
        }
        at = skip_space(at, end);
        if (at == end || *at == ',')
            break;
        if (*at++ != ';')
            return false;
    }
    if (at < end)
        at++;
    *rest = (struct slice){at, (size_t)(end - at)};
    return true;
}

/* A token, or a quoted string without its quotes and escapes in `plain` (a longer one is no address and comes out
 * empty). */
static bool forwarded_value(const char **at, const char *end, struct slice *value, char plain[64])
{
    const char *p = *at;
    size_t n = 0;

    if (p == end || *p != '"') {
        while (p < end && octet_is(*p, OCTET_TOKEN))
            p++;
        *value = (struct slice){*at, (size_t)(p - *at)};
        *at = p;
        return value->slice_len > 0;
    }
    for (p++; p < end && *p != '"'; p++) {
        if (*p == '\\' && ++p == end)
            return false;
        if (n < 64)
            plain[n] = *p;
        n++;
    }
    if (p == end)
        return false;
    *value = (struct slice){plain, n <= 64 ? n : 0};
    *at = p + 1;
    return true;
}

bool forwarded_address(struct slice text, struct in6_addr *address)
{
    const char *at = text.slice_p, *end = at + text.slice_len, *port = NULL;
    char host[INET6_ADDRSTRLEN];
    bool brackets = text.slice_len > 0 && *at == '[';
    struct in_addr v4;

    if (brackets) {
        const char *close = memchr(at, ']', text.slice_len);

        if (close == NULL)
            return false;
        if (close + 1 < end) {
            if (close[1] != ':')
                return false;
            port = close + 2;
        }
        at++;
        text.slice_len = (size_t)(close - at);
    } else {
        const char *colon = memchr(at, ':', text.slice_len);

        if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) == NULL) { /* more: IPv6 without port */
            port = colon + 1;
            text.slice_len = (size_t)(colon - at);
        }
    }
    if (text.slice_len == 0 || text.slice_len >= sizeof(host) || (port != NULL && !is_port(port, end)) ||
        memchr(at, 0, text.slice_len) != NULL)
        return false;
    memcpy(host, at, text.slice_len);
    host[text.slice_len] = '\0';
    if (!brackets && inet_pton(AF_INET, host, &v4) == 1) {
        memset(address, 0, sizeof(*address));
        address->s6_addr[10] = address->s6_addr[11] = 0xff;
        memcpy(address->s6_addr + 12, &v4, sizeof(v4));
        return true;
    }
    return (brackets || port == NULL) && inet_pton(AF_INET6, host, address) == 1 && !IN6_IS_ADDR_UNSPECIFIED(address);
}

static bool is_port(const char *at, const char *end)
{
    const char *p = at;

    while (p < end && octet_is(*p, OCTET_DIGIT))
        p++;
    return p == end && p > at && p - at <= 5;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}
