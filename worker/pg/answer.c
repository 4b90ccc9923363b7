/* What PostgreSQL's messages mean to the queries in flight (manual, "Extended Query" and "Pipelining"). */
#include "worker/pg/conn.h"
#include "worker/pg/describe.h"
#include "worker/pg/sqlstate.h"

#include <stdio.h>

static int answer_preface(struct pg_conn *c, const struct codec_message *m) __attribute__((noinline));
static bool answer_reset_next(const struct pg_conn *c, uint32_t batch);
static int answer_reset(struct pg_conn *c, const struct codec_message *m);
static int answer_described(struct pg_conn *c, const struct codec_message *m);
static int answer_row(struct pg_conn *c, const struct codec_message *m);
static bool answer_stale_again(const struct pg_conn *c, struct pg_query *q);
static int answer_complete(struct pg_conn *c);
static void answer_types_outdated(struct pg_conn *c);
static int answer_ready(struct pg_conn *c, const struct codec_message *m);
static int answer_error(struct pg_conn *c, const struct codec_message *m);
static void answer_error_query(struct pg_conn *c, struct pg_query *q, struct codec_error *e);
static bool answer_cancel_strayed(const struct pg_conn *c, const struct pg_query *q, uint64_t now);
static int answer_unexpected(struct pg_conn *c, const struct codec_message *m);
static void answer_count(struct pg_conn *c, const struct pg_query *q);
static void answer_sample(struct pg_statement *s, uint64_t ns, bool fresh);

int answer_message(struct pg_conn *c, const struct codec_message *m)
{
    const struct pg_query *q;

    if (__builtin_expect(!c->conn_prefaced, 0) &&
        ((m->message_type != 'E' && m->message_type != 'Z') || !c->conn_pool->pool_pooler))
        return answer_preface(c, m);
    switch (m->message_type) {
    case '2': /* BindComplete */
        q = TAILQ_FIRST(&c->conn_inflight);
        if (q == NULL || q->query_batch != c->conn_sync_done || c->conn_skipping || c->conn_bound)
            return answer_unexpected(c, m);
        c->conn_bound = true;
        return 0;
    case 'D': /* DataRow */
        return answer_row(c, m);
    case 'C': /* CommandComplete */
    case 'I': /* EmptyQueryResponse */
        return answer_complete(c);
    case 'Z': /* ReadyForQuery */
        return answer_ready(c, m);
    case 'E': /* ErrorResponse */
        return answer_error(c, m);
    case 'S': /* ParameterStatus: a statement, or the operator, has changed a setting of the session */
        if (!c->conn_pool->pool_pooler && !answer_reset_next(c, c->conn_sync_done + 1))
            conn_replace(c);
        return 0;
    case 'N': /* NoticeResponse */
    case 'A': /* NotificationResponse */
        return 0;
    case '1': /* ParseComplete */
        return c->conn_pool->pool_pooler ? 0 : answer_unexpected(c, m);
    case 'T': /* RowDescription */
    case 'n': /* NoData */
        return c->conn_pool->pool_pooler ? answer_described(c, m) : answer_unexpected(c, m);
    default: /* COPY, above all, which no route can do */
        return answer_unexpected(c, m);
    }
}

/* What comes before the query's own answer: behind a pooler that of the settings of its transaction, else a reset's. */
static int answer_preface(struct pg_conn *c, const struct codec_message *m)
{
    if (!c->conn_pool->pool_pooler)
        return answer_reset(c, m);
    if (c->conn_inflight_n == 0 && m->message_type != 'N' && m->message_type != 'S' && m->message_type != 'A')
        return answer_unexpected(c, m);
    switch (m->message_type) {
    case 'C':
        c->conn_prefaced = true;
        return 0;
    case '1':
    case '2':
    case 'D':
    case 'N':
    case 'S':
    case 'A':
        return 0;
    default:
        return answer_unexpected(c, m);
    }
}

