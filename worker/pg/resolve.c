/* Host names to addresses with evdns. */
#include "worker/pg/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <event2/event_struct.h>
#include <event2/util.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/mem/alloc.h"

#define RESOLVE_MAGIC 0x4e501fe5u
#define RESOLVE_TURN_US 5000
#define RESOLVE_NAMES 16     /* entries of the host list */
#define RESOLVE_ADDRESSES 64 /* of all of them together */

struct resolve_entry {
    char *entry_host, *entry_port;
    bool entry_is_name, entry_pending;
    char entry_addresses[8][INET6_ADDRSTRLEN];
    unsigned entry_addresses_n;
    int entry_error; /* EVUTIL_EAI_*, 0: none */
};

struct resolve {
    unsigned magic;
    struct event_base *resolve_base; /* its own */
    struct evdns_base *resolve_dns;
    struct event resolve_turn; /* on the worker's base */
    struct resolve_entry resolve_entries[RESOLVE_NAMES];
    unsigned resolve_entries_n, resolve_first;
    void (*resolve_done)(void *arg, const struct resolve_answer *answer);
    void *resolve_arg;
};

static void resolve_turn(int fd, short what, void *arg);
static void resolve_found(int error, struct evutil_addrinfo *found, void *arg);
static void resolve_finish(struct resolve *r);
static bool resolve_split(struct resolve *r, const char *host, const char *port);
static bool resolve_is_name(const char *host);
static char *resolve_part(const char **list);

bool resolve_needed(const char *host)
{
    bool needed = false;

    while (host != NULL && !needed) {
        char *part = resolve_part(&host);

        needed = part != NULL && resolve_is_name(part);
        free(part);
    }
    return needed;
}

