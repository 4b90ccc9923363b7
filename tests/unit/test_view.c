#include "shm/view.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

static int setup(void **state)
{
    static struct sample sample;

    sample_new(&sample);
    *state = &sample;
    return 0;
}

static int teardown(void **state)
{
    sample_free(*state);
    return 0;
}

/* Both workers count something of each kind. */
static void fill(struct segment *s)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        segment_attach(s, i, 1, 0, 1);
        segment_worker_state(s, i, WORKER_STATE_READY);
        stat_add(STAT_http_requests, 10 + i);
        stat_set(STAT_http_connections, 5 + i);
        stat_set(STAT_memory_buffers_peak, 100 * (i + 1));
        stat_set(STAT_memory_request, 320);
        stat_pool_add(0, STAT_pool_queries, 2);
        stat_pool_set(0, STAT_pool_up, 4);
        stat_pool_add(0, STAT_pool_shed_pool_full, 1);
        stat_pool_add(0, STAT_pool_shed_queue_timeout, 2);
        stat_pool_add(0, STAT_pool_shed_pool_down, 3);
        stat_route_add(1, STAT_route_requests, 7);
        stat_route_set(1, STAT_route_broken, 1);
        histogram_record(&stats.stats_routes[1].route_us, 8);
    }
}

static void test_totals_by_kind(void **state)
{
    struct segment *s = ((struct sample *)*state)->sample_segment;

    fill(s);
    assert_int_equal(view_total(s, STAT_http_requests), 21);
    assert_int_equal(view_total(s, STAT_http_connections), 11);
    assert_int_equal(view_total(s, STAT_memory_buffers_peak), 200);
    assert_int_equal(view_total(s, STAT_memory_request), 320);
    assert_int_equal(view_pool(s, 0, STAT_pool_queries), 4);
    assert_int_equal(view_pool(s, 0, STAT_pool_up), 8);
    assert_int_equal(view_pool(s, 1, STAT_pool_up), 0);
    assert_int_equal(view_pool_shed(s, 0), 12);
    assert_int_equal(view_route(s, 1, STAT_route_requests), 14);
    assert_int_equal(view_route(s, 0, STAT_route_requests), 0);
}

static void a_worker_that_is_no_more_holds_nothing(struct segment *s, enum worker_state end)
{
    struct histogram h;

    fill(s);
    segment_worker_state(s, 1, end);
    assert_int_equal(view_total(s, STAT_http_requests), 21);
    assert_int_equal(view_total(s, STAT_http_connections), 5);
    assert_int_equal(view_total(s, STAT_memory_buffers_peak), 200);
    assert_int_equal(view_pool(s, 0, STAT_pool_queries), 4);
    assert_int_equal(view_pool(s, 0, STAT_pool_up), 4);
    assert_int_equal(view_route(s, 1, STAT_route_requests), 14);
    assert_int_equal(view_route(s, 1, STAT_route_broken), 1);
    view_route_histogram(s, 1, &h);
    assert_int_equal(histogram_count(h.histogram_cells), 2);
    assert_int_equal(h.histogram_sum, 16);
    /* for its obituary */
    assert_int_equal(view_worker_counter(s, 1, STAT_http_connections), 6);
    /* until its successor is there */
    segment_attach(s, 1, 2, 0, 1);
    stat_set(STAT_http_connections, 1);
    assert_int_equal(view_total(s, STAT_http_connections), 6);
}

static void test_a_dead_worker_holds_nothing(void **state)
{
    a_worker_that_is_no_more_holds_nothing(((struct sample *)*state)->sample_segment, WORKER_STATE_DEAD);
}

static void test_a_worker_that_left_holds_nothing(void **state)
{
    a_worker_that_is_no_more_holds_nothing(((struct sample *)*state)->sample_segment, WORKER_STATE_LEFT);
}

static void test_a_state_that_is_none(void **state)
{
    struct segment *s = ((struct sample *)*state)->sample_segment;
    struct view_worker w;

    layout_worker(s, 0)->worker_state = 77;
    layout_worker(s, 0)->worker_cpu = UINT64_MAX - 1;
    layout_routes(s)[0].route_pool = 2; /* one past the last */
    view_worker(s, 0, &w);
    assert_string_equal(view_state_name(w.worker_state), "none");
    assert_int_equal(w.worker_cpu, -1);
    assert_int_equal(view_route_pool(s, 0), -1);
}

static void test_names_of_states(void **state)
{
    (void)state;
    assert_string_equal(view_state_name(WORKER_STATE_STARTING), "starting");
    assert_string_equal(view_state_name(WORKER_STATE_READY), "ready");
    assert_string_equal(view_state_name(WORKER_STATE_DRAINING), "draining");
    assert_string_equal(view_state_name(WORKER_STATE_DEAD), "dead");
    assert_string_equal(view_state_name(WORKER_STATE_LEFT), "left");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_totals_by_kind),
        TEST(test_a_dead_worker_holds_nothing),
        TEST(test_a_worker_that_left_holds_nothing),
        TEST(test_a_state_that_is_none),
        TEST(test_names_of_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