static bool answer_reset_next(const struct pg_conn *c, uint32_t batch)
{
    return c->conn_resets > 0 && c->conn_reset_at == batch;
}

/* What the commands of CODEC_RESET say.  Settings that are reported are as they were, or as a new session has them. */
static int answer_reset(struct pg_conn *c, const struct codec_message *m)
{
    const struct pg_query *q;
    struct codec_error e;
    char why[256];

    switch (m->message_type) {
    case 'C':
    case 'T':
    case 'D':
    case 'S':
    case 'N':
    case 'A':
        return 0;
    case 'Z':
        if (m->message_body == NULL || m->message_len != 1 || m->message_body[0] != 'I')
            break;
        c->conn_sync_done++;
        c->conn_prefaced = true;
        c->conn_resets--;
        TAILQ_FOREACH(q, &c->conn_inflight, query_link)
        if (q->query_reset) {
            c->conn_reset_at = q->query_batch + 1;
            break;
        }
        return 0;
    case 'E':
        if (m->message_body == NULL || codec_error(m, &e) != 0)
            break;
        snprintf(why, sizeof why, "its session could not be reset: %s: %s", e.error_public.error_sqlstate,
                 e.error_public.error_message != NULL ? e.error_public.error_message : "no message");
        conn_lose(c, codec_error_fatal(&e) ? LOSS_FATAL : LOSS_SUDDEN, why);
        return -1;
    default:
        break;
    }
    snprintf(why, sizeof why, "its session could not be reset: unexpected message, type 0x%02x", m->message_type);
    conn_lose(c, LOSS_SUDDEN, why);
    return -1;
}

void answer_round(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;
    uint64_t elapsed;

    if (p->pool_round_n == 0) {
        if (c->conn_inflight_n == 0) /* all that was left was skipped */
            c->conn_busy_since = 0;
        c->conn_fresh = c->conn_inflight_n == 0;
        return;
    }
    elapsed = c->conn_busy_since != 0 && now > c->conn_busy_since ? now - c->conn_busy_since : 0;
    if (elapsed > 1000000000)
        elapsed = 1000000000; /* keeps the products small */
    /* Answers of one batch arrive together: each gets its share by what it was expected to take. */
    for (unsigned i = 0; i < p->pool_round_n && elapsed > 0; i++) {
        const struct round_entry *e = &p->pool_round[i];

        answer_sample(e->round_statement, elapsed * e->round_cost_ns / p->pool_round_cost / e->round_n, c->conn_fresh);
    }
    p->pool_round_n = 0;
    p->pool_round_cost = 0;
    c->conn_busy_since = c->conn_inflight_n > 0 ? now : 0;
    c->conn_fresh = c->conn_inflight_n == 0;
}

void answer_window(struct pg_statement *s)
{
    uint32_t least =
        s->statement_least_ns[0] < s->statement_least_ns[1] ? s->statement_least_ns[0] : s->statement_least_ns[1];

    if (least != UINT32_MAX)
        s->statement_avg_ns = least;
    else if (s->statement_samples > 0) /* never idle: whole seconds by their number, which is right on the whole */
        s->statement_avg_ns = (uint32_t)(s->statement_sum_ns / s->statement_samples);
    s->statement_least_ns[1] = s->statement_least_ns[0];
    s->statement_least_ns[0] = UINT32_MAX;
    s->statement_sum_ns = s->statement_samples = 0;
}

/* One query of it took `ns`.  What counts is the least of a second, of those sent to an idle connection: it is never
 * too short, and what is above it is mostly waiting for a processor that others have.  Counting that would spread the
 * queries over more connections, which would wait the more. */
static void answer_sample(struct pg_statement *s, uint64_t ns, bool fresh)
{
    s->statement_sum_ns += ns;
    s->statement_samples++;
    if (!fresh)
        return;
    if (ns < s->statement_least_ns[0])
        s->statement_least_ns[0] = (uint32_t)ns;
    if (ns < s->statement_avg_ns || !s->statement_timed)
        s->statement_avg_ns = (uint32_t)ns;
    s->statement_timed = true;
}

