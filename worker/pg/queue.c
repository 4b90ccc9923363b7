/*
 * Queries that wait: those to be sent again, then the queue in order of arrival.
 *
 * How long one may wait is judged by what the others had to wait (the idea of CoDel, Nichols and Jacobson 2012), not by
 * the queue's length.  Late is who waited for longer than the target (queue_target_ms); prompt is who got a
 * slot sooner, or without being queued.  While late ones do not outweigh prompt ones for queue_timeout_ms on end
 * (whoever comes with a burst is served by then, or timed out), it is a burst, and the patience is all of
 * queue_timeout_ms.  When they do, more comes in than goes out, and waiting helps nobody: from then on the patience is
 * the target, until fewer than a third time out of it, or nobody was late for four times that long.
 *
 * What weighs how much was found by trying (open and closed loops, 0.8 to 3 times of what 2 to 32 slots can do,
 * statements of 1 ms to 1 s, bursts).  Where statements take longer than the target, few slots let some wait at 0.8 of
 * what they can do, and find a few slots free at 1.5: neither the shortest wait of an interval nor an empty queue says
 * much.  What tells them apart is who times out, and who need not wait.
 */
#include "worker/pg/conn.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "worker/mem/alloc.h"
#include "worker/mem/plant.h"

#define INTERVAL_MIN_NS 100000000u
#define INTERVALS_CALM 4u /* without anybody late: whatever was before does not matter any more */
#define TARGET_PART 10u   /* of queue_timeout_ms */
/* Weights.  Under overload nobody is late but who times out, and two prompt ones make up for that. */
#define LATE_MAX 40u /* so much is overload */
#define LATE_TIMEOUT 4u
#define LATE_TURN 1u
#define LATE_PROMPT 4u
#define LATE_OVERLOADED_TIMEOUT 2u
#define LATE_OVERLOADED_PROMPT 1u
#define ALARM_MIN_NS 500000u
#define SHAKEN_NS 25000000u          /* behind a loss, to see whether others follow, */
#define SHAKEN_PART 4u               /* ... but not for more of what a query may wait, */
#define SHAKEN_TIMES 2u              /* ... nor more often, however many follow */
#define PATIENCE_LEAST_NS 250000000u /* where nobody is to wait in line */

static struct pg_query *queue_first(const struct pg_pool *p, uint64_t now);
static uint64_t queue_held_until(const struct pg_pool *p, const struct pg_query *q);
static bool queue_late(const struct pg_pool *p, const struct pg_query *q, uint64_t now);
static void queue_timeout(struct pg_pool *p, struct pg_query *q, uint64_t now);
static void queue_judge(struct pg_pool *p, uint64_t waited, uint64_t now);
static void queue_late_add(struct pg_pool *p, unsigned weight, uint64_t now);
static void queue_prompt_add(struct pg_pool *p, uint64_t n);
static void queue_look(struct pg_pool *p, uint64_t now);
static uint64_t queue_sent(const struct pg_pool *p);
static void queue_alarm(struct pg_pool *p, uint64_t now);
static void queue_on_alarm(int fd, short what, void *arg);

int queue_init(struct pg_pool *p)
{
    const struct conf_pool *conf = p->pool_config.config_pool;

    TAILQ_INIT(&p->pool_retry);
    TAILQ_INIT(&p->pool_waiting);
    p->pool_patience_ns = (uint64_t)conf->pool_queue_timeout_ms * 1000000u;
    if (p->pool_patience_ns == 0) /* to be sent again, or for a slot that is being freed (pg_pool_submit) */
        p->pool_patience_ns = PATIENCE_LEAST_NS;
    p->pool_target_ns = (uint64_t)conf->pool_queue_target_ms * 1000000u;
    if (p->pool_target_ns == 0)
        p->pool_target_ns = p->pool_patience_ns / TARGET_PART;
    if (p->pool_target_ns > p->pool_patience_ns)
        p->pool_target_ns = p->pool_patience_ns;
    p->pool_interval_ns = p->pool_patience_ns > INTERVAL_MIN_NS ? p->pool_patience_ns : INTERVAL_MIN_NS;
    p->pool_shaken_ns = SHAKEN_NS < p->pool_patience_ns / SHAKEN_PART ? SHAKEN_NS : p->pool_patience_ns / SHAKEN_PART;
    p->pool_counted = queue_sent(p);
    p->pool_alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (p->pool_alarm_fd < 0)
        return -1;
    AZ(event_assign(&p->pool_alarm, p->pool_config.config_base, p->pool_alarm_fd, EV_READ | EV_PERSIST, queue_on_alarm,
                    p));
    (void)event_add(&p->pool_alarm, NULL);
    return 0;
}

