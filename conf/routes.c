#include "conf/routes.h"

#include <string.h>

#include "conf/cors.h"
#include "conf/mediatype.h"
#include "conf/param.h"
#include "conf/path.h"
#include "conf/pools.h"
#include "conf/statement.h"
#include "conf/utf8.h"

#define CONTENT_TYPE_TEXT "text/plain; charset=utf-8"
#define CONTENT_TYPE_JSON "application/json"

/* A route while it is read. */
struct draft {
    const struct reader *draft_reader;
    const config_setting_t *draft_group;
    const struct conf *draft_conf;
    struct conf_route *draft_route;
    bool draft_path_fits, draft_params_fit;
};

static void route_read(struct draft *d);
static void route_check_path(struct draft *d);
static void route_check_duplicate(struct draft *d);
static void route_read_text(struct draft *d);
static void route_read_sql(struct draft *d);
static void route_read_params(struct draft *d);
static void route_check_bodies(struct draft *d, const config_setting_t *list);
static void route_check_statement(struct draft *d);
static void route_check_pooler(struct draft *d);
static void route_choose_pool(struct draft *d);
static void route_check_result(struct draft *d);
static void route_read_echo(struct draft *d);
static void route_check_member_names(struct draft *d);
static void route_check_status(struct draft *d);
static void route_check_content_type(struct draft *d);
static void route_refuse(struct draft *d, const char *name, const char *why);
static const config_setting_t *route_member(const struct draft *d, const char *name);
static bool route_has(const struct draft *d, const char *name);

void routes_read(const struct reader *rd, const config_setting_t *root, struct conf *conf)
{
    const config_setting_t *list = options_member(OPTION_TOP, root, "routes");
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    conf->conf_routes = memory_get(rd->reader_memory, (n != 0 ? n : 1) * sizeof *conf->conf_routes);
    for (unsigned i = 0; i < n; i++) {
        struct draft d = {.draft_reader = rd,
                          .draft_group = config_setting_get_elem(list, i),
                          .draft_conf = conf,
                          .draft_route = &conf->conf_routes[i]};

        route_read(&d);
        conf->conf_routes_n++; /* now, so that a route is compared with those before it */
    }
}

static void route_read(struct draft *d)
{
    struct report *r = d->draft_reader->reader_report;
    struct conf_route *route = d->draft_route;
    bool sql = route_has(d, "sql"), text = route_has(d, "text");

    options_read(d->draft_reader, OPTION_ROUTE, d->draft_group, route);
    route->route_line = (int)config_setting_source_line(d->draft_group);
    route->route_handler = sql ? HANDLER_SQL : HANDLER_TEXT;
    route->route_cors = d->draft_conf->conf_cors;
    if (route_has(d, "cors"))
        route->route_cors = cors_read(d->draft_reader, route_member(d, "cors"));
    route_check_path(d);
    if (sql && text)
        report_setting(r, config_setting_get_member(d->draft_group, "text"),
                       "the route has both sql and text; allowed: one of them");
    else if (!sql && !text)
        report_setting(r, d->draft_group, "the route has neither sql nor text; allowed: one of them");
    else if (sql)
        route_read_sql(d);
    else
        route_read_text(d);
    shed_status_check(d->draft_reader, OPTION_ROUTE, d->draft_group, "shed_status");
    if (route->route_shed_status == 0)
        route->route_shed_status = route->route_handler == HANDLER_SQL && d->draft_conf->conf_pools_n > 0
                                       ? d->draft_conf->conf_pools[route->route_pool].pool_shed_status
                                       : d->draft_conf->conf_shed.shed_status;
    route_check_status(d);
    route_check_content_type(d);
}

/* --- any route -------------------------------------------------------------------------------------------------------
 */

static void route_check_path(struct draft *d)
{
    const config_setting_t *path = route_member(d, "path");
    char why[256];

    if (path == NULL)
        return;
    d->draft_path_fits = path_check(d->draft_route->route_path, why, sizeof why);
    if (d->draft_path_fits) {
        route_check_duplicate(d);
        if (strchr(d->draft_route->route_path, '*') != NULL)
            report_warning(d->draft_reader->reader_report, path,
                           "path \"%.128s\": a * is an octet as any other, and matches only itself; {name} is for one "
                           "whole segment",
                           d->draft_route->route_path);
    } else
        report_setting(d->draft_reader->reader_report, path, "path \"%.128s\" %s", d->draft_route->route_path, why);
}