void answer_pop(struct pg_conn *c, struct pg_query *q)
{
    TAILQ_REMOVE(&c->conn_inflight, q, query_link);
    c->conn_inflight_n--;
    if (__builtin_expect(q->query_abandoned, 0)) {
        c->conn_abandoned_n--;
        c->conn_pool->pool_abandoned_n--;
    }
    c->conn_cost_ns -= q->query_cost_ns;
    c->conn_verdict = PG_DONE;
    c->conn_bound = c->conn_complete = c->conn_outdated = false;
}

/* Behind a pooler the statement is parsed anew each time, and no error tells that its columns are others now. */
static int answer_described(struct pg_conn *c, const struct codec_message *m)
{
    struct pg_query *q = TAILQ_FIRST(&c->conn_inflight);

    if (!c->conn_bound || c->conn_complete)
        return answer_unexpected(c, m);
    if (m->message_body != NULL && describe_matches(q->query_statement, m, c->conn_pool->pool_types))
        return 0;
    c->conn_verdict = PG_INTERNAL;
    c->conn_outdated = true;
    if (c->conn_state == CONN_READY || c->conn_state == CONN_CANCELLING)
        conn_drain(c, AFTER_PREPARE);
    return 0;
}

static int answer_row(struct pg_conn *c, const struct codec_message *m)
{
    struct pg_query *q = TAILQ_FIRST(&c->conn_inflight);

    if (!c->conn_bound || c->conn_complete)
        return answer_unexpected(c, m);
    stat_pool_add(c->conn_pool->pool_index, STAT_pool_rows, 1);
    if (q->query_abandoned || c->conn_verdict != PG_DONE)
        return 0;
    if (m->message_body == NULL) { /* its octets were skipped */
        c->conn_verdict = m->message_len + 5 > c->conn_reader.reader_max ? PG_TOO_LARGE : PG_NO_BUFFERS;
        return 0;
    }
    if (m->message_len < 2)
        return answer_unexpected(c, m);
    /* Under a description that is not the one it was bound with, its owner would read the row wrongly. */
    if (q->query_version != q->query_statement->statement_version) {
        c->conn_verdict = PG_INTERNAL;
        c->conn_outdated = true;
        return 0;
    }
    q->query_started = true;
    if (__builtin_expect(q->query_ops->query_row(q, (char *)m->message_body + 2, m->message_len - 2,
                                                 codec_be16(m->message_body)) != 0,
                         0))
        c->conn_verdict = PG_INTERNAL;
    if (__builtin_expect(pg_types_outdated, 0))
        answer_types_outdated(c);
    return 0;
}

/* A value is not of its type as we know it: the types are asked for again, and where nothing was written so is the
 * query. */
static void answer_types_outdated(struct pg_conn *c)
{
    pg_types_outdated = false;
    if (c->conn_state != CONN_READY || !conn_suspect(c, pg_now()))
        return;
    conn_drain(c, AFTER_PREPARE);
    if (!c->conn_pool->pool_read_only)
        return;
    c->conn_verdict = PG_INTERNAL;
    c->conn_outdated = true;
}

/* Whether a query that met a stale connection is asked once more.  After a change of the schema every connection is
 * stale, one after the other: a query may meet all of them, and again when another change follows at once.  More often
 * than that, and it is the statement that keeps changing. */
static bool answer_stale_again(const struct pg_conn *c, struct pg_query *q)
{
    if (q->query_stale > 2 * c->conn_pool->pool_config.config_connections + 2 || q->query_stale == UINT8_MAX)
        return false;
    q->query_stale++;
    return true;
}

