/* Clients that leave while their queries run: who comes next does not wait for what nobody waits for, and nobody is hit
 * by another's cancel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/pg/forsaken.c"

#include "tests/unit/pool_world.h"

#define QUERY(i) (&w->world_questions[i].question_query)
#define CONN(i) (&w->world_pool->pool_all[i])

/* Its query at the head has run for so long. */
static void runs_for(struct pg_conn *c, uint64_t ns)
{
    c->conn_busy_since = pg_now() - ns;
}

/* ... and has just begun, for as long as it takes. */
static void is_young(struct pg_conn *c)
{
    c->conn_busy_since = pg_now() + 100ull * SECOND;
}

static void leave(unsigned i)
{
    assert_false(pg_query_abandon(QUERY(i)));
}

/* Asks what runs on and on, and has it sent. */
static void ask_hang(unsigned i)
{
    assert_int_equal(ask(i, "hang"), PG_DONE);
    assert_int_equal(QUERY(i)->query_state, QUERY_SENT);
    turn();
}

static void turns(unsigned n)
{
    while (n-- > 0)
        turn();
}

static void expect_nothing_left(void)
{
    for (unsigned i = 0; i < w->world_pool->pool_config.config_connections; i++) {
        assert_int_equal(CONN(i)->conn_abandoned_n, 0);
        assert_int_equal(CONN(i)->conn_inflight_n, 0);
    }
    assert_int_equal(w->world_pool->pool_abandoned_n, 0);
    UNTIL(w->world_pool->pool_conns_n[CONN_READY] == w->world_pool->pool_config.config_connections);
    expect_idle();
}

/* --- without anybody waiting ------------------------------------------------------------------------------------ */

static void what_runs_for_long_is_cancelled_at_once(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    runs_for(CONN(0), SECOND);
    leave(0);
    assert_int_equal(w->world_ended, 0); /* never from inside */
    assert_int_equal(CONN(0)->conn_state, CONN_CANCELLING);
    UNTIL_UNTICKED(w->world_ended == 1);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    assert_int_equal(COUNTED(abandoned), 1);
    assert_int_equal(COUNTED(cancelled), 1);
    expect_nothing_left();
}

static void what_has_just_begun_is_left_to_the_tick(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    is_young(CONN(0));
    leave(0);
    turns(20);
    assert_int_equal(CONN(0)->conn_state, CONN_READY);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    UNTIL(w->world_ended == 1);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    expect_nothing_left();
}

static void whose_client_left_unnoticed_is_found(void **state)
{
    uint64_t now;

    (void)state;
    start_up(1);
    w->world_questions[1].question_left = true;
    assert_int_equal(ask(0, "hang"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_DONE);
    turn();
    now = QUERY(0)->query_at_ns;
    pg_pool_tick(w->world_pool, now + LONG_NS - 1);
    assert_int_equal(w->world_questions[0].question_looks, 0);
    for (unsigned i = 0; i < 3; i++)
        pg_pool_tick(w->world_pool, now + 2 * LONG_NS);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(w->world_questions[i].question_looks, 1);
        assert_int_equal(QUERY(i)->query_abandoned, i == 1);
    }
    assert_int_equal(COUNTED(cancelled), 0);
    leave(0);
    leave(2);
    UNTIL(w->world_ended == 3);
    assert_int_equal(COUNTED(abandoned), 3);
    expect_nothing_left();
}

static void one_behind_the_other_needs_no_tick(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    for (unsigned i = 0; i < 5; i++)
        ask_hang(i);
    runs_for(CONN(0), SECOND);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(CONN(0)->conn_state, CONN_READY);
        leave(i);
    }
    UNTIL_UNTICKED(w->world_ended == 5);
    assert_int_equal(w->world_fake->fake_cancels, 5);
    assert_int_equal(COUNTED(cancelled), 5);
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(SQLSTATE(i), "57014");
    expect_nothing_left();
}

