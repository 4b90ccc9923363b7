/* A connection's life: connect, serve, drain, be lost, connect again. */
#include "worker/pg/conn.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "worker/mem/alloc.h"

#define BACKOFF_FIRST_MS 50u
#define PROBE_MS 400u           /* while a pool has no connection, one of them tries at least this often */
#define FOLLOW_MS 250u          /* once one is back, the others come within that */
#define STABLE_NS 1000000000u   /* a connection that lasts less counts as a failure */
#define SILENCE_NS 10000000000u /* on top of statement_timeout: the server is gone without a word */
#define SILENCE_POOLER_NS \
    UINT64_C(150000000000) /* ... and a pooler may make us wait: pgbouncer's query_wait_timeout is 120 s */
#define UNLUCKY_MAX 4u     /* so often a query is sent again when its connection was lost before it began */
#define REPLACE_AT_ONCE 3u /* failures in a row, with which it no longer is */
#define REPLACE_TRIES 2u   /* the first may meet its predecessor, which still counts against a limit of connections */
#define REPLACE_TRY_NS 25000000u
#define REPLACE_AGAIN_NS 100000000u /* between two losses of all connections, to have one back at once */
#define SUSPECT_AGAIN_NS 1000000000u
#define LOG_IDLE_NS 1000000000u   /* the loss of idle ones is logged once a second */
#define LOG_AGAIN_NS 60000000000u /* the same failure is logged once a minute */

static void conn_move(struct pg_conn *c, enum conn_state state);
static void conn_linked(void *arg, const char *why);
static void conn_outdate(struct pg_pool *p);
static void conn_failed(struct pg_conn *c, const char *why);
static void conn_remake(struct pg_conn *c, uint64_t now);
static void conn_judge(struct pg_conn *c, uint64_t now);
static void conn_down(struct pg_conn *c, uint64_t now);
static bool conn_others_try(const struct pg_conn *c, uint64_t until);
static void conn_follow(struct pg_pool *p, uint64_t now);
static bool conn_began(const struct pg_conn *c, const struct pg_query *q, enum conn_loss loss);
static bool conn_idle(const struct pg_conn *c);
static uint64_t conn_random(struct pg_pool *p, uint64_t below);

uint64_t pg_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void conn_init(struct pg_conn *c, struct pg_pool *p)
{
    struct link *l = &c->conn_pq;

    memset(c, 0, sizeof *c);
    c->magic = PG_CONN_MAGIC;
    c->conn_pool = p;
    c->conn_fd = -1;
    forsaken_init(c);
    c->conn_verdict = PG_DONE;
    c->conn_prefaced = !p->pool_pooler;
    TAILQ_INIT(&c->conn_inflight);
    out_init(&c->conn_out, p->pool_config.config_buffers, 0);
    reader_init(&c->conn_reader, &p->pool_space, p->pool_config.config_buffers, p->pool_config.config_message_max);
    l->link_base = p->pool_config.config_base;
    l->link_pool = p->pool_config.config_pool;
    l->link_types = p->pool_types;
    l->link_log = p->pool_config.config_log;
    l->link_done = conn_linked;
    l->link_arg = c;
    TAILQ_INSERT_TAIL(&p->pool_conns[CONN_DOWN], c, conn_link);
    p->pool_conns_n[CONN_DOWN]++;
}

void conn_connect(struct pg_conn *c)
{
    struct pg_pool *p = c->conn_pool;

    AN(c->conn_state == CONN_DOWN);
    c->conn_up = false;
    c->conn_pq.link_statements = p->pool_statements;
    c->conn_pq.link_statements_n = p->pool_statements_n;
    /* While there is none, every second attempt is a hasty one: after an outage that swallowed what was sent, somebody
     * asks anew soon; the others have patience with a server that is slow. */
    c->conn_pq.link_hasty = pg_pool_up(p) == 0 && (c->conn_failures + (unsigned)(c - p->pool_all)) % 2 == 0;
    conn_move(c, CONN_LINKING);
    if (link_connect(&c->conn_pq) != 0)
        conn_failed(c, c->conn_pq.link_why);
}

