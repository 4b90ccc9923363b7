/* Connecting with libpq on the loop. */
#include "worker/pg/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/mem/alloc.h"
#include "worker/pg/conn.h"
#include "worker/pg/reach.h"

#define LINK_STEP_SECONDS 5 /* for one step of connecting, unless connect_timeout says otherwise */
#define LINK_HASTY_SECONDS 1
#define LINK_CATALOGUE_SECONDS "5" /* for the catalogue's answer */
#define LINK_PREPARE_SECONDS 10    /* without a word from the server while preparing; on top of statement_timeout */

static void link_resolved(void *arg, const struct resolve_answer *answer);
static int link_begin(struct link *l, const char *host, const char *hostaddr, const char *port);
static int link_begun(struct link *l, int rc);
static void link_event_cb(int fd, short what, void *arg);
static void link_wait_step(struct link *l, short what);
static void link_wait(struct link *l, short what);
static void link_wait_for(struct link *l, short what, unsigned seconds);
static void link_connecting(struct link *l);
static int link_send_statements(struct link *l);
static int link_send_learn(struct link *l);
static int link_send_reach(struct link *l);
static int link_send_catalogue(struct link *l, const char *what, const char *sql, Oid type, const char *value);
static void link_talk(struct link *l);
static int link_result(struct link *l, PGresult **rp);
static int link_result_prepare(struct link *l, PGresult **rp);
static int link_result_learn(struct link *l, PGresult *r);
static int link_result_reach(struct link *l, PGresult **rp);
static int link_described(struct link *l);
static int link_learnt(struct link *l);
static int link_finish(struct link *l);
static void link_judge_resets(struct link *l);
static bool link_refusal(const char *sqlstate);
static int link_say(struct link *l, const char *what, const char *message);
static void link_notice(void *arg, const PGresult *r);
static void link_fail(struct link *l);
static void link_clear(struct link *l);

int link_connect(struct link *l)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    const char *host;
    int rc = -1;

    AN(l->link_state == LINK_IDLE && l->link_pg == NULL);
    snprintf(l->link_why, sizeof l->link_why, "out of memory");
    l->link_entries = calloc(l->link_statements_n + 1, sizeof *l->link_entries);
    if (l->link_entries != NULL)
        l->link_options = conninfo_read(l->link_pool->pool_conninfo, l->link_why, sizeof l->link_why);
    if (l->link_options != NULL) {
        host = conninfo_get(l->link_options, "host");
        if (host == NULL || conninfo_get(l->link_options, "hostaddr") != NULL ||
            (!resolve_needed(host) && strchr(host, ',') == NULL)) {
            rc = link_begin(l, NULL, NULL, NULL);
        } else {
            l->link_resolve = resolve_start(l->link_base, host, conninfo_get(l->link_options, "port"), l->link_timeouts,
                                            link_resolved, l);
            if (l->link_resolve != NULL) {
                l->link_state = LINK_RESOLVING;
                rc = 0;
            }
        }
    }
    if (rc != 0)
        link_clear(l);
    alloc_leave(old);
    return rc;
}

int link_prepare_again(struct link *l)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    int rc = -1;

    AN(l->link_state == LINK_IDLE && l->link_pg != NULL);
    snprintf(l->link_why, sizeof l->link_why, "out of memory");
    l->link_entries = calloc(l->link_statements_n + 1, sizeof *l->link_entries);
    if (l->link_entries != NULL) {
        l->link_lead = !l->link_pool->pool_pooler;
        rc = link_send_statements(l);
    }
    rc = link_begun(l, rc);
    alloc_leave(old);
    return rc;
}

int link_reach_again(struct link *l)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    int rc = -1;

    AN(l->link_state == LINK_IDLE && l->link_pg != NULL && l->link_pool->pool_reset == RESET_AUTO);
    l->link_prepared = l->link_news = l->link_flagged = false;
    if (PQsetnonblocking(l->link_pg, 1) == 0 && PQenterPipelineMode(l->link_pg) == 1)
        rc = link_send_reach(l);
    else
        rc = link_say(l, "reach: ", PQerrorMessage(l->link_pg));
    rc = link_begun(l, rc);
    alloc_leave(old);
    return rc;
}

/* What was to be sent to a connection that is up has been, or not (rc). */
static int link_begun(struct link *l, int rc)
{
    if (rc != 0)
        link_clear(l);
    else
        link_wait(l, EV_READ | EV_WRITE);
    return rc;
}

