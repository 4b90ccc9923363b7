/* Limits of client addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/address.h"
#include "worker/http/clients.c"

static struct clients *table(unsigned connections, unsigned rate, unsigned burst)
{
    const struct conf_client limits = {connections, rate, burst};
    struct clients *cs = clients_new(&limits, 100);

    assert_non_null(cs);
    return cs;
}

static unsigned ask(struct clients *cs, const char *who, uint32_t now_ms)
{
    struct in6_addr a = address(who);

    return clients_request(cs, &a, now_ms);
}

static void test_connections(void **state)
{
    struct in6_addr a = address("192.0.2.1"), b = address("192.0.2.2");
    uint32_t places[10], other;
    struct clients *cs = table(2, 0, 0);

    (void)state;
    assert_int_equal(clients_enter(cs, &a, 0, &places[0]), CLIENT_WELCOME);
    assert_int_equal(clients_enter(cs, &a, 0, &places[1]), CLIENT_WELCOME);
    for (unsigned i = 2; i < 2 + CLIENT_POLITE; i++)
        assert_int_equal(clients_enter(cs, &a, 0, &places[i]), CLIENT_OVER);
    assert_int_equal(clients_enter(cs, &a, 0, &other), CLIENT_FAR_OVER);
    assert_int_equal(other, 0);
    assert_int_equal(clients_enter(cs, &b, 0, &other), CLIENT_WELCOME);
    clients_leave(cs, other);
    for (unsigned i = 0; i < 9; i++)
        clients_leave(cs, places[i]);
    assert_int_equal(clients_enter(cs, &a, 0, &other), CLIENT_WELCOME);
    assert_int_equal(clients_enter(cs, &a, 0, &other), CLIENT_OVER);
    clients_free(&cs);
    assert_null(cs);
}

static void test_rate(void **state)
{
    struct clients *cs = table(0, 10, 3);
    uint32_t now = UINT32_MAX - 100; /* the clock wraps meanwhile */
    unsigned served = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ask(cs, "192.0.2.1", now), 0);
    assert_int_equal(ask(cs, "192.0.2.1", now), 1);
    assert_int_equal(ask(cs, "192.0.2.2", now), 0);
    assert_int_equal(ask(cs, "192.0.2.1", now + 99), 1);
    assert_int_equal(ask(cs, "192.0.2.1", now + 100), 0);
    for (unsigned ms = 101; ms <= 1100; ms++)
        served += ask(cs, "192.0.2.1", now + ms) == 0;
    assert_int_equal(served, 10);
    for (unsigned i = 0; i < 3; i++) /* a pause fills the bucket and no more */
        assert_int_equal(ask(cs, "192.0.2.1", now + 100000), 0);
    assert_int_not_equal(ask(cs, "192.0.2.1", now + 100000), 0);
    clients_free(&cs);
}

static void test_burst_is_the_rate_unless_told(void **state)
{
    struct clients *cs = table(0, 5, 0);

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(cs, "192.0.2.1", 7), 0);
    assert_int_equal(ask(cs, "192.0.2.1", 7), 1);
    clients_free(&cs);
    cs = table(0, 1000000, 1000000);
    for (unsigned i = 0; i < 1000000; i++)
        if (ask(cs, "192.0.2.1", 7) != 0)
            fail_msg("request %u of a million", i);
    assert_int_equal(ask(cs, "192.0.2.1", 7), 1);
    clients_free(&cs);
}

static void test_networks(void **state)
{
    struct clients *cs = table(0, 1, 1);

    (void)state;
    assert_int_equal(ask(cs, "2001:db8:1:2::1", 0), 0);
    assert_int_not_equal(ask(cs, "2001:db8:1:2:ffff::9", 0), 0);
    assert_int_equal(ask(cs, "2001:db8:1:3::1", 0), 0);
    assert_int_equal(ask(cs, "::1", 0), 0);
    assert_int_equal(ask(cs, "32.1.13.184", 0), 0); /* the first octets of the above are not it */
    clients_free(&cs);
}

/* More addresses than places: what matters is kept, nothing breaks. */
static void test_full(void **state)
{
    struct clients *cs = table(1, 1, 5);
    uint32_t places[20000];
    unsigned entered = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        struct in6_addr a = address("10.0.0.0");

        memcpy(a.s6_addr + 12, &i, 4);
        assert_int_equal(clients_enter(cs, &a, 0, &places[i]), CLIENT_WELCOME);
        assert_int_equal(clients_request(cs, &a, 0), 0);
        entered += places[i] != 0;
    }
    assert_int_equal(entered, 128 * SET_PLACES);
    for (uint32_t i = 0; i < 20000; i++)
        if (places[i] != 0)
            clients_leave(cs, places[i]);
    for (uint32_t i = 0; i < 5; i++) /* one that has spent all is remembered before those that have not */
        assert_int_equal(ask(cs, "192.0.2.1", 0), 0);
    for (uint32_t i = 0; i < 100; i++) {
        struct in6_addr a = address("172.16.0.0");

        memcpy(a.s6_addr + 12, &i, 4);
        assert_int_equal(clients_request(cs, &a, 0), 0);
    }
    assert_int_not_equal(ask(cs, "192.0.2.1", 0), 0);
    clients_free(&cs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_burst_is_the_rate_unless_told),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
