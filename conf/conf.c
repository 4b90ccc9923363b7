#include "conf/conf.h"

#include <libconfig.h>
#include <stdlib.h>
#include <string.h>

#include "conf/address.h"
#include "conf/check.h"
#include "conf/cors.h"
#include "conf/literal.h"
#include "conf/net.h"
#include "conf/options.h"
#include "conf/override.h"
#include "conf/pools.h"
#include "conf/report.h"
#include "conf/routes.h"
#include "conf/source.h"

/* What conf_read hands out is the first member of this. */
struct owner {
    struct conf owner_conf;
    struct memory owner_memory; /* everything that owner_conf points to */
};

static struct conf_listen *conf_listen_copy(struct memory *m, const struct conf_listen *from, unsigned n);
static bool conf_listen_differs(const struct conf_listen *a, unsigned a_n, const struct conf_listen *b, unsigned b_n);
static int conf_parse(config_t *tree, const char *text, size_t n, struct report *r);
static void conf_parse_failed(const config_t *tree, const char *text, struct report *r);
static void conf_fill(struct owner *owner, const config_setting_t *root, struct report *r);

struct conf *conf_read(const char *file, const char *const *overrides, unsigned n, FILE *err)
{
    struct report report = {.report_file = file};
    struct owner *owner = calloc(1, sizeof *owner);
    struct conf *conf = NULL;
    config_t tree;
    size_t len;
    char *text;

    if (owner == NULL) {
        fprintf(err, "%s: cannot be read: no memory left\n", file);
        return NULL;
    }
    owner->owner_conf.magic = CONF_MAGIC;
    conf = (struct conf *)(void *)owner;
    config_init(&tree);
    text = source_read(file, &len, &report);
    if (text != NULL && conf_parse(&tree, text, len, &report) == 0) {
        for (unsigned i = 0; i < n; i++)
            override_apply(&tree, overrides[i], &report);
        conf->conf_file = memory_text(&owner->owner_memory, file, strlen(file));
        conf_fill(owner, config_root_setting(&tree), &report);
    }
    free(text);
    report_flush(&report, err); /* before the tree goes: it holds the names of the overrides */
    config_destroy(&tree);
    if (report.report_errors != 0)
        conf_free(&conf);
    return conf;
}

void conf_free(struct conf **confp)
{
    struct owner *owner = (struct owner *)(void *)*confp;

    CHECK_OBJ(*confp, CONF_MAGIC);
    owner->owner_conf.magic = 0;
    memory_free(&owner->owner_memory);
    free(owner);
    *confp = NULL;
}

size_t conf_cache_bytes(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->conf_routes_n; i++)
        if (conf->conf_routes[i].route_cache_ms > 0)
            return (size_t)conf->conf_memory.memory_cache_mb << 20;
    return 0;
}

const char *conf_method_name(enum conf_method m)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

    AN((unsigned)m < METHODS_ROUTABLE);
    return names[m];
}

unsigned conf_keep(struct conf *next, const struct conf *running, FILE *out)
{
    struct memory *m = &((struct owner *)(void *)next)->owner_memory;
    const struct option *o;
    unsigned kept = 0;

    CHECK_OBJ(next, CONF_MAGIC);
    CHECK_OBJ(running, CONF_MAGIC);
    for (unsigned i = 0; (o = options_row(i)) != NULL; i++) {
        const char **a, *b;

        if (o->option_group != OPTION_TOP || o->option_when != WHEN_RESTART || o->option_place == OPTION_NOWHERE)
            continue;
        AN(o->option_kind == KIND_TEXT);
        a = (const char **)(void *)((char *)next + o->option_place);
        b = *(const char *const *)(const void *)((const char *)running + o->option_place);
        if (*a == b || (*a != NULL && b != NULL && strcmp(*a, b) == 0))
            continue;
        *a = b != NULL ? memory_text(m, b, strlen(b)) : NULL;
        fprintf(out, "%s: %s needs a restart\n", next->conf_file, o->option_name);
        kept++;
    }
    if (conf_listen_differs(next->conf_listen, next->conf_listen_n, running->conf_listen, running->conf_listen_n)) {
        next->conf_listen = conf_listen_copy(m, running->conf_listen, running->conf_listen_n);
        next->conf_listen_n = running->conf_listen_n;
        fprintf(out, "%s: listen needs a restart\n", next->conf_file);
        kept++;
    }
    if (conf_listen_differs(&next->conf_admin, 1, &running->conf_admin, 1)) {
        next->conf_admin = *conf_listen_copy(m, &running->conf_admin, 1);
        fprintf(out, "%s: admin needs a restart\n", next->conf_file);
        kept++;
    }
    return kept;
}

