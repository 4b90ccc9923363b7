/* Networks of trusted proxies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/net.c"
#include "tests/unit/address.h"

static void assert_has(const char *text, const char *inside, bool has)
{
    struct in6_addr a = address(inside);
    struct conf_net net;

    assert_null(net_parse(text, &net));
    if (net_has(&net, &a) != has)
        fail_msg("%s %s %s", inside, has ? "is not in" : "is in", text);
}

static void test_networks(void **state)
{
    (void)state;
    assert_has("10.0.0.0/8", "10.255.3.4", true);
    assert_has("10.0.0.0/8", "11.0.0.0", false);
    assert_has("192.0.2.7", "192.0.2.7", true);
    assert_has("192.0.2.7", "192.0.2.6", false);
    assert_has("192.0.2.128/25", "192.0.2.129", true);
    assert_has("192.0.2.128/25", "192.0.2.127", false);
    assert_has("0.0.0.0/0", "255.255.255.255", true);
    assert_has("0.0.0.0/0", "2001:db8::1", false);
    assert_has("::/0", "2001:db8::1", true);
    assert_has("::/0", "10.0.0.1", true);
    assert_has("2001:db8::/33", "2001:db8:7fff::1", true);
    assert_has("2001:db8::/33", "2001:db8:8000::1", false);
    assert_has("::1", "::1", true);
    assert_has("::1", "::2", false);
    assert_has("::ffff:10.0.0.0/104", "10.1.2.3", true);
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "10.0.0",
                                        "10.0.0.0/33",
                                        "10.0.0.0/",
                                        "10.0.0.0/8x",
                                        "10.0.0.0/-1",
                                        "10.0.0.0/0008",
                                        "10.0.0.1/8",
                                        "::/129",
                                        "2001:db8::g",
                                        "2001:db8::1/64",
                                        "host",
                                        "/8",
                                        "10.0.0.0//8",
                                        "10.0.0.0 /8",
                                        "0x0a.0.0.0",
                                        "1.2.3.4/ 8",
                                        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc"};
    struct conf_net net;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (net_parse(wrong[i], &net) == NULL)
            fail_msg("\"%s\" was taken", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