void conn_lose(struct pg_conn *c, enum conn_loss loss, const char *why)
{
    struct pg_pool *p = c->conn_pool;
    struct query_list dead = TAILQ_HEAD_INITIALIZER(dead);
    struct pg_query *q, *culprit = loss == LOSS_PROTOCOL ? TAILQ_FIRST(&c->conn_inflight) : NULL;
    uint64_t now = pg_now();
    bool quiet = loss == LOSS_STOP || (c->conn_inflight_n == 0 && now < p->pool_idle_lost_at + LOG_IDLE_NS);

    AN(c->conn_fd != -1);
    if (!quiet && c->conn_inflight_n == 0)
        p->pool_idle_lost_at = now;
    p->pool_config.config_log(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN,
                              "pool %s: connection lost with %u queries in flight: %s",
                              p->pool_config.config_pool->pool_name, c->conn_inflight_n, why);
    queue_shaken(p, now);
    while ((q = TAILQ_FIRST(&c->conn_inflight)) != NULL) {
        bool began = conn_began(c, q, loss), harmless = p->pool_read_only || !began;
        bool retry = harmless && q != culprit && !q->query_abandoned && loss != LOSS_STOP &&
                     (began ? !q->query_retried : q->query_unlucky < UNLUCKY_MAX);

        answer_pop(c, q); /* also forgets what was known of it as the head */
        if (retry) {
            q->query_retried |= began; /* it may be its own doing */
            q->query_unlucky += !began;
            queue_retry(p, q, now);
        } else {
            /* What the owner is told, kept where it is of no other use any more. */
            q->query_batch = (uint32_t)(!harmless ? PG_UNKNOWN : q == culprit ? PG_INTERNAL : PG_SHED_DOWN);
            q->query_conn = NULL; /* that one's doing may be that its client leaves, and with him the next */
            TAILQ_INSERT_TAIL(&dead, q, query_link);
        }
    }
    stat_pool_add(p->pool_index, STAT_pool_disconnects, 1);
    conn_judge(c, now);
    (void)shutdown(c->conn_fd, SHUT_RDWR); /* half a message may have been sent: PQfinish must not add to it */
    conn_down(c, now);
    conn_remake(c, now);

    while ((q = TAILQ_FIRST(&dead)) != NULL) {
        enum pg_outcome outcome = (enum pg_outcome)q->query_batch;

        TAILQ_REMOVE(&dead, q, query_link);
        if (outcome == PG_UNKNOWN && !q->query_abandoned)
            stat_pool_add(p->pool_index, STAT_pool_lost, 1);
        query_end(q, outcome, NULL);
    }
    if (c->conn_replacing > 0 && c->conn_state == CONN_DOWN)
        conn_connect(c);
    if (!conn_serving(p)) {
        queue_shed(p);
        return;
    }
    queue_pump(p, now);
}

void conn_drain(struct pg_conn *c, enum conn_after after)
{
    if (c->conn_state == CONN_DRAINING) {
        if (after > c->conn_after)
            c->conn_after = after;
        return;
    }
    AN(c->conn_state == CONN_READY || c->conn_state == CONN_CANCELLING);
    c->conn_after = after;
    conn_move(c, CONN_DRAINING);
}

void conn_replace(struct pg_conn *c)
{
    c->conn_changed = true;
    if (c->conn_state == CONN_READY)
        conn_drain(c, AFTER_REPLACE);
}

void conn_demoted(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;

    c->conn_changed = true; /* so that others wait for its successor */
    conn_drain(c, AFTER_REPLACE);
    if (p->pool_demoted_at != 0 && now - p->pool_demoted_at <= LOG_AGAIN_NS)
        return;
    p->pool_demoted_at = now;
    p->pool_config.config_log(LOG_LEVEL_WARN, "pool %s: the server is read-only: its connections are replaced",
                              p->pool_config.config_pool->pool_name);
}

bool conn_suspect(struct pg_conn *c, uint64_t now)
{
    if (c->conn_pool->pool_pooler || (c->conn_mended_at != 0 && now - c->conn_mended_at < SUSPECT_AGAIN_NS))
        return false;
    c->conn_mended_at = now;
    return true;
}

bool conn_mending(const struct pg_pool *p)
{
    const struct pg_conn *c;

    TAILQ_FOREACH(c, &p->pool_conns[CONN_DRAINING], conn_link)
    if (c->conn_after == AFTER_PREPARE)
        return true;
    TAILQ_FOREACH(c, &p->pool_conns[CONN_LINKING], conn_link)
    if (c->conn_up)
        return true;
    return false;
}