static struct conf_listen *conf_listen_copy(struct memory *m, const struct conf_listen *from, unsigned n)
{
    struct conf_listen *to = memory_get(m, n * sizeof *to);

    for (unsigned i = 0; i < n; i++) {
        to[i] = from[i];
        to[i].listen_address = memory_text(m, from[i].listen_address, strlen(from[i].listen_address));
    }
    return to;
}

/* The order counts: it is the order of the sockets. */
static bool conf_listen_differs(const struct conf_listen *a, unsigned a_n, const struct conf_listen *b, unsigned b_n)
{
    for (unsigned i = 0; i < a_n && i < b_n; i++)
        if (a[i].listen_sockaddr_len != b[i].listen_sockaddr_len ||
            memcmp(&a[i].listen_sockaddr, &b[i].listen_sockaddr, a[i].listen_sockaddr_len) != 0 ||
            a[i].listen_proxy != b[i].listen_proxy)
            return true;
    return a_n != b_n;
}

/* The tree of the n octets of text; -1: reported. */
static int conf_parse(config_t *tree, const char *text, size_t n, struct report *r)
{
    struct literals literals = {0};
    int result = literals_scan(&literals, text, n, r);

    if (result == 0 && config_read_string(tree, text) == CONFIG_TRUE) {
        literals_apply(&literals, config_root_setting(tree));
        if (config_setting_length(config_root_setting(tree)) == 0) {
            report_error(r, 1, "the file sets nothing; allowed: settings, at least pools and routes");
            result = -1;
        }
    } else {
        if (result == 0)
            conf_parse_failed(tree, text, r);
        literals_report(&literals, r);
        result = -1;
    }
    literals_free(&literals);
    return result;
}

/* What libconfig says, on its line, and what it means. */
static void conf_parse_failed(const config_t *tree, const char *text, struct report *r)
{
    const char *what = config_error_text(tree), *line = text;
    int n = config_error_line(tree);
    size_t len;

    for (int i = 1; i < n && strchr(line, '\n') != NULL; i++)
        line = strchr(line, '\n') + 1;
    line += strspn(line, " \t({");
    len = strcspn(line, " \t=:\n");
    if (strcmp(what, "duplicate setting name") == 0)
        report_error(r, n, "%s, near \"%.*s\"; allowed: each setting once in its group", what, len < 64 ? (int)len : 64,
                     line);
    else if (strcmp(what, "mismatched element type in array") == 0)
        report_error(r, n, "%s; allowed: elements of one type in [ ], of any in ( )", what);
    else
        report_error(r, n, "%s; allowed: NAME = VALUE; with groups in { }, lists in ( ), strings in double quotes",
                     what);
}

static void conf_fill(struct owner *owner, const config_setting_t *root, struct report *r)
{
    struct reader rd = {.reader_report = r, .reader_memory = &owner->owner_memory};
    struct conf *conf = &owner->owner_conf;

    options_read(&rd, OPTION_TOP, root, conf);
    addresses_read(&rd, root, conf);
    nets_read(&rd, root, conf);
    conf->conf_cors = cors_read(&rd, options_member(OPTION_TOP, root, "cors"));
    pools_read(&rd, root, conf);
    routes_read(&rd, root, conf);
    conf_check(&rd, root, conf);
}
