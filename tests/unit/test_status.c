/* Status lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/http/status.c"

static void assert_line(unsigned status, const char *want)
{
    struct slice line = http_status_line(status);
    assert_int_equal(line.slice_len, strlen(want));
    assert_memory_equal(line.slice_p, want, line.slice_len);
}

static void test_known(void **state)
{
    (void)state;
    assert_line(100, "HTTP/1.1 100 Continue\r\n");
    assert_line(200, "HTTP/1.1 200 OK\r\n");
    assert_line(204, "HTTP/1.1 204 No Content\r\n");
    assert_line(413, "HTTP/1.1 413 Content Too Large\r\n");
    assert_line(431, "HTTP/1.1 431 Request Header Fields Too Large\r\n");
    assert_line(503, "HTTP/1.1 503 Service Unavailable\r\n");
    assert_line(511, "HTTP/1.1 511 Network Authentication Required\r\n");
    assert_string_equal(http_status_reason(404).slice_p, "Not Found");
}

static void test_unknown(void **state)
{
    (void)state;
    assert_line(299, "HTTP/1.1 299 Success\r\n");
    assert_line(418, "HTTP/1.1 418 Client Error\r\n");
    assert_line(530, "HTTP/1.1 530 Server Error\r\n");
    assert_line(599, "HTTP/1.1 599 Server Error\r\n");
    assert_string_equal(http_status_reason(599).slice_p, "Server Error");
}

static void test_out_of_range(void **state)
{
    (void)state;
    assert_line(0, "HTTP/1.1 500 Internal Server Error\r\n");
    assert_line(99, "HTTP/1.1 500 Internal Server Error\r\n");
    assert_line(600, "HTTP/1.1 500 Internal Server Error\r\n");
    assert_line(~0u, "HTTP/1.1 500 Internal Server Error\r\n");
    assert_string_equal(http_status_reason(600).slice_p, "Internal Server Error");
}

static void test_all_well_formed(void **state)
{
    (void)state;
    for (unsigned status = 100; status < 600; status++) {
        struct slice reason = http_status_reason(status);
        char want[100];
        assert_true(reason.slice_len > 0);
        assert_int_equal(strlen(reason.slice_p), reason.slice_len);
        sprintf(want, "HTTP/1.1 %u %s\r\n", status, reason.slice_p);
        assert_line(status, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_all_well_formed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
