/* Addresses in X-Forwarded-For and Forwarded; the walk over them is told in tests/e2e/test_23_proxies.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "worker/http/forwarded.c"

static void assert_address(const char *text, const char *want)
{
    char got[INET6_ADDRSTRLEN] = "none";
    struct in6_addr a;

    if (forwarded_address((struct slice){text, strlen(text)}, &a))
        assert_non_null(inet_ntop(AF_INET6, &a, got, sizeof got));
    if (strcmp(got, want) != 0)
        fail_msg("%s is %s, not %s", text, got, want);
}

static void test_addresses(void **state)
{
    (void)state;
    assert_address("192.0.2.1", "::ffff:192.0.2.1");
    assert_address("192.0.2.1:80", "::ffff:192.0.2.1");
    assert_address("2001:db8::1", "2001:db8::1");
    assert_address("[2001:db8::1]", "2001:db8::1");
    assert_address("[2001:db8::1]:65535", "2001:db8::1");
    assert_address("::ffff:192.0.2.1", "::ffff:192.0.2.1");
    assert_address("", "none");
    assert_address("unknown", "none");
    assert_address("_hidden", "none");
    assert_address("192.0.2", "none");
    assert_address("192.0.2.1:", "none");
    assert_address("192.0.2.1:http", "none");
    assert_address("192.0.2.1:123456", "none");
    assert_address("[192.0.2.1]", "none");
    assert_address("[2001:db8::1", "none");
    assert_address("[2001:db8::1]x", "none");
    assert_address("[2001:db8::1]:", "none");
    assert_address("2001:db8::1%eth0", "none");
    assert_address("::", "none"); /* would read as a unix socket */
    assert_address("192.0.2.1 ", "none");
    assert_address("1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc", "none");
}

/* Elements one by one: "node|node|" or "bad". */
static void assert_elements(const char *field, const char *want)
{
    struct slice rest = {field, strlen(field)}, node;
    char got[512] = "", plain[64];

    while (rest.slice_len > 0) {
        if (!forwarded_element(&rest, &node, plain)) {
            strcat(got, "bad");
            break;
        }
        strncat(got, node.slice_p != NULL ? node.slice_p : "-", node.slice_p != NULL ? node.slice_len : 1);
        strcat(got, "|");
    }
    if (strcmp(got, want) != 0)
        fail_msg("%s gives %s, not %s", field, got, want);
}

static void test_elements(void **state)
{
    (void)state;
    assert_elements("for=a", "a|");
    assert_elements("FOR=a;by=b, for=\"c\"", "a|c|");
    assert_elements("by=\"x,y;for=z\";for=a", "a|");
    assert_elements("for=\"a\\\"b\"", "a\"b|");
    assert_elements("for=a;for=b", "|");
    assert_elements("proto=http", "|");
    assert_elements(" , for=a ,", "-|a|");
    assert_elements("for=a;;by=b", "a|");
    assert_elements("for", "bad");
    assert_elements("for=", "bad");
    assert_elements("for=\"a", "bad");
    assert_elements("for=\"a\\", "bad");
    assert_elements("for=a b", "bad");
    assert_elements("for = a", "bad");
    assert_elements("for=a,for=b:80", "a|bad");
    assert_elements("for=\"0123456789012345678901234567890123456789012345678901234567890123456789\"", "|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