void link_close(struct link *l)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);

    link_clear(l);
    PQfinish(l->link_pg);
    l->link_pg = NULL;
    alloc_leave(old);
}

static void link_resolved(void *arg, const struct resolve_answer *answer)
{
    struct link *l = arg;

    if (answer->answer_why != NULL) {
        snprintf(l->link_why, sizeof l->link_why, "%s", answer->answer_why);
        link_fail(l);
        return;
    }
    if (link_begin(l, answer->answer_host, answer->answer_hostaddr, answer->answer_port) != 0) {
        link_fail(l);
        return;
    }
    resolve_free(&l->link_resolve);
}

static int link_begin(struct link *l, const char *host, const char *hostaddr, const char *port)
{
    l->link_pg = conninfo_connect(l->link_pool, l->link_options, host, hostaddr, port);
    if (l->link_pg == NULL)
        return link_say(l, "", "out of memory");
    (void)PQsetNoticeReceiver(l->link_pg, link_notice, l);
    if (PQstatus(l->link_pg) == CONNECTION_BAD)
        return link_say(l, "", PQerrorMessage(l->link_pg));
    keydata_start(&l->link_keydata, l->link_pg);
    l->link_state = LINK_CONNECTING;
    link_wait_step(l, EV_WRITE); /* as if PQconnectPoll had said so (manual) */
    return 0;
}

static void link_event_cb(int fd, short what, void *arg)
{
    struct link *l = arg;
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);

    (void)fd;
    if (what & EV_TIMEOUT) {
        if (!l->link_hasty) /* else each host has a patient attempt, too */
            l->link_timeouts++;
        (void)link_say(l, "",
                       l->link_state == LINK_CONNECTING ? "timeout while connecting" : "timeout while preparing");
        link_fail(l);
    } else if (l->link_state == LINK_CONNECTING) {
        link_connecting(l);
    } else {
        link_talk(l);
    }
    alloc_leave(old);
}

/* For PQconnectPoll. */
static void link_wait_step(struct link *l, short what)
{
    link_wait_for(
        l, what,
        conninfo_seconds(l->link_options, "connect_timeout", l->link_hasty ? LINK_HASTY_SECONDS : LINK_STEP_SECONDS));
}

/* For what statements may have to wait for, too. */
static void link_wait(struct link *l, short what)
{
    link_wait_for(l, what, LINK_PREPARE_SECONDS + l->link_pool->pool_statement_timeout_ms / 1000);
}

/* libpq may use another socket at each step, so the event is set anew each time. */
static void link_wait_for(struct link *l, short what, unsigned seconds)
{
    struct timeval patience = {seconds, 0};

    AZ(event_assign(&l->link_event, l->link_base, PQsocket(l->link_pg), what, link_event_cb, l));
    (void)event_add(&l->link_event, &patience);
}

static void link_connecting(struct link *l)
{
    size_t n;

    switch (PQconnectPoll(l->link_pg)) {
    case PGRES_POLLING_READING:
        link_wait_step(l, EV_READ);
        return;
    case PGRES_POLLING_WRITING:
        link_wait_step(l, EV_WRITE);
        return;
    case PGRES_POLLING_OK:
        break;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
    default:
        (void)link_say(l, "", PQerrorMessage(l->link_pg));
        n = strlen(l->link_why);
        if (!l->link_pool->pool_pooler && strstr(l->link_why, "unsupported startup parameter") != NULL)
            snprintf(l->link_why + n, sizeof l->link_why - n, " (behind pgbouncer a pool needs pooler = true)");
        link_fail(l);
        return;
    }
    keydata_stop(&l->link_keydata, l->link_pg);
    l->link_timeouts = 0;
    l->link_lead = false;
    if (PQprotocolVersion(l->link_pg) != 3)
        (void)link_say(l, "", "the server does not speak protocol version 3");
    else if (link_send_statements(l) == 0) {
        link_wait(l, EV_READ | EV_WRITE);
        return;
    }
    link_fail(l);
}

