/* Queries that wait: those to be sent again, then the queue in order of arrival. */
#include "worker/mem/plant.h"
#include "worker/pg/conn.h"

static struct pg_query *queue_first(const struct pg_pool *p);
static bool queue_late(const struct pg_pool *p, const struct pg_query *q, uint64_t now);
static void queue_timeout(struct pg_pool *p, struct pg_query *q);

void queue_wait(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    PLANT("queued");
    q->query_state = QUERY_WAITING;
    q->query_at_ns = now;
    TAILQ_INSERT_TAIL(&p->pool_waiting, q, query_link);
    p->pool_waiting_n++;
}

void queue_retry(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    q->query_state = QUERY_RETRY;
    q->query_conn = NULL;
    q->query_started = false;
    q->query_at_ns = now;
    TAILQ_INSERT_TAIL(&p->pool_retry, q, query_link);
    p->pool_retry_n++;
    stat_pool_add(p->pool_index, STAT_pool_retried, 1);
    if (q->query_ops->query_restart != NULL)
        q->query_ops->query_restart(q);
}

void queue_remove(struct pg_pool *p, struct pg_query *q)
{
    if (q->query_state == QUERY_RETRY) {
        TAILQ_REMOVE(&p->pool_retry, q, query_link);
        p->pool_retry_n--;
    } else {
        AN(q->query_state == QUERY_WAITING);
        TAILQ_REMOVE(&p->pool_waiting, q, query_link);
        p->pool_waiting_n--;
    }
    q->query_state = QUERY_IDLE;
}

void queue_pump(struct pg_pool *p, uint64_t now)
{
    struct pg_query *q;

    while ((q = queue_first(p)) != NULL) {
        bool retry = q->query_state == QUERY_RETRY;
        struct pg_conn *c;
        enum pg_outcome outcome;

        if (queue_late(p, q, now)) {
            queue_timeout(p, q);
            continue;
        }
        if (q->query_statement->statement_state == STATEMENT_BROKEN) {
            queue_remove(p, q);
            query_end(q, PG_BROKEN, NULL);
            continue;
        }
        c = batch_pick(p);
        if (c == NULL)
            return;
        queue_remove(p, q);
        /* One that is sent again goes under its own Sync, so that no neighbour's error skips it a second time. */
        outcome = batch_append(c, q, retry, now);
        if (outcome != PG_DONE)
            query_end(q, outcome, NULL);
    }
}

void queue_expire(struct pg_pool *p, uint64_t now)
{
    struct pg_query *q;

    while ((q = TAILQ_FIRST(&p->pool_retry)) != NULL && queue_late(p, q, now))
        queue_timeout(p, q);
    while ((q = TAILQ_FIRST(&p->pool_waiting)) != NULL && queue_late(p, q, now))
        queue_timeout(p, q);
}

void queue_shed(struct pg_pool *p)
{
    struct pg_query *q;

    while ((q = queue_first(p)) != NULL) {
        queue_remove(p, q);
        stat_pool_add(p->pool_index, STAT_pool_shed_pool_down, 1);
        query_end(q, PG_SHED_DOWN, NULL);
    }
}

static struct pg_query *queue_first(const struct pg_pool *p)
{
    struct pg_query *q = TAILQ_FIRST(&p->pool_retry);

    return q != NULL ? q : TAILQ_FIRST(&p->pool_waiting);
}

static bool queue_late(const struct pg_pool *p, const struct pg_query *q, uint64_t now)
{
    uint64_t patience = (uint64_t)p->pool_config.config_pool->pool_queue_timeout_ms * 1000000;

    /* `now` may be older than query_at_ns by a turn. */
    return now > q->query_at_ns && now - q->query_at_ns > patience;
}

static void queue_timeout(struct pg_pool *p, struct pg_query *q)
{
    queue_remove(p, q);
    stat_pool_add(p->pool_index, STAT_pool_shed_queue_timeout, 1);
    query_end(q, PG_SHED_TIMEOUT, NULL);
}
