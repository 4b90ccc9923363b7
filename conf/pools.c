#include "conf/pools.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static void pool_read(const struct reader *rd, const config_setting_t *group, const struct conf *conf,
                      struct conf_pool *pool);
static void pool_check_conninfo(const struct reader *rd, const config_setting_t *where, const char *conninfo);

void pools_read(const struct reader *rd, const config_setting_t *root, struct conf *conf)
{
    const config_setting_t *list = options_member(OPTION_TOP, root, "pools");
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    conf->conf_pools = memory_get(rd->reader_memory, (n != 0 ? n : 1) * sizeof *conf->conf_pools);
    for (unsigned i = 0; i < n; i++) {
        pool_read(rd, config_setting_get_elem(list, i), conf, &conf->conf_pools[i]);
        conf->conf_pools_n++; /* now, so that a pool is compared with those before it */
    }
}

int pools_find(const struct conf *conf, const char *name)
{
    for (unsigned i = 0; i < conf->conf_pools_n; i++)
        if (conf->conf_pools[i].pool_name != NULL && strcmp(conf->conf_pools[i].pool_name, name) == 0)
            return (int)i;
    return -1;
}

unsigned conf_pool_share(const struct conf_pool *pool, unsigned slot, unsigned workers)
{
    unsigned share = pool->pool_connections / workers + (slot < pool->pool_connections % workers);

    return share != 0 ? share : 1;
}

void shed_status_check(const struct reader *rd, enum option_group table, const config_setting_t *group,
                       const char *name)
{
    const config_setting_t *member = options_member(table, group, name);
    long long status;

    if (member == NULL)
        return;
    status = config_setting_get_int64(member);
    if (status == 429 || (status >= 500 && status <= 599))
        return;
    if (status == 200 || status == 204)
        report_warning(rd->reader_report, member,
                       "%s %lld is optimistic: a client cannot tell that its request was not run; 503 says so", name,
                       status);
    else if (status >= 400 && status <= 499)
        report_setting(rd->reader_report, member,
                       "%s is %lld; allowed: 503, 429, another 5xx: a shed that answers 4xx blames the client for the "
                       "server's load",
                       name, status);
    else
        report_setting(rd->reader_report, member, "%s is %lld; allowed: 503, 429, another 5xx", name, status);
}

static void pool_read(const struct reader *rd, const config_setting_t *group, const struct conf *conf,
                      struct conf_pool *pool)
{
    const config_setting_t *name = options_member(OPTION_POOL, group, "name");
    int other;

    options_read(rd, OPTION_POOL, group, pool);
    pool->pool_line = (int)config_setting_source_line(group);
    if (name != NULL &&
        pool->pool_name[strspn(pool->pool_name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")] !=
            '\0')
        report_setting(rd->reader_report, name, "name is \"%s\"; allowed: letters, digits, _ and -", pool->pool_name);
    other = name != NULL ? pools_find(conf, pool->pool_name) : -1;
    if (other >= 0)
        report_setting(rd->reader_report, name, "the pool of line %d is called \"%s\" too; allowed: each name once",
                       conf->conf_pools[other].pool_line, pool->pool_name);
    if (options_member(OPTION_POOL, group, "conninfo") != NULL)
        pool_check_conninfo(rd, config_setting_get_member(group, "conninfo"), pool->pool_conninfo);
    shed_status_check(rd, OPTION_POOL, group, "shed_status");
    if (pool->pool_shed_status == 0)
        pool->pool_shed_status = conf->conf_shed.shed_status;
    if (pool->pool_pooler && pool->pool_plan != PLAN_AUTO)
        report_warning(rd->reader_report, config_setting_get_member(group, "plan"),
                       "plan has no effect with pooler = true: there sessions are not the pool's own");
    if (pool->pool_pooler && pool->pool_reset == RESET_ALWAYS)
        report_setting(
            rd->reader_report, config_setting_get_member(group, "reset"),
            "reset is \"always\" with pooler = true, where sessions are the pooler's; allowed: auto and never, "
            "and server_reset_query with server_reset_query_always = 1 in pgbouncer.ini");
}

static void pool_check_conninfo(const struct reader *rd, const config_setting_t *where, const char *conninfo)
{
    char *why = NULL;
    PQconninfoOption *parsed = PQconninfoParse(conninfo, &why);

    if (parsed == NULL)
        report_setting(rd->reader_report, where, "conninfo: %.*s; allowed: as in host=/run/postgresql dbname=app",
                       why != NULL ? (int)strcspn(why, "\n") : 0, why != NULL ? why : "");
    PQconninfoFree(parsed);
    PQfreemem(why);
}
