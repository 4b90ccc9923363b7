#include "shm/histogram.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_cells_follow_each_other(void **state)
{
    unsigned i;

    (void)state;
    assert_int_equal(histogram_low(0), 0);
    for (i = 0; i < HISTOGRAM_CELLS; i++) {
        assert_true(histogram_low(i) <= histogram_high(i));
        assert_int_equal(histogram_cell(histogram_low(i)), i);
        assert_int_equal(histogram_cell(histogram_high(i)), i);
        if (i > 0)
            assert_int_equal(histogram_low(i), histogram_high(i - 1) + 1);
    }
    assert_int_equal(histogram_high(HISTOGRAM_CELLS - 1), (1u << 28) - 1);
}

static void test_all_above_goes_to_the_last_cell(void **state)
{
    (void)state;
    assert_int_equal(histogram_cell(1u << 28), HISTOGRAM_CELLS - 1);
    assert_int_equal(histogram_cell(UINT64_MAX), HISTOGRAM_CELLS - 1);
}

/* A quantile of one record is the record, at most 3 % off. */
static void test_error_bound(void **state)
{
    struct histogram h = {0};
    uint64_t v;
    double got, error, worst = 0;

    (void)state;
    for (v = 0; v < 1u << 28; v += v < 100000 ? 1 : v / 997) {
        histogram_record(&h, v);
        assert_int_equal(histogram_count(h.histogram_cells), 1);
        got = histogram_quantile(h.histogram_cells, 0.5);
        h.histogram_cells[histogram_cell(v)] = 0;
        error = got > (double)v ? got - (double)v : (double)v - got;
        if (v < 32)
            assert_true(error == 0);
        else if (error / (double)v > worst)
            worst = error / (double)v;
    }
    assert_true(worst > 0);
    assert_true(worst <= 0.03);
}

static void test_quantiles_of_a_ramp(void **state)
{
    static const double shares[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1};
    struct histogram h = {0};
    double got, want;
    unsigned i;

    (void)state;
    for (i = 1; i <= 100000; i++)
        histogram_record(&h, i);
    for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        got = histogram_quantile(h.histogram_cells, shares[i]);
        want = shares[i] * 100000;
        assert_true(got >= want * 0.97 && got <= want * 1.03);
    }
    assert_int_equal(h.histogram_sum, 100000ull * 100001 / 2);
}

static void test_quantiles_at_the_edges(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_true(histogram_quantile(h.histogram_cells, 0.5) == 0);
    histogram_record(&h, 1);
    histogram_record(&h, 7);
    histogram_record(&h, 20);
    assert_true(histogram_quantile(h.histogram_cells, 0) == 1);
    assert_true(histogram_quantile(h.histogram_cells, -3) == 1);
    assert_true(histogram_quantile(h.histogram_cells, __builtin_nan("")) == 1);
    assert_true(histogram_quantile(h.histogram_cells, 1.0 / 3) == 1);
    assert_true(histogram_quantile(h.histogram_cells, 0.34) == 7);
    assert_true(histogram_quantile(h.histogram_cells, 0.5) == 7);
    assert_true(histogram_quantile(h.histogram_cells, 1) == 20);
    assert_true(histogram_quantile(h.histogram_cells, 9) == 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_follow_each_other),
        cmocka_unit_test(test_all_above_goes_to_the_last_cell),
        cmocka_unit_test(test_error_bound),
        cmocka_unit_test(test_quantiles_of_a_ramp),
        cmocka_unit_test(test_quantiles_at_the_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
