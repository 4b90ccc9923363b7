/* Signals as events, whatever the parent left blocked or ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/wait.h>

#include "master/signals.c"

static unsigned seen[NSIG];

static void handle(void *context, int signo)
{
    assert_ptr_equal(context, seen);
    seen[signo]++;
}

static void test_each_arrives_in_the_loop(void **state)
{
    struct event_base *base = event_base_new();
    struct signals *s;
    unsigned i;

    (void)state;
    signal(SIGTERM, SIG_IGN); /* as nohup and some shells leave them */
    signal(SIGCHLD, SIG_IGN);
    signals_block();
    kill(getpid(), SIGTERM); /* even before anybody listens */
    s = signals_open(base, handle, seen);
    assert_non_null(s);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(seen[SIGTERM], 1);
    for (i = 0; i < sizeof signals_wanted / sizeof *signals_wanted; i++)
        assert_int_equal(kill(getpid(), signals_wanted[i]), 0);
    event_base_loop(base, EVLOOP_NONBLOCK);
    for (i = 0; i < sizeof signals_wanted / sizeof *signals_wanted; i++)
        assert_int_equal(seen[signals_wanted[i]], 1 + (signals_wanted[i] == SIGTERM));
    signals_close(&s);
    assert_null(s);
    event_base_free(base);
}

static void test_children_leave_a_status(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    signal(SIGCHLD, SIG_IGN);
    signals_block();
    pid = fork();
    if (pid == 0)
        _exit(3);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
}

static void test_no_death_by_pipe(void **state)
{
    int pair[2];

    (void)state;
    signals_block();
    assert_int_equal(pipe(pair), 0);
    close(pair[0]);
    assert_int_equal(write(pair[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_arrives_in_the_loop),
        cmocka_unit_test(test_children_leave_a_status),
        cmocka_unit_test(test_no_death_by_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
