/*
 * Connections on which nobody waits for anything: their clients have left.  What they do is cancelled, if it takes its
 * time, and their slots are as good as free: who finds no other waits for the cancel instead of going behind what is to
 * be cancelled.
 */
#include "worker/pg/conn.h"

#define AGE_NS 10000000u       /* a cancel costs PostgreSQL a process: what is younger may be through by itself, */
#define AGE_WANTED_NS 1000000u /* ... and when somebody waits for its place */
#define AGAIN_NS 100000000u    /* between two cancels of one batch; then twice as long, up to eight times */
#define AGAIN_DOUBLINGS 3u
#define LONG_NS 100000000u
#define SLOTS_NS 250000000u /* what does not end so long after its cancel may not end soon */

static bool forsaken_deserted(const struct pg_conn *c);
static bool forsaken_ready(const struct pg_conn *c);
static bool forsaken_tried(const struct pg_conn *c);
static uint64_t forsaken_due(const struct pg_conn *c, uint64_t age, uint64_t now);
static void forsaken_cancelled(void *arg, bool ok);

void forsaken_init(struct pg_conn *c)
{
    c->conn_cancel.cancel_fd = -1;
    c->conn_cancel.cancel_done = forsaken_cancelled;
    c->conn_cancel.cancel_arg = c;
}

void forsaken_note(struct pg_conn *c)
{
    struct pg_pool *p = c->conn_pool;
    uint64_t now;

    c->conn_abandoned_n++;
    p->pool_abandoned_n++;
    if (!forsaken_deserted(c))
        return;
    if (p->pool_current == c) { /* who comes in the rest of this turn is not put behind it */
        batch_sync(c);
        p->pool_current = NULL;
    }
    now = pg_now();
    if (!TAILQ_EMPTY(&p->pool_waiting) || !TAILQ_EMPTY(&p->pool_retry))
        (void)forsaken_relieve(p, now);
    else if (forsaken_due(c, AGE_NS, now) <= now)
        forsaken_cancel(c, now);
}

/* Nobody may have been told that a client is gone. */
void forsaken_look(struct pg_conn *c, uint64_t now)
{
    struct pg_query *q;

    TAILQ_FOREACH(q, &c->conn_inflight, query_link)
    {
        if (now < q->query_at_ns + LONG_NS)
            break;
        if (q->query_looked || q->query_abandoned || q->query_ops->query_long == NULL)
            continue;
        q->query_looked = true;
        q->query_ops->query_long(q); /* abandoned or not, it stays on the list */
    }
}

/* Until the cancel has gone through and the answer has come, nothing else is sent there, so that it cannot hit
 * another. */
void forsaken_cancel(struct pg_conn *c, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;
    const struct keydata *k = &c->conn_pq.link_keydata;
    bool again = forsaken_tried(c);
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof peer;

    if (!forsaken_ready(c) || !k->keydata_found || c->conn_cancel.cancel_fd != -1)
        return;
    /* What was cancelled is given time to end (or the cancel came when it had not begun yet); the one behind it is not
     * spared. */
    if (again &&
        now < c->conn_cancel_at +
                  ((uint64_t)AGAIN_NS << (c->conn_cancel_n < AGAIN_DOUBLINGS ? c->conn_cancel_n : AGAIN_DOUBLINGS)))
        return;
    c->conn_cancel_at = now;
    c->conn_cancel_batch = c->conn_sync_done;
    c->conn_cancel_n = again ? c->conn_cancel_n + 1 : 0;
    if (getpeername(c->conn_fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
        cancel_start(&c->conn_cancel, p->pool_config.config_base, &peer, peer_len, k->keydata_pid, k->keydata_key) !=
            0) {
        conn_cancel(c, false);
        return;
    }
    stat_pool_add(p->pool_index, STAT_pool_cancelled, 1);
    conn_cancel(c, true);
}

bool forsaken_yields(const struct pg_conn *c)
{
    return c->conn_state == CONN_READY && forsaken_deserted(c) && c->conn_pq.link_keydata.keydata_found &&
           !c->conn_blocked && !forsaken_tried(c);
}

bool forsaken_relieve(struct pg_pool *p, uint64_t now)
{
    uint64_t at = UINT64_MAX;
    bool failed = false;

    if (__builtin_expect(p->pool_abandoned_n == 0, 1))
        return false;
    for (unsigned i = 0; i < p->pool_config.config_connections; i++) {
        struct pg_conn *c = &p->pool_all[i];
        uint64_t due;

        if (!forsaken_yields(c))
            continue;
        due = forsaken_due(c, AGE_WANTED_NS, now);
        if (due > now) {
            at = due < at ? due : at;
            continue;
        }
        forsaken_cancel(c, now);
        failed |= c->conn_state == CONN_READY;
    }
    if (at != UINT64_MAX)
        queue_wake(p, at, now);
    return failed;
}

unsigned forsaken_slots(const struct pg_pool *p, uint64_t now)
{
    unsigned n = 0;

    if (__builtin_expect(p->pool_abandoned_n == 0 && p->pool_conns_n[CONN_CANCELLING] == 0, 1))
        return 0;
    for (unsigned i = 0; i < p->pool_config.config_connections; i++) {
        const struct pg_conn *c = &p->pool_all[i];

        if (forsaken_yields(c) || (c->conn_state == CONN_CANCELLING && now < c->conn_cancel_at + SLOTS_NS))
            n += p->pool_max_inflight;
    }
    return n;
}

bool forsaken_nearer(struct pg_pool *p, const struct pg_conn *best, uint64_t now)
{
    if (best->conn_busy_since == 0 || now < best->conn_busy_since + STUCK_NS ||
        p->pool_patience_ns < 2 * (uint64_t)FORSAKEN_NEAR_NS || p->pool_overloaded ||
        p->pool_waiting_n + p->pool_retry_n >= forsaken_slots(p, now))
        return false;
    queue_wake(p, now + FORSAKEN_NEAR_NS, now);
    return true;
}

/* Whether nobody waits for anything that the connection does.  (Whoever waits for no more than the end of what is
 * refused already is better off with a cancel.) */
static bool forsaken_deserted(const struct pg_conn *c)
{
    unsigned n = c->conn_abandoned_n;

    if (c->conn_inflight_n == 0)
        return false;
    if (c->conn_verdict != PG_DONE && !TAILQ_FIRST(&c->conn_inflight)->query_abandoned)
        n++;
    return n == c->conn_inflight_n;
}

/* Whether all of that has been sent, so that a cancel can meet it. */
static bool forsaken_ready(const struct pg_conn *c)
{
    return c->conn_fd != -1 && forsaken_deserted(c) && c->conn_batch_n == 0 && c->conn_out.out_bytes == 0;
}

/* Whether a cancel has been sent for the present batch.  Where the connection takes queries all the same, it has
 * failed. */
static bool forsaken_tried(const struct pg_conn *c)
{
    return c->conn_cancel_at != 0 && c->conn_cancel_batch == c->conn_sync_done;
}

/* From when on what it does is old enough. */
static uint64_t forsaken_due(const struct pg_conn *c, uint64_t age, uint64_t now)
{
    return (c->conn_busy_since == 0 || !forsaken_ready(c) ? now : c->conn_busy_since) + age;
}

static void forsaken_cancelled(void *arg, bool ok)
{
    struct pg_conn *c = arg;

    CHECK_OBJ(c, PG_CONN_MAGIC);
    if (!ok)
        conn_cancel(c, false); /* then what it does runs to its end, or to statement_timeout */
    conn_settle(c);
    queue_pump(c->conn_pool, pg_now());
}