static int answer_complete(struct pg_conn *c)
{
    struct pg_query *q = TAILQ_FIRST(&c->conn_inflight);
    enum pg_outcome verdict = c->conn_verdict;
    bool again;

    if (!c->conn_bound || c->conn_complete) {
        const struct codec_message m = {.message_type = 'C'};

        return answer_unexpected(c, &m);
    }
    if (!c->conn_pool->pool_read_only) {
        c->conn_complete = true; /* the commit comes with the Sync, and can fail: deferred constraints */
        return 0;
    }
    again = c->conn_outdated && !q->query_abandoned && answer_stale_again(c, q);
    answer_pop(c, q);
    answer_count(c, q);
    q->query_statement->statement_doubted = false; /* the types are what they were, or it would not have run */
    if (__builtin_expect(again, 0)) {
        q->query_retried = true;
        queue_retry(c->conn_pool, q, pg_now());
    } else {
        query_end(q, verdict, NULL);
    }
    return 0;
}

static int answer_ready(struct pg_conn *c, const struct codec_message *m)
{
    uint32_t batch = c->conn_sync_done;
    uint64_t now;
    struct pg_query *q;

    if (m->message_body == NULL || m->message_len != 1 || batch == c->conn_sync_sent)
        return answer_unexpected(c, m);
    now = c->conn_skipping ? pg_now() : 0;
    while ((q = TAILQ_FIRST(&c->conn_inflight)) != NULL && q->query_batch == batch) {
        enum pg_outcome verdict = c->conn_verdict;

        if (c->conn_complete) {
            answer_pop(c, q);
            answer_count(c, q);
            q->query_statement->statement_doubted = false;
            query_end(q, verdict, NULL);
        } else if (c->conn_skipping) { /* it was not run */
            answer_pop(c, q);
            if (q->query_abandoned)
                query_end(q, PG_SHED_DOWN, NULL);
            else
                queue_retry(c->conn_pool, q, now);
        } else {
            return answer_unexpected(c, m);
        }
    }
    c->conn_sync_done++;
    c->conn_skipping = false;
    c->conn_prefaced = !c->conn_pool->pool_pooler;
    if (__builtin_expect(c->conn_resets > 0, 0))
        c->conn_prefaced = !answer_reset_next(c, c->conn_sync_done);
    if (m->message_body[0] != 'I') {
        conn_lose(c, LOSS_SUDDEN, "a statement left a transaction open");
        return -1;
    }
    return 0;
}

static int answer_error(struct pg_conn *c, const struct codec_message *m)
{
    struct pg_query *q = TAILQ_FIRST(&c->conn_inflight);
    struct codec_error e;
    char why[256];

    if (m->message_body == NULL || codec_error(m, &e) != 0)
        return answer_unexpected(c, m);
    snprintf(why, sizeof why, "%s: %s", e.error_public.error_sqlstate,
             e.error_public.error_message != NULL ? e.error_public.error_message : "no message");
    if (codec_error_fatal(&e)) {
        /* A pooler's own FATAL says nothing of how far its server got. */
        conn_lose(c, c->conn_pool->pool_pooler ? LOSS_SUDDEN : LOSS_FATAL, why);
        return -1;
    }
    if (c->conn_sync_done == c->conn_sync_sent && c->conn_batch_n == 0) { /* an answer to nothing */
        conn_lose(c, LOSS_SUDDEN, why);
        return -1;
    }
    if (q == NULL || q->query_batch != c->conn_sync_done || c->conn_skipping) {
        /* At the Sync of a batch of reads that have all been answered: nothing was to be committed. */
        c->conn_pool->pool_config.config_log(LOG_LEVEL_WARN, "pool %s: at Sync: %s",
                                             c->conn_pool->pool_config.config_pool->pool_name, why);
        c->conn_skipping = true;
        return 0;
    }
    c->conn_skipping = true;
    answer_error_query(c, q, &e);
    return 0;
}

