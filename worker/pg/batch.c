/* Which connection takes a query, and the messages that go out. */
#include "worker/pg/conn.h"

#define COST_MIN_NS 1000u              /* a query costs something */
#define STUCK_WORK (UINT64_C(1) << 62) /* more than any other work */

static void batch_reset(struct pg_conn *c, const struct pg_query *q) __attribute__((noinline));
static bool batch_waits(const struct pg_conn *c);
static bool batch_has_room(const struct pg_conn *c);
static bool batch_stuck(const struct pg_conn *c, uint64_t now);
static struct pg_conn *batch_open(struct pg_pool *p, bool patient, uint64_t now);

struct pg_conn *batch_pick(struct pg_pool *p, bool patient, uint64_t now)
{
    struct pg_conn *c = p->pool_current;

    if (__builtin_expect(c != NULL && batch_has_room(c) && p->pool_read_only, 1))
        return c;
    return batch_open(p, patient, now);
}

enum pg_outcome batch_append(struct pg_conn *c, struct pg_query *q, bool alone, uint64_t now)
{
    struct pg_pool *p = c->conn_pool;
    struct pg_statement *s = q->query_statement;
    struct out *o = &c->conn_out;
    bool reset = s->statement_resets, single = p->pool_single || alone || reset;
    unsigned char *head;
    struct out_mark mark;
    size_t len;

    if (alone || reset) {
        batch_sync(c);
        if (c->conn_batch_n > 0)
            return PG_SHED_BUFFERS;
    }
    head = out_reserve(o, sizeof s->statement_bind);
    if (__builtin_expect(head == NULL, 0)) {
        o->out_error = OUT_OK;
        return PG_SHED_BUFFERS;
    }
    mark = (struct out_mark){o->out_tail, o->out_tail->buf_end, o->out_bytes};
    if (__builtin_expect(s->statement_parse != NULL, 0)) {
        out_write(o, s->statement_parse, s->statement_parse_len);
        head = out_reserve(o, sizeof s->statement_bind);
    }
    len = o->out_bytes;
    if (head != NULL) {
        memcpy(head, s->statement_bind, sizeof s->statement_bind); /* all of it: the length is a constant */
        out_commit(o, s->statement_bind_len);
        if (q->query_ops->query_bind(q, o) != 0) {
            out_rewind(o, mark);
            o->out_error = OUT_OK;
            return PG_INTERNAL;
        }
        /* Bind's length word does not count its type, but two octets of it come with CODEC_EXECUTE. */
        codec_put_be32(head + 1, (uint32_t)(o->out_bytes - len + 1));
        if (__builtin_expect(p->pool_pooler, 0))
            out_write(o, CODEC_DESCRIBE_EXECUTE_SYNC, CODEC_DESCRIBE_LEN + CODEC_EXECUTE_LEN + CODEC_SYNC_LEN);
        else
            out_write(o, CODEC_EXECUTE_SYNC, single ? CODEC_EXECUTE_LEN + CODEC_SYNC_LEN : CODEC_EXECUTE_LEN);
    }
    if (__builtin_expect(reset, 0))
        out_write(o, CODEC_RESET, CODEC_RESET_LEN);
    if (__builtin_expect(o->out_error != OUT_OK, 0)) {
        out_rewind(o, mark);
        o->out_error = OUT_OK;
        return PG_SHED_BUFFERS;
    }

    q->query_state = QUERY_SENT;
    q->query_conn = c;
    q->query_batch = c->conn_sync_sent;
    q->query_version = s->statement_version;
    q->query_reset = reset;
    q->query_at_ns = now;
    q->query_out_at = c->conn_written + mark.mark_bytes;
    q->query_cost_ns = s->statement_avg_ns > COST_MIN_NS ? s->statement_avg_ns : COST_MIN_NS;
    TAILQ_INSERT_TAIL(&c->conn_inflight, q, query_link);
    c->conn_inflight_n++;
    c->conn_cost_ns += q->query_cost_ns;
    stat_pool_add(p->pool_index, STAT_pool_queries, 1);
    if (single) {
        c->conn_sync_sent++;
        stat_pool_add(p->pool_index, STAT_pool_syncs, 1);
        if (__builtin_expect(reset, 0))
            batch_reset(c, q);
    } else {
        c->conn_batch_n++;
    }
    if (!c->conn_dirty) {
        c->conn_dirty = true;
        TAILQ_INSERT_TAIL(&p->pool_dirty, c, conn_dirty_link);
        if (p->pool_config.config_unflushed != NULL)
            *p->pool_config.config_unflushed = true;
    }
    return PG_DONE;
}