static void route_check_duplicate(struct draft *d)
{
    const struct conf *conf = d->draft_conf;

    if (route_member(d, "method") == NULL)
        return;
    for (unsigned i = 0; i < conf->conf_routes_n; i++) {
        const struct conf_route *other = &conf->conf_routes[i];

        if (other->route_method != d->draft_route->route_method || other->route_path == NULL ||
            !path_same(other->route_path, d->draft_route->route_path))
            continue;
        report_setting(d->draft_reader->reader_report, d->draft_group,
                       "%s %.128s is the route of line %d again (%.128s); allowed: each method and path once",
                       conf_method_name(other->route_method), d->draft_route->route_path, other->route_line,
                       other->route_path);
        return;
    }
}

static void route_read_text(struct draft *d)
{
    static const char *const others[] = {"params", "result", "pool", "wrap", "count", "echo", "share", "cache_ms"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        route_refuse(d, others[i], "goes with sql only, and this route has text");
    if (d->draft_route->route_text != NULL)
        d->draft_route->route_text_len = strlen(d->draft_route->route_text);
}

static void route_check_status(struct draft *d)
{
    struct conf_route *route = d->draft_route;
    const config_setting_t *status = route_member(d, "status");
    bool empty = route->route_handler == HANDLER_TEXT ? route->route_text_len == 0 : route->route_result == RESULT_NONE;

    if (status != NULL && (route->route_status == 204 || route->route_status == 205) && !empty)
        report_setting(d->draft_reader->reader_report, status,
                       "status %u has no body; allowed: with result = \"none\", or another 2xx", route->route_status);
    else if (status != NULL && route->route_status == 206)
        report_setting(d->draft_reader->reader_report, status,
                       "status 206 is for ranges, which this is not; allowed: another 2xx");
    if (route->route_status == 0)
        route->route_status = route->route_handler == HANDLER_SQL && route->route_result == RESULT_NONE ? 204 : 200;
}

static void route_check_content_type(struct draft *d)
{
    struct conf_route *route = d->draft_route;
    const config_setting_t *member = route_member(d, "content_type");
    bool plain = route->route_handler == HANDLER_TEXT || route->route_result == RESULT_RAW;

    if (member != NULL && !plain)
        report_setting(d->draft_reader->reader_report, member,
                       "content_type goes with text and result = \"raw\" only: other answers are " CONTENT_TYPE_JSON);
    else if (member != NULL && !mediatype_valid(route->route_content_type))
        report_setting(d->draft_reader->reader_report, member,
                       "content_type is \"%.128s\"; allowed: TYPE/SUBTYPE, as in text/html; charset=utf-8",
                       route->route_content_type);
    if (route->route_content_type == NULL)
        route->route_content_type = plain ? CONTENT_TYPE_TEXT : CONTENT_TYPE_JSON;
}

/* --- routes with sql
 * --------------------------------------------------------------------------------------------------- */

static void route_read_sql(struct draft *d)
{
    const config_setting_t *share = route_member(d, "share"), *cache = route_member(d, "cache_ms");

    route_choose_pool(d);
    route_read_params(d);
    route_check_statement(d);
    route_check_pooler(d);
    route_check_result(d);
    route_read_echo(d);
    route_check_member_names(d);
    if (share != NULL && d->draft_route->route_share && route_member(d, "method") != NULL &&
        d->draft_route->route_method != METHOD_GET)
        report_setting(d->draft_reader->reader_report, share, "share goes with GET only, and this route is %s",
                       conf_method_name(d->draft_route->route_method));
    if (cache != NULL && d->draft_route->route_cache_ms > 0 && route_member(d, "method") != NULL &&
        d->draft_route->route_method != METHOD_GET && d->draft_route->route_method != METHOD_HEAD)
        report_setting(d->draft_reader->reader_report, cache,
                       "cache_ms goes with GET and HEAD only, and this route is %s",
                       conf_method_name(d->draft_route->route_method));
}

static void route_read_params(struct draft *d)
{
    const config_setting_t *list = route_member(d, "params");
    struct conf_route *route = d->draft_route;
    const char *path = d->draft_path_fits ? route->route_path : NULL;
    /* A wrong method allows all. */
    enum conf_method method = route_member(d, "method") != NULL ? route->route_method : METHOD_POST;
    char why[256];

    d->draft_params_fit = list != NULL || !route_has(d, "params");
    if (list == NULL)
        return;
    route->route_params_n = (unsigned)config_setting_length(list);
    route->route_params =
        memory_get(d->draft_reader->reader_memory, (route->route_params_n + 1) * sizeof *route->route_params);
    for (unsigned i = 0; i < route->route_params_n; i++) {
        const config_setting_t *e = config_setting_get_elem(list, i);
        const char *text = config_setting_get_string(e);

        if (!conf_utf8_valid(text, strlen(text)) || conf_utf8_has_control(text, ""))
            snprintf(why, sizeof why, "has a control character or is not UTF-8; allowed: printable characters");
        else if (param_parse(text, path, method, d->draft_reader->reader_memory, &route->route_params[i], why,
                             sizeof why))
            continue;
        report_setting(d->draft_reader->reader_report, e, "parameter \"%.128s\" %s", text, why);
        d->draft_params_fit = false;
    }
    if (d->draft_params_fit)
        route_check_bodies(d, list);
}

/* The whole body or its fields, not both. */
static void route_check_bodies(struct draft *d, const config_setting_t *list)
{
    const struct conf_route *route = d->draft_route;
    bool whole = false, field = false;

    for (unsigned i = 0; i < route->route_params_n; i++) {
        bool was_mixed = whole && field;

        whole |= route->route_params[i].param_source == SOURCE_BODY;
        field |= route->route_params[i].param_source == SOURCE_BODY_FIELD;
        if (whole && field && !was_mixed)
            report_setting(d->draft_reader->reader_report, config_setting_get_elem(list, i),
                           "parameter \"%.128s\" mixes body and body.NAME; allowed: one of the two in a route",
                           route->route_params[i].param_spec);
    }
}

static void route_check_statement(struct draft *d)
{
    const struct conf_route *route = d->draft_route;
    const config_setting_t *sql = route_member(d, "sql");
    struct report *r = d->draft_reader->reader_report;
    struct statement st;

    if (sql == NULL)
        return;
    if (!statement_check(route->route_sql, &st)) {
        report_setting(r, sql, "sql %s", st.statement_why);
        return;
    }
    d->draft_route->route_calls = st.statement_calls;
    if (!route_has(d, "params") || route_member(d, "params") != NULL)
        for (unsigned i = 0; i < STATEMENT_PARAMS_MAX; i++) {
            bool used = (st.statement_params >> i & 1) != 0;

            if (used && i >= route->route_params_n)
                report_warning(r, d->draft_group, "sql uses $%u, but params has %u; allowed: one for each $n", i + 1,
                               route->route_params_n);
            else if (!used && i < route->route_params_n)
                report_warning(r, d->draft_group, "params has %u, but sql does not use $%u; allowed: one for each $n",
                               route->route_params_n, i + 1);
        }
}

/* Behind a pooler a read_only pool is so by its transactions' own settings, and a procedure may end its transaction. */
static void route_check_pooler(struct draft *d)
{
    const struct conf *conf = d->draft_conf;
    const struct conf_route *route = d->draft_route;
    const config_setting_t *sql = route_member(d, "sql");
    const struct conf_pool *pool;

    if (sql == NULL || !route->route_calls || route->route_pool >= conf->conf_pools_n)
        return;
    pool = &conf->conf_pools[route->route_pool];
    if (pool->pool_read_only && pool->pool_pooler)
        report_setting(
            d->draft_reader->reader_report, sql,
            "sql is a CALL or DO on pool \"%s\", which is read_only behind a pooler: a procedure could leave "
            "its transaction, and write; allowed: on pools that are not read_only",
            pool->pool_name);
}

static void route_choose_pool(struct draft *d)
{
    const config_setting_t *pool = route_member(d, "pool");
    struct report *r = d->draft_reader->reader_report;
    const struct conf *conf = d->draft_conf;
    struct conf_route *route = d->draft_route;
    bool reads = route->route_method == METHOD_GET || route->route_method == METHOD_HEAD;
    int found = -1;

    if (pool != NULL) {
        found = pools_find(conf, config_setting_get_string(pool));
        if (found < 0)
            report_setting(r, pool, "there is no pool \"%s\"; allowed: a name of one in pools",
                           config_setting_get_string(pool));
    } else if (conf->conf_pools_n == 0) {
        report_setting(r, d->draft_group, "the route has sql, but there is no pool; allowed: with one in pools");
    } else {
        for (unsigned i = 0; i < conf->conf_pools_n && found < 0; i++)
            if (conf->conf_pools[i].pool_read_only == reads)
                found = (int)i;
    }
    route->route_pool = found >= 0 ? (unsigned)found : 0; /* none of the wanted kind: the first */
    if (pool == NULL && !reads && found < 0 && conf->conf_pools_n > 0 && route_member(d, "method") != NULL)
        report_warning(
            r, d->draft_group,
            "%s goes to a pool that is read_only, as all are: a statement that writes will be a 405; allowed: "
            "a pool that is not, or with its name in pool, when the statement only reads",
            conf_method_name(route->route_method));
}

static void route_check_result(struct draft *d)
{
    enum conf_result result = d->draft_route->route_result;

    if (result != RESULT_ROW && result != RESULT_ROWS)
        route_refuse(d, "wrap", "goes with result = \"row\" or \"rows\" only");
    if (result != RESULT_ROWS)
        route_refuse(d, "count", "goes with result = \"rows\" only");
    if (!route_has(d, "wrap")) {
        route_refuse(d, "count", "needs wrap, the object that it stands in");
        route_refuse(d, "echo", "needs wrap, the object that it stands in");
    }
}

static void route_read_echo(struct draft *d)
{
    const config_setting_t *list = route_member(d, "echo");
    struct conf_route *route = d->draft_route;
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    if (n == 0 || !d->draft_params_fit)
        return;
    route->route_echo = memory_get(d->draft_reader->reader_memory, n * sizeof *route->route_echo);
    route->route_echo_names = memory_get(d->draft_reader->reader_memory, n * sizeof *route->route_echo_names);
    for (unsigned i = 0; i < n; i++) {
        const config_setting_t *e = config_setting_get_elem(list, i);
        const char *text = config_setting_get_string(e);
        unsigned j = 0;

        while (j < route->route_params_n && strcmp(route->route_params[j].param_spec, text) != 0)
            j++;
        if (j == route->route_params_n || route->route_params[j].param_source == SOURCE_BODY) {
            report_setting(d->draft_reader->reader_report, e,
                           "echo names \"%.128s\"; allowed: the route's params, without defaults and but for body",
                           text);
            continue;
        }
        route->route_echo[route->route_echo_n] = j;
        route->route_echo_names[route->route_echo_n++] =
            route->route_params[j].param_source == SOURCE_CONN_IP ? "ip" : route->route_params[j].param_name;
    }
}

/* wrap, count and the echoed names are members of one object. */
static void route_check_member_names(struct draft *d)
{
    struct report *r = d->draft_reader->reader_report;
    const struct conf_route *route = d->draft_route;
    const config_setting_t *wrap = route_member(d, "wrap"), *count = route_member(d, "count"),
                           *echo = route_member(d, "echo");
    const char *taken[2 + STATEMENT_PARAMS_MAX];
    unsigned n = 0;

    if (wrap != NULL && strpbrk(route->route_wrap, "\"\\") != NULL)
        report_setting(r, wrap, "wrap has a quote or a backslash; allowed: any other printable characters");
    if (count != NULL && strpbrk(route->route_count, "\"\\") != NULL)
        report_setting(r, count, "count has a quote or a backslash; allowed: any other printable characters");
    if (wrap != NULL)
        taken[n++] = route->route_wrap;
    if (count != NULL) {
        if (n != 0 && strcmp(taken[0], route->route_count) == 0)
            report_setting(r, count, "count and wrap both are \"%s\"; allowed: different names", route->route_count);
        taken[n++] = route->route_count;
    }
    for (unsigned i = 0; i < route->route_echo_n; i++) {
        for (unsigned j = 0; j < n; j++)
            if (strcmp(taken[j], route->route_echo_names[i]) == 0) {
                report_setting(r, echo, "echo puts \"%.128s\" beside the same name; allowed: different names",
                               route->route_echo_names[i]);
                break;
            }
        taken[n++] = route->route_echo_names[i];
    }
}

static void route_refuse(struct draft *d, const char *name, const char *why)
{
    if (route_has(d, name))
        report_setting(d->draft_reader->reader_report, config_setting_get_member(d->draft_group, name), "%s %s", name,
                       why);
}

/* The setting, when it is there and right by the table. */
static const config_setting_t *route_member(const struct draft *d, const char *name)
{
    return options_member(OPTION_ROUTE, d->draft_group, name);
}

static bool route_has(const struct draft *d, const char *name)
{
    return config_setting_get_member(d->draft_group, name) != NULL;
}
