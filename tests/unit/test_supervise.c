/* The table of a worker's life: complete, and what it promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "master/supervise.c"

static void expect(enum slot_state state, enum slot_event event, enum slot_action action, enum slot_state next)
{
    struct slot_step step = supervise_step(state, event);

    assert_int_equal(step.step_action, action);
    assert_int_equal(step.step_next, next);
}

static bool acts(enum slot_state state, enum slot_event event)
{
    return supervise_step(state, event).step_action != SLOT_NEVER;
}

/* An entry that somebody forgot is {SLOT_NOTHING, SLOT_EMPTY}: that exists in no row but SLOT_EMPTY's, and not there
 * either. */
static void test_every_state_and_event_is_defined(void **state)
{
    unsigned s, e;

    (void)state;
    for (s = 0; s < SLOT_STATES; s++) {
        assert_non_null(supervise_state_name(s));
        for (e = 0; e < SLOT_EVENTS; e++) {
            struct slot_step step = supervise_step(s, e);

            assert_false(step.step_action == SLOT_NOTHING && step.step_next == SLOT_EMPTY);
            if (step.step_action == SLOT_NEVER || step.step_action == SLOT_WELCOME)
                continue;
            assert_int_not_equal(step.step_next, SLOT_EMPTY);
        }
    }
}

/* Whatever has a process can lose it; whatever has none cannot. */
static void test_processes_and_deaths_agree(void **state)
{
    unsigned s, e;

    (void)state;
    for (s = 0; s < SLOT_STATES; s++) {
        assert_int_equal(acts(s, SLOT_DIED), supervise_alive(s));
        assert_int_equal(acts(s, SLOT_FATAL), supervise_alive(s));
        assert_int_equal(acts(s, SLOT_SAID_READY), supervise_alive(s));
        assert_false(supervise_alive(s) && supervise_over(s));
        for (e = 0; e < SLOT_EVENTS; e++) {
            struct slot_step step = supervise_step(s, e);

            if (step.step_action == SLOT_NEVER)
                continue;
            /* Only a fork makes a process, only a death ends one. */
            if (!supervise_alive(s) && supervise_alive(step.step_next))
                assert_int_equal(step.step_action, SLOT_SPAWN);
            if (supervise_alive(s) && !supervise_alive(step.step_next))
                assert_true(e == SLOT_DIED || e == SLOT_FATAL);
        }
    }
}

/* A timer that may fire is one that an action set on the way in. */
static void test_timers_fire_only_where_one_was_set(void **state)
{
    unsigned s;

    (void)state;
    for (s = 0; s < SLOT_STATES; s++)
        assert_int_equal(acts(s, SLOT_TIMER), s == SLOT_WAITING || s == SLOT_DRAINING || s == SLOT_STOPPING);
}

/* Told to end, everything ends: no row leads back to a start. */
static void test_nothing_starts_after_the_end_was_asked_for(void **state)
{
    static const enum slot_state ending[] = {SLOT_DRAINING, SLOT_STOPPING, SLOT_KILLED, SLOT_GONE};
    unsigned s, i, e;

    (void)state;
    for (s = 0; s < SLOT_STATES; s++) {
        assert_true(acts(s, SLOT_DRAIN));
        assert_true(acts(s, SLOT_STOP));
    }
    for (i = 0; i < sizeof ending / sizeof *ending; i++)
        for (e = 0; e < SLOT_EVENTS; e++) {
            struct slot_step step = supervise_step(ending[i], e);

            assert_int_not_equal(step.step_action, SLOT_SPAWN);
            assert_int_not_equal(step.step_action, SLOT_REPLACE);
            if (step.step_action != SLOT_NEVER)
                assert_true(step.step_next == SLOT_DRAINING || step.step_next == SLOT_STOPPING ||
                            step.step_next == SLOT_KILLED || step.step_next == SLOT_GONE);
        }
}