static void reads_under_one_sync_end_with_one_cancel(void **state)
{
    (void)state;
    start_up(1);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(ask(i, "hang"), PG_DONE);
    turn();
    runs_for(CONN(0), SECOND);
    for (unsigned i = 0; i < 5; i++)
        leave(i);
    UNTIL_UNTICKED(w->world_ended == 5);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    expect_nothing_left();
}

static void a_neighbour_is_spared_and_served(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ask_hang(0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    turn();
    runs_for(CONN(0), SECOND);
    leave(0);
    assert_int_equal(ask(2, "c"), PG_DONE);
    turns(20);
    assert_int_equal(CONN(0)->conn_state, CONN_READY);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 3);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    assert_string_equal(w->world_order, "hang b c ");
    expect_answer(1);
    expect_answer(2);
    expect_nothing_left();
}

static void a_cancel_that_met_nothing_is_sent_again(void **state)
{
    uint64_t now;

    (void)state;
    start_up(1);
    ask_hang(0);
    runs_for(CONN(0), SECOND);
    w->world_fake->fake_deaf = true;
    leave(0);
    UNTIL_UNTICKED(CONN(0)->conn_cancel.cancel_fd == -1);
    assert_int_equal(CONN(0)->conn_state, CONN_CANCELLING);
    now = CONN(0)->conn_cancel_at;
    pg_pool_tick(w->world_pool, now + AGAIN_NS / 2);
    assert_int_equal(COUNTED(cancelled), 1);
    pg_pool_tick(w->world_pool, now + AGAIN_NS);
    assert_int_equal(COUNTED(cancelled), 2);
    UNTIL_UNTICKED(CONN(0)->conn_cancel.cancel_fd == -1);
    pg_pool_tick(w->world_pool, now + 2 * AGAIN_NS); /* twice as long */
    assert_int_equal(COUNTED(cancelled), 2);
    w->world_fake->fake_deaf = false;
    pg_pool_tick(w->world_pool, now + 3 * AGAIN_NS);
    assert_int_equal(COUNTED(cancelled), 3);
    UNTIL_UNTICKED(w->world_ended == 1);
    expect_nothing_left();
}

static void the_rest_of_what_is_refused_is_cancelled_once(void **state)
{
    (void)state;
    start_up(1);
    w->world_questions[0].question_row_refused = true;
    ASK("row-hang");
    assert_int_equal(OUTCOME(0), PG_INTERNAL);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    assert_int_equal(w->world_questions[0].question_restarts, 0);
    expect_nothing_left();
}

static void one_that_is_to_be_replaced_does_not_wait_for_it(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    runs_for(CONN(0), SECOND);
    conn_replace(CONN(0));
    assert_int_equal(CONN(0)->conn_state, CONN_DRAINING);
    leave(0);
    UNTIL_UNTICKED(w->world_ended == 1);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    assert_int_equal(COUNTED(connects), 2);
    expect_nothing_left();
}

static void a_lost_connection_forgets_them(void **state)
{
    (void)state;
    start_up(2);
    ask_hang(0);
    is_young(CONN(0));
    leave(0);
    fake_break_all(w->world_fake);
    UNTIL(w->world_ended == 1);
    expect_nothing_left();
    ASK("a", "b");
    expect_answer(1);
}

/* --- who comes next --------------------------------------------------------------------------------------------- */

static void a_newcomer_goes_to_another(void **state)
{
    struct pg_conn *forsaken, *other;

    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(2);
    for (unsigned i = 0; i < 3; i++)
        ask_hang(i);
    other = QUERY(2)->query_conn; /* has two, and would not be chosen */
    forsaken = QUERY(0)->query_conn == other ? QUERY(1)->query_conn : QUERY(0)->query_conn;
    assert_int_equal(forsaken->conn_inflight_n, 1);
    is_young(forsaken);
    is_young(other);
    leave(QUERY(0)->query_conn == forsaken ? 0 : 1);
    assert_int_equal(ask(3, "b"), PG_DONE);
    assert_ptr_equal(QUERY(3)->query_conn, other);
    turns(20);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    fake_finish_all(w->world_fake);
    turns(20);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 4);
    expect_answer(3);
    expect_nothing_left();
}

