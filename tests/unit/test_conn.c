/* Connections that are lost, and those whose statements are out of date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/pg/conn.c"

#include "tests/unit/pool_world.h"

/* --- connections lost ------------------------------------------------------------------------------------------- */

static void a_lost_read_is_tried_on_another_connection(void **state)
{
    (void)state;
    start_up(2);
    ASK("a", "b");
    fake_break_all(w->world_fake);
    UNTIL(COUNTED(disconnects) == 2);
    UNTIL(pg_pool_up(w->world_pool) == 2);
    w->world_statement.statement_avg_ns = 1000;
    ASK("a", "close", "b"); /* the second takes down two connections, one after the other */
    assert_int_equal(OUTCOME(1), PG_SHED_DOWN);
    assert_int_equal(w->world_questions[1].question_restarts, 1);
    assert_int_equal(COUNTED(lost), 0);
    UNTIL(pg_pool_up(w->world_pool) == 2);
    expect_idle();
}

static void the_last_connection_lost_is_remade_at_once(void **state)
{
    (void)state;
    w->world_conf.pool_reconnect_max_ms = 60000;
    start_up(2);
    for (unsigned i = 0; i < 2; i++)
        w->world_pool->pool_all[i].conn_failures = 20; /* however long they would be left alone otherwise */
    assert_int_equal(ask(0, "a"), PG_DONE);
    fake_break_all(w->world_fake);
    UNTIL_UNTICKED(COUNTED(disconnects) == 2);
    assert_int_equal(pg_pool_up(w->world_pool), 0);
    assert_int_equal(ask(1, "b"), PG_DONE);
    UNTIL_UNTICKED(w->world_ended == 2);
    expect_answer(0);
    expect_answer(1);
    UNTIL(pg_pool_up(w->world_pool) == 2); /* the other follows */
    expect_idle();
}

static void all_that_are_lost_in_one_moment_are_noticed_first(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(3);
    assert_int_equal(ask(0, "a"), PG_DONE);
    for (unsigned i = 0; i < 3; i++)
        fake_terminate(w->world_fake->fake_conns[i]);
    UNTIL_UNTICKED(w->world_ended == 1);
    expect_answer(0);
    assert_int_equal(COUNTED(disconnects), 3);
    assert_int_equal(w->world_questions[0].question_restarts, 1);
}

static void lose_and_send_again(unsigned i)
{
    pg_pool_flush(w->world_pool, pg_now());
    conn_lose(w->world_questions[i].question_query.query_conn, LOSS_FATAL, "by the test");
    w->world_pool->pool_shaken_until = 0;
    queue_pump(w->world_pool, pg_now());
}

static void a_query_that_never_began_is_sent_again_and_again(void **state)
{
    unsigned n;

    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(8);
    assert_int_equal(ask(0, "a"), PG_DONE);
    for (n = 0; n < UNLUCKY_MAX; n++)
        lose_and_send_again(0);
    UNTIL(w->world_ended == 1);
    expect_answer(0);
    UNTIL(pg_pool_up(w->world_pool) == 8);
    w->world_ended = 0;
    assert_int_equal(ask(0, "hang"), PG_DONE);
    for (n = 0; n <= UNLUCKY_MAX; n++) { /* but not for ever */
        assert_int_equal(w->world_ended, 0);
        lose_and_send_again(0);
    }
    assert_int_equal(w->world_ended, 1);
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
}

/* Backends that are terminated die one after the other: what ran on the first is not sent to the next to die. */
static void behind_a_loss_others_are_waited_for(void **state)
{
    (void)state;
    w->world_conf.pool_reconnect_max_ms = 60000;
    start_up(3);
    for (unsigned i = 0; i < 3; i++)
        w->world_pool->pool_all[i].conn_failures = 20;
    assert_int_equal(ask(0, "hang"), PG_DONE);
    UNTIL_UNTICKED(w->world_fake->fake_executes == 1);
    fake_terminate(w->world_fake->fake_conns[0]);
    UNTIL_UNTICKED(COUNTED(disconnects) == 1);
    assert_int_equal(w->world_questions[0].question_query.query_state, QUERY_RETRY);
    assert_int_equal(ask(1, "b"), PG_DONE); /* new ones go on */
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_SENT);
    UNTIL_UNTICKED(w->world_ended == 1);
    w->world_pool->pool_shaken_until = pg_now() + SECOND; /* however busy the machine is */
    fake_terminate(w->world_fake->fake_conns[1]);
    fake_terminate(w->world_fake->fake_conns[2]);
    UNTIL_UNTICKED(COUNTED(disconnects) == 3);
    UNTIL_FINISHED(w->world_ended == 2);
    expect_answer(0);
    expect_answer(1);
}