void batch_sync(struct pg_conn *c)
{
    if (c->conn_batch_n == 0)
        return;
    out_literal(&c->conn_out, CODEC_SYNC);
    if (__builtin_expect(c->conn_out.out_error != OUT_OK, 0)) {
        c->conn_out.out_error = OUT_OK; /* no buffer for five octets: it stays dirty, the next flush tries again */
        return;
    }
    c->conn_batch_n = 0;
    c->conn_sync_sent++;
    stat_pool_add(c->conn_pool->pool_index, STAT_pool_syncs, 1);
}

/* Behind the query's own batch comes one that resets the session. */
static void batch_reset(struct pg_conn *c, const struct pg_query *q)
{
    if (c->conn_resets++ == 0)
        c->conn_reset_at = q->query_batch + 1;
    c->conn_sync_sent++;
    stat_pool_add(c->conn_pool->pool_index, STAT_pool_resets, 1);
}

unsigned batch_held(const struct pg_pool *p)
{
    const struct pg_conn *c;
    unsigned n = 0;

    if (p->pool_read_only)
        return 0;
    TAILQ_FOREACH(c, &p->pool_conns[CONN_READY], conn_link)
    if (batch_waits(c) && c->conn_inflight_n < p->pool_max_inflight)
        n += p->pool_max_inflight - c->conn_inflight_n;
    return n;
}

/* Whether its session is to be reset before it takes more.  What reads is asked again elsewhere should the reset fail;
 * what writes must not have been there. */
static bool batch_waits(const struct pg_conn *c)
{
    return c->conn_resets > 0 && !c->conn_pool->pool_read_only;
}

static bool batch_has_room(const struct pg_conn *c)
{
    const struct pg_pool *p = c->conn_pool;

    return c->conn_inflight_n < p->pool_max_inflight && c->conn_cost_ns < c->conn_batch_limit &&
           c->conn_batch_n < p->pool_sync_batch;
}

/* What it does takes longer than anybody expected: who goes behind that waits for nobody knows how long. */
static bool batch_stuck(const struct pg_conn *c, uint64_t now)
{
    return c->conn_busy_since != 0 && now > c->conn_busy_since + STUCK_NS + c->conn_cost_ns;
}

/* A new batch: on the first connection whose queries in flight do not fill batch_us yet; else on the one that has the
 * least to do.  One that is stuck has all that there can be.  Not on one that does what nobody waits for: that is
 * cancelled, and who comes meanwhile waits rather than going behind it.  NULL: there is no other, or every slot is
 * taken. */
static struct pg_conn *batch_open(struct pg_pool *p, bool patient, uint64_t now)
{
    struct pg_conn *c, *best = NULL;
    uint64_t work, least = UINT64_MAX;

    if (p->pool_current != NULL)
        batch_sync(p->pool_current);
    TAILQ_FOREACH(c, &p->pool_conns[CONN_READY], conn_link)
    {
        if (c->conn_inflight_n >= p->pool_max_inflight || c->conn_batch_n > 0)
            continue;
        if (__builtin_expect(c->conn_abandoned_n > 0, 0) && forsaken_yields(c))
            continue;
        if (!p->pool_read_only) { /* one that waits for a lock would hold up those behind it */
            if (batch_waits(c))
                continue;
            work = c->conn_inflight_n;
        } else {
            work = c->conn_cost_ns < p->pool_batch_ns ? 0 : c->conn_cost_ns;
        }
        if (__builtin_expect(batch_stuck(c, now), 0))
            work += STUCK_WORK;
        if (work < least) {
            best = c;
            least = work;
        }
        if (work == 0)
            break;
    }
    if (__builtin_expect(p->pool_abandoned_n + p->pool_conns_n[CONN_CANCELLING] > 0, 0) && patient && best != NULL &&
        forsaken_nearer(p, best, now))
        best = NULL;
    p->pool_current = best;
    if (best != NULL)
        best->conn_batch_limit =
            best->conn_cost_ns < p->pool_batch_ns ? p->pool_batch_ns : best->conn_cost_ns + p->pool_batch_ns;
    return best;
}
