#include "shm/carry.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

/* Another generation's file: its own path, so that both exist. */
static struct segment *next(const struct sample *sample, const struct segment_shape *shape)
{
    char path[160];
    struct segment *s;

    snprintf(path, sizeof(path), "%s.next", sample->sample_path);
    s = segment_create(path, shape);
    assert_non_null(s);
    unlink(path);
    return s;
}

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

static void fill(struct segment *s)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        segment_attach(s, i, 1, 0, 1);
        segment_worker_state(s, i, WORKER_STATE_READY);
        stat_add(STAT_http_requests, 10 * (i + 1));
        stat_set(STAT_http_connections, 5);
        stat_set(STAT_memory_buffers_peak, 100 * (i + 1));
        stat_pool_add(0, STAT_pool_queries, 3);
        stat_pool_add(1, STAT_pool_queries, 4);
        stat_route_add(0, STAT_route_requests, 7);
        stat_route_add(1, STAT_route_requests, 1);
        histogram_record(&stats.stats_routes[0].route_us, 8);
    }
    segment_master_add(s, STAT_master_restarts, 2);
}

static void test_the_same_shape(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    struct segment *old = sample->sample_segment, *s = next(sample, &shape);
    struct view_server a, b;
    struct histogram h;

    fill(old);
    segment_carry(s, old);
    view_server(old, &a);
    view_server(s, &b);
    assert_int_equal(a.server_started_ns, b.server_started_ns);
    segment_attach(s, 0, 2, 0, 2);
    stat_add(STAT_http_requests, 1);
    stat_set(STAT_memory_buffers_peak, 50);
    stat_route_add(0, STAT_route_requests, 1);
    histogram_record(&stats.stats_routes[0].route_us, 8);
    segment_master_add(s, STAT_master_restarts, 1);
    assert_int_equal(view_worker_counter(s, 0, STAT_http_requests), 11);
    assert_int_equal(view_worker_counter(s, 1, STAT_http_requests), 20);
    assert_int_equal(view_total(s, STAT_http_requests), 31);
    assert_int_equal(view_total(s, STAT_http_connections), 0);
    assert_int_equal(view_worker_counter(s, 0, STAT_memory_buffers_peak), 100);
    assert_int_equal(view_worker_pool(s, 1, 1, STAT_pool_queries), 4);
    assert_int_equal(view_route(s, 0, STAT_route_requests), 15);
    view_route_histogram(s, 0, &h);
    assert_int_equal(histogram_count(h.histogram_cells), 3);
    assert_int_equal(h.histogram_sum, 24);
    assert_int_equal(view_master(s, STAT_master_restarts), 3);
    segment_close(&s);
}

/* While the old workers drain the master does it again: nothing is counted twice, nothing is lost. */
static void test_again_and_again(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    struct segment *old = sample->sample_segment, *s = next(sample, &shape), *third;

    fill(old);
    segment_carry(s, old);
    segment_carry(s, old);
    assert_int_equal(view_total(s, STAT_http_requests), 30);
    segment_attach(old, 0, 1, 0, 1);
    stat_add(STAT_http_requests, 5);
    segment_carry(s, old);
    assert_int_equal(view_total(s, STAT_http_requests), 35);
    segment_attach(s, 1, 1, 0, 1);
    stat_add(STAT_http_requests, 100);
    third = next(sample, &shape);
    segment_carry(third, s);
    assert_int_equal(view_total(third, STAT_http_requests), 135);
    assert_int_equal(view_route(third, 0, STAT_route_requests), 14);
    segment_close(&third);
    segment_close(&s);
}

static void test_fewer_workers_other_pools_and_routes(void **state)
{
    static const char *const pools[] = {"other", "write", "read"};
    static const unsigned max_inflight[] = {1, 1, 1};
    static const char *const methods[] = {"PUT", "GET"};
    static const char *const paths[] = {"/items/{id}", "/items/{id}"};
    static const int route_pools[] = {0, 0};
    struct segment_shape shape = {1, 3, 2, pools, max_inflight, methods, paths, route_pools, "x"};
    struct sample *sample = *state;
    struct segment *s = next(sample, &shape);

    fill(sample->sample_segment);
    segment_carry(s, sample->sample_segment);
    assert_int_equal(view_worker_counter(s, 0, STAT_http_requests), 30);
    assert_int_equal(view_worker_counter(s, 0, STAT_memory_buffers_peak), 200);
    assert_int_equal(view_pool(s, 0, STAT_pool_queries), 0);
    assert_int_equal(view_pool(s, 1, STAT_pool_queries), 8);
    assert_int_equal(view_pool(s, 2, STAT_pool_queries), 6);
    assert_int_equal(view_route(s, 0, STAT_route_requests), 0);
    assert_int_equal(view_route(s, 1, STAT_route_requests), 14);
    segment_close(&s);
}

static void test_more_workers(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    struct segment *s;

    shape.shape_workers = 5;
    s = next(sample, &shape);
    fill(sample->sample_segment);
    segment_carry(s, sample->sample_segment);
    assert_int_equal(view_worker_counter(s, 1, STAT_http_requests), 20);
    assert_int_equal(view_worker_counter(s, 2, STAT_http_requests), 0);
    assert_int_equal(view_total(s, STAT_http_requests), 30);
    segment_close(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_same_shape),
        TEST(test_again_and_again),
        TEST(test_fewer_workers_other_pools_and_routes),
        TEST(test_more_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
