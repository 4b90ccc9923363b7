/* What signals and commands ask for, and what each state of the master makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "master/ask.c"

static void test_signals(void **state)
{
    (void)state;
    assert_int_equal(ask_of_signal(SIGTERM), ASK_TERM);
    assert_int_equal(ask_of_signal(SIGINT), ASK_TERM);
    assert_int_equal(ask_of_signal(SIGQUIT), ASK_STOP);
    assert_int_equal(ask_of_signal(SIGHUP), ASK_RELOAD);
    assert_int_equal(ask_of_signal(SIGUSR1), ASK_LOGS);
    assert_int_equal(ask_of_signal(SIGUSR2), ASK_UPGRADE);
    assert_int_equal(ask_of_signal(SIGCHLD), ASKS);
}

static void test_commands(void **state)
{
    (void)state;
    assert_int_equal(ask_of_command(CONTROL_drain, ""), ASK_DRAIN);
    assert_int_equal(ask_of_command(CONTROL_stop, ""), ASK_DRAIN);
    assert_int_equal(ask_of_command(CONTROL_stop, "now"), ASK_STOP);
    assert_int_equal(ask_of_command(CONTROL_stop, "no"), ASKS);
    assert_int_equal(ask_of_command(CONTROL_stop, "now "), ASKS);
    assert_int_equal(ask_of_command(CONTROL_reload, ""), ASK_RELOAD);
    assert_int_equal(ask_of_command(CONTROL_ping, ""), ASKS);
}

static void test_the_second_time_stops(void **state)
{
    (void)state;
    assert_int_equal(ask_decide(MASTER_STARTING, ASK_TERM), ASK_DO_DRAIN);
    assert_int_equal(ask_decide(MASTER_SERVING, ASK_TERM), ASK_DO_DRAIN);
    assert_int_equal(ask_decide(MASTER_DRAINING, ASK_TERM), ASK_DO_STOP);
    assert_int_equal(ask_decide(MASTER_STOPPING, ASK_TERM), ASK_DO_NOTHING);
    /* but not for vanillactl drain, which people repeat to be sure */
    assert_int_equal(ask_decide(MASTER_DRAINING, ASK_DRAIN), ASK_DO_NOTHING);
}

static void test_every_state_and_ask_is_defined(void **state)
{
    unsigned s, a;

    (void)state;
    for (s = 0; s < MASTER_STATES; s++) {
        bool ending = s == MASTER_DRAINING || s == MASTER_STOPPING;

        assert_int_equal(ask_decide(s, ASK_LOGS), ASK_DO_LOGS);
        assert_int_equal(ask_decide(s, ASK_STOP), s == MASTER_STOPPING ? ASK_DO_NOTHING : ASK_DO_STOP);
        for (a = 0; a < ASKS; a++) {
            enum ask_action action = ask_decide(s, a);

            /* What is forgotten is ASK_DO_NOTHING: right only where the end is already on its way. */
            if (action == ASK_DO_NOTHING)
                assert_true(ending && (a == ASK_TERM || a == ASK_DRAIN || a == ASK_STOP));
            assert_false(ending && action == ASK_DO_DRAIN);
            assert_int_equal(action == ASK_REFUSE_ENDING, ending && (a == ASK_RELOAD || a == ASK_UPGRADE));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_the_second_time_stops),
        cmocka_unit_test(test_every_state_and_ask_is_defined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
