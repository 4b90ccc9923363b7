#include <sys/wait.h>

#include "shm/alive.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_this_process(void **state)
{
    uint64_t ticks = alive_ticks(getpid());

    (void)state;
    assert_true(ticks > 0);
    assert_true(alive(getpid(), ticks));
    assert_true(alive(getpid(), 0));
}

/* The same number, but another process. */
static void test_a_pid_used_again(void **state)
{
    (void)state;
    assert_false(alive(getpid(), alive_ticks(getpid()) + 1));
}

static void test_no_such_process(void **state)
{
    (void)state;
    assert_false(alive(0, 0));
    assert_false(alive(-1, 0));
    assert_false(alive((int64_t)1 << 40, 0));
    assert_false(alive(INT_MAX, 0));
    assert_int_equal(alive_ticks(INT_MAX), 0);
}

static void test_a_zombie_and_then_nobody(void **state)
{
    siginfo_t info;
    uint64_t ticks;
    int wait_fds[2];
    char c;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(wait_fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(wait_fds[1]);
        _exit(read(wait_fds[0], &c, 1) == 0 ? 0 : 1);
    }
    close(wait_fds[0]);
    ticks = alive_ticks(pid);
    assert_true(alive(pid, ticks));
    close(wait_fds[1]);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_false(alive(pid, ticks));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(alive(pid, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_process),
        cmocka_unit_test(test_a_pid_used_again),
        cmocka_unit_test(test_no_such_process),
        cmocka_unit_test(test_a_zombie_and_then_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