static void a_newcomer_waits_for_the_cancel(void **state)
{
    for (unsigned round = 0; round < 2; round++) { /* of reads, of writes */
        if (round > 0) {
            (void)teardown(state);
            (void)setup(state);
        }
        w->world_conf.pool_read_only = round == 0;
        start_up(2);
        w->world_statement.statement_avg_ns = 200000000;
        for (unsigned i = 0; i < 6; i++)
            ask_hang(i);
        assert_int_equal(CONN(0)->conn_inflight_n, 3);
        is_young(CONN(0));
        is_young(CONN(1));
        for (unsigned i = 0; i < 6; i++)
            leave(i);
        turns(5);
        assert_int_equal(w->world_fake->fake_cancels, 0);
        runs_for(CONN(0), AGE_WANTED_NS);
        runs_for(CONN(1), AGE_WANTED_NS);
        assert_int_equal(ask(6, "b"), PG_DONE);
        assert_int_equal(QUERY(6)->query_state, QUERY_WAITING);
        assert_int_equal(w->world_pool->pool_conns_n[CONN_CANCELLING], 2);
        UNTIL_UNTICKED(w->world_ended == 7);
        assert_int_equal(w->world_fake->fake_cancels, 6);
        assert_int_equal(w->world_questions[6].question_restarts, 0);
        expect_answer(6);
        assert_int_equal(COUNTED(retried), 0);
        expect_nothing_left();
    }
}

static void a_newcomer_waits_for_what_is_through_in_a_moment(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    is_young(CONN(0));
    leave(0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(QUERY(1)->query_state, QUERY_WAITING);
    turns(20);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    expect_answer(1);
    expect_nothing_left();
}

static void a_newcomer_is_not_forgotten(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    leave(0);
    CONN(0)->conn_busy_since = pg_now();
    assert_int_equal(ask(1, "b"), PG_DONE);
    UNTIL_UNTICKED(w->world_ended == 2); /* neither a tick nor another answer */
    assert_int_equal(w->world_fake->fake_cancels, 1);
    expect_answer(1);
    expect_nothing_left();
}

static void what_leaves_in_the_turn_in_which_it_came_has_nobody_behind_it(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    leave(0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(QUERY(1)->query_state, QUERY_WAITING);
    UNTIL_UNTICKED(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    expect_answer(1);
    expect_nothing_left();
}

static void who_waits_already_gets_the_slot(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 1;
    start_up(1);
    ask_hang(0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    runs_for(CONN(0), AGE_WANTED_NS);
    leave(0);
    assert_int_equal(CONN(0)->conn_state, CONN_CANCELLING);
    UNTIL_UNTICKED(w->world_ended == 2);
    expect_answer(1);
    expect_nothing_left();
}

static void when_the_last_who_stayed_has_been_answered(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    w->world_conf.pool_max_inflight = 3;
    start_up(1);
    ask_hang(0);
    ask_hang(1);
    ask_hang(2);
    leave(1);
    leave(2);
    assert_int_equal(ask(3, "b"), PG_DONE);
    turns(20);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 4);
    assert_int_equal(w->world_fake->fake_cancels, 2);
    assert_int_equal(OUTCOME(0), PG_DONE);
    expect_answer(3);
    expect_nothing_left();
}

/* Another connection has room, but behind something that runs for long. */
/* Two connections, each with what runs on and on; the one of the first. */
static struct pg_conn *two_hang(void)
{
    start_up(2);
    ask_hang(0);
    ask_hang(1);
    runs_for(CONN(0), SECOND);
    runs_for(CONN(1), SECOND);
    return QUERY(0)->query_conn;
}

static void a_newcomer_rather_waits_than_gets_stuck(void **state)
{
    struct pg_conn *stuck;

    (void)state;
    w->world_conf.pool_read_only = false;
    stuck = two_hang();
    leave(1);
    assert_int_equal(ask(2, "b"), PG_DONE);
    assert_int_equal(QUERY(2)->query_state, QUERY_WAITING);
    UNTIL_UNTICKED(w->world_ended == 2);
    expect_answer(2);
    assert_int_equal(stuck->conn_inflight_n, 1);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 3);
    assert_int_equal(OUTCOME(0), PG_DONE);
    expect_nothing_left();
}

static void but_not_for_long(void **state)
{
    struct pg_conn *stuck;

    (void)state;
    w->world_conf.pool_read_only = false;
    w->world_conf.pool_queue = 0;
    stuck = two_hang();
    w->world_fake->fake_deaf = true;
    leave(1);
    assert_int_equal(ask(2, "b"), PG_DONE);
    assert_int_equal(QUERY(2)->query_state, QUERY_WAITING);
    UNTIL_UNTICKED(QUERY(2)->query_state == QUERY_SENT);
    assert_ptr_equal(QUERY(2)->query_conn, stuck);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 3);
    expect_answer(2);
    expect_nothing_left();
}

static void and_only_as_many_as_there_will_be_slots(void **state)
{
    struct pg_conn *stuck;

    (void)state;
    w->world_conf.pool_read_only = false;
    w->world_conf.pool_queue = 0;
    w->world_conf.pool_max_inflight = 2;
    stuck = two_hang();
    leave(1);
    assert_int_equal(ask(2, "b"), PG_DONE);
    assert_int_equal(ask(3, "c"), PG_DONE);
    assert_int_equal(QUERY(3)->query_state, QUERY_WAITING);
    assert_int_equal(ask(4, "d"), PG_DONE);
    assert_ptr_equal(QUERY(4)->query_conn, stuck);
    assert_int_equal(ask(5, "x"), PG_SHED_FULL);
    UNTIL_UNTICKED(w->world_ended == 3);
    assert_string_equal(w->world_order, "hang b c ");
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 5);
    expect_answer(4);
    expect_nothing_left();
}

