/* How long a query may wait: a burst, lasting overload, and the way back.  Time is what the test says it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "worker/pg/queue.c"

#define MS 1000000u
#define QUERIES 256

static struct pg_pool pool;
static struct conf_pool conf;
static struct pg_query queries[QUERIES];
static enum pg_outcome outcomes[QUERIES];
static unsigned ended;
static const uint64_t start = 1000000u * (uint64_t)MS; /* long ago: alarms for it are due at once */

static void done(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error)
{
    (void)error;
    outcomes[q - queries] = outcome;
    ended++;
}

static const struct pg_query_ops ops = {.query_done = done};

static int setup(void **state)
{
    (void)state;
    memset(&pool, 0, sizeof pool);
    memset(queries, 0, sizeof queries);
    ended = 0;
    conf = (struct conf_pool){.pool_queue_timeout_ms = 250, .pool_queue = QUERIES};
    pool.magic = PG_POOL_MAGIC;
    pool.pool_config.config_pool = &conf;
    pool.pool_config.config_base = event_base_new();
    assert_int_equal(queue_init(&pool), 0);
    for (unsigned i = 0; i < QUERIES; i++) {
        queries[i].magic = PG_QUERY_MAGIC;
        queries[i].query_ops = &ops;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    queue_fini(&pool);
    event_base_free(pool.pool_config.config_base);
    return 0;
}

/* The first in line gets its turn. */
static void served(uint64_t now)
{
    struct pg_query *q = TAILQ_FIRST(&pool.pool_waiting);

    queue_remove(&pool, q);
    queue_judge(&pool, now - q->query_at_ns, now);
}

/* So many get a slot without being queued. */
static void sent(unsigned n)
{
    stat_pool_add(0, STAT_pool_queries, n);
}

/* So many come, in turn, one each `gap`, and nobody gets a slot: who has waited too long is shed as the time passes. */
static uint64_t stuck(unsigned first, unsigned n, uint64_t gap, uint64_t now)
{
    for (unsigned i = first; i < first + n; i++, now += gap) {
        queue_expire(&pool, now);
        queue_wait(&pool, &queries[i], now);
    }
    return now;
}

/* How long the last in line may wait, which is then shed. */
static uint64_t patience(uint64_t now)
{
    uint64_t waited = 0;

    queue_expire(&pool, now);
    queue_wait(&pool, &queries[QUERIES - 1], now);
    while (queries[QUERIES - 1].query_state == QUERY_WAITING)
        queue_expire(&pool, now + (waited += MS));
    return waited / MS - 1;
}

static void a_burst_has_all_its_patience(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 51; i++)
        queue_wait(&pool, &queries[i], start);
    for (unsigned i = 0; i < 50; i++) { /* 5 ms each: only five of them are prompt */
        queue_expire(&pool, start + (i + 1) * 5u * MS);
        served(start + (i + 1) * 5u * MS);
    }
    assert_int_equal(ended, 0);
    assert_false(pool.pool_overloaded);
    queue_expire(&pool, start + 251u * MS);
    assert_int_equal(ended, 1);
    assert_int_equal(outcomes[50], PG_SHED_TIMEOUT);
}

static void so_has_the_next_one(void **state)
{
    (void)state;
    for (unsigned burst = 0; burst < 5; burst++) { /* a second of calm between them */
        for (unsigned i = 0; i < 25; i++)
            queue_wait(&pool, &queries[i], start + burst * 1300u * MS);
        for (unsigned i = 0; i < 8; i++) /* 30 ms each, three at a time: even the first three are late */
            for (unsigned k = 0; k < 3; k++)
                served(start + burst * 1300u * MS + (i + 1) * 30u * MS);
        assert_true(pool.pool_late > 0);
        queue_expire(&pool, start + burst * 1300u * MS + 250u * MS);
        assert_int_equal(ended, burst);
        queue_expire(&pool, start + burst * 1300u * MS + 251u * MS);
        assert_int_equal(ended, burst + 1);
    }
    assert_false(pool.pool_overloaded);
}

/* One comes and one goes each 10 ms, but each has waited for 60 ms: the queue does not get shorter. */
static uint64_t overload(void)
{
    uint64_t now = start;
    unsigned next = 0;

    for (; next < 6; next++, now += 10u * MS)
        queue_wait(&pool, &queries[next], now);
    for (; next < 50; next++, now += 10u * MS) {
        served(now);
        queue_wait(&pool, &queries[next], now);
    }
    return now;
}

static void lasting_overload_shortens_the_wait(void **state)
{
    uint64_t now = overload();

    (void)state;
    assert_true(pool.pool_overloaded);
    assert_int_equal(pool.pool_waiting_n, 6);
    queue_expire(&pool, now); /* those of the last 25 ms stay */
    assert_int_equal(ended, 4);
    assert_int_equal(outcomes[44], PG_SHED_TIMEOUT);
    assert_int_equal(outcomes[47], PG_SHED_TIMEOUT);
    assert_int_equal(queries[48].query_state, QUERY_WAITING);
}

