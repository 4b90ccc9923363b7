#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "worker/mem/alloc.c"

static void *volatile sink; /* keeps the compiler from leaving an allocation out */

/* The compiler knows that malloc does not change our variables, and is wrong. */
static uint64_t counted(enum stat_worker stat)
{
    return *(volatile uint64_t *)&stats.stats_worker[stat];
}

static void calls_are_counted_by_scope(void **state)
{
    uint64_t http = counted(STAT_alloc_http), pg = counted(STAT_alloc_pg);
    uint64_t frees = counted(STAT_alloc_frees), bytes = counted(STAT_alloc_bytes);
    enum alloc_scope old = alloc_enter(ALLOC_HTTP);
    void *p = malloc(100), *q = strdup("counted inside libc too");

    (void)state;
    sink = p;
    sink = q;
    (void)alloc_enter(ALLOC_PG);
    p = realloc(p, 1000);
    sink = p;
    free(p);
    free(q);
    free(NULL);
    alloc_leave(old);
    assert_int_equal(counted(STAT_alloc_http) - http, 2);
    assert_true(counted(STAT_alloc_pg) - pg >= 1);
    assert_true(counted(STAT_alloc_frees) - frees >= 2);
    assert_true(counted(STAT_alloc_bytes) - bytes >= 100 + 24 + 1000);
}

/* A worker in its own process: what happens after alloc_ready in each scope, and what the trap does. */
static int child(const char *mode, enum alloc_scope scope)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(99);
        if (mode != NULL)
            (void)setenv("VANILLA_ALLOC", mode, 1);
        else
            (void)unsetenv("VANILLA_ALLOC");
        alloc_ready();
        (void)alloc_enter(scope);
        sink = malloc(10);
        _exit((int)counted(STAT_alloc_steady));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void steady_leaves_out_connections_being_made(void **state)
{
    int status;

    (void)state;
    status = child(NULL, ALLOC_CONNECT);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = child(NULL, ALLOC_HTTP);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    status = child(NULL, ALLOC_EVENT);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void the_trap_aborts_on_a_request_path_only(void **state)
{
    int status;

    (void)state;
    status = child("trap", ALLOC_CONNECT);
    assert_true(WIFEXITED(status));
    status = child("trap", ALLOC_PG);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_scope),
        cmocka_unit_test(steady_leaves_out_connections_being_made),
        cmocka_unit_test(the_trap_aborts_on_a_request_path_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
