#include <stdlib.h>

#include "ctl/format.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char to[FORMAT_MAX];

static void test_bytes(void **state)
{
    (void)state;
    assert_string_equal(format_bytes(to, 0), "0 B");
    assert_string_equal(format_bytes(to, 1023), "1023 B");
    assert_string_equal(format_bytes(to, 1024), "1.0 KiB");
    assert_string_equal(format_bytes(to, (1 << 20) - 1), "1.0 MiB"); /* not 1024.0 KiB */
    assert_string_equal(format_bytes(to, 64 << 20), "64.0 MiB");
    assert_string_equal(format_bytes(to, UINT64_MAX), "16777216.0 TiB");
}

static void test_us(void **state)
{
    (void)state;
    assert_string_equal(format_us(to, 0), "0us");
    assert_string_equal(format_us(to, 999.4), "999us");
    assert_string_equal(format_us(to, 999.5), "1.00ms");
    assert_string_equal(format_us(to, 1250), "1.25ms");
    assert_string_equal(format_us(to, 999999), "1.00s");
    assert_string_equal(format_us(to, 268435455), "268.44s");
}

static void test_duration(void **state)
{
    (void)state;
    assert_string_equal(format_duration(to, 0), "0s");
    assert_string_equal(format_duration(to, 59999999999), "59s");
    assert_string_equal(format_duration(to, 60000000000), "1m 00s");
    assert_string_equal(format_duration(to, 3661000000000), "1h 01m");
    assert_string_equal(format_duration(to, 90061000000000), "1d 01h 01m");
    assert_true(format_duration(to, UINT64_MAX)[0] != '\0');
}

static void test_ratio(void **state)
{
    (void)state;
    assert_string_equal(format_ratio(to, 0, 0, 3), "0.000");
    assert_string_equal(format_ratio(to, 1, 0, 3), "-");
    assert_string_equal(format_ratio(to, 0, 9, 3), "0.000");
    assert_string_equal(format_ratio(to, 1, 8, 3), "0.125");
    assert_string_equal(format_ratio(to, 96, 3, 1), "32.0");
}

static void test_rate(void **state)
{
    (void)state;
    assert_string_equal(format_rate(to, 0), "0");
    assert_string_equal(format_rate(to, 3.25), "3.2");
    assert_string_equal(format_rate(to, 99.96), "100");
    assert_string_equal(format_rate(to, 123456.7), "123457");
}

static void test_time(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    assert_string_equal(format_time(to, 0), "1970-01-01 00:00:00");
    assert_string_equal(format_time(to, 1000000000999999999), "2001-09-09 01:46:40");
    assert_true(format_time(to, UINT64_MAX)[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_us),   cmocka_unit_test(test_duration),
        cmocka_unit_test(test_ratio), cmocka_unit_test(test_rate), cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