/* Who may wait for 60 ms under a steady load is not late. */
static void the_target_can_be_set(void **state)
{
    (void)state;
    queue_fini(&pool);
    conf.pool_queue_target_ms = 60;
    assert_int_equal(queue_init(&pool), 0);
    (void)overload();
    assert_false(pool.pool_overloaded);
    queue_fini(&pool);
    conf.pool_queue_target_ms = 1000; /* no more than all the patience there is */
    assert_int_equal(queue_init(&pool), 0);
    assert_int_equal(pool.pool_target_ns, 250u * MS);
}

static void many_late_ones_at_once_are_not_lasting(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        queue_wait(&pool, &queries[i], start);
    for (unsigned i = 0; i < 99; i++)
        served(start + 100u * MS);
    assert_false(pool.pool_overloaded);
    queue_expire(&pool, start + 249u * MS);
    assert_int_equal(ended, 0);
}

/* All slots are held: nobody gets a turn, so those who time out are all there is to be judged. */
static void who_times_out_has_waited_too(void **state)
{
    uint64_t now;

    (void)state;
    now = stuck(0, 20, 50u * MS, start); /* ten of them time out, for longer than 250 ms */
    assert_true(pool.pool_overloaded);
    assert_int_equal(patience(now), 25);
}

static void a_few_timeouts_are_not_overload(void **state)
{
    (void)state;
    (void)stuck(0, 9, 50u * MS, start);
    queue_expire(&pool, start + 700u * MS);
    assert_int_equal(ended, 9);
    assert_int_equal(patience(start + 700u * MS), 250);
}

/* A queue that was emptied by time-outs is empty for another reason than one whose queries were sent. */
static void a_queue_emptied_by_timeouts_has_not_recovered(void **state)
{
    uint64_t now = stuck(0, 20, 50u * MS, start);

    (void)state;
    queue_expire(&pool, now + 300u * MS);
    assert_int_equal(pool.pool_waiting_n, 0);
    assert_int_equal(patience(now + 300u * MS), 25);
    assert_int_equal(patience(now + 900u * MS), 25);
}

static void a_second_without_anybody_late_is_calm(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_expire(&pool, now + 300u * MS);
    assert_true(pool.pool_overloaded);
    queue_expire(&pool, now + 1301u * MS);
    assert_false(pool.pool_overloaded);
    assert_int_equal(patience(now + 1301u * MS), 250);
}

struct load {
    unsigned load_slots, load_ms; /* how long a statement takes */
    double load_factor;           /* how much comes, of what the slots can do */
};

struct outcome {
    unsigned outcome_served, outcome_shed;
    unsigned outcome_waits[300]; /* how many of those served had to wait for so many ms */
};

/* A minute of slots and statements, a millisecond at a time; clients come when they like.  What the outcome says is
 * about all but the first two seconds. */
static struct outcome *minute(const struct load *l)
{
    static struct outcome o;
    uint64_t free_at[32] = {0}, now = start, random = 1;

    memset(&o, 0, sizeof o);
    for (unsigned ms = 0; ms < 60000; ms++, now += MS) {
        bool counts = ms >= 2000;
        struct pg_query *q;
        unsigned n = 0;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ended = 0;
        queue_expire(&pool, now);
        o.outcome_shed += counts ? ended : 0;
        if ((double)(random >> 32) < 0x1p32 * l->load_factor * l->load_slots / l->load_ms) {
            while (queries[n].query_state != QUERY_IDLE)
                n++;
            queue_wait(&pool, &queries[n], now); /* but if a slot is free: below */
        }
        for (unsigned i = 0; i < l->load_slots && (q = TAILQ_FIRST(&pool.pool_waiting)) != NULL; i++) {
            unsigned waited = (unsigned)((now - q->query_at_ns) / MS);

            if (free_at[i] > now)
                continue;
            free_at[i] = now + l->load_ms * (uint64_t)MS;
            if (waited == 0) {
                queue_remove(&pool, q);
                sent(1);
            } else {
                served(now);
            }
            o.outcome_served += counts;
            o.outcome_waits[waited] += counts;
        }
    }
    return &o;
}

static unsigned wait_of(const struct outcome *o, unsigned percent)
{
    unsigned seen = 0, ms = 0;

    while (ms < 299 && (seen += o->outcome_waits[ms]) * 100u < o->outcome_served * percent)
        ms++;
    return ms;
}