static int link_send_statements(struct link *l)
{
    PGconn *pg = l->link_pg;
    bool ok;

    l->link_state = LINK_PREPARING;
    l->link_at = l->link_step = 0;
    l->link_prepared = true;
    l->link_reached = l->link_news = l->link_flagged = false;
    ok = PQsetnonblocking(pg, 1) == 0 && PQenterPipelineMode(pg) == 1;
    if (l->link_lead)
        ok = ok && PQsendQueryParams(pg, "DISCARD ALL", 0, NULL, NULL, NULL, NULL, 0) == 1 && PQpipelineSync(pg) == 1;
    for (unsigned i = 0; i < l->link_statements_n && ok; i++) {
        const struct pg_statement *s = l->link_statements[i];
        /* Behind a pooler the next message may meet another server: nothing is kept there. */
        const char *name = l->link_pool->pool_pooler ? "" : s->statement_name;

        ok = PQsendPrepare(pg, name, s->statement_sql, 0, NULL) == 1 && PQsendDescribePrepared(pg, name) == 1 &&
             PQpipelineSync(pg) == 1; /* a Sync each: one that is refused takes no other with it */
    }
    if (l->link_statements_n == 0 && !l->link_lead)
        ok = ok && PQpipelineSync(pg) == 1;
    return ok ? 0 : link_say(l, "prepare: ", PQerrorMessage(pg));
}

static int link_send_learn(struct link *l)
{
    char *list = NULL;
    size_t list_n = 0;
    FILE *f = open_memstream(&list, &list_n);
    unsigned foreign = 0;
    int rc = 0;

    if (f != NULL) {
        fputc('{', f);
        foreign = describe_foreign(l->link_entries, l->link_statements_n, f);
        fputc('}', f);
        (void)fclose(f);
    }
    if (foreign > 0) {
        l->link_state = LINK_LEARNING;
        rc = link_send_catalogue(l, "types: ", PG_TYPES_QUERY, 1028, list); /* oid[] */
    }
    free(list);
    return rc;
}

static int link_send_reach(struct link *l)
{
    char *list = reach_statements(l->link_statements, l->link_statements_n);
    int rc;

    if (list == NULL)
        return link_say(l, "reach: ", "out of memory");
    l->link_state = LINK_REACHING;
    l->link_reached = true;
    l->link_reach_ns = pg_now();
    rc = link_send_catalogue(l, "reach: ", PG_REACH_QUERY, 1009, list); /* text[] */
    free(list);
    return rc;
}

/* Compiling a query over the catalogue takes a thousand times longer than running it; and how long a route's statement
 * may take says nothing about it.  All is one transaction, which ends with the Sync, and the settings with it. */
static int link_send_catalogue(struct link *l, const char *what, const char *sql, Oid type, const char *value)
{
    static const char settings[] =
        "SELECT pg_catalog.set_config(name, CASE name WHEN 'jit' THEN 'off' ELSE '" LINK_CATALOGUE_SECONDS
        "s' END, true) FROM pg_catalog.pg_settings WHERE name IN ('jit', 'statement_timeout')";

    l->link_step = 0;
    if (PQsendQueryParams(l->link_pg, settings, 0, NULL, NULL, NULL, NULL, 0) == 1 &&
        PQsendQueryParams(l->link_pg, sql, 1, &type, &value, NULL, NULL, 0) == 1 && PQpipelineSync(l->link_pg) == 1)
        return 0;
    return link_say(l, what, PQerrorMessage(l->link_pg));
}

static void link_talk(struct link *l)
{
    int unsent;

    if (PQconsumeInput(l->link_pg) != 1) {
        (void)link_say(l, "", PQerrorMessage(l->link_pg));
        link_fail(l);
        return;
    }
    while (l->link_state != LINK_IDLE && !PQisBusy(l->link_pg)) {
        PGresult *r = PQgetResult(l->link_pg);
        int rc = r != NULL ? link_result(l, &r) : 0; /* NULL: the end of one command's results */

        PQclear(r);
        if (rc != 0 || PQstatus(l->link_pg) == CONNECTION_BAD) {
            if (rc == 0)
                (void)link_say(l, "", PQerrorMessage(l->link_pg));
            link_fail(l);
            return;
        }
    }
    if (l->link_state == LINK_IDLE) {
        (void)event_del(&l->link_event);
        l->link_done(l->link_arg, NULL);
        return;
    }
    unsent = PQflush(l->link_pg);
    if (unsent < 0) {
        (void)link_say(l, "", PQerrorMessage(l->link_pg));
        link_fail(l);
        return;
    }
    link_wait(l, unsent > 0 ? EV_READ | EV_WRITE : EV_READ);
}

