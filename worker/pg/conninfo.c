/* A pool's connection string and the session that it is to open. */
#include "worker/pg/conninfo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNINFO_WORDS 16

struct conninfo_list { /* keywords and values for PQconnectStartParams */
    const char *list_keywords[CONNINFO_WORDS + 1], *list_values[CONNINFO_WORDS + 1];
    unsigned list_n;
};

static void conninfo_add(struct conninfo_list *l, const char *keyword, const char *value);
static void conninfo_session(const struct conf_pool *pool, const char *given, char *to, size_t size);

PQconninfoOption *conninfo_read(const char *conninfo, char *why, size_t why_len)
{
    /* libpq gathers all sources before it looks at this setting, finds it wrong and does nothing more. */
    static const char *const keywords[] = {"dbname", "channel_binding", NULL};
    const char *values[] = {conninfo, "not to be connected", NULL};
    char *message = NULL;
    PQconninfoOption *options = NULL;
    PGconn *pg;

    if (strchr(conninfo, '=') != NULL || strstr(conninfo, "://") != NULL) {
        options = PQconninfoParse(conninfo, &message);
        if (options == NULL) {
            snprintf(why, why_len, "conninfo: %s", message != NULL ? message : "out of memory");
            PQfreemem(message);
            return NULL;
        }
        PQconninfoFree(options);
    }
    pg = PQconnectStartParams(keywords, values, 1);
    options = pg != NULL ? PQconninfo(pg) : NULL;
    if (options == NULL)
        snprintf(why, why_len, "out of memory");
    PQfinish(pg);
    return options;
}

const char *conninfo_get(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, name) == 0)
            return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
    return NULL;
}

unsigned conninfo_seconds(const PQconninfoOption *options, const char *name, unsigned otherwise)
{
    const char *text = conninfo_get(options, name);
    char *end;
    long v;

    if (text == NULL)
        return otherwise;
    errno = 0;
    v = strtol(text, &end, 10);
    end += strspn(end, " \t\n\r\f\v"); /* libpq passes over white space on both sides */
    return errno == 0 && *end == '\0' && v > 0 && v <= INT_MAX ? (unsigned)v : otherwise;
}

PGconn *conninfo_connect(const struct conf_pool *pool, const PQconninfoOption *options, const char *host,
                         const char *hostaddr, const char *port)
{
    struct conninfo_list l = {.list_n = 0};
    char session[2048];

    conninfo_add(&l, "dbname", pool->pool_conninfo); /* the ones that follow win */
    conninfo_add(&l, "host", host);
    conninfo_add(&l, "hostaddr", hostaddr);
    conninfo_add(&l, "port", port);
    conninfo_add(&l, "client_encoding", "UTF8");
    conninfo_add(&l, "fallback_application_name", "vanilla");
    conninfo_add(&l, "gssencmode", "disable"); /* its octets would be out of our reach */
    if (!pool->pool_pooler) {
        conninfo_session(pool, conninfo_get(options, "options"), session, sizeof session);
        conninfo_add(&l, "options", session);
    }
    /* A server that is gone without a word is noticed in half a minute, not in two hours. */
    if (conninfo_get(options, "keepalives_idle") == NULL)
        conninfo_add(&l, "keepalives_idle", "15");
    if (conninfo_get(options, "keepalives_interval") == NULL)
        conninfo_add(&l, "keepalives_interval", "5");
    if (conninfo_get(options, "keepalives_count") == NULL)
        conninfo_add(&l, "keepalives_count", "3");
    if (conninfo_get(options, "tcp_user_timeout") == NULL)
        conninfo_add(&l, "tcp_user_timeout", "30000");
    return PQconnectStartParams(l.list_keywords, l.list_values, 1);
}

char *conninfo_local(const struct conf_pool *pool, char *to, size_t size)
{
    snprintf(to, size,
             "SELECT pg_catalog.set_config('DateStyle', 'ISO', true),"
             " pg_catalog.set_config('bytea_output', 'hex', true),"
             " pg_catalog.set_config('extra_float_digits', '1', true),"
             " pg_catalog.set_config('IntervalStyle', 'postgres', true),"
             " pg_catalog.set_config('statement_timeout', '%u', true)%s",
             pool->pool_statement_timeout_ms,
             pool->pool_read_only ? ", pg_catalog.set_config('transaction_read_only', 'on', true)" : "");
    return to;
}

static void conninfo_add(struct conninfo_list *l, const char *keyword, const char *value)
{
    if (value == NULL)
        return;
    AN(l->list_n < CONNINFO_WORDS);
    l->list_keywords[l->list_n] = keyword;
    l->list_values[l->list_n] = value;
    l->list_n++;
    l->list_keywords[l->list_n] = l->list_values[l->list_n] = NULL;
}

/* The `options` startup parameter: what the operator gave, then ours, which win. */
static void conninfo_session(const struct conf_pool *pool, const char *given, char *to, size_t size)
{
    static const char *const plans[] = {[PLAN_AUTO] = "",
                                        [PLAN_GENERIC] = " -c plan_cache_mode=force_generic_plan",
                                        [PLAN_CUSTOM] = " -c plan_cache_mode=force_custom_plan"};

    snprintf(to, size,
             "%s -c DateStyle=ISO -c bytea_output=hex -c extra_float_digits=1 -c IntervalStyle=postgres"
             " -c statement_timeout=%u%s%s",
             given != NULL ? given : "", pool->pool_statement_timeout_ms,
             pool->pool_read_only ? " -c default_transaction_read_only=on" : "", plans[pool->pool_plan]);
}
