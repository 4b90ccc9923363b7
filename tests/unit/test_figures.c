#include <string.h>

#include "ctl/figures.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

static struct sample sample;
static struct ctl ctl;
static int printed;

static int setup(void **state)
{
    (void)state;
    sample_new(&sample);
    ctl.ctl_runtime_dir = sample.sample_dir;
    printed = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sample_free(&sample);
    return 0;
}

static void print(const struct segment *s)
{
    assert_int_equal(view_workers(s), 2);
    printed++;
}

static void test_running(void **state)
{
    (void)state;
    assert_int_equal(figures_print(&ctl, print), CTL_DONE);
    assert_int_equal(printed, 1);
}

static void test_stale_figures_are_printed(void **state)
{
    (void)state;
    segment_mark_stale(sample.sample_segment);
    assert_int_equal(figures_print(&ctl, print), CTL_NOT_RUNNING);
    assert_int_equal(printed, 1);
}

static void test_nothing_there(void **state)
{
    struct ctl nowhere = {.ctl_runtime_dir = "/nonexistent"};

    (void)state;
    assert_int_equal(figures_print(&nowhere, print), CTL_NOT_RUNNING);
    unlink(sample.sample_path);
    assert_int_equal(figures_print(&ctl, print), CTL_NOT_RUNNING);
    assert_int_equal(printed, 0);
}

static void test_damaged(void **state)
{
    (void)state;
    assert_int_equal(truncate(sample.sample_path, 1000), 0);
    assert_int_equal(figures_print(&ctl, print), CTL_FAILED);
    assert_int_equal(printed, 0);
}

static void test_long_name(void **state)
{
    char name[PATH_MAX];
    struct ctl far = {.ctl_runtime_dir = name};

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(figures_print(&far, print), CTL_FAILED);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_running),   TEST(test_stale_figures_are_printed), TEST(test_nothing_there), TEST(test_damaged),
        TEST(test_long_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