static void what_is_held_behind_a_loss_goes_without_a_tick(void **state)
{
    (void)state;
    start_up(3);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    UNTIL_UNTICKED(w->world_fake->fake_executes == 1);
    fake_terminate(w->world_fake->fake_conns[0]);
    UNTIL_UNTICKED(COUNTED(disconnects) == 1);
    usleep(5000);
    fake_terminate(w->world_fake->fake_conns[1]); /* so that it is held for longer than it was to be */
    UNTIL_UNTICKED(COUNTED(disconnects) == 2);
    UNTIL_UNTICKED(w->world_fake->fake_executes == 2);
    assert_int_equal(w->world_questions[0].question_query.query_state, QUERY_SENT);
}

static void losses_that_never_stop_hold_nothing_for_ever(void **state)
{
    struct pg_query *q;

    (void)state;
    start_up(3);
    w->world_pool->pool_shaken_ns = 10ull * SECOND;
    assert_int_equal(ask(0, "hang"), PG_DONE);
    UNTIL_UNTICKED(w->world_fake->fake_executes == 1);
    fake_terminate(w->world_fake->fake_conns[0]);
    UNTIL_UNTICKED(COUNTED(disconnects) == 1);
    q = &w->world_questions[0].question_query;
    assert_int_equal(q->query_state, QUERY_RETRY);
    queue_shaken(w->world_pool, q->query_at_ns + 9ull * SECOND);
    queue_shaken(w->world_pool, q->query_at_ns + 18ull * SECOND);
    queue_pump(w->world_pool, q->query_at_ns + 19ull * SECOND);
    assert_int_equal(q->query_state, QUERY_RETRY);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_SENT);
    queue_pump(w->world_pool, q->query_at_ns + 20ull * SECOND);
    assert_int_equal(q->query_state, QUERY_SENT);
}

/* Told of the end of one, its owner abandons others: of the same connection, which is no more. */
static void the_end_of_one_may_be_the_end_of_its_siblings(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ask(i, "hang"), PG_DONE);
    UNTIL(w->world_fake->fake_executes == 1);
    w->world_questions[0].question_takes_along = 3;
    fake_break_all(w->world_fake);
    UNTIL(w->world_ended == 3);
    assert_int_equal(OUTCOME(0), PG_UNKNOWN);
    assert_int_equal(w->world_pool->pool_abandoned_n, 0);
    assert_int_equal(w->world_pool->pool_all[0].conn_abandoned_n, 0);
    w->world_questions[0].question_takes_along = 0;
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("again");
    expect_answer(0);
    expect_idle();
}

static void a_pooler_that_closes_behind_an_error_is_not_believed(void **state)
{
    static const char *const values[] = {"err-close:08P01", "err:23505"};

    (void)state;
    w->world_conf.pool_read_only = false;
    for (unsigned i = 0; i < 2; i++) {
        pg_pool_free(&w->world_pool);
        start_up(1);
        w->world_ended = 0;
        assert_int_equal(ask(0, values[i]), PG_DONE);
        pg_pool_flush(w->world_pool, pg_now());
        w->world_pool->pool_pooler = true; /* from here on: it is sent as to PostgreSQL itself */
        UNTIL(w->world_ended == 1);
        assert_int_equal(OUTCOME(0), i == 0 ? PG_UNKNOWN : PG_ERROR);
        w->world_pool->pool_pooler = false;
    }
    assert_string_equal(SQLSTATE(0), "23505");
}