struct resolve *resolve_start(struct event_base *base, const char *host, const char *port, unsigned first,
                              void (*done)(void *arg, const struct resolve_answer *answer), void *arg)
{
    static const struct timeval turn = {0, RESOLVE_TURN_US};
    struct evutil_addrinfo hints = {.ai_family = PF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct resolve *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->magic = RESOLVE_MAGIC;
    r->resolve_first = first;
    r->resolve_done = done;
    r->resolve_arg = arg;
    AZ(event_assign(&r->resolve_turn, base, -1, EV_PERSIST, resolve_turn, r));
    r->resolve_base = event_base_new();
    if (r->resolve_base != NULL)
        r->resolve_dns = evdns_base_new(r->resolve_base, 0);
    if (r->resolve_dns == NULL || !resolve_split(r, host, port)) {
        resolve_free(&r);
        return NULL;
    }
    /* A missing resolv.conf still leaves /etc/hosts and the name server of this machine. */
    (void)evdns_base_resolv_conf_parse(r->resolve_dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
    (void)evdns_base_set_option(r->resolve_dns, "timeout:", "2");
    (void)evdns_base_set_option(r->resolve_dns, "attempts:", "2");
    (void)evdns_base_set_option(r->resolve_dns, "randomize-case:", "0");
    for (unsigned i = 0; i < r->resolve_entries_n; i++) {
        struct resolve_entry *e = &r->resolve_entries[i];

        if (!e->entry_is_name)
            continue;
        e->entry_pending = true;
        (void)evdns_getaddrinfo(r->resolve_dns, e->entry_host, NULL, &hints, resolve_found, e);
    }
    (void)event_add(&r->resolve_turn, &turn);
    return r;
}

void resolve_free(struct resolve **rp)
{
    struct resolve *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    CHECK_OBJ(r, RESOLVE_MAGIC);
    (void)event_del(&r->resolve_turn);
    if (r->resolve_dns != NULL) {
        evdns_base_free(r->resolve_dns, 1); /* calls back what is pending, on the next turn */
        (void)event_base_loop(r->resolve_base, EVLOOP_NONBLOCK);
    }
    if (r->resolve_base != NULL)
        event_base_free(r->resolve_base);
    for (unsigned i = 0; i < r->resolve_entries_n; i++) {
        free(r->resolve_entries[i].entry_host);
        free(r->resolve_entries[i].entry_port);
    }
    r->magic = 0;
    free(r);
}

static void resolve_turn(int fd, short what, void *arg)
{
    struct resolve *r = arg;
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    bool pending = false;

    (void)fd;
    (void)what;
    CHECK_OBJ(r, RESOLVE_MAGIC);
    (void)event_base_loop(r->resolve_base, EVLOOP_NONBLOCK);
    for (unsigned i = 0; i < r->resolve_entries_n; i++)
        pending = pending || r->resolve_entries[i].entry_pending;
    if (!pending) {
        (void)event_del(&r->resolve_turn);
        resolve_finish(r); /* may free r */
    }
    alloc_leave(old);
}

static void resolve_found(int error, struct evutil_addrinfo *found, void *arg)
{
    struct resolve_entry *e = arg;

    e->entry_pending = false;
    e->entry_error = error;
    for (struct evutil_addrinfo *a = found; a != NULL && e->entry_addresses_n < 8; a = a->ai_next) {
        const void *address;

        if (a->ai_family == AF_INET)
            address = &((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr;
        else if (a->ai_family == AF_INET6)
            address = &((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr;
        else
            continue;
        if (inet_ntop(a->ai_family, address, e->entry_addresses[e->entry_addresses_n], INET6_ADDRSTRLEN) != NULL)
            e->entry_addresses_n++;
    }
    if (found != NULL)
        evutil_freeaddrinfo(found);
}

static void resolve_finish(struct resolve *r)
{
    struct resolve_answer answer = {0};
    struct {
        const struct resolve_entry *entry;
        const char *address;
    } found[RESOLVE_ADDRESSES];
    char *host = NULL, *hostaddr = NULL, *port = NULL, why[300];
    size_t size;
    unsigned n = 0;

    snprintf(why, sizeof why, "out of memory");
    for (unsigned i = 0; i < r->resolve_entries_n; i++) {
        const struct resolve_entry *e = &r->resolve_entries[i];
        unsigned times = e->entry_is_name ? e->entry_addresses_n : 1;

        if (times == 0)
            snprintf(why, sizeof why, "could not resolve host name \"%.200s\": %s", e->entry_host,
                     e->entry_error != 0 ? evutil_gai_strerror(e->entry_error) : "it has no address");
        for (unsigned k = 0; k < times && n < RESOLVE_ADDRESSES; k++, n++) {
            found[n].entry = e;
            found[n].address = e->entry_is_name ? e->entry_addresses[k] : "";
        }
    }
    if (n > 0) {
        FILE *hosts = open_memstream(&host, &size), *hostaddrs = open_memstream(&hostaddr, &size),
             *ports = open_memstream(&port, &size);
        bool ok = hosts != NULL && hostaddrs != NULL && ports != NULL;

        for (unsigned i = 0; i < n && ok; i++) {
            unsigned at = (i + r->resolve_first) % n;
            const char *comma = i > 0 ? "," : "";

            fprintf(hosts, "%s%s", comma, found[at].entry->entry_host);
            fprintf(hostaddrs, "%s%s", comma, found[at].address);
            fprintf(ports, "%s%s", comma, found[at].entry->entry_port);
        }
        if (hosts != NULL)
            (void)fclose(hosts);
        if (hostaddrs != NULL)
            (void)fclose(hostaddrs);
        if (ports != NULL)
            (void)fclose(ports);
        if (!ok)
            n = 0;
    }
    answer.answer_why = n > 0 ? NULL : why;
    answer.answer_host = host;
    answer.answer_hostaddr = hostaddr;
    answer.answer_port = port;
    r->resolve_done(r->resolve_arg, &answer);
    free(host);
    free(hostaddr);
    free(port);
}

static bool resolve_split(struct resolve *r, const char *host, const char *port)
{
    const char *ports = port != NULL ? port : "";
    bool one_port = strchr(ports, ',') == NULL;

    while (host != NULL && r->resolve_entries_n < RESOLVE_NAMES) {
        struct resolve_entry *e = &r->resolve_entries[r->resolve_entries_n++];

        e->entry_host = resolve_part(&host);
        if (one_port)
            e->entry_port = strdup(ports);
        else
            e->entry_port = ports != NULL ? resolve_part(&ports) : strdup("");
        if (e->entry_host == NULL || e->entry_port == NULL)
            return false;
        e->entry_is_name = resolve_is_name(e->entry_host);
    }
    return true;
}

static bool resolve_is_name(const char *host)
{
    unsigned char address[16];

    if (host[0] == '\0' || host[0] == '/' || host[0] == '@')
        return false;
    if (strchr(host, '%') != NULL) /* a link-local address with its zone: libpq reads it without a look-up */
        return false;
    return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

/* The first part of a comma list, allocated; *list goes to the next or becomes NULL. */
static char *resolve_part(const char **list)
{
    const char *comma = strchrnul(*list, ',');
    char *part = strndup(*list, (size_t)(comma - *list));

    *list = *comma != '\0' ? comma + 1 : NULL;
    return part;
}