static int link_result(struct link *l, PGresult **rp)
{
    switch (l->link_state) {
    case LINK_LEARNING:
        return link_result_learn(l, *rp);
    case LINK_REACHING:
        return link_result_reach(l, rp);
    default:
        return link_result_prepare(l, rp);
    }
}

/* *rp becomes NULL when the result is kept. */
static int link_result_prepare(struct link *l, PGresult **rp)
{
    PGresult *r = *rp;
    struct describe_entry *e = &l->link_entries[l->link_at];
    const char *sqlstate;

    switch (PQresultStatus(r)) {
    case PGRES_PIPELINE_SYNC:
        l->link_step = 0;
        if (l->link_lead)
            l->link_lead = false;
        else
            l->link_at++;
        return l->link_at >= l->link_statements_n ? link_described(l) : 0;
    case PGRES_COMMAND_OK:
        if (++l->link_step == 2 && !l->link_lead) { /* PREPARE's comes first, then DESCRIBE's */
            e->entry_result = r;
            *rp = NULL;
        }
        return 0;
    case PGRES_PIPELINE_ABORTED: /* the DESCRIBE of what was refused */
        return 0;
    case PGRES_FATAL_ERROR:
        sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        if (l->link_lead || sqlstate == NULL || !link_refusal(sqlstate))
            return link_say(l, "prepare: ", PQresultErrorMessage(r));
        snprintf(e->entry_refused, sizeof e->entry_refused, "%s",
                 PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) != NULL ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY)
                                                                        : "refused");
        return 0;
    default:
        return link_say(l, "prepare: ", "unexpected result");
    }
}

static int link_result_learn(struct link *l, PGresult *r)
{
    const char *columns[32];
    unsigned n = (unsigned)PQnfields(r);

    switch (PQresultStatus(r)) {
    case PGRES_PIPELINE_SYNC:
        return link_learnt(l);
    case PGRES_TUPLES_OK:
        if (l->link_step++ == 0) /* the settings */
            return 0;
        AN(n <= sizeof columns / sizeof columns[0]);
        for (int row = 0; row < PQntuples(r); row++) {
            for (unsigned i = 0; i < n; i++)
                columns[i] = PQgetisnull(r, row, (int)i) ? NULL : PQgetvalue(r, row, (int)i);
            if (pg_types_learn(l->link_types, columns, n) != 0)
                l->link_log(LOG_LEVEL_WARN, "pool %s: a type of the catalogue makes no sense: %s",
                            l->link_pool->pool_name, n > 0 && columns[0] != NULL ? columns[0] : "?");
        }
        return 0;
    case PGRES_FATAL_ERROR:
    default:
        return link_say(l, "types: ", PQresultErrorMessage(r));
    }
}

/* *rp becomes NULL when the result is kept.  An error of the statement's is no reason not to serve. */
static int link_result_reach(struct link *l, PGresult **rp)
{
    switch (PQresultStatus(*rp)) {
    case PGRES_PIPELINE_SYNC:
        l->link_reach_ns = pg_now() - l->link_reach_ns;
        return link_finish(l);
    case PGRES_TUPLES_OK:
        if (l->link_step++ == 0 || PQnfields(*rp) != 2) /* the settings */
            return 0;
        PQclear(l->link_reach);
        l->link_reach = *rp;
        *rp = NULL;
        return 0;
    case PGRES_FATAL_ERROR:
        (void)link_say(l, "", PQresultErrorMessage(*rp)); /* link_judge_resets will log it */
        return 0;
    case PGRES_PIPELINE_ABORTED:
        return 0;
    default:
        return link_say(l, "reach: ", "unexpected result");
    }
}

/* All statements have been described, or refused. */
static int link_described(struct link *l)
{
    if (link_send_learn(l) != 0)
        return -1;
    return l->link_state == LINK_LEARNING ? 0 : link_learnt(l);
}

/* All types are known. */
static int link_learnt(struct link *l)
{
    bool ask = false;

    for (unsigned i = 0; i < l->link_statements_n; i++)
        ask |= !l->link_statements[i]->statement_reached;
    if (!ask || l->link_pool->pool_pooler || l->link_pool->pool_reset != RESET_AUTO)
        return link_finish(l);
    return link_send_reach(l);
}

