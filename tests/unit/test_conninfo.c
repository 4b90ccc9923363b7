#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "worker/pg/conninfo.c"

static char why[256], dir[64], packet[4096];
static size_t packet_n;

/* Connects to a socket of the test and keeps the startup packet. */
static void startup(const struct conf_pool *pool)
{
    PQconninfoOption *options = conninfo_read(pool->pool_conninfo, why, sizeof why);
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), got;
    struct pollfd p = {.events = POLLIN};
    PGconn *pg;

    assert_non_null(options);
    strcpy(sun.sun_path, dir);
    strcat(sun.sun_path, "/.s.PGSQL.5432");
    (void)unlink(sun.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    assert_int_equal(listen(fd, 1), 0);
    pg = conninfo_connect(pool, options, dir, NULL, NULL);
    assert_int_not_equal(PQstatus(pg), CONNECTION_BAD);
    got = accept(fd, NULL, NULL);
    p.fd = got;
    for (int i = 0; i < 100 && poll(&p, 1, 0) == 0; i++)
        (void)PQconnectPoll(pg);
    packet_n = (size_t)read(got, packet, sizeof packet);
    PQfinish(pg);
    PQconninfoFree(options);
    (void)close(got);
    (void)close(fd);
    (void)unlink(sun.sun_path);
}

static const char *parameter(const char *name)
{
    for (const char *p = packet + 8; p < packet + packet_n && *p != '\0';) {
        const char *value = p + strlen(p) + 1;

        if (strcmp(p, name) == 0)
            return value;
        p = value + strlen(value) + 1;
    }
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/vanilla-conninfo-XXXXXX");
    (void)unsetenv("PGHOST");
    (void)unsetenv("PGOPTIONS");
    (void)unsetenv("PGAPPNAME");
    return mkdtemp(dir) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void a_bad_string_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_null(conninfo_read("no such=thing", why, sizeof why));
    assert_non_null(strstr(why, "conninfo: "));
    assert_null(conninfo_read("colour=green", why, sizeof why));
    assert_non_null(strstr(why, "colour"));
    assert_null(conninfo_read("postgresql://[::1", why, sizeof why));
}

static void environment_and_string_come_together(void **state)
{
    PQconninfoOption *o;

    (void)state;
    (void)setenv("PGHOST", "from-the-environment", 1);
    o = conninfo_read("dbname=d", why, sizeof why);
    assert_string_equal(conninfo_get(o, "host"), "from-the-environment");
    assert_string_equal(conninfo_get(o, "dbname"), "d");
    assert_null(conninfo_get(o, "hostaddr"));
    assert_null(conninfo_get(o, "no such option"));
    PQconninfoFree(o);
    o = conninfo_read("postgresql://u@one:1,two:2/d", why, sizeof why);
    assert_string_equal(conninfo_get(o, "host"), "one,two");
    assert_string_equal(conninfo_get(o, "port"), "1,2");
    PQconninfoFree(o);
    (void)unsetenv("PGHOST");
}

static void seconds_are_a_whole_number(void **state)
{
    static const struct {
        const char *text;
        unsigned seconds;
    } all[] = {{"3", 3},          {" 3 ", 3},        {"2147483647", INT_MAX},     {"", 5},     {"0", 5}, {"-1", 5},
               {"2147483648", 5}, {"4294967297", 5}, {"99999999999999999999", 5}, {"10ms", 5}, {"x", 5}};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        PQconninfoOption options[] = {
            {.keyword = (char *)(uintptr_t) "connect_timeout", .val = (char *)(uintptr_t)all[i].text},
            {.keyword = NULL}};

        assert_int_equal(conninfo_seconds(options, "connect_timeout", 5), all[i].seconds);
        assert_int_equal(conninfo_seconds(options, "keepalives_idle", 7), 7);
    }
}

static void a_session_is_opened_as_the_pool_says(void **state)
{
    struct conf_pool pool = {.pool_conninfo = "user=u dbname=d options='-c work_mem=1MB'",
                             .pool_statement_timeout_ms = 1234,
                             .pool_read_only = true,
                             .pool_plan = PLAN_GENERIC};
    const char *options;

    (void)state;
    startup(&pool);
    assert_string_equal(parameter("user"), "u");
    assert_string_equal(parameter("database"), "d");
    assert_string_equal(parameter("client_encoding"), "UTF8");
    assert_string_equal(parameter("application_name"), "vanilla");
    options = parameter("options");
    assert_non_null(options);
    assert_int_equal(strncmp(options, "-c work_mem=1MB ", 16), 0);
    assert_non_null(strstr(options, "-c DateStyle=ISO"));
    assert_non_null(strstr(options, "-c bytea_output=hex"));
    assert_non_null(strstr(options, "-c extra_float_digits=1"));
    assert_non_null(strstr(options, "-c IntervalStyle=postgres"));
    assert_non_null(strstr(options, "-c statement_timeout=1234"));
    assert_non_null(strstr(options, "-c default_transaction_read_only=on"));
    assert_non_null(strstr(options, "-c plan_cache_mode=force_generic_plan"));
}

static void a_writing_session_is_not_read_only(void **state)
{
    struct conf_pool pool = {.pool_conninfo = "user=u application_name=mine client_encoding=LATIN1",
                             .pool_plan = PLAN_AUTO};

    (void)state;
    startup(&pool);
    assert_string_equal(parameter("application_name"), "mine");
    assert_string_equal(parameter("client_encoding"), "UTF8"); /* not the operator's to choose */
    assert_null(strstr(parameter("options"), "read_only"));
    assert_null(strstr(parameter("options"), "plan_cache_mode"));
}

static void a_pooler_gets_no_options(void **state)
{
    struct conf_pool pool = {.pool_conninfo = "user=u", .pool_pooler = true, .pool_read_only = true};

    (void)state;
    startup(&pool);
    assert_null(parameter("options"));
    assert_string_equal(parameter("client_encoding"), "UTF8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_string_is_refused_with_a_reason),
        cmocka_unit_test(environment_and_string_come_together),
        cmocka_unit_test(seconds_are_a_whole_number),
        cmocka_unit_test(a_session_is_opened_as_the_pool_says),
        cmocka_unit_test(a_writing_session_is_not_read_only),
        cmocka_unit_test(a_pooler_gets_no_options),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