/* Also where a statement takes longer than anybody is to wait. */
static void under_overload_who_gets_a_slot_gets_it_soon(void **state)
{
    static const struct load loads[] = {
        {4, 20, 1.5}, {4, 20, 3},     {2, 50, 1.5},  {2, 50, 3},      {4, 100, 1.5},
        {4, 100, 3},  {2, 200, 3},    {8, 150, 1.5}, {8, 150, 3},     {4, 300, 1.5},
        {4, 300, 3},  {32, 300, 1.5}, {32, 300, 3},  {32, 1000, 1.5}, {8, 1000, 3},
    };

    for (unsigned i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        const struct outcome *o;

        assert_int_equal(i == 0 ? 0 : teardown(state) + setup(state), 0);
        o = minute(&loads[i]);
        if (wait_of(o, 90) > 50)
            fail_msg("%u slots, %u ms, load %g: %u served, %u shed, waits of %u, %u and %u ms", loads[i].load_slots,
                     loads[i].load_ms, loads[i].load_factor, o->outcome_served, o->outcome_shed, wait_of(o, 50),
                     wait_of(o, 90), wait_of(o, 100));
    }
}

/* Below what the slots can do, some have to wait for longer than the target where they are few; most of them get one.
 */
static void below_that_they_wait(void **state)
{
    static const struct load loads[] = {
        {2, 20, .8},  {4, 50, .8},  {2, 100, .8},  {4, 100, .8},   {2, 200, .8},
        {4, 300, .8}, {8, 300, .8}, {2, 1000, .8}, {32, 1000, .8},
    };

    for (unsigned i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        const struct outcome *o;
        unsigned all, shed;

        assert_int_equal(i == 0 ? 0 : teardown(state) + setup(state), 0);
        pool.pool_interval_ns = UINT64_MAX / 8; /* with all the patience, always */
        shed = minute(&loads[i])->outcome_shed;
        assert_false(pool.pool_overloaded);
        assert_int_equal(teardown(state) + setup(state), 0);
        o = minute(&loads[i]);
        all = o->outcome_served + o->outcome_shed;
        if (o->outcome_shed > shed + all / 10)
            fail_msg("%u slots, %u ms: of %u %u shed, %u with all the patience", loads[i].load_slots, loads[i].load_ms,
                     all, o->outcome_shed, shed);
    }
}

static void prompt_ones_end_it(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_expire(&pool, now);
    for (unsigned i = 50; i < 110; i++, now += 10u * MS) { /* a wait of 20 ms is still over half of the target */
        served(now);
        queue_wait(&pool, &queries[i], now);
    }
    assert_true(pool.pool_overloaded);
    served(now); /* one less in line: 10 ms */
    for (unsigned i = 110; i < 160; i++, now += 10u * MS) {
        queue_wait(&pool, &queries[i], now);
        served(now);
    }
    assert_false(pool.pool_overloaded);
}

static void more_than_a_third_that_time_out_keep_it_up(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_expire(&pool, now + 30u * MS);
    now += 100u * MS;
    for (unsigned i = 0; i < 100; i++, now += 100u * MS) { /* two of five */
        sent(i % 2 == 0 ? 1 : 2);
        (void)patience(now);
    }
    assert_true(pool.pool_overloaded);
    for (unsigned i = 0; i < 100; i++, now += 100u * MS) { /* a quarter */
        sent(3);
        (void)patience(now);
    }
    assert_false(pool.pool_overloaded);
}

static void nobody_late_yet_is_no_judgement(void **state)
{
    (void)state;
    queue_wait(&pool, &queries[0], start);
    queue_wait(&pool, &queries[1], start + 150u * MS);
    queue_expire(&pool, start + 200u * MS);
    assert_int_equal(ended, 0);
    assert_false(pool.pool_overloaded);
}

static void those_sent_again_keep_their_patience(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_retry(&pool, &queries[0], now);
    queue_expire(&pool, now + 200u * MS);
    assert_int_equal(queries[0].query_state, QUERY_RETRY);
    queue_expire(&pool, now + 251u * MS);
    assert_int_equal(queries[0].query_state, QUERY_IDLE);
}

static void an_alarm_wakes_in_time(void **state)
{
    (void)state;
    pool.pool_patience_ns = 20u * MS;
    queue_wait(&pool, &queries[0], pg_now());
    assert_true(pool.pool_alarmed);
    while (ended == 0) /* no tick here: without the alarm it would hang */
        (void)event_base_loop(pool.pool_config.config_base, EVLOOP_ONCE);
    assert_int_equal(outcomes[0], PG_SHED_TIMEOUT);
    assert_false(pool.pool_alarmed);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_burst_has_all_its_patience),
        TEST(so_has_the_next_one),
        TEST(lasting_overload_shortens_the_wait),
        TEST(the_target_can_be_set),
        TEST(many_late_ones_at_once_are_not_lasting),
        TEST(who_times_out_has_waited_too),
        TEST(a_few_timeouts_are_not_overload),
        TEST(a_queue_emptied_by_timeouts_has_not_recovered),
        TEST(a_second_without_anybody_late_is_calm),
        TEST(under_overload_who_gets_a_slot_gets_it_soon),
        TEST(below_that_they_wait),
        TEST(prompt_ones_end_it),
        TEST(more_than_a_third_that_time_out_keep_it_up),
        TEST(nobody_late_yet_is_no_judgement),
        TEST(those_sent_again_keep_their_patience),
        TEST(an_alarm_wakes_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