static void one_lost_while_it_prepares_is_lost_as_well(void **state)
{
    struct pg_conn *c;

    (void)state;
    w->world_conf.pool_reconnect_max_ms = 60000;
    start_up(1);
    c = &w->world_pool->pool_all[0];
    c->conn_failures = 20;
    conn_drain(c, AFTER_PREPARE);
    conn_settle(c);
    assert_int_equal(c->conn_state, CONN_LINKING);
    assert_int_equal(ask(0, "a"), PG_DONE);
    fake_break_all(w->world_fake);
    UNTIL_UNTICKED(w->world_ended == 1);
    expect_answer(0);
    assert_int_equal(COUNTED(disconnects), 1);
}

static void a_server_that_is_gone_is_not_waited_for(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    UNTIL(w->world_fake->fake_conns[0]->conn_hanging);
    fake_unlisten(w->world_fake);
    fake_break_all(w->world_fake);
    UNTIL_UNTICKED(COUNTED(connect_failures) == 1);
    assert_int_equal(w->world_ended, 0);
    assert_int_equal(ask(1, "b"), PG_DONE); /* the first try may meet its predecessor */
    UNTIL(COUNTED(connect_failures) == 2);
    assert_int_equal(w->world_ended, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(OUTCOME(i), PG_SHED_DOWN);
    assert_int_equal(ask(2, "c"), PG_SHED_DOWN);
    fake_listen(w->world_fake);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("again");
    expect_answer(0);
}

static void a_server_that_hangs_is_not_waited_for(void **state)
{
    uint64_t patience;

    (void)state;
    start_up(1);
    patience = w->world_pool->pool_patience_ns;
    conn_lose(&w->world_pool->pool_all[0], LOSS_SUDDEN, "by the test");
    assert_int_equal(w->world_pool->pool_all[0].conn_state, CONN_LINKING); /* and not an event is looked at */
    assert_int_equal(ask(0, "a"), PG_DONE);
    conn_tick(&w->world_pool->pool_all[0], pg_now() + patience - SECOND);
    assert_int_equal(w->world_ended, 0);
    conn_tick(&w->world_pool->pool_all[0], pg_now() + patience);
    assert_int_equal(w->world_ended, 1);
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
    assert_int_equal(ask(1, "b"), PG_SHED_DOWN);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("again");
    expect_answer(0);
}

/* What was sent is lost without a word: it is sent anew by some, while others go on waiting. */
static void of_all_that_connect_some_are_hasty(void **state)
{
    (void)state;
    start_up(2);
    event_del(w->world_fake->fake_event);
    fake_break_all(w->world_fake);
    UNTIL(w->world_pool->pool_conns_n[CONN_LINKING] == 2);
    UNTIL(COUNTED(connect_failures) == 1);
    assert_true(w->world_pool->pool_conns_n[CONN_LINKING] > 0);
    event_add(w->world_fake->fake_event, NULL);
    UNTIL(pg_pool_up(w->world_pool) == 2);
    ASK("a");
    expect_answer(0);
}

static void a_server_that_loses_them_again_is_left_alone(void **state)
{
    (void)state;
    start_up(1);
    w->world_conf.pool_max_inflight = 2;
    pg_pool_set_max_inflight(w->world_pool, 2);
    w->world_pool->pool_remake_at = pg_now() + SECOND; /* and so for a second */
    ASK("close", "b", "waiting");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(OUTCOME(i), PG_SHED_DOWN);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("again");
    expect_answer(0);
    expect_idle();
}

static void a_lost_write_is_unknown(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ASK("a", "close", "b");
    expect_answer(0);
    assert_int_equal(OUTCOME(1), PG_UNKNOWN);
    assert_int_equal(OUTCOME(2), PG_UNKNOWN); /* its octets were sent: who knows */
    assert_int_equal(COUNTED(lost), 2);
    expect_idle();
}

static void a_write_that_was_not_sent_goes_elsewhere(void **state)
{
    struct pg_conn *c;

    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(2);
    assert_int_equal(ask(0, "a"), PG_DONE); /* appended, not flushed */
    c = w->world_questions[0].question_query.query_conn;
    conn_lose(c, LOSS_SUDDEN, "by the test");
    UNTIL(w->world_ended == 1);
    expect_answer(0);
    assert_int_equal(w->world_questions[0].question_restarts, 1);
    assert_int_equal(COUNTED(lost), 0);
}

static void a_crash_behind_a_short_read_is_noticed(void **state)
{
    struct fake_conn *server;

    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    server = w->world_fake->fake_conns[0];
    UNTIL(server->conn_hanging);
    event_del(server->conn_event);
    assert_int_equal(ask(1, "never read"), PG_DONE);
    pg_pool_flush(w->world_pool, pg_now());
    /* Octets, and an error right behind them (ECONNRESET: it dies with unread octets): one event for both. */
    fake_put(server, 'S', "a\0b", 4);
    fake_flush(server);
    fake_close(server);
    UNTIL(COUNTED(disconnects) == 1);
    UNTIL_FINISHED(w->world_ended == 2); /* both were sent once more */
    expect_answer(0);
    expect_answer(1);
}

static void a_connection_that_lasted_comes_back_at_once(void **state)
{
    struct pg_conn *c;

    (void)state;
    w->world_conf.pool_reconnect_max_ms = 60000;
    start_up(1);
    c = &w->world_pool->pool_all[0];
    for (unsigned i = 0; i < 8; i++) { /* one that does not last waits longer each time */
        conn_lose(c, LOSS_SUDDEN, "by the test");
        assert_int_equal(c->conn_failures, i + 1);
        pg_pool_tick(w->world_pool, c->conn_retry_at);
        while (pg_pool_up(w->world_pool) == 0)
            turn();
    }
    c->conn_up_since -= 2ull * SECOND;
    conn_lose(c, LOSS_SUDDEN, "by the test");
    assert_int_equal(c->conn_failures, 0);
    assert_true(c->conn_retry_at < pg_now() + SECOND);
}

static void after_a_fatal_error_only_what_ran_is_unknown(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(2);
    w->world_statement.statement_avg_ns = 1000;
    ASK("a", "fatal", "b", "c");
    expect_answer(0);
    assert_int_equal(OUTCOME(1), PG_UNKNOWN);
    expect_answer(2); /* the server had not come to them: run on the other connection */
    expect_answer(3);
    UNTIL(pg_pool_up(w->world_pool) == 2);
    ASK("fatal-unbound"); /* twice before it could begin: not run, that is certain */
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
    expect_idle();
}

static void hostile_messages_cost_the_connection(void **state)
{
    static const char *const values[] = {"bad-length", "bad-type"};

    (void)state;
    start_up(2);
    w->world_statement.statement_avg_ns = 1000;
    for (unsigned i = 0; i < 2; i++) {
        unsigned connects = (unsigned)COUNTED(connects);

        ASK("a", values[i], "b");
        assert_int_equal(OUTCOME(1), PG_INTERNAL); /* not tried on the other connection too */
        assert_int_equal(w->world_questions[1].question_restarts, 0);
        expect_answer(2);
        UNTIL(pg_pool_up(w->world_pool) == 2);
        assert_int_equal(COUNTED(connects), connects + 1);
    }
    ASK("a");
    expect_answer(0);
    expect_idle();
}

static void an_open_transaction_costs_the_connection(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ASK("begin", "b");
    expect_answer(0);
    assert_int_equal(OUTCOME(1), PG_UNKNOWN); /* it ran inside, and went with it */
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("c");
    expect_answer(0);
    expect_idle();
}

static void a_demoted_server_is_left(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ASK("err:25006");
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
    assert_int_equal(COUNTED(disconnects), 1);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    assert_int_equal(COUNTED(connects), 2);
}

static void on_a_read_only_pool_25006_is_the_routes_fault(void **state)
{
    (void)state;
    start_up(1);
    ASK("err:25006");
    assert_int_equal(OUTCOME(0), PG_ERROR);
    assert_string_equal(SQLSTATE(0), "25006");
    assert_int_equal(COUNTED(disconnects), 0);
}

/* --- statements ------------------------------------------------------------------------------------------------- */

static void a_stale_plan_is_prepared_again(void **state)
{
    (void)state;
    start_up(1);
    w->world_fake->fake_stale = 1;
    w->world_fake->fake_column_oid = 23; /* what has changed */
    ASK("a", "stale", "b");
    for (unsigned i = 0; i < 3; i++)
        expect_answer(i);
    assert_int_equal(w->world_fake->fake_deallocates, 1);
    assert_int_equal(w->world_described, 2);
    assert_int_equal(w->world_statement.statement_version, 2);
    assert_int_equal(w->world_statement.statement_columns[0].column_type->type_kind, PG_INT4);
    assert_int_equal(COUNTED(connects), 1);
    assert_int_equal(COUNTED(disconnects), 0);
    expect_idle();
}

static void a_query_may_meet_every_stale_connection(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(3);
    w->world_fake->fake_stale = 3;
    ASK("stale");
    expect_answer(0);
    w->world_fake->fake_stale = 100; /* but not for ever */
    ASK("stale");
    assert_int_equal(OUTCOME(0), PG_ERROR);
    assert_string_equal(SQLSTATE(0), "0A000");
    UNTIL(pg_pool_up(w->world_pool) == 3);
    expect_idle();
}

/* One connection has found out that the statement's columns are others: what another brings would be read wrongly. */
static void what_was_prepared_before_a_change_takes_no_more(void **state)
{
    struct pg_conn *all;

    (void)state;
    start_up(3);
    all = w->world_pool->pool_all;
    w->world_fake->fake_column_oid = 23;
    conn_drain(&all[1], AFTER_PREPARE);
    conn_settle(&all[1]);
    while (all[1].conn_state != CONN_READY)
        turn();
    assert_int_equal(w->world_statement.statement_version, 2);
    assert_int_equal(all[0].conn_state, CONN_LINKING);
    assert_int_equal(all[2].conn_state, CONN_LINKING);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_ptr_equal(w->world_questions[0].question_query.query_conn, &all[1]);
    UNTIL(w->world_ended == 1 && pg_pool_up(w->world_pool) == 3);
    expect_answer(0);
    assert_int_equal(w->world_fake->fake_deallocates, 3);
    assert_int_equal(w->world_statement.statement_version, 2);
}

/* Slots that are gone for a moment, since statements are being prepared again, count. */
static void nothing_is_shed_while_statements_are_prepared(void **state)
{
    (void)state;
    w->world_conf.pool_queue = 0;
    w->world_conf.pool_max_inflight = 2;
    start_up(1);
    conn_drain(&w->world_pool->pool_all[0], AFTER_PREPARE);
    conn_settle(&w->world_pool->pool_all[0]);
    assert_int_equal(w->world_pool->pool_all[0].conn_state, CONN_LINKING);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_SHED_FULL);
    UNTIL(w->world_ended == 2);
    expect_answer(0);
    expect_answer(1);
    expect_idle();
}