/* --- where nobody is to wait in line ---------------------------------------------------------------------------- */

static void a_slot_that_is_being_freed_is_a_slot(void **state)
{
    for (unsigned round = 0; round < 2; round++) {
        if (round > 0) {
            (void)teardown(state);
            (void)setup(state);
        }
        if (round == 0)
            w->world_conf.pool_queue = 0;
        else
            w->world_conf.pool_queue_timeout_ms = 0;
        w->world_conf.pool_max_inflight = 2;
        start_up(1);
        ask_hang(0);
        ask_hang(1);
        assert_int_equal(ask(2, "x"), PG_SHED_FULL);
        runs_for(CONN(0), SECOND);
        leave(0);
        assert_int_equal(ask(2, "x"), PG_SHED_FULL);
        leave(1);
        assert_int_equal(CONN(0)->conn_state, CONN_CANCELLING);
        assert_int_equal(ask(2, "b"), PG_DONE);
        assert_int_equal(ask(3, "c"), PG_DONE);
        assert_int_equal(ask(4, "x"), PG_SHED_FULL); /* as many as there are slots */
        UNTIL_UNTICKED(w->world_ended == 4);
        expect_answer(2);
        expect_answer(3);
        expect_nothing_left();
    }
}

static void one_that_is_just_beginning_to_be_forsaken_too(void **state)
{
    (void)state;
    w->world_conf.pool_queue = 0;
    start_up(1);
    ask_hang(0);
    is_young(CONN(0));
    leave(0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    turns(5);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    expect_answer(1);
}

static void one_that_does_not_end_is_not(void **state)
{
    (void)state;
    w->world_conf.pool_queue = 0;
    start_up(1);
    ask_hang(0);
    runs_for(CONN(0), SECOND);
    w->world_fake->fake_deaf = true;
    leave(0);
    assert_int_equal(CONN(0)->conn_state, CONN_CANCELLING);
    CONN(0)->conn_cancel_at -= SLOTS_NS;
    assert_int_equal(ask(1, "b"), PG_SHED_FULL); /* not down: it is there */
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 1);
    UNTIL_UNTICKED(CONN(0)->conn_state == CONN_READY);
    ASK("b");
    expect_answer(0);
}

