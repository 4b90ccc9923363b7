#include "conf/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static bool address_read(const struct reader *rd, enum option_group group, const config_setting_t *setting,
                         struct conf_listen *l);
static const config_setting_t *address_setting(const config_setting_t *group);
static void address_default(const struct reader *rd, enum option_group group, const char *name, struct conf_listen *l);
static bool address_same(const struct conf_listen *a, const struct conf_listen *b);
static void address_check_control(const struct reader *rd, const config_setting_t *where, const struct conf *conf,
                                  const struct conf_listen *l);
static const char *address_parse_unix(const char *path, struct sockaddr_storage *address, socklen_t *len);
static const char *address_parse_v6(const char *text, struct sockaddr_storage *address, socklen_t *len);
static int address_port(const char *text);

void addresses_read(const struct reader *rd, const config_setting_t *root, struct conf *conf)
{
    const config_setting_t *list = options_member(OPTION_TOP, root, "listen");
    const config_setting_t *admin = options_member(OPTION_TOP, root, "admin");
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    conf->conf_listen = memory_get(rd->reader_memory, (n != 0 ? n : 1) * sizeof *conf->conf_listen);
    for (unsigned i = 0; i < n; i++) {
        const config_setting_t *group = config_setting_get_elem(list, i);
        struct conf_listen *l = &conf->conf_listen[conf->conf_listen_n];

        if (!address_read(rd, OPTION_LISTEN, group, l))
            continue;
        for (unsigned j = 0; j < conf->conf_listen_n; j++)
            if (address_same(l, &conf->conf_listen[j]))
                report_setting(rd->reader_report, address_setting(group),
                               "address %s is the one of line %d again; allowed: each once", l->listen_address,
                               conf->conf_listen[j].listen_line);
        address_check_control(rd, address_setting(group), conf, l);
        conf->conf_listen_n++;
    }
    if (config_setting_get_member(root, "listen") == NULL)
        address_default(rd, OPTION_TOP, "listen", &conf->conf_listen[conf->conf_listen_n++]);

    if (admin == NULL)
        address_default(rd, OPTION_ADMIN, "address", &conf->conf_admin);
    else if (!address_read(rd, OPTION_ADMIN, admin, &conf->conf_admin))
        return;
    if (admin != NULL && conf->conf_admin.listen_address == NULL)
        address_default(rd, OPTION_ADMIN, "address", &conf->conf_admin);
    for (unsigned j = 0; j < conf->conf_listen_n; j++)
        if (address_same(&conf->conf_admin, &conf->conf_listen[j]))
            report_error(rd->reader_report,
                         admin != NULL ? conf->conf_admin.listen_line : conf->conf_listen[j].listen_line,
                         "admin and listen both have the address %s; allowed: different ones",
                         conf->conf_listen[j].listen_address);
    if (admin != NULL)
        address_check_control(rd, address_setting(admin), conf, &conf->conf_admin);
}

const char *address_parse(const char *text, struct sockaddr_storage *address, socklen_t *len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)address;
    const char *colon = strrchr(text, ':');
    char host[16];
    int port;

    memset(address, 0, sizeof *address);
    if (strncmp(text, "unix:", 5) == 0)
        return address_parse_unix(text + 5, address, len);
    if (*text == '[')
        return address_parse_v6(text, address, len);
    if (colon == NULL)
        return "the port is missing; allowed: ADDRESS:PORT, [ADDRESS]:PORT, *:PORT, unix:/PATH";
    if (strchr(text, ':') != colon)
        return "an IPv6 address stands in brackets: [ADDRESS]:PORT";
    port = address_port(colon + 1);
    if (port < 0)
        return "the port is not one; allowed: 1..65535";
    if (colon == text)
        return "the address is missing; allowed: ADDRESS:PORT, [ADDRESS]:PORT, *:PORT, unix:/PATH";
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    if (strcmp(host, "*") == 0)
        strcpy(host, "0.0.0.0");
    else if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    if (colon - text >= (ptrdiff_t)sizeof host || inet_pton(AF_INET, host, &v4->sin_addr) != 1)
        return "not a numeric address; allowed: as in 0.0.0.0, *, localhost, [::]";
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    *len = sizeof *v4;
    return NULL;
}

