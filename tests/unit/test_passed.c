/* Sockets from the service manager: which is whose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>

#include "master/passed.c"

static struct passed p;
static uint16_t tcp_port; /* in network order */

static struct sockaddr_in inet4(const char *host, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

    assert_int_equal(inet_pton(AF_INET, host, &in.sin_addr), 1);
    return in;
}

static struct sockaddr_in6 inet6(const char *host, uint16_t port)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = port};

    assert_int_equal(inet_pton(AF_INET6, host, &in.sin6_addr), 1);
    return in;
}

static int bound(int family, int type, const void *address, socklen_t len, bool only)
{
    int fd = socket(family, type, 0), v6only = only;

    assert_true(fd >= 0);
    if (family == AF_INET6)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only), 0);
    assert_int_equal(bind(fd, address, len), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 8), 0);
    tcp_port = 0;
    if (family == AF_INET || family == AF_INET6) {
        struct sockaddr_in6 got;

        len = sizeof got;
        assert_int_equal(getsockname(fd, (struct sockaddr *)&got, &len), 0);
        tcp_port = got.sin6_port; /* at the same place in both */
    }
    return fd;
}

static void pass(int fd)
{
    p.passed_fds[p.passed_n++] = fd;
}

static int take4(const char *host, uint16_t port)
{
    struct sockaddr_in in = inet4(host, port);

    return passed_take(&p, (struct sockaddr *)&in);
}

static int take6(const char *host, uint16_t port)
{
    struct sockaddr_in6 in = inet6(host, port);

    return passed_take(&p, (struct sockaddr *)&in);
}

static int setup(void **state)
{
    (void)state;
    memset(&p, 0, sizeof p);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    passed_close(&p);
    return 0;
}

static void test_variables(void **state)
{
    static const struct {
        const char *fds, *pid;
        unsigned want;
    } cases[] = {
        {NULL, NULL, 0}, {"1", NULL, 0}, {"1", "1", 0},  {"1", "", 0},    {"0", "me", 0}, {"-1", "me", 0},
        {"", "me", 0},   {"x", "me", 0}, {"1", "me", 1}, {NULL, "me", 0}, {"4", "me", 4},
    };
    char me[16];
    unsigned i, fd;

    (void)state;
    snprintf(me, sizeof me, "%ld", (long)getpid());
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (fd = PASSED_FIRST; fd < PASSED_FIRST + 4; fd++)
            assert_int_equal(dup2(STDERR_FILENO, (int)fd), (int)fd);
        if (cases[i].fds != NULL)
            assert_int_equal(setenv("LISTEN_FDS", cases[i].fds, 1), 0);
        if (cases[i].pid != NULL)
            assert_int_equal(setenv("LISTEN_PID", strcmp(cases[i].pid, "me") == 0 ? me : cases[i].pid, 1), 0);
        passed_read(&p);
        assert_int_equal(p.passed_n, cases[i].want);
        assert_null(getenv("LISTEN_FDS"));
        assert_null(getenv("LISTEN_PID"));
        if (p.passed_n > 0) {
            assert_int_equal(p.passed_fds[0], PASSED_FIRST);
            assert_true(fcntl(PASSED_FIRST, F_GETFD) & FD_CLOEXEC);
        }
        passed_close(&p); /* not sockets: nobody took them */
        assert_int_equal(fcntl(PASSED_FIRST, F_GETFD) < 0, cases[i].want > 0);
    }
    /* more than there are: what is not open is left out */
    for (fd = PASSED_FIRST; fd < PASSED_FIRST + 4; fd++)
        assert_int_equal(dup2(STDERR_FILENO, (int)fd), (int)fd);
    assert_int_equal(setenv("LISTEN_FDS", "99999", 1), 0);
    assert_int_equal(setenv("LISTEN_PID", me, 1), 0);
    passed_read(&p);
    assert_in_range(p.passed_n, 4, PASSED_MAX);
    p.passed_n = 0; /* some may be the test's own */
    for (fd = PASSED_FIRST; fd < PASSED_FIRST + 4; fd++)
        close((int)fd);
}

static void test_tcp(void **state)
{
    struct sockaddr_in in = inet4("127.0.0.1", 0);
    int fd = bound(AF_INET, SOCK_STREAM, &in, sizeof in, false), got;
    uint16_t port = tcp_port;

    (void)state;
    pass(fd);
    assert_int_equal(take4("127.0.0.1", htons((uint16_t)(ntohs(port) ^ 1))), -1);
    assert_int_equal(take4("127.0.0.2", port), -1);
    assert_int_equal(take4("0.0.0.0", port), -1);
    assert_int_equal(take6("::1", port), -1);
    got = take4("127.0.0.1", port);
    assert_int_equal(got, fd);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(take4("127.0.0.1", port), -1); /* once */
    close(fd);
}

static void test_ipv6_wildcard_takes_ipv4_unless_told_not_to(void **state)
{
    struct sockaddr_in6 in = inet6("::", 0);
    int both = bound(AF_INET6, SOCK_STREAM, &in, sizeof in, false), only;
    uint16_t port = tcp_port;

    (void)state;
    pass(both);
    assert_int_equal(take4("127.0.0.1", port), -1);
    assert_int_equal(take4("0.0.0.0", port), both);
    pass(both);
    assert_int_equal(take6("::1", port), -1);
    assert_int_equal(take6("::", port), both);
    close(both);

    only = bound(AF_INET6, SOCK_STREAM, &in, sizeof in, true);
    port = tcp_port;
    pass(only);
    assert_int_equal(take4("0.0.0.0", port), -1);
    assert_int_equal(take6("::", port), only);
    close(only);
}

static void test_unix(void **state)
{
    char folder[] = "/tmp/test-passed-XXXXXX";
    struct sockaddr_un un = {.sun_family = AF_UNIX}, other;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/s", folder);
    other = un;
    strcat(other.sun_path, "x");
    fd = bound(AF_UNIX, SOCK_STREAM, &un, sizeof un, false);
    pass(fd);
    assert_int_equal(passed_take(&p, (struct sockaddr *)&other), -1);
    assert_int_equal(take4("127.0.0.1", 0), -1);
    assert_int_equal(passed_take(&p, (struct sockaddr *)&un), fd);
    close(fd);
    unlink(un.sun_path);
    assert_int_equal(rmdir(folder), 0);
}

static void test_sockets_of_no_use(void **state)
{
    struct sockaddr_in in = inet4("127.0.0.1", 0);
    int udp = bound(AF_INET, SOCK_DGRAM, &in, sizeof in, false);
    uint16_t udp_port = tcp_port;
    int mute = socket(AF_INET, SOCK_STREAM, 0), pair[2]; /* bound, but not listening */
    socklen_t len = sizeof in;

    (void)state;
    assert_int_equal(bind(mute, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(mute, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(pipe(pair), 0);
    pass(udp);
    pass(mute);
    pass(pair[0]);
    pass(-1);
    assert_int_equal(take4("127.0.0.1", udp_port), -1);
    assert_int_equal(take4("127.0.0.1", in.sin_port), -1);
    passed_close(&p);
    assert_int_equal(p.passed_n, 0);
    assert_int_equal(fcntl(udp, F_GETFD), -1);
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_variables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tcp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ipv6_wildcard_takes_ipv4_unless_told_not_to, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sockets_of_no_use, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