void conn_cancel(struct pg_conn *c, bool sent)
{
    if (c->conn_state == (sent ? CONN_READY : CONN_CANCELLING))
        conn_move(c, sent ? CONN_CANCELLING : CONN_READY);
}

void conn_settle(struct pg_conn *c)
{
    struct pg_pool *p = c->conn_pool;
    uint64_t now;

    if (!conn_idle(c)) {
        if (c->conn_state == CONN_CANCELLING) /* the next that nobody waits for */
            forsaken_cancel(c, pg_now());
        return;
    }
    if (c->conn_state == CONN_CANCELLING) {
        conn_move(c, CONN_READY);
        return;
    }
    if (c->conn_state != CONN_DRAINING)
        return;
    wire_stop(c);
    if (c->conn_after <= AFTER_PREPARE) {
        conn_move(c, CONN_LINKING);
        if ((c->conn_after == AFTER_REACH ? link_reach_again(&c->conn_pq) : link_prepare_again(&c->conn_pq)) != 0) {
            link_close(&c->conn_pq);
            conn_failed(c, c->conn_pq.link_why);
        }
        return;
    }
    now = pg_now();
    stat_pool_add(p->pool_index, STAT_pool_disconnects, 1);
    conn_judge(c, now);
    c->conn_replacing = c->conn_changed && !p->pool_stopping ? REPLACE_TRIES : 0;
    conn_down(c, now);
    if (c->conn_replacing > 0 && c->conn_failures < REPLACE_AT_ONCE)
        conn_connect(c);
    if (!conn_serving(p))
        queue_shed(p);
}

void conn_tick(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;
    const struct conf_pool *conf = p->pool_config.config_pool;
    const struct pg_query *q;
    uint64_t patience;

    if (c->conn_replacing > 0 && now > c->conn_lost_at && now - c->conn_lost_at > p->pool_patience_ns) {
        c->conn_replacing = 0; /* it takes too long: nobody is to wait for it any more */
        if (!conn_serving(p))
            queue_shed(p);
    }
    if (c->conn_state == CONN_DOWN) {
        if (!p->pool_stopping && now >= c->conn_retry_at)
            conn_connect(c);
        return;
    }
    if (c->conn_state == CONN_LINKING)
        return;
    if (c->conn_unsure) {
        wire_read(c, true);
        if (c->conn_fd == -1)
            return;
    }
    if (p->pool_stopping && c->conn_state == CONN_READY && conn_idle(c) && TAILQ_EMPTY(&p->pool_retry) &&
        TAILQ_EMPTY(&p->pool_waiting)) {
        conn_drain(c, AFTER_STOP);
        conn_settle(c);
        return;
    }
    if (c->conn_changed && c->conn_state == CONN_READY) {
        conn_replace(c);
        conn_settle(c);
        return;
    }
    q = TAILQ_FIRST(&c->conn_inflight);
    if (q == NULL && c->conn_resets == 0)
        return;
    /* A batch is answered as a whole, so its queries' time-outs add up.  A pooler may make us wait for its own. */
    patience = (uint64_t)conf->pool_statement_timeout_ms * 1000000 * (p->pool_single ? 1 : c->conn_inflight_n) +
               (p->pool_pooler ? SILENCE_POOLER_NS : SILENCE_NS);
    if (conf->pool_statement_timeout_ms > 0 && !c->conn_again && (c->conn_busy_since != 0 || q == NULL) &&
        now > c->conn_heard && now - c->conn_heard > patience) {
        conn_lose(c, LOSS_SUDDEN, "no answer, though statement_timeout has passed");
        return;
    }
    forsaken_look(c, now);
    forsaken_cancel(c, now);
}

unsigned conn_returning(const struct pg_pool *p)
{
    const struct pg_conn *c;
    unsigned n = 0;

    TAILQ_FOREACH(c, &p->pool_conns[CONN_DRAINING], conn_link)
    n += c->conn_after <= AFTER_PREPARE || (c->conn_after == AFTER_REPLACE && c->conn_changed);
    TAILQ_FOREACH(c, &p->pool_conns[CONN_DOWN], conn_link)
    n += c->conn_replacing > 0;
    TAILQ_FOREACH(c, &p->pool_conns[CONN_LINKING], conn_link)
    n += c->conn_up || c->conn_replacing > 0; /* only its statements are being prepared again */
    return n;
}