static void answer_error_query(struct pg_conn *c, struct pg_query *q, struct codec_error *e)
{
    struct pg_pool *p = c->conn_pool;
    const char *sqlstate = e->error_public.error_sqlstate;
    enum pg_outcome verdict = c->conn_verdict;
    bool stale = codec_error_stale(e), demoted = strcmp(sqlstate, "25006") == 0 && !p->pool_read_only, again;
    bool unknown = q->query_statement->statement_calls && c->conn_bound; /* what it has committed stays */
    bool misfit = !c->conn_bound && strncmp(sqlstate, "22", 2) == 0;     /* a value, at Bind */
    uint64_t now = pg_now();

    if (misfit && c->conn_versions != p->pool_versions) /* it fits the new type, and met the old one */
        stale = true;
    /* At Bind: it was there when the statement was prepared; dropped since, or another now, or the session looks
     * elsewhere.  Later it is the route's own doing, inside of a function. */
    if (!c->conn_bound && codec_error_changed(e) && !p->pool_pooler && (conn_mending(p) || conn_suspect(c, now)))
        stale = true;
    again = strcmp(sqlstate, "57014") == 0 && !unknown && !q->query_retried && answer_cancel_strayed(c, q, now) &&
            (verdict == PG_DONE || c->conn_outdated); /* it was not for the rest of what is refused already */
    q->query_retried |= again;
    answer_pop(c, q);
    answer_count(c, q);
    if (misfit) {
        e->error_public.error_parameter = codec_error_parameter(e);
        pg_statement_doubt(q->query_statement, now);
    }
    if (stale && !unknown && answer_stale_again(c, q)) {
        again = true;
        conn_drain(c, AFTER_PREPARE);
    }
    if (demoted)
        conn_demoted(c, now);
    if (q->query_abandoned) {
        query_end(q, PG_ERROR, &e->error_public);
    } else if (unknown && (demoted || pg_sqlstate_find(sqlstate)->sqlstate_retry_after)) {
        p->pool_config.config_log(LOG_LEVEL_WARN, "pool %s: %s ended with %s, and may have committed before",
                                  p->pool_config.config_pool->pool_name,
                                  q->query_statement->statement_label != NULL ? q->query_statement->statement_label
                                                                              : q->query_statement->statement_name,
                                  sqlstate);
        query_end(q, PG_UNKNOWN, NULL);
    } else if (again) { /* an error: it has had no effect */
        queue_retry(p, q, now);
    } else if (demoted) {
        query_end(q, PG_SHED_DOWN, NULL);
    } else if (verdict != PG_DONE) {
        query_end(q, verdict, NULL);
    } else {
        stat_pool_add(p->pool_index, STAT_pool_errors, 1);
        query_end(q, PG_ERROR, &e->error_public);
    }
}

/* Whether a 57014 comes from a cancel that we sent for another query: its own time was not up. */
static bool answer_cancel_strayed(const struct pg_conn *c, const struct pg_query *q, uint64_t now)
{
    uint64_t timeout = (uint64_t)c->conn_pool->pool_config.config_pool->pool_statement_timeout_ms * 1000000;

    return c->conn_cancel_at != 0 && (timeout == 0 || now - q->query_at_ns < timeout);
}

static int answer_unexpected(struct pg_conn *c, const struct codec_message *m)
{
    char why[64];

    snprintf(why, sizeof why, "unexpected message, type 0x%02x", m->message_type);
    conn_lose(c, LOSS_PROTOCOL, why);
    return -1;
}

/* An answer that took time: for the averages. */
static void answer_count(struct pg_conn *c, const struct pg_query *q)
{
    struct pg_pool *p = c->conn_pool;
    struct round_entry *e;

    e = p->pool_round_n > 0 ? &p->pool_round[p->pool_round_n - 1] : NULL;
    if (e == NULL || e->round_statement != q->query_statement) {
        if (p->pool_round_n == ROUND_MAX)
            answer_round(c, pg_now());
        e = &p->pool_round[p->pool_round_n++];
        e->round_statement = q->query_statement;
        e->round_cost_ns = 0;
        e->round_n = 0;
    }
    e->round_cost_ns += q->query_cost_ns;
    e->round_n++;
    p->pool_round_cost += q->query_cost_ns;
}
