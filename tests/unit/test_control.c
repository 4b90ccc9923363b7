#include "ctl/control.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_settings(void **state)
{
    static const char *const good[] = {"read.max_inflight=1", "a.b.max_inflight=1024", "a b.max_inflight=32",
                                       "x.max_inflight=007"};
    static const char *const bad[] = {"",
                                      "read",
                                      "read.max_inflight",
                                      "read.max_inflight=",
                                      ".max_inflight=3",
                                      "read.max_inflight=0",
                                      "read.max_inflight=-1",
                                      "read.max_inflight=+1",
                                      "read.max_inflight=1x",
                                      "read.max_inflight= 1",
                                      "read.max_inflight=1\nstop now",
                                      "read\nstop.max_inflight=1",
                                      "read.max_inflight=1025",
                                      "read.max_inflight=1000000000",
                                      "read.queue=3",
                                      "read.max_inflight=1.max_inflight=1"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(control_setting(good[i]));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(control_setting(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