static void test_stories(void **state)
{
    (void)state;
    /* lives, dies, is replaced */
    expect(SLOT_EMPTY, SLOT_START, SLOT_SPAWN, SLOT_STARTING);
    expect(SLOT_STARTING, SLOT_SAID_READY, SLOT_WELCOME, SLOT_READY);
    expect(SLOT_READY, SLOT_DIED, SLOT_REPLACE, SLOT_WAITING);
    expect(SLOT_WAITING, SLOT_TIMER, SLOT_SPAWN, SLOT_STARTING);
    expect(SLOT_STARTING, SLOT_DIED, SLOT_REPLACE, SLOT_WAITING);
    /* gives up */
    expect(SLOT_STARTING, SLOT_FATAL, SLOT_GIVE_UP, SLOT_BROKEN);
    expect(SLOT_READY, SLOT_FATAL, SLOT_GIVE_UP, SLOT_BROKEN);
    expect(SLOT_BROKEN, SLOT_DRAIN, SLOT_NOTHING, SLOT_GONE);
    /* drains, in time and not */
    expect(SLOT_READY, SLOT_DRAIN, SLOT_SAY_DRAIN, SLOT_DRAINING);
    expect(SLOT_DRAINING, SLOT_DIED, SLOT_BURY, SLOT_GONE);
    expect(SLOT_DRAINING, SLOT_TIMER, SLOT_KILL, SLOT_KILLED);
    expect(SLOT_KILLED, SLOT_DIED, SLOT_BURY, SLOT_GONE);
    /* told to stop while it drains, and when it does not */
    expect(SLOT_DRAINING, SLOT_STOP, SLOT_SAY_STOP, SLOT_STOPPING);
    expect(SLOT_STOPPING, SLOT_TIMER, SLOT_KILL, SLOT_KILLED);
    /* "ready" that crossed our order */
    expect(SLOT_DRAINING, SLOT_SAID_READY, SLOT_NOTHING, SLOT_DRAINING);
    /* told to end between two lives */
    expect(SLOT_WAITING, SLOT_DRAIN, SLOT_CANCEL, SLOT_GONE);
    expect(SLOT_WAITING, SLOT_STOP, SLOT_CANCEL, SLOT_GONE);
}

static void test_back_off_grows_and_is_capped(void **state)
{
    struct backoff b = {0};
    unsigned last = 0, ms, i;

    (void)state;
    assert_int_equal(backoff_next(&b, 0), BACKOFF_FIRST_MS);
    last = BACKOFF_FIRST_MS;
    for (i = 0; i < 5; i++) {
        ms = backoff_next(&b, i % 2 ? 0 : BACKOFF_YOUNG_MS - 1);
        assert_int_equal(ms, 2 * last);
        last = ms;
    }
    for (i = 0; i < 100000; i++)
        assert_int_equal(backoff_next(&b, 1), BACKOFF_MAX_MS);
    b.backoff_young = ~0u; /* and does not overflow */
    assert_int_equal(backoff_next(&b, 1), BACKOFF_MAX_MS);
}

static void test_a_long_life_is_replaced_at_once_and_forgives(void **state)
{
    struct backoff b = {0};

    (void)state;
    assert_int_equal(backoff_next(&b, BACKOFF_YOUNG_MS), 0);
    assert_int_equal(backoff_next(&b, 10), BACKOFF_FIRST_MS);
    assert_int_equal(backoff_next(&b, 10), 2 * BACKOFF_FIRST_MS);
    assert_int_equal(backoff_next(&b, UINT64_MAX), 0);
    assert_int_equal(backoff_next(&b, 10), BACKOFF_FIRST_MS);
}

static void die_by(int signo, int status, const char *want)
{
    char text[96];
    int got;
    pid_t pid = fork();

    if (pid == 0) {
        if (signo != 0)
            raise(signo);
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &got, 0), pid);
    supervise_cause(got & ~0x80, text, sizeof text); /* whether a core was left depends on the machine */
    assert_string_equal(text, want);
}

static void test_causes_of_death(void **state)
{
    char text[96];

    (void)state;
    die_by(SIGKILL, 0, "killed by signal 9 (Killed)");
    die_by(SIGTERM, 0, "killed by signal 15 (Terminated)");
    die_by(0, 0, "exit status 0");
    die_by(0, 78, "exit status 78");
    supervise_cause(SIGSEGV | 0x80, text, sizeof text);
    assert_string_equal(text, "killed by signal 11 (Segmentation fault), core dumped");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state_and_event_is_defined),
        cmocka_unit_test(test_processes_and_deaths_agree),
        cmocka_unit_test(test_timers_fire_only_where_one_was_set),
        cmocka_unit_test(test_nothing_starts_after_the_end_was_asked_for),
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_back_off_grows_and_is_capped),
        cmocka_unit_test(test_a_long_life_is_replaced_at_once_and_forgives),
        cmocka_unit_test(test_causes_of_death),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
