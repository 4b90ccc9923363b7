/* IMF-fixdate, against libc's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/http/date.c"

static void assert_date(time_t t, const char *want)
{
    char got[HTTP_DATE_LEN + 2] = "";

    got[HTTP_DATE_LEN] = '!'; /* not one octet more */
    http_date(t, got);
    assert_int_equal(got[HTTP_DATE_LEN], '!');
    got[HTTP_DATE_LEN] = '\0';
    if (strcmp(got, want) != 0)
        fail_msg("%lld: %s instead of %s", (long long)t, got, want);
}

static void assert_like_libc(time_t t)
{
    struct tm tm;
    char want[64];

    assert_non_null(gmtime_r(&t, &tm));
    size_t n = strftime(want, sizeof want, "%a, %d %b ", &tm); /* the tests run in the C locale */
    n += (size_t)sprintf(want + n, "%04d", tm.tm_year + 1900);
    strftime(want + n, sizeof want - n, " %H:%M:%S GMT", &tm);
    assert_date(t, want);
}

static void test_known(void **state)
{
    (void)state;
    assert_date(784111777, "Sun, 06 Nov 1994 08:49:37 GMT"); /* RFC 9110's example */
    assert_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_date(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
    assert_date(951782400, "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_date(951868800, "Wed, 01 Mar 2000 00:00:00 GMT");
    assert_date(4107542399, "Sun, 28 Feb 2100 23:59:59 GMT");
    assert_date(4107542400, "Mon, 01 Mar 2100 00:00:00 GMT");
    assert_date(INT32_MAX, "Tue, 19 Jan 2038 03:14:07 GMT");
}

static void test_every_day(void **state)
{
    (void)state;
    for (time_t day = -150 * 366; day < 500 * 366; day++) /* 1820 to 2470 */
        assert_like_libc(day * 86400 + (day * 7919 % 86400 + 86400) % 86400);
}

static void test_every_second(void **state)
{
    (void)state;
    for (time_t t = 1700000000; t < 1700000000 + 86400; t++)
        assert_like_libc(t);
}

static void test_far_years(void **state)
{
    (void)state;
    for (time_t t = DATE_FIRST; t <= DATE_LAST; t += 86400 * 97 + 12345)
        assert_like_libc(t);
    assert_date(DATE_FIRST, "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_date(DATE_LAST, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_date(DATE_FIRST - 1, "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_date(DATE_LAST + 1, "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_date(INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_date(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_every_day),
                                       cmocka_unit_test(test_every_second), cmocka_unit_test(test_far_years)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