bool conn_serving(const struct pg_pool *p)
{
    return p->pool_conns_n[CONN_READY] + p->pool_conns_n[CONN_CANCELLING] > 0 || conn_returning(p) > 0;
}

static void conn_move(struct pg_conn *c, enum conn_state state)
{
    struct pg_pool *p = c->conn_pool;

    TAILQ_REMOVE(&p->pool_conns[c->conn_state], c, conn_link);
    p->pool_conns_n[c->conn_state]--;
    c->conn_state = state;
    TAILQ_INSERT_TAIL(&p->pool_conns[state], c, conn_link);
    p->pool_conns_n[state]++;
    if (p->pool_current == c && state != CONN_READY)
        p->pool_current = NULL;
}

static void conn_linked(void *arg, const char *why)
{
    struct pg_conn *c = arg;
    struct pg_pool *p = c->conn_pool;
    uint64_t now = pg_now();

    CHECK_OBJ(c, PG_CONN_MAGIC);
    if (why != NULL) {
        conn_failed(c, why);
        return;
    }
    if (!c->conn_up) {
        if (pg_pool_up(p) == 0) {
            conn_follow(p, now);
            p->pool_shaken_until = 0; /* all that were there before are gone */
        }
        stat_pool_add(p->pool_index, STAT_pool_connects, 1);
        c->conn_up_since = now;
        c->conn_cancel_at = 0;
        p->pool_reached_at = 0;
    }
    c->conn_up = c->conn_tried = true;
    c->conn_replacing = 0;
    p->pool_versions = 0;
    for (unsigned i = 0; i < p->pool_statements_n; i++)
        p->pool_versions += p->pool_statements[i]->statement_version;
    if (c->conn_pq.link_prepared)
        c->conn_versions = p->pool_versions;
    if (c->conn_pq.link_reached) {
        p->pool_reached_at = now;
        p->pool_reach_ns = c->conn_pq.link_reach_ns;
    } else if (c->conn_pq.link_news) {
        p->pool_reached_at = 0;
    }
    if (p->pool_trouble[0] != '\0')
        p->pool_config.config_log(LOG_LEVEL_INFO, "pool %s: connected again", p->pool_config.config_pool->pool_name);
    p->pool_trouble[0] = p->pool_logged[0] = '\0';
    wire_start(c);
    conn_move(c, CONN_READY);
    for (unsigned i = 0; i < p->pool_config.config_connections && c->conn_pq.link_flagged; i++)
        p->pool_all[i].conn_changed |= p->pool_all[i].conn_up; /* since the last look, perhaps: the tick replaces it */
    conn_outdate(p);
    queue_pump(p, now);
}

/* Connections whose statements were prepared when they were something else than what is known of them now: what these
 * bring would be read wrongly, so they prepare them again before they take more. */
static void conn_outdate(struct pg_pool *p)
{
    if (p->pool_pooler) /* described with each query */
        return;
    for (unsigned i = 0; i < p->pool_config.config_connections; i++) {
        struct pg_conn *c = &p->pool_all[i];

        if (c->conn_versions == p->pool_versions || (c->conn_state != CONN_READY && c->conn_state != CONN_CANCELLING))
            continue;
        conn_drain(c, AFTER_PREPARE);
        conn_settle(c);
    }
}

static void conn_failed(struct pg_conn *c, const char *why)
{
    struct pg_pool *p = c->conn_pool;
    uint64_t now = pg_now();
    bool lost = c->conn_up; /* while its statements were prepared again */

    c->conn_tried = true;
    if (c->conn_replacing > 0)
        c->conn_replacing--;
    c->conn_failures++;
    stat_pool_add(p->pool_index, lost ? STAT_pool_disconnects : STAT_pool_connect_failures, 1);
    if (why != p->pool_trouble)
        snprintf(p->pool_trouble, sizeof p->pool_trouble, "%s", why);
    if (strcmp(p->pool_trouble, p->pool_logged) != 0 || now - p->pool_logged_at > LOG_AGAIN_NS) {
        snprintf(p->pool_logged, sizeof p->pool_logged, "%s", p->pool_trouble);
        p->pool_logged_at = now;
        p->pool_config.config_log(LOG_LEVEL_WARN, "pool %s: cannot connect: %s", p->pool_config.config_pool->pool_name,
                                  p->pool_trouble);
    }
    conn_down(c, now);
    if (c->conn_replacing > 0)
        c->conn_retry_at = now + REPLACE_TRY_NS;
    if (lost) {
        c->conn_lost_at = now;
        conn_remake(c, now);
        if (c->conn_replacing > 0)
            conn_connect(c);
    }
    if (!conn_serving(p))
        queue_shed(p);
}

