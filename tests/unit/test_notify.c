/* The service manager's protocol, with a manager in the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/notify.c"

static struct notify n;

/* A manager listening on a name; its descriptor. */
static int manager(const char *name, bool abstract)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    memcpy(sun.sun_path, name, len);
    if (abstract)
        sun.sun_path[0] = '\0';
    len += offsetof(struct sockaddr_un, sun_path) + !abstract;
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, (socklen_t)len), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static const char *heard(int fd)
{
    static char message[2048];
    ssize_t len = recv(fd, message, sizeof message - 1, 0);

    if (len < 0)
        return NULL;
    message[len] = '\0';
    return message;
}

static int setup(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

static void test_nobody_wants_to_know(void **state)
{
    (void)state;
    notify_open(&n);
    assert_int_equal(n.notify_fd, -1);
    assert_int_equal(n.notify_watchdog_ms, 0);
    notify_send(&n, "READY=1");
    notify_close(&n);
    assert_int_equal(setenv("NOTIFY_SOCKET", "", 1), 0);
    notify_open(&n);
    assert_int_equal(n.notify_fd, -1);
}

static void test_path_and_abstract_name(void **state)
{
    char folder[] = "/tmp/test-notify-XXXXXX", name[64];
    int fd, abstract;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/s", folder);
    for (abstract = 0; abstract < 2; abstract++) {
        if (abstract)
            snprintf(name, sizeof name, "@test-notify-%ld", (long)getpid());
        fd = manager(name, abstract);
        notify_open(&n);
        assert_true(n.notify_fd >= 0);
        assert_null(getenv("NOTIFY_SOCKET")); /* no child speaks for us */
        notify_send(&n, "READY=1\nSTATUS=%d workers", 3);
        assert_string_equal(heard(fd), "READY=1\nSTATUS=3 workers");
        assert_null(heard(fd));
        notify_close(&n);
        notify_close(&n);
        notify_send(&n, "late");
        assert_null(heard(fd));
        close(fd);
        unlink(name);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void test_names_that_lead_nowhere(void **state)
{
    static const char *const names[] = {"/nonexistent/socket", "relative", "@", "/"};
    char tail[200];
    unsigned i;

    (void)state;
    memset(tail, 'x', sizeof tail - 1);
    tail[0] = '/';
    tail[sizeof tail - 1] = '\0';
    for (i = 0; i <= sizeof names / sizeof *names; i++) {
        const char *name = i < sizeof names / sizeof *names ? names[i] : tail;

        assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
        assert_int_equal(setenv("WATCHDOG_USEC", "1000000", 1), 0);
        notify_open(&n);
        assert_int_equal(n.notify_fd, -1);
        assert_int_equal(n.notify_watchdog_ms, 0);
        assert_null(getenv("WATCHDOG_USEC"));
        notify_send(&n, "READY=1");
    }
}

static void test_a_manager_that_does_not_read_or_left(void **state)
{
    char name[64];
    int fd, i;

    (void)state;
    snprintf(name, sizeof name, "@test-notify-%ld", (long)getpid());
    fd = manager(name, true);
    notify_open(&n);
    for (i = 0; i < 10000; i++)
        notify_send(&n, "WATCHDOG=1"); /* returns, that is all */
    assert_string_equal(heard(fd), "WATCHDOG=1");
    close(fd);
    notify_send(&n, "WATCHDOG=1");
    notify_close(&n);
}

static void test_long_messages_are_cut(void **state)
{
    char name[64];
    const char *message;
    int fd;

    (void)state;
    snprintf(name, sizeof name, "@test-notify-%ld", (long)getpid());
    fd = manager(name, true);
    notify_open(&n);
    notify_send(&n, "STATUS=%05000d", 1);
    message = heard(fd);
    assert_non_null(message);
    assert_int_equal(strlen(message), 1023);
    notify_close(&n);
    close(fd);
}

static void test_watchdog(void **state)
{
    static const struct {
        const char *usec, *pid; /* "me" */
        unsigned want;
    } cases[] = {
        {"30000000", NULL, 15000},
        {"30000000", "me", 15000},
        {"30000000", "1", 0},
        {"30000000", "", 0},
        {"1000", NULL, 1},
        {"0", NULL, 0},
        {"", NULL, 0},
        {"x", NULL, 0},
        {"100x", NULL, 0},
        {"-1", NULL, 0},
        {NULL, "me", 0},
        {"99999999999999999999", NULL, 0},
    };
    char name[64], me[16];
    unsigned i;
    int fd;

    (void)state;
    snprintf(name, sizeof name, "@test-notify-%ld", (long)getpid());
    snprintf(me, sizeof me, "%ld", (long)getpid());
    fd = manager(name, true);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
        if (cases[i].usec != NULL)
            assert_int_equal(setenv("WATCHDOG_USEC", cases[i].usec, 1), 0);
        if (cases[i].pid != NULL)
            assert_int_equal(setenv("WATCHDOG_PID", strcmp(cases[i].pid, "me") == 0 ? me : cases[i].pid, 1), 0);
        notify_open(&n);
        assert_int_equal(n.notify_watchdog_ms, cases[i].want);
        assert_null(getenv("WATCHDOG_USEC"));
        assert_null(getenv("WATCHDOG_PID"));
        notify_close(&n);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_wants_to_know, setup),
        cmocka_unit_test_setup(test_path_and_abstract_name, setup),
        cmocka_unit_test_setup(test_names_that_lead_nowhere, setup),
        cmocka_unit_test_setup(test_a_manager_that_does_not_read_or_left, setup),
        cmocka_unit_test_setup(test_long_messages_are_cut, setup),
        cmocka_unit_test_setup(test_watchdog, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
