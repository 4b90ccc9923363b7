/* Against a server that is a child process and behaves as each test wants. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "ctl/client.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char dir[64], path[sizeof(dir) + sizeof(CONTROL_SOCKET)];
static struct ctl ctl;
static char answer[256];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/vanilla-unit-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/" CONTROL_SOCKET, dir);
    ctl.ctl_runtime_dir = dir;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static int bound(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* One client is answered with n octets, a few at a time; the child's status says whether it got `want`. */
static pid_t serve(const char *want, const char *reply, size_t n)
{
    char line[CONTROL_LINE_MAX + 1];
    int listener = bound(), fd;
    size_t got = 0, piece;
    ssize_t r;
    pid_t pid;

    assert_int_equal(listen(listener, 1), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        close(listener);
        return pid;
    }
    fd = accept(listener, NULL, NULL);
    while (got == 0 || line[got - 1] != '\n') {
        r = read(fd, line + got, sizeof(line) - got);
        if (r <= 0)
            _exit(2);
        got += (size_t)r;
    }
    while (n > 0) {
        piece = n > 7 ? 7 : n;
        r = write(fd, reply, piece);
        if (r <= 0)
            _exit(3);
        reply += r;
        n -= (size_t)r;
    }
    _exit(got == strlen(want) && memcmp(line, want, got) == 0 ? 0 : 1);
}

static void ended_well(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static enum client_result ask(const char *line, const char *want, const char *reply)
{
    pid_t pid = serve(want, reply, strlen(reply));
    enum client_result result = client_ask(&ctl, line, answer, sizeof(answer));

    ended_well(pid);
    unlink(path);
    return result;
}

static void test_ok(void **state)
{
    (void)state;
    assert_int_equal(ask("ping", "ping\n", "ok\n"), CLIENT_OK);
    assert_string_equal(answer, "");
    assert_int_equal(ask("version", "version\n", "ok\n1.2.3\n"), CLIENT_OK);
    assert_string_equal(answer, "1.2.3");
    assert_int_equal(ask("reload", "reload\n", "ok\ntwo\nlines\n"), CLIENT_OK);
    assert_string_equal(answer, "two\nlines");
    assert_int_equal(ask("ping", "ping\n", "ok"), CLIENT_OK);
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(ask("set x.max_inflight=1", "set x.max_inflight=1\n", "refused: no pool x\nmore\n"),
                     CLIENT_REFUSED);
    assert_string_equal(answer, "no pool x\nmore");
}

static void test_nonsense(void **state)
{
    (void)state;
    assert_int_equal(ask("ping", "ping\n", ""), CLIENT_FAILED);
    assert_int_equal(ask("ping", "ping\n", "okay\n"), CLIENT_FAILED);
    assert_int_equal(ask("ping", "ping\n", "HTTP/1.1 400 Bad Request\r\n"), CLIENT_FAILED);
    assert_int_equal(ask("ping", "ping\n", "o"), CLIENT_FAILED);
    assert_int_equal(ask("ping", "ping\n", "refused"), CLIENT_FAILED);
}

/* More than there is room for is read and forgotten. */
static void test_long_answer(void **state)
{
    static char reply[5000];
    pid_t pid;

    (void)state;
    memset(reply, 'x', sizeof(reply));
    memcpy(reply, "ok\n", 3);
    pid = serve("reload\n", reply, sizeof(reply));
    assert_int_equal(client_ask(&ctl, "reload", answer, sizeof(answer)), CLIENT_OK);
    ended_well(pid);
    assert_int_equal(strspn(answer, "x"), sizeof(answer) - 4);
    assert_int_equal(strlen(answer), sizeof(answer) - 4);
}

static void test_nobody(void **state)
{
    (void)state;
    assert_int_equal(client_ask(&ctl, "ping", answer, sizeof(answer)), CLIENT_NOT_RUNNING);
    close(bound()); /* a dead server's socket */
    assert_int_equal(client_ask(&ctl, "ping", answer, sizeof(answer)), CLIENT_NOT_RUNNING);
    assert_non_null(strstr(answer, path));
}

static void test_long_names(void **state)
{
    static char line[2 * CONTROL_LINE_MAX], name[200];
    struct ctl far = {.ctl_runtime_dir = name};
    int fd = bound();

    (void)state;
    assert_int_equal(listen(fd, 1), 0);
    memset(line, 'x', sizeof(line) - 1);
    assert_int_equal(client_ask(&ctl, line, answer, sizeof(answer)), CLIENT_FAILED);
    close(fd);
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(client_ask(&far, "ping", answer, sizeof(answer)), CLIENT_FAILED);
}

/* The line goes out in one piece or in many; what comes back late is waited for, but not for ever. */
static void test_wait(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(client_wait(fds[0], POLLIN, client_now_ms() + 20), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(client_wait(fds[0], POLLIN, client_now_ms() - 20), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(client_wait(fds[1], POLLOUT, client_now_ms() + 1000), 0);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ok),     TEST(test_refused),    TEST(test_nonsense), TEST(test_long_answer),
        TEST(test_nobody), TEST(test_long_names), TEST(test_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