/* One group with an address; false: reported, or (admin) there is none. */
static bool address_read(const struct reader *rd, enum option_group group, const config_setting_t *setting,
                         struct conf_listen *l)
{
    const config_setting_t *member;
    const char *text, *why;

    options_read(rd, group, setting, NULL);
    member = options_member(group, setting, "address");
    if (member == NULL)
        return group == OPTION_ADMIN && address_setting(setting) == setting;
    text = config_setting_get_string(member);
    why = address_parse(text, &l->listen_sockaddr, &l->listen_sockaddr_len);
    if (why != NULL) {
        report_setting(rd->reader_report, member, "address \"%s\": %s", text, why);
        return false;
    }
    l->listen_address = memory_text(rd->reader_memory, text, strlen(text));
    l->listen_line = (int)config_setting_source_line(member);
    member = group == OPTION_LISTEN ? options_member(group, setting, "proxy_protocol") : NULL;
    l->listen_proxy = member != NULL && config_setting_get_bool(member);
    return true;
}

/* Where the address stands, or the group when it has none. */
static const config_setting_t *address_setting(const config_setting_t *group)
{
    const config_setting_t *member = config_setting_get_member(group, "address");

    return member != NULL ? member : group;
}

/* The default of a row of the table. */
static void address_default(const struct reader *rd, enum option_group group, const char *name, struct conf_listen *l)
{
    const struct option *option = options_find(group, name);
    const char *text;

    AN(option != NULL);
    text = option->option_default;
    l->listen_address = memory_text(rd->reader_memory, text, strlen(text));
    AZ(address_parse(text, &l->listen_sockaddr, &l->listen_sockaddr_len));
}

static bool address_same(const struct conf_listen *a, const struct conf_listen *b)
{
    return a->listen_address != NULL && a->listen_sockaddr_len == b->listen_sockaddr_len &&
           memcmp(&a->listen_sockaddr, &b->listen_sockaddr, a->listen_sockaddr_len) == 0;
}

/* runtime_dir/control.sock is vanillactl's. */
static void address_check_control(const struct reader *rd, const config_setting_t *where, const struct conf *conf,
                                  const struct conf_listen *l)
{
    size_t n = strlen(conf->conf_runtime_dir);

    if (strncmp(l->listen_address, "unix:", 5) == 0 && strncmp(l->listen_address + 5, conf->conf_runtime_dir, n) == 0 &&
        strcmp(l->listen_address + 5 + n, "/control.sock") == 0)
        report_setting(rd->reader_report, where, "address %s is the control socket's; allowed: any other path",
                       l->listen_address);
}

static const char *address_parse_unix(const char *path, struct sockaddr_storage *address, socklen_t *len)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)address;
    size_t n = strlen(path);

    if (*path != '/')
        return "the path must be absolute; allowed: unix:/PATH";
    if (n >= sizeof un->sun_path)
        return "the path is too long for a socket; allowed: at most 107 octets";
    if (path[n - 1] == '/')
        return "the path is a directory's; allowed: a socket's, as in unix:/run/vanilla/http.sock";
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, n + 1);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return NULL;
}

static const char *address_parse_v6(const char *text, struct sockaddr_storage *address, socklen_t *len)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;
    const char *close = strchr(text, ']'), *zone;
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE];
    int port;

    if (close == NULL || close[1] != ':')
        return "not an address; allowed: [ADDRESS]:PORT";
    port = address_port(close + 2);
    if (port < 0)
        return "the port is not one; allowed: 1..65535";
    if (close - text > (ptrdiff_t)sizeof host)
        return "not a numeric IPv6 address; allowed: as in [::], [::1]";
    snprintf(host, sizeof host, "%.*s", (int)(close - text - 1), text + 1);
    zone = strchr(host, '%');
    if (zone != NULL) {
        v6->sin6_scope_id = if_nametoindex(zone + 1);
        host[zone - host] = '\0';
        if (v6->sin6_scope_id == 0)
            return "there is no interface of that name; allowed: [ADDRESS%INTERFACE]:PORT";
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return "not a numeric IPv6 address; allowed: as in [::], [::1]";
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    *len = sizeof *v6;
    return NULL;
}

/* 1..65535, or -1. */
static int address_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    int port = n >= 1 && n <= 5 && text[n] == '\0' ? (int)strtol(text, NULL, 10) : 0;

    return port >= 1 && port <= 65535 ? port : -1;
}
