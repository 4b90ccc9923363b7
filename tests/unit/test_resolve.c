#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/pg/resolve.c"

static struct {
    unsigned times;
    char host[256], hostaddr[256], port[256], why[256];
} got;

static void done(void *arg, const struct resolve_answer *a)
{
    assert_ptr_equal(arg, &got);
    got.times++;
    snprintf(got.host, sizeof got.host, "%s", a->answer_host != NULL ? a->answer_host : "");
    snprintf(got.hostaddr, sizeof got.hostaddr, "%s", a->answer_hostaddr != NULL ? a->answer_hostaddr : "");
    snprintf(got.port, sizeof got.port, "%s", a->answer_port != NULL ? a->answer_port : "");
    snprintf(got.why, sizeof got.why, "%s", a->answer_why != NULL ? a->answer_why : "");
}

static void resolve(const char *host, const char *port, unsigned first)
{
    struct event_base *base = event_base_new();
    struct resolve *r;

    memset(&got, 0, sizeof got);
    r = resolve_start(base, host, port, first, done, &got);
    assert_non_null(r);
    assert_int_equal(got.times, 0); /* from the loop, not from here */
    while (got.times == 0)
        (void)event_base_loop(base, EVLOOP_ONCE);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(got.times, 1);
    resolve_free(&r);
    assert_null(r);
    event_base_free(base);
}

static void only_names_are_looked_up(void **state)
{
    (void)state;
    assert_false(resolve_needed("127.0.0.1"));
    assert_false(resolve_needed("::1"));
    assert_false(resolve_needed("fe80::1%eth0"));
    assert_false(resolve_needed("/run/postgresql"));
    assert_false(resolve_needed("@abstract"));
    assert_false(resolve_needed(""));
    assert_false(resolve_needed(NULL));
    assert_false(resolve_needed("10.0.0.1,,/tmp"));
    assert_true(resolve_needed("localhost"));
    assert_true(resolve_needed("10.0.0.1,db"));
    assert_true(resolve_needed("1.2.3"));
}

static void localhost_has_an_address(void **state)
{
    (void)state;
    resolve("localhost", NULL, 0);
    assert_string_equal(got.why, "");
    assert_true(strncmp(got.hostaddr, "127.0.0.1", 9) == 0 || strncmp(got.hostaddr, "::1", 3) == 0);
    assert_int_equal(strncmp(got.host, "localhost", 9), 0);
}

/* Lists of the same length, as libpq wants them. */
static unsigned parts(const char *list)
{
    unsigned n = 1;

    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

static void the_order_of_the_list_is_kept(void **state)
{
    (void)state;
    resolve("/tmp,localhost,10.9.8.7", "1,2,3", 0);
    assert_int_equal(strncmp(got.host, "/tmp,localhost", 14), 0);
    assert_int_equal(strncmp(got.port, "1,2", 3), 0);
    assert_int_equal(got.hostaddr[0], ','); /* a socket directory has none */
    assert_string_equal(got.host + strlen(got.host) - 9, ",10.9.8.7");
    assert_string_equal(got.port + strlen(got.port) - 2, ",3");
    assert_int_equal(parts(got.host), parts(got.hostaddr));
    assert_int_equal(parts(got.host), parts(got.port));
}

static void the_list_can_begin_elsewhere(void **state)
{
    (void)state;
    resolve("10.0.0.1,10.0.0.2,10.0.0.3", "5", 1);
    assert_string_equal(got.host, "10.0.0.2,10.0.0.3,10.0.0.1");
    assert_string_equal(got.port, "5,5,5");
    resolve("10.0.0.1,10.0.0.2", "5,6", 4000000001u);
    assert_string_equal(got.host, "10.0.0.2,10.0.0.1");
    assert_string_equal(got.port, "6,5");
}

static void giving_up_early_leaves_nothing_behind(void **state)
{
    struct event_base *base = event_base_new();
    struct resolve *r;

    (void)state;
    memset(&got, 0, sizeof got);
    r = resolve_start(base, "nobody.invalid,localhost", NULL, 0, done, &got);
    assert_non_null(r);
    resolve_free(&r);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(got.times, 0);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_are_looked_up),
        cmocka_unit_test(localhost_has_an_address),
        cmocka_unit_test(the_order_of_the_list_is_kept),
        cmocka_unit_test(the_list_can_begin_elsewhere),
        cmocka_unit_test(giving_up_early_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
