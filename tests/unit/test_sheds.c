#include "worker/sheds.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static struct sheds sheds;
static char line[SHEDS_LINE_MAX];

static int setup(void **state)
{
    (void)state;
    stats_private();
    stat_add(STAT_shed_pool_full, 3); /* a predecessor's */
    sheds_start(&sheds);
    return 0;
}

static void nothing_shed_nothing_said(void **state)
{
    (void)state;
    assert_false(sheds_tell(&sheds, SECOND, false, line));
    assert_false(sheds_tell(&sheds, 100 * SECOND, true, line));
}

static void the_first_is_said_at_once_and_then_one_in_ten_seconds(void **state)
{
    (void)state;
    stat_add(STAT_shed_pool_full, 1);
    assert_true(sheds_tell(&sheds, SECOND, false, line));
    assert_string_equal(line, "shed 1 request: pool_full 1");
    stat_add(STAT_shed_pool_full, 2);
    stat_add(STAT_shed_connections, 40);
    assert_false(sheds_tell(&sheds, 11 * SECOND - 1, false, line));
    assert_true(sheds_tell(&sheds, 11 * SECOND, false, line));
    assert_string_equal(line, "shed 42 requests since the last such line: pool_full 2 connections 40");
    assert_false(sheds_tell(&sheds, 100 * SECOND, false, line));
}

static void the_end_does_not_wait(void **state)
{
    (void)state;
    stat_add(STAT_shed_buffers, 1);
    assert_true(sheds_tell(&sheds, SECOND, false, line));
    stat_add(STAT_shed_queue_timeout, 1);
    stat_add(STAT_shed_pool_down, 1);
    assert_false(sheds_tell(&sheds, SECOND + 1, false, line));
    assert_true(sheds_tell(&sheds, SECOND + 1, true, line));
    assert_string_equal(line, "shed 2 requests since the last such line: queue_timeout 1 pool_down 1");
    assert_false(sheds_tell(&sheds, SECOND + 2, true, line));
}

static void the_longest_line_fits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SHEDS_CAUSES; i++)
        sheds.sheds_told[i] = stats.stats_worker[sheds_causes[i].cause_counter] - UINT64_MAX / 8;
    sheds.sheds_told_ns = 1;
    assert_true(sheds_tell(&sheds, 100 * SECOND, false, line));
    assert_non_null(strstr(line, "connections 2305843009213693951"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_shed_nothing_said, setup),
        cmocka_unit_test_setup(the_first_is_said_at_once_and_then_one_in_ten_seconds, setup),
        cmocka_unit_test_setup(the_end_does_not_wait, setup),
        cmocka_unit_test_setup(the_longest_line_fits, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
