#include "shm/stats.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_each_scope_has_its_own_cells(void **state)
{
    (void)state;
    stat_add(STAT_http_requests, 2);
    stat_add(STAT_http_requests, 3);
    stat_set(STAT_http_connections, 9);
    stat_pool_add(1, STAT_pool_queries, 4);
    stat_pool_set(STATS_PRIVATE_MAX - 1, STAT_pool_up, 1);
    stat_route_add(0, STAT_route_requests, 5);
    stat_route_set(STATS_PRIVATE_MAX - 1, STAT_route_broken, 1);
    histogram_record(&stats.stats_routes[STATS_PRIVATE_MAX - 1].route_us, 100);
    assert_int_equal(private_worker[STAT_http_requests], 5);
    assert_int_equal(private_worker[STAT_http_connections], 9);
    assert_int_equal(private_pools[0].pool_counters[STAT_pool_queries], 0);
    assert_int_equal(private_pools[1].pool_counters[STAT_pool_queries], 4);
    assert_int_equal(private_pools[STATS_PRIVATE_MAX - 1].pool_counters[STAT_pool_up], 1);
    assert_int_equal(private_routes[0].route_counters[STAT_route_requests], 5);
    assert_int_equal(private_routes[STATS_PRIVATE_MAX - 1].route_counters[STAT_route_broken], 1);
    assert_int_equal(private_routes[STATS_PRIVATE_MAX - 1].route_us.histogram_sum, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_scope_has_its_own_cells)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