void queue_fini(struct pg_pool *p)
{
    if (p->pool_alarm_fd < 0)
        return;
    if (event_initialized(&p->pool_alarm))
        (void)event_del(&p->pool_alarm);
    (void)close(p->pool_alarm_fd);
    p->pool_alarm_fd = -1;
}

void queue_wait(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    PLANT("queued");
    q->query_state = QUERY_WAITING;
    q->query_at_ns = now;
    queue_look(p, now);
    TAILQ_INSERT_TAIL(&p->pool_waiting, q, query_link);
    p->pool_waiting_n++;
    if (!p->pool_alarmed)
        queue_alarm(p, now);
}

void queue_retry(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    q->query_state = QUERY_RETRY;
    q->query_conn = NULL;
    q->query_started = false;
    q->query_at_ns = now;
    TAILQ_INSERT_TAIL(&p->pool_retry, q, query_link);
    p->pool_retry_n++;
    queue_alarm(p, now);
    stat_pool_add(p->pool_index, STAT_pool_retried, 1);
    if (q->query_ops->query_restart != NULL)
        q->query_ops->query_restart(q);
}

void queue_wake(struct pg_pool *p, uint64_t at, uint64_t now)
{
    if (p->pool_wake_at != 0 && p->pool_wake_at <= at)
        return;
    p->pool_wake_at = at;
    queue_alarm(p, now);
}

void queue_shaken(struct pg_pool *p, uint64_t now)
{
    p->pool_shaken_until = now + p->pool_shaken_ns;
    if (!TAILQ_EMPTY(&p->pool_retry))
        queue_alarm(p, now);
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

    while ((q = queue_first(p, now)) != NULL) {
        bool retry = q->query_state == QUERY_RETRY, patient;
        struct pg_conn *c;
        enum pg_outcome outcome;

        if (queue_late(p, q, now)) {
            queue_timeout(p, q, now);
            continue;
        }
        if (q->query_statement->statement_state == STATEMENT_BROKEN) {
            queue_remove(p, q);
            query_end(q, PG_BROKEN, NULL);
            continue;
        }
        patient = now <= q->query_at_ns || now - q->query_at_ns < FORSAKEN_NEAR_NS;
        c = batch_pick(p, patient, now);
        if (c == NULL && forsaken_relieve(p, now))
            c = batch_pick(p, patient, now);
        if (c == NULL)
            return;
        queue_remove(p, q);
        if (!retry)
            queue_judge(p, now > q->query_at_ns ? now - q->query_at_ns : 0, now);
        /* One that is sent again goes under its own Sync, so that no neighbour's error skips it a second time. */
        outcome = batch_append(c, q, retry, now);
        if (outcome == PG_DONE)
            p->pool_counted++;
        else
            query_end(q, outcome, NULL);
    }
}

void queue_expire(struct pg_pool *p, uint64_t now)
{
    struct pg_query *q;

    queue_look(p, now);
    while ((q = TAILQ_FIRST(&p->pool_retry)) != NULL && queue_late(p, q, now))
        queue_timeout(p, q, now);
    while ((q = TAILQ_FIRST(&p->pool_waiting)) != NULL && queue_late(p, q, now))
        queue_timeout(p, q, now);
}

void queue_shed(struct pg_pool *p)
{
    struct pg_query *q;

    while ((q = queue_first(p, UINT64_MAX)) != NULL) {
        queue_remove(p, q);
        query_end(q, PG_SHED_DOWN, NULL);
    }
}

static struct pg_query *queue_first(const struct pg_pool *p, uint64_t now)
{
    struct pg_query *q = TAILQ_FIRST(&p->pool_retry);

    return q != NULL && now >= queue_held_until(p, q) ? q : TAILQ_FIRST(&p->pool_waiting);
}

/* Until when a query that is to be sent again waits to see whether more connections are lost. */
static uint64_t queue_held_until(const struct pg_pool *p, const struct pg_query *q)
{
    uint64_t most = q->query_at_ns + SHAKEN_TIMES * p->pool_shaken_ns;

    return p->pool_shaken_until < most ? p->pool_shaken_until : most;
}

static bool queue_late(const struct pg_pool *p, const struct pg_query *q, uint64_t now)
{
    uint64_t patience = p->pool_overloaded && q->query_state == QUERY_WAITING ? p->pool_target_ns : p->pool_patience_ns;

    /* `now` may be older than query_at_ns by a turn. */
    return now > q->query_at_ns && now - q->query_at_ns > patience;
}

