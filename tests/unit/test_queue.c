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
#define QUERIES 64

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

static void a_burst_has_all_its_patience(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        queue_wait(&pool, &queries[i], start);
    for (unsigned i = 0; i < 9; i++) /* 20 ms each: the last has waited for 180 ms, the luckiest for 20 */
        served(start + (i + 1) * 20u * MS);
    assert_false(pool.pool_overloaded);
    queue_expire(&pool, start + 249u * MS);
    assert_int_equal(ended, 0);
    queue_expire(&pool, start + 251u * MS);
    assert_int_equal(ended, 1);
    assert_int_equal(outcomes[9], PG_SHED_TIMEOUT);
}

/* One comes and one goes each 10 ms, but each has waited for 60 ms: the queue does not get shorter. */
static uint64_t overload(void)
{
    uint64_t now = start;
    unsigned next = 0;

    for (; next < 6; next++, now += 10u * MS)
        queue_wait(&pool, &queries[next], now);
    for (; next < 32; next++, now += 10u * MS) {
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
    assert_int_equal(outcomes[26], PG_SHED_TIMEOUT);
    assert_int_equal(outcomes[29], PG_SHED_TIMEOUT);
    assert_int_equal(queries[30].query_state, QUERY_WAITING);
}

static void short_waits_end_it(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_expire(&pool, now);
    for (unsigned i = 32; i < 60; i++, now += 10u * MS) { /* a wait of 20 ms is still over half of the target */
        served(now);
        queue_wait(&pool, &queries[i], now);
    }
    assert_true(pool.pool_overloaded);
    served(now); /* one less in line: 10 ms */
    for (unsigned i = 0; i < 22; i++, now += 10u * MS) {
        queue_wait(&pool, &queries[i], now);
        served(now);
    }
    assert_false(pool.pool_overloaded);
}

static void an_empty_queue_ends_it(void **state)
{
    uint64_t now = overload();

    (void)state;
    queue_expire(&pool, now + 1000u * MS);
    assert_int_equal(pool.pool_waiting_n, 0);
    queue_wait(&pool, &queries[0], now + 1000u * MS);
    assert_false(pool.pool_overloaded);
}

static void nobody_served_is_no_judgement(void **state)
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
        TEST(lasting_overload_shortens_the_wait),
        TEST(short_waits_end_it),
        TEST(an_empty_queue_ends_it),
        TEST(nobody_served_is_no_judgement),
        TEST(those_sent_again_keep_their_patience),
        TEST(an_alarm_wakes_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