/* If it was the last one: it is to be made anew at once, while those who wait for one go on waiting.  A server that
 * loses them again and again is left alone in between. */
static void conn_remake(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;

    if (p->pool_stopping || conn_serving(p) || now < p->pool_remake_at)
        return;
    c->conn_replacing = REPLACE_TRIES;
    p->pool_remake_at = now + REPLACE_AGAIN_NS;
}

/* A connection ends: had it lived for a while, so that the next attempt may come soon? */
static void conn_judge(struct pg_conn *c, uint64_t now)
{
    c->conn_lost_at = now;
    if (now - c->conn_up_since < STABLE_NS)
        c->conn_failures++;
    else
        c->conn_failures = 0;
}

/* Closes whatever there is and schedules the next attempt: capped, jittered back-off. */
static void conn_down(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;
    uint64_t most = p->pool_config.config_pool->pool_reconnect_max_ms, ms = BACKOFF_FIRST_MS;

    cancel_stop(&c->conn_cancel);
    wire_stop(c);
    link_close(&c->conn_pq);
    c->conn_sync_sent = c->conn_sync_done = c->conn_batch_n = c->conn_resets = 0;
    c->conn_skipping = c->conn_up = c->conn_changed = false;
    c->conn_written = 0;
    p->pool_round_n = 0;
    p->pool_round_cost = 0;
    conn_move(c, CONN_DOWN);
    for (unsigned i = 0; i < c->conn_failures && ms < most; i++)
        ms *= 2;
    if (ms > most)
        ms = most;
    /* The first comes back within its 50 ms; later ones anywhere in the upper half of their time. */
    ms = c->conn_failures == 0 ? conn_random(p, ms) : ms / 2 + conn_random(p, ms / 2 + 1);
    /* The database may be back any moment, and nobody is served until one of them finds out. */
    if (ms > PROBE_MS && !conn_serving(p) && !conn_others_try(c, now + PROBE_MS * UINT64_C(1000000)))
        ms = PROBE_MS / 2 + conn_random(p, PROBE_MS / 2 + 1);
    c->conn_retry_at = now + ms * 1000000;
}

/* Whether another one of the pool will try to connect before then. */
static bool conn_others_try(const struct pg_conn *c, uint64_t until)
{
    const struct pg_conn *other;

    TAILQ_FOREACH(other, &c->conn_pool->pool_conns[CONN_DOWN], conn_link)
    if (other != c && other->conn_retry_at <= until)
        return true;
    return false;
}

/* The first connection is back: so will the others be, if they try now.  Not all in one moment. */
static void conn_follow(struct pg_pool *p, uint64_t now)
{
    struct pg_conn *c;

    TAILQ_FOREACH(c, &p->pool_conns[CONN_DOWN], conn_link)
    {
        uint64_t at = now + conn_random(p, FOLLOW_MS) * 1000000;

        if (c->conn_retry_at > at)
            c->conn_retry_at = at;
    }
}

/* Whether a query of a lost connection may have begun to run. */
static bool conn_began(const struct pg_conn *c, const struct pg_query *q, enum conn_loss loss)
{
    bool head = q == TAILQ_FIRST(&c->conn_inflight);

    if (q->query_out_at >= c->conn_written) /* not an octet of it has left */
        return false;
    /* A FATAL error stands in the stream where the server stopped; what had not been bound by then never ran. */
    return loss != LOSS_FATAL || (head && c->conn_bound);
}

static bool conn_idle(const struct pg_conn *c)
{
    return c->conn_inflight_n == 0 && c->conn_batch_n == 0 && c->conn_sync_done == c->conn_sync_sent &&
           c->conn_out.out_bytes == 0 && c->conn_cancel.cancel_fd == -1;
}

/* 0 .. below - 1 (xorshift64): enough to keep workers out of step. */
static uint64_t conn_random(struct pg_pool *p, uint64_t below)
{
    p->pool_random ^= p->pool_random << 13;
    p->pool_random ^= p->pool_random >> 7;
    p->pool_random ^= p->pool_random << 17;
    return below > 0 ? p->pool_random % below : 0;
}
