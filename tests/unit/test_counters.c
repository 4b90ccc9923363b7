#include <string.h>

#include "shm/counters.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
    const struct counter *scope_table;
    unsigned scope_n;
} scopes[] = {{counters_worker, STAT_WORKER_N},
              {counters_pool, STAT_POOL_N},
              {counters_route, STAT_ROUTE_N},
              {counters_master, STAT_MASTER_N}};

static void test_tables_agree_with_the_enums(void **state)
{
    (void)state;
    assert_string_equal(counters_worker[STAT_http_requests].counter_group, "http");
    assert_string_equal(counters_worker[STAT_http_requests].counter_name, "requests");
    assert_string_equal(counters_worker[STAT_loop_turns].counter_name, "turns");
    assert_string_equal(counters_pool[STAT_pool_shed_pool_down].counter_name, "shed_pool_down");
    assert_string_equal(counters_route[STAT_route_broken].counter_name, "broken");
    assert_string_equal(counters_master[STAT_master_deaths].counter_name, "deaths");
    assert_int_equal(counters_worker[STAT_memory_buffers_peak].counter_kind, COUNTER_KIND_PEAK);
}

/* Prometheus: a family has one type and stands in one scope; counters end in _total and nothing else does. */
static void test_families(void **state)
{
    const struct counter *a, *b;
    unsigned i, j, k, l;
    const char *total;

    (void)state;
    for (i = 0; i < 4; i++) {
        for (j = 0; j < scopes[i].scope_n; j++) {
            a = &scopes[i].scope_table[j];
            assert_true(a->counter_meaning[0] != '\0' && a->counter_unit[0] != '\0');
            total = strstr(a->counter_family, "_total");
            assert_true((total != NULL && total[6] == '\0') == (a->counter_kind == COUNTER_KIND_COUNTER));
            for (k = 0; k < 4; k++)
                for (l = 0; l < scopes[k].scope_n; l++) {
                    b = &scopes[k].scope_table[l];
                    if (a == b || strcmp(a->counter_family, b->counter_family) != 0)
                        continue;
                    assert_int_equal(i, k);
                    assert_int_equal(a->counter_kind, b->counter_kind);
                    assert_string_not_equal(a->counter_labels, b->counter_labels);
                }
        }
    }
}

/* The hash of FNV-1a, and of the whole text. */
static void test_hash(void **state)
{
    uint64_t h = 0xcbf29ce484222325u;
    size_t i;

    (void)state;
    for (i = 0; i + 1 < sizeof(counters_text); i++)
        h = (h ^ (unsigned char)counters_text[i]) * 0x100000001b3u;
    assert_true(counters_hash() == h);
    assert_non_null(strstr(counters_text, "WORKER\nhttp\nrequests\nCOUNTER\n"));
    assert_non_null(strstr(counters_text, "MASTER\nmaster\ndeaths\nCOUNTER\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_agree_with_the_enums),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