/* --- cancels that fail ------------------------------------------------------------------------------------------ */

static void where_no_cancel_can_be_sent_it_goes_behind(void **state)
{
    (void)state;
    w->world_conf.pool_queue = 0;
    start_up(1);
    ask_hang(0);
    fake_unlisten(w->world_fake);
    runs_for(CONN(0), SECOND);
    leave(0);
    assert_int_equal(CONN(0)->conn_state, CONN_READY);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(QUERY(1)->query_state, QUERY_SENT);
    fake_listen(w->world_fake);
    for (unsigned i = 0; i < 20; i++) { /* and is a neighbour then */
        turn();
        pg_pool_tick(w->world_pool, pg_now() + 2ull * SECOND);
    }
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    assert_int_equal(COUNTED(cancelled), 0);
    expect_answer(1);
    expect_nothing_left();
}

static void who_waited_for_it_as_well(void **state)
{
    (void)state;
    start_up(1);
    ask_hang(0);
    leave(0);
    CONN(0)->conn_busy_since = pg_now();
    assert_int_equal(ask(1, "b"), PG_DONE);
    fake_unlisten(w->world_fake);
    UNTIL_UNTICKED(QUERY(1)->query_state == QUERY_SENT);
    fake_listen(w->world_fake);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 2);
    expect_answer(1);
    expect_nothing_left();
}

static void when_the_next_cancel_cannot_be_sent(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ask_hang(0);
    ask_hang(1);
    runs_for(CONN(0), SECOND);
    leave(0);
    leave(1);
    UNTIL_UNTICKED(w->world_fake->fake_cancels == 1);
    fake_unlisten(w->world_fake);
    assert_int_equal(ask(2, "b"), PG_DONE);
    assert_int_equal(QUERY(2)->query_state, QUERY_WAITING);
    UNTIL_UNTICKED(QUERY(2)->query_state == QUERY_SENT);
    fake_listen(w->world_fake);
    assert_int_equal(CONN(0)->conn_state, CONN_READY);
    assert_int_equal(w->world_ended, 1);
    fake_finish_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 3);
    expect_answer(2);
    expect_nothing_left();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_runs_for_long_is_cancelled_at_once),
        TEST(what_has_just_begun_is_left_to_the_tick),
        TEST(whose_client_left_unnoticed_is_found),
        TEST(one_behind_the_other_needs_no_tick),
        TEST(reads_under_one_sync_end_with_one_cancel),
        TEST(a_neighbour_is_spared_and_served),
        TEST(a_cancel_that_met_nothing_is_sent_again),
        TEST(the_rest_of_what_is_refused_is_cancelled_once),
        TEST(one_that_is_to_be_replaced_does_not_wait_for_it),
        TEST(a_lost_connection_forgets_them),
        TEST(a_newcomer_goes_to_another),
        TEST(a_newcomer_waits_for_the_cancel),
        TEST(a_newcomer_waits_for_what_is_through_in_a_moment),
        TEST(a_newcomer_is_not_forgotten),
        TEST(what_leaves_in_the_turn_in_which_it_came_has_nobody_behind_it),
        TEST(who_waits_already_gets_the_slot),
        TEST(when_the_last_who_stayed_has_been_answered),
        TEST(a_newcomer_rather_waits_than_gets_stuck),
        TEST(but_not_for_long),
        TEST(and_only_as_many_as_there_will_be_slots),
        TEST(a_slot_that_is_being_freed_is_a_slot),
        TEST(one_that_is_just_beginning_to_be_forsaken_too),
        TEST(one_that_does_not_end_is_not),
        TEST(where_no_cancel_can_be_sent_it_goes_behind),
        TEST(who_waited_for_it_as_well),
        TEST(when_the_next_cancel_cannot_be_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