static void a_refused_statement_is_broken_and_mended(void **state)
{
    (void)state;
    w->world_fake->fake_refuse = "42P01";
    start_up(1);
    assert_int_equal(w->world_statement.statement_state, STATEMENT_BROKEN);
    assert_string_equal(w->world_statement.statement_why, "fake says 42P01");
    assert_int_equal(w->world_described, 0);
    assert_int_equal(ask(0, "a"), PG_BROKEN);
    w->world_fake->fake_refuse = NULL;
    pg_pool_tick(w->world_pool, pg_now() + 60ull * SECOND);
    UNTIL(w->world_statement.statement_state == STATEMENT_READY);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("a");
    expect_answer(0);
}

static void the_only_connection_is_mended_though_it_is_never_idle(void **state)
{
    const struct pg_conn *c;
    uint64_t now;

    (void)state;
    start_up(1);
    c = &w->world_pool->pool_all[0];
    assert_int_equal(ask(0, "hang"), PG_DONE);
    w->world_statement.statement_state = STATEMENT_BROKEN;
    assert_int_equal(ask(1, "a"), PG_BROKEN);
    now = w->world_pool->pool_mended_at = pg_now();
    pg_pool_tick(w->world_pool, now + 2ull * SECOND);
    assert_int_equal(c->conn_state, CONN_READY);
    w->world_pool->pool_all[0].conn_cost_ns += 40ull * SECOND; /* who comes meanwhile would time out */
    pg_pool_tick(w->world_pool, now + 4ull * SECOND);
    assert_int_equal(c->conn_state, CONN_READY);
    w->world_pool->pool_all[0].conn_cost_ns -= 40ull * SECOND;
    pg_pool_tick(w->world_pool, now + 4ull * SECOND);
    assert_int_equal(c->conn_state, CONN_DRAINING);
    UNTIL_FINISHED(w->world_statement.statement_state == STATEMENT_READY);
}