static void queue_timeout(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    if (q->query_state == QUERY_WAITING) {
        queue_look(p, now);
        queue_late_add(p, p->pool_overloaded ? LATE_OVERLOADED_TIMEOUT : LATE_TIMEOUT, now);
    }
    queue_remove(p, q);
    query_end(q, PG_SHED_TIMEOUT, NULL);
}

/* One has got its turn, after so long. */
static void queue_judge(struct pg_pool *p, uint64_t waited, uint64_t now)
{
    queue_look(p, now);
    if (waited > p->pool_target_ns)
        queue_late_add(p, LATE_TURN, now);
    else if (!p->pool_overloaded || waited < p->pool_target_ns / 2) /* the patience must not end overload by itself */
        queue_prompt_add(p, 1);
}

static void queue_late_add(struct pg_pool *p, unsigned weight, uint64_t now)
{
    if (p->pool_late == 0)
        p->pool_late_since = now;
    p->pool_late_at = now;
    p->pool_late = p->pool_late + weight < LATE_MAX ? p->pool_late + weight : LATE_MAX;
    if (p->pool_overloaded || p->pool_late < LATE_MAX || now < p->pool_late_since + p->pool_interval_ns)
        return;
    p->pool_overloaded = true;
    queue_alarm(p, now);
}

static void queue_prompt_add(struct pg_pool *p, uint64_t n)
{
    unsigned weight = p->pool_overloaded ? LATE_OVERLOADED_PROMPT : LATE_PROMPT;

    if (n < LATE_MAX && n * weight < p->pool_late) {
        p->pool_late -= (unsigned)n * weight;
    } else if (n > 0) {
        p->pool_late = 0;
        p->pool_overloaded = false;
    }
}

/* Counts those who were sent since the last look without being queued, here rather than on their way. */
static void queue_look(struct pg_pool *p, uint64_t now)
{
    uint64_t sent = queue_sent(p);

    queue_prompt_add(p, sent - p->pool_counted);
    p->pool_counted = sent;
    if (TAILQ_EMPTY(&p->pool_waiting) && now > p->pool_late_at + INTERVALS_CALM * p->pool_interval_ns) {
        p->pool_late = 0;
        p->pool_overloaded = false;
    }
}

static uint64_t queue_sent(const struct pg_pool *p)
{
    return stats.stats_pools[p->pool_index].pool_counters[STAT_pool_queries];
}

/* Wakes the loop when the patience of the first in line is over, or at pool_wake_at. */
static void queue_alarm(struct pg_pool *p, uint64_t now)
{
    const struct pg_query *q[] = {TAILQ_FIRST(&p->pool_retry), TAILQ_FIRST(&p->pool_waiting)};
    uint64_t at = UINT64_MAX;
    struct itimerspec when = {{0, 0}, {0, 0}};

    if (q[0] != NULL) {
        at = queue_held_until(p, q[0]);
        if (at <= now)
            at = q[0]->query_at_ns + p->pool_patience_ns;
    }
    if (q[1] != NULL) {
        uint64_t other = q[1]->query_at_ns + (p->pool_overloaded ? p->pool_target_ns : p->pool_patience_ns);

        if (other < at)
            at = other;
    }
    if (p->pool_wake_at != 0 && p->pool_wake_at < at)
        at = p->pool_wake_at;
    if (at == UINT64_MAX)
        return;
    if (at < now + ALARM_MIN_NS) /* many that come one behind the other: not an alarm each */
        at = now + ALARM_MIN_NS;
    when.it_value.tv_sec = (time_t)(at / 1000000000u);
    when.it_value.tv_nsec = (long)(at % 1000000000u) + 1; /* late is when it is over */
    if (when.it_value.tv_nsec == 1000000000)
        when.it_value.tv_nsec--;
    p->pool_alarmed = timerfd_settime(p->pool_alarm_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

static void queue_on_alarm(int fd, short what, void *arg)
{
    struct pg_pool *p = arg;
    enum alloc_scope old = alloc_enter(ALLOC_PG);
    uint64_t times, now = pg_now();

    (void)what;
    CHECK_OBJ(p, PG_POOL_MAGIC);
    (void)!read(fd, &times, sizeof times);
    if (p->pool_config.config_now != NULL)
        *p->pool_config.config_now = now;
    p->pool_alarmed = false;
    p->pool_wake_at = 0;
    queue_expire(p, now);
    queue_pump(p, now);
    queue_alarm(p, now);
    alloc_leave(old);
}