static int link_finish(struct link *l)
{
    /* Every result has been taken, the last of them the Sync's: libpq has nothing left to say or to read. */
    if (PQexitPipelineMode(l->link_pg) != 1)
        return link_say(l, "prepare: ", PQerrorMessage(l->link_pg));
    link_judge_resets(l);
    for (unsigned i = 0; i < l->link_statements_n && l->link_prepared; i++) {
        struct pg_statement *s = l->link_statements[i];

        if (s->statement_reached && !l->link_reached && describe_news(s, &l->link_entries[i], l->link_types))
            s->statement_resets = l->link_news = true;
        if (describe_apply(s, &l->link_entries[i], l->link_types))
            l->link_log(LOG_LEVEL_ERROR, "pool %s: %s is broken: %s (%s)", l->link_pool->pool_name,
                        s->statement_label != NULL ? s->statement_label : s->statement_name, s->statement_why,
                        s->statement_sql);
    }
    link_clear(l);
    return 0;
}

/* Behind which statements the session is to be reset from now on. */
static void link_judge_resets(struct link *l)
{
    bool ask = l->link_pool->pool_reset == RESET_AUTO, said = false;

    if (ask && !l->link_reached)
        return;
    for (unsigned i = 0; i < l->link_statements_n; i++) {
        struct pg_statement *s = l->link_statements[i];
        const char *through = NULL;
        bool resets = ask ? reach_said(l->link_reach, i + 1, &through) : l->link_pool->pool_reset == RESET_ALWAYS;

        if (resets && !s->statement_resets && ask && l->link_reach != NULL) {
            l->link_log(LOG_LEVEL_INFO,
                        "pool %s: %s may change its session%s%s: a reset follows each of its queries (none is needed "
                        "behind set_config(..., true) or a SET clause)",
                        l->link_pool->pool_name, s->statement_label != NULL ? s->statement_label : s->statement_name,
                        through != NULL ? " through " : "", through != NULL ? through : "");
        } else if (resets && !s->statement_resets && ask && !said) {
            l->link_log(
                LOG_LEVEL_WARN,
                "pool %s: what its statements can reach is not known: a reset follows each of their queries: %s",
                l->link_pool->pool_name, l->link_why);
            said = true;
        }
        l->link_flagged |= resets && !s->statement_resets && s->statement_reached;
        s->statement_resets = resets;
        s->statement_reached = ask;
    }
}

/* Whether an error is the statement's own fault; others are the server's and the attempt has failed. */
static bool link_refusal(const char *sqlstate)
{
    static const char *const transient[] = {"08", "25", "40", "53", "55", "57", "58", "XX"};

    for (size_t i = 0; i < sizeof transient / sizeof transient[0]; i++)
        if (strncmp(sqlstate, transient[i], 2) == 0)
            return false;
    return true;
}

/* Keeps a reason, in one line; always -1. */
static int link_say(struct link *l, const char *what, const char *message)
{
    size_t n;

    snprintf(l->link_why, sizeof l->link_why, "%s%s", what, message != NULL ? message : "");
    n = strlen(l->link_why);
    while (n > 0 && l->link_why[n - 1] == '\n')
        l->link_why[--n] = '\0';
    for (char *p = l->link_why; *p != '\0'; p++)
        if (*p == '\n')
            *p = ' ';
    return -1;
}

/* libpq would print notices to stderr. */
static void link_notice(void *arg, const PGresult *r)
{
    const struct link *l = arg;
    const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

    l->link_log(LOG_LEVEL_DEBUG, "pool %s: notice: %s", l->link_pool->pool_name, message != NULL ? message : "");
}

static void link_fail(struct link *l)
{
    link_close(l);
    l->link_done(l->link_arg, l->link_why);
}

/* Everything but the connection itself. */
static void link_clear(struct link *l)
{
    if (event_initialized(&l->link_event))
        (void)event_del(&l->link_event);
    resolve_free(&l->link_resolve);
    if (l->link_pg != NULL)
        keydata_stop(&l->link_keydata, l->link_pg);
    if (l->link_entries != NULL)
        for (unsigned i = 0; i < l->link_statements_n; i++)
            PQclear(l->link_entries[i].entry_result);
    free(l->link_entries);
    l->link_entries = NULL;
    PQclear(l->link_reach);
    l->link_reach = NULL;
    if (l->link_options != NULL)
        PQconninfoFree(l->link_options);
    l->link_options = NULL;
    l->link_state = LINK_IDLE;
}