static void an_owners_objection_breaks_the_statement(void **state)
{
    (void)state;
    w->world_objection = "a column name twice";
    start_up(2);
    assert_int_equal(w->world_statement.statement_state, STATEMENT_BROKEN);
    assert_string_equal(w->world_statement.statement_why, "a column name twice");
    assert_int_equal(w->world_described, 2); /* a broken one is tried at each connect */
    assert_int_equal(ask(0, "a"), PG_BROKEN);
}

static void a_passing_trouble_does_not_break_a_statement(void **state)
{
    (void)state;
    w->world_fake->fake_refuse = "53200";
    start(1);
    UNTIL(pg_pool_tried(w->world_pool));
    assert_int_equal(w->world_statement.statement_state, STATEMENT_UNKNOWN);
    assert_int_equal(pg_pool_up(w->world_pool), 0);
    assert_non_null(strstr(pg_pool_trouble(w->world_pool), "fake says 53200"));
    w->world_fake->fake_refuse = NULL;
    UNTIL(pg_pool_up(w->world_pool) == 1);
    assert_string_equal(pg_pool_trouble(w->world_pool), "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_lost_read_is_tried_on_another_connection),
        TEST(the_last_connection_lost_is_remade_at_once),
        TEST(all_that_are_lost_in_one_moment_are_noticed_first),
        TEST(a_query_that_never_began_is_sent_again_and_again),
        TEST(behind_a_loss_others_are_waited_for),
        TEST(what_is_held_behind_a_loss_goes_without_a_tick),
        TEST(losses_that_never_stop_hold_nothing_for_ever),
        TEST(the_end_of_one_may_be_the_end_of_its_siblings),
        TEST(a_pooler_that_closes_behind_an_error_is_not_believed),
        TEST(one_lost_while_it_prepares_is_lost_as_well),
        TEST(a_server_that_is_gone_is_not_waited_for),
        TEST(a_server_that_hangs_is_not_waited_for),
        TEST(of_all_that_connect_some_are_hasty),
        TEST(a_server_that_loses_them_again_is_left_alone),
        TEST(a_lost_write_is_unknown),
        TEST(a_write_that_was_not_sent_goes_elsewhere),
        TEST(a_crash_behind_a_short_read_is_noticed),
        TEST(a_connection_that_lasted_comes_back_at_once),
        TEST(after_a_fatal_error_only_what_ran_is_unknown),
        TEST(hostile_messages_cost_the_connection),
        TEST(an_open_transaction_costs_the_connection),
        TEST(a_demoted_server_is_left),
        TEST(on_a_read_only_pool_25006_is_the_routes_fault),
        TEST(a_stale_plan_is_prepared_again),
        TEST(a_query_may_meet_every_stale_connection),
        TEST(what_was_prepared_before_a_change_takes_no_more),
        TEST(nothing_is_shed_while_statements_are_prepared),
        TEST(a_refused_statement_is_broken_and_mended),
        TEST(the_only_connection_is_mended_though_it_is_never_idle),
        TEST(an_owners_objection_breaks_the_statement),
        TEST(a_passing_trouble_does_not_break_a_statement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
