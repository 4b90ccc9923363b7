/* The pool against a PostgreSQL that misbehaves on demand (fake_postgres.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/pg/pool.c"

#include "tests/unit/pool_world.h"

/* --- the ordinary way ------------------------------------------------------------------------------------------- */

static void a_statement_is_described_once(void **state)
{
    (void)state;
    start_up(3);
    assert_int_equal(w->world_statement.statement_state, STATEMENT_READY);
    assert_string_equal(w->world_statement.statement_name, "v7");
    assert_int_equal(w->world_statement.statement_params_n, 1);
    assert_int_equal(w->world_statement.statement_params[0]->type_kind, PG_TEXT);
    assert_int_equal(w->world_statement.statement_columns_n, 1);
    assert_string_equal(w->world_statement.statement_columns[0].column_name, "c");
    assert_int_equal(w->world_statement.statement_version, 1);
    assert_int_equal(w->world_described, 1);
    assert_true(pg_pool_tried(w->world_pool));
    assert_string_equal(pg_pool_trouble(w->world_pool), "");
}

static void queries_of_one_turn_share_a_sync(void **state)
{
    unsigned syncs;

    (void)state;
    start_up(2);
    syncs = w->world_fake->fake_syncs;
    ASK("a", "b", "c", "d");
    for (unsigned i = 0; i < 4; i++)
        expect_answer(i);
    assert_string_equal(w->world_order, "a b c d ");
    assert_int_equal(w->world_fake->fake_syncs - syncs, 1);
    assert_int_equal(COUNTED(queries), 4);
    assert_int_equal(COUNTED(syncs), 1);
    assert_int_equal(COUNTED(rows), 4);
    expect_idle();
}

static void a_batch_holds_sync_batch_queries(void **state)
{
    unsigned syncs;

    (void)state;
    w->world_conf.pool_sync_batch = 3;
    start_up(1);
    syncs = w->world_fake->fake_syncs;
    ASK("a", "b", "c", "d", "e", "f", "g");
    /* One connection: after a full batch the next is opened on the same one, once the first is out of the way. */
    assert_true(w->world_fake->fake_syncs - syncs >= 3);
    assert_string_equal(w->world_order, "a b c d e f g ");
}

static void slow_queries_spread_out(void **state)
{
    unsigned busy = 0;

    (void)state;
    w->world_conf.pool_batch_us = 500;
    start_up(4);
    w->world_statement.statement_avg_ns = 10000000;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ask(i, "hang"), PG_DONE);
    for (unsigned i = 0; i < 4; i++)
        busy += w->world_pool->pool_all[i].conn_inflight_n == 1;
    assert_int_equal(busy, 4);
    w->world_statement.statement_avg_ns = 10000;
}

static void every_octet_on_its_own_changes_nothing(void **state)
{
    (void)state;
    start_up(1);
    w->world_fake->fake_octets = true;
    ASK("a", "rows:5", "err:22012", "c", "big:300", "d");
    w->world_fake->fake_octets = false;
    expect_answer(0);
    assert_int_equal(w->world_questions[1].question_rows, 5);
    assert_int_equal(OUTCOME(2), PG_ERROR);
    assert_string_equal(SQLSTATE(2), "22012");
    expect_answer(3);
    assert_int_equal(w->world_questions[4].question_octets, 304);
    expect_answer(5);
    expect_idle();
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

static void the_others_of_a_failed_batch_are_sent_again(void **state)
{
    (void)state;
    start_up(1);
    ASK("a", "b", "err:22012", "c", "err:23505", "d");
    assert_string_equal(w->world_fake->fake_log, "a b err:22012 c err:23505 d ");
    assert_string_equal(w->world_order, "a b err:22012 c err:23505 d ");
    expect_answer(0);
    expect_answer(1);
    expect_answer(3);
    expect_answer(5);
    assert_string_equal(SQLSTATE(2), "22012");
    assert_string_equal(SQLSTATE(4), "23505");
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(w->world_questions[i].question_restarts, 1); /* under a Sync of its own: once */
    assert_int_equal(COUNTED(retried), 3);
    assert_int_equal(COUNTED(errors), 2);
    assert_int_equal(COUNTED(disconnects), 0);
    expect_idle();
}

static void a_write_has_a_sync_of_its_own(void **state)
{
    unsigned syncs;

    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    syncs = w->world_fake->fake_syncs;
    ASK("a", "err:22012", "b");
    assert_int_equal(w->world_fake->fake_syncs - syncs, 3);
    expect_answer(0);
    assert_int_equal(OUTCOME(1), PG_ERROR);
    expect_answer(2);
    assert_int_equal(COUNTED(retried), 0);
    expect_idle();
}

static void a_write_is_done_when_it_is_committed(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    start_up(1);
    ASK("commit:23505", "commit:40001", "a");
    assert_int_equal(OUTCOME(0), PG_ERROR);
    assert_string_equal(SQLSTATE(0), "23505");
    assert_string_equal(SQLSTATE(1), "40001");
    expect_answer(2);
    expect_idle();
}

static void a_row_too_large_is_skipped(void **state)
{
    (void)state;
    start_up(1);
    ASK("a", "big:99980", "big:100000", "big:500000", "b");
    expect_answer(0);
    assert_int_equal(OUTCOME(1), PG_DONE);
    assert_int_equal(w->world_questions[1].question_octets, 99984);
    assert_int_equal(OUTCOME(2), PG_TOO_LARGE);
    assert_int_equal(OUTCOME(3), PG_TOO_LARGE);
    assert_int_equal(w->world_questions[3].question_rows, 0);
    expect_answer(4);
    assert_int_equal(COUNTED(disconnects), 0);
    expect_idle();
}

static void a_refused_row_ends_the_query_only(void **state)
{
    (void)state;
    start_up(1);
    w->world_questions[1].question_row_refused = true;
    ASK("a", "rows:9", "b");
    w->world_questions[1].question_row_refused = false;
    assert_int_equal(OUTCOME(1), PG_INTERNAL);
    assert_int_equal(w->world_questions[1].question_rows, 1);
    expect_answer(0);
    expect_answer(2);
}

static void what_cannot_be_bound_is_refused_and_leaves_no_trace(void **state)
{
    (void)state;
    start_up(1);
    w->world_questions[9].question_unbindable = true;
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(9, "x"), PG_INTERNAL);
    assert_int_equal(ask(1, "b"), PG_DONE);
    UNTIL(w->world_ended == 2);
    assert_string_equal(w->world_fake->fake_log, "a b ");
    expect_answer(0);
    expect_answer(1);
}

static void without_a_buffer_a_query_is_shed(void **state)
{
    struct buf *hog[4096];
    unsigned n = 0;

    (void)state;
    start_up(1);
    while ((hog[n] = buf_get(w->world_buffers, 1)) != NULL)
        n++;
    assert_int_equal(ask(0, "a"), PG_SHED_BUFFERS);
    while (n > 0)
        buf_put(w->world_buffers, &hog[--n]);
    ASK("a");
    expect_answer(0);
}

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

static void the_last_connection_lost_means_down(void **state)
{
    (void)state;
    start_up(1);
    w->world_conf.pool_max_inflight = 2;
    pg_pool_set_max_inflight(w->world_pool, 2);
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
    UNTIL(w->world_ended == 2);
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
    assert_int_equal(OUTCOME(1), PG_SHED_DOWN);
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

/* --- full, down, the queue -------------------------------------------------------------------------------------- */

static void full_is_queued_then_shed(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 2;
    w->world_conf.pool_queue = 1;
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_DONE);
    assert_int_equal(w->world_questions[2].question_query.query_state, QUERY_WAITING);
    assert_int_equal(ask(3, "d"), PG_SHED_FULL);
    UNTIL(w->world_ended == 3);
    assert_string_equal(w->world_order, "a b c ");
    expect_idle();
}

static void without_a_queue_full_is_shed_at_once(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 1;
    w->world_conf.pool_queue = 0;
    start_up(2);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_SHED_FULL);
    UNTIL(w->world_ended == 2);
    ASK("d");
    expect_answer(0);
}

static void who_waits_too_long_is_shed(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 1;
    w->world_conf.pool_queue_timeout_ms = 1000;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    assert_int_equal(ask(1, "a"), PG_DONE);
    assert_int_equal(ask(2, "b"), PG_DONE);
    turn();
    pg_pool_tick(w->world_pool, pg_now() + SECOND / 2);
    assert_int_equal(w->world_ended, 0);
    pg_pool_tick(w->world_pool, pg_now() + 2ull * SECOND);
    assert_int_equal(w->world_ended, 2);
    assert_int_equal(OUTCOME(1), PG_SHED_TIMEOUT);
    assert_int_equal(OUTCOME(2), PG_SHED_TIMEOUT);
    assert_int_equal(w->world_questions[0].question_ends, 0);
}

/* What the queue takes for sent without it. */
static void who_waited_does_not_count_as_one_who_did_not(void **state)
{
    struct pg_pool *p;

    (void)state;
    w->world_conf.pool_max_inflight = 2;
    start_up(1);
    p = w->world_pool;
    assert_int_equal(ask(0, "err:22012"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE); /* to be sent again */
    assert_int_equal(ask(2, "c"), PG_DONE);
    assert_int_equal(ask(3, "d"), PG_DONE);
    UNTIL(w->world_ended == 4);
    assert_int_equal(COUNTED(queries), 5);
    assert_int_equal(p->pool_counted, 5);
    p->pool_late = 9;
    p->pool_late_at = pg_now();
    ASK("e");
    pg_pool_tick(p, pg_now());
    assert_int_equal(p->pool_counted, 6);
    assert_int_equal(p->pool_late, 5);
}

static void more_slots_let_the_waiting_in(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 1;
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_WAITING);
    pg_pool_set_max_inflight(w->world_pool, 8);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_SENT);
    UNTIL(w->world_ended == 2);
}

static void without_a_server_it_starts_and_sheds(void **state)
{
    (void)state;
    fake_unlisten(w->world_fake);
    start(2);
    UNTIL(pg_pool_tried(w->world_pool));
    assert_int_equal(pg_pool_up(w->world_pool), 0);
    assert_int_equal(ask(0, "a"), PG_SHED_DOWN);
    assert_true(COUNTED(connect_failures) >= 2);
    assert_true(strlen(pg_pool_trouble(w->world_pool)) > 0);
    fake_listen(w->world_fake);
    UNTIL(pg_pool_up(w->world_pool) == 2);
    assert_string_equal(pg_pool_trouble(w->world_pool), "");
    ASK("a");
    expect_answer(0);
}

/* When the next connection is due, from now. */
static uint64_t next_try(void)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < w->world_pool->pool_config.config_connections; i++)
        if (w->world_pool->pool_all[i].conn_retry_at < least)
            least = w->world_pool->pool_all[i].conn_retry_at;
    return least > pg_now() ? least - pg_now() : 0;
}

static void while_all_are_down_one_of_them_keeps_trying(void **state)
{
    unsigned backed_off = 0;

    (void)state;
    w->world_conf.pool_reconnect_max_ms = 100000;
    w->world_fake->fake_no_login = "57P03";
    start(3);
    for (int i = 0; i < 10; i++) { /* all of them, whenever it is due */
        UNTIL(w->world_pool->pool_conns_n[CONN_DOWN] == 3);
        assert_true(next_try() <= SECOND * 2 / 5);
        pg_pool_tick(w->world_pool, pg_now() + 200ull * SECOND);
        assert_int_equal(w->world_pool->pool_conns_n[CONN_LINKING], 3);
    }
    UNTIL(w->world_pool->pool_conns_n[CONN_DOWN] == 3);
    for (unsigned i = 0; i < 3; i++)
        backed_off += w->world_pool->pool_all[i].conn_retry_at > pg_now() + 10ull * SECOND;
    assert_int_equal(backed_off, 2);
    w->world_fake->fake_no_login = NULL;
    pg_pool_tick(w->world_pool, pg_now() + SECOND * 2 / 5);
    while (pg_pool_up(w->world_pool) == 0)
        turn();
    assert_int_equal(w->world_pool->pool_conns_n[CONN_DOWN], 2); /* they follow at once */
    for (unsigned i = 0; i < 3; i++)
        if (w->world_pool->pool_all[i].conn_state == CONN_DOWN)
            assert_true(w->world_pool->pool_all[i].conn_retry_at <= pg_now() + SECOND / 4);
}

static void too_many_connections_backs_off(void **state)
{
    (void)state;
    w->world_conf.pool_reconnect_max_ms = 100000;
    w->world_fake->fake_no_login = "53300";
    start(1);
    UNTIL(pg_pool_tried(w->world_pool));
    assert_non_null(strstr(pg_pool_trouble(w->world_pool), "fake says 53300"));
    for (int i = 0; i < 6; i++) { /* whenever it is due: the pause grows */
        struct pg_conn *c = &w->world_pool->pool_all[0];
        unsigned failures = c->conn_failures;
        uint64_t pause = c->conn_retry_at - pg_now();

        assert_true(pause < 100ull * SECOND);
        assert_true(i < 3 || pause > 100000000u);
        pg_pool_tick(w->world_pool, c->conn_retry_at);
        while (c->conn_failures == failures)
            (void)event_base_loop(w->world_base, EVLOOP_ONCE);
    }
}

/* --- clients that leave ----------------------------------------------------------------------------------------- */

static void an_abandoned_query_keeps_its_place(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "rows:3"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_DONE);
    assert_false(pg_query_abandon(&w->world_questions[1].question_query));
    UNTIL(w->world_ended == 3);
    assert_string_equal(w->world_order, "a rows:3 c ");
    assert_int_equal(w->world_questions[1].question_rows, 0);
    expect_answer(2);
    assert_int_equal(COUNTED(abandoned), 1);
}

static void a_waiting_query_leaves_at_once(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 1;
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_DONE);
    assert_true(pg_query_abandon(&w->world_questions[1].question_query));
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_IDLE);
    UNTIL(w->world_ended == 2);
    assert_string_equal(w->world_order, "a c ");
    assert_int_equal(w->world_questions[1].question_ends, 0);
}

static void a_skipped_abandoned_query_is_not_sent_again(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "err:22012"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(ask(2, "c"), PG_DONE);
    assert_false(pg_query_abandon(&w->world_questions[1].question_query));
    UNTIL(w->world_ended == 3);
    assert_string_equal(w->world_fake->fake_log, "err:22012 c ");
}

static void an_abandoned_query_that_runs_on_is_cancelled(void **state)
{
    struct pg_conn *c;

    (void)state;
    start_up(1);
    c = &w->world_pool->pool_all[0];
    assert_int_equal(ask(0, "hang"), PG_DONE);
    turn();
    assert_false(pg_query_abandon(&w->world_questions[0].question_query));
    pg_pool_tick(w->world_pool, pg_now());
    assert_int_equal(c->conn_state, CONN_CANCELLING);
    /* Nothing is sent behind it: it could be hit. */
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_WAITING);
    UNTIL(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 1);
    assert_int_equal(w->world_fake->fake_cancel_pid, 1000);
    assert_int_equal(w->world_fake->fake_cancel_key, 0x80000000u + 1000);
    expect_answer(1);
    assert_int_equal(COUNTED(cancelled), 1);
    assert_int_equal(c->conn_state, CONN_READY);
}

static void a_neighbour_is_never_cancelled(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    turn();
    assert_false(pg_query_abandon(&w->world_questions[0].question_query));
    pg_pool_tick(w->world_pool, pg_now() + 2ull * SECOND);
    turn();
    assert_int_equal(w->world_pool->pool_all[0].conn_state, CONN_READY);
    assert_int_equal(w->world_fake->fake_cancels, 0);
    /* When the neighbour leaves too, there is nobody to hurt. */
    assert_false(pg_query_abandon(&w->world_questions[1].question_query));
    pg_pool_tick(w->world_pool, pg_now() + 2ull * SECOND);
    UNTIL(w->world_ended == 2);
    assert_int_equal(w->world_fake->fake_cancels, 1);
}

static void a_stray_cancel_is_not_the_clients_problem(void **state)
{
    (void)state;
    start_up(1);
    w->world_pool->pool_all[0].conn_cancel_at = pg_now();
    ASK("err:57014"); /* fails each time: once it is excused, then it is believed */
    assert_int_equal(w->world_questions[0].question_restarts, 1);
    assert_string_equal(SQLSTATE(0), "57014");
    w->world_pool->pool_all[0].conn_cancel_at = 0;
    ASK("err:57014");
    assert_int_equal(w->world_questions[0].question_restarts, 0);
    assert_string_equal(SQLSTATE(0), "57014");
}

static void a_server_that_falls_silent_is_given_up(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(ask(0, "hang"), PG_DONE);
    turn();
    pg_pool_tick(w->world_pool, pg_now() + 9ull * SECOND);
    assert_int_equal(w->world_ended, 0);
    pg_pool_tick(w->world_pool, pg_now() + 20ull * SECOND);
    assert_int_equal(w->world_ended, 1);
    assert_int_equal(OUTCOME(0), PG_SHED_DOWN);
}

static void a_long_idle_connection_is_not_taken_for_silent(void **state)
{
    struct pg_conn *c;

    (void)state;
    start_up(1);
    c = &w->world_pool->pool_all[0];
    ASK("a", "err:22012", "b");
    assert_int_equal(c->conn_busy_since, 0);
    assert_int_equal(ask(0, "c"), PG_DONE);
    pg_pool_tick(w->world_pool, pg_now() + 60ull * SECOND); /* before it is sent */
    assert_int_equal(COUNTED(disconnects), 0);
    UNTIL(w->world_ended == 4);
    expect_answer(0);
}

/* --- sessions that are reset ------------------------------------------------------------------------------------ */

#define RESETS (w->world_statement.statement_resets)

static void a_reset_follows_what_may_change_its_session(void **state)
{
    unsigned syncs;

    (void)state;
    w->world_fake->fake_reach = "f";
    start_up(1);
    assert_true(RESETS);
    assert_int_equal(w->world_fake->fake_reaches, 1);
    syncs = w->world_fake->fake_syncs;
    ASK("a", "err:22012", "b");
    assert_string_equal(w->world_order, "a err:22012 b ");
    expect_answer(0);
    assert_string_equal(SQLSTATE(1), "22012");
    expect_answer(2);
    assert_int_equal(w->world_questions[2].question_restarts, 0);
    assert_int_equal(w->world_fake->fake_syncs - syncs, 3);
    UNTIL(w->world_fake->fake_resets == 3);
    assert_int_equal(COUNTED(resets), 3);
    assert_int_equal(COUNTED(syncs), 3);
    assert_int_equal(COUNTED(disconnects), 0);
    expect_idle();
    assert_true(conn_serving(w->world_pool));
}

static void the_setting_has_the_last_word(void **state)
{
    (void)state;
    w->world_fake->fake_reach = "f";
    w->world_conf.pool_reset = RESET_NEVER;
    start_up(1);
    assert_false(RESETS);
    assert_int_equal(w->world_fake->fake_reaches, 0);
    pg_pool_tick(w->world_pool, pg_now() + 200ull * SECOND);
    turn();
    assert_int_equal(w->world_fake->fake_reaches, 0);
    pg_pool_free(&w->world_pool);
    w->world_fake->fake_reach = NULL;
    w->world_conf.pool_reset = RESET_ALWAYS;
    start_up(1);
    assert_true(RESETS);
    assert_int_equal(w->world_fake->fake_reaches, 0);
}

static void what_is_not_known_is_reset(void **state)
{
    (void)state;
    w->world_fake->fake_no_reach = "42501";
    start_up(1);
    assert_true(RESETS);
    w->world_fake->fake_no_reach = NULL;
    fake_break_all(w->world_fake);
    UNTIL(COUNTED(disconnects) == 1 && pg_pool_up(w->world_pool) == 1);
    assert_false(RESETS);
}

/* Of what is asked in one turn. */
static void the_others_share_their_syncs(void **state)
{
    static const char *const values[] = {"a", "b", "c", "d", "e", "f", "g", NULL};

    (void)state;
    start_up(1);
    assert_false(RESETS);
    w->world_fake->fake_octets = true;
    for (unsigned i = 0; values[i] != NULL; i++) {
        RESETS = i == 2 || i == 5 || i == 6;
        assert_int_equal(ask(i, values[i]), PG_DONE);
    }
    UNTIL(w->world_ended == 7);
    for (unsigned i = 0; i < 7; i++)
        expect_answer(i);
    assert_string_equal(w->world_order, "a b c d e f g ");
    UNTIL(w->world_fake->fake_resets == 3);
    assert_int_equal(COUNTED(syncs), 5); /* a b, c, d e, f, g */
    assert_int_equal(COUNTED(resets), 3);
    UNTIL(w->world_pool->pool_all[0].conn_resets == 0);
    RESETS = false;
    ASK("h", "i");
    assert_int_equal(COUNTED(syncs), 6);
    assert_int_equal(COUNTED(disconnects), 0);
}

static void what_is_reported_is_set_back(void **state)
{
    (void)state;
    w->world_fake->fake_reach = "f";
    start_up(1);
    ASK("set", "a");
    UNTIL(w->world_fake->fake_resets == 2);
    expect_answer(1);
    assert_int_equal(COUNTED(disconnects), 0);
    UNTIL(w->world_pool->pool_all[0].conn_resets == 0);
    RESETS = false;
    ASK("set");
    UNTIL(COUNTED(disconnects) == 1 && pg_pool_up(w->world_pool) == 1);
}

static void a_failed_reset_costs_the_connection(void **state)
{
    (void)state;
    w->world_fake->fake_reach = "f";
    w->world_fake->fake_no_reset = "57014";
    start_up(1);
    RESETS = true;
    assert_int_equal(ask(0, "a"), PG_DONE);
    RESETS = false;
    assert_int_equal(ask(1, "b"), PG_DONE); /* behind it, in a session that is as it should not be */
    UNTIL(w->world_questions[0].question_ends == 1 && COUNTED(disconnects) == 1);
    expect_answer(0);
    assert_int_equal(w->world_questions[1].question_rows, 0);
    assert_int_equal(OUTCOME(1), PG_SHED_DOWN); /* there is no other */
    UNTIL(pg_pool_up(w->world_pool) == 1);
    w->world_fake->fake_no_reset = NULL;
    ASK("c");
    expect_answer(0);
    assert_int_equal(COUNTED(disconnects), 1);
}

static void a_write_waits_for_the_reset(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    w->world_fake->fake_reach = "f";
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[0].question_query.query_state, QUERY_SENT);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_WAITING);
    UNTIL(w->world_ended == 2);
    expect_answer(0);
    expect_answer(1);
    UNTIL(w->world_pool->pool_all[0].conn_resets == 0);
    RESETS = false; /* one that does not is not held up */
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_SENT);
    UNTIL(w->world_ended == 4);
}

static void slots_behind_a_reset_count(void **state)
{
    (void)state;
    w->world_conf.pool_read_only = false;
    w->world_conf.pool_queue = 0;
    w->world_conf.pool_max_inflight = 2;
    w->world_conf.pool_reset = RESET_ALWAYS;
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    assert_int_equal(w->world_questions[1].question_query.query_state, QUERY_WAITING);
    assert_int_equal(ask(2, "c"), PG_SHED_FULL);
    UNTIL(w->world_ended == 2);
    expect_answer(0);
    expect_answer(1);
    UNTIL(w->world_pool->pool_all[0].conn_resets == 0);
    expect_idle();
}

static void a_reset_without_an_answer_is_given_up(void **state)
{
    (void)state;
    w->world_fake->fake_reach = "f";
    w->world_fake->fake_no_reset = "";
    start_up(1);
    pg_pool_tick(w->world_pool, pg_now() + 50ull * SECOND); /* idle for long */
    assert_int_equal(ask(0, "a"), PG_DONE);
    pg_pool_tick(w->world_pool, pg_now() + 50ull * SECOND); /* before it is sent */
    assert_int_equal(COUNTED(disconnects), 0);
    UNTIL(w->world_ended == 1 && w->world_fake->fake_resets == 1);
    expect_answer(0);
    pg_pool_tick(w->world_pool, pg_now() + 9ull * SECOND);
    assert_int_equal(COUNTED(disconnects), 0);
    pg_pool_tick(w->world_pool, pg_now() + 20ull * SECOND);
    assert_int_equal(COUNTED(disconnects), 1);
}

static void a_lost_connection_owes_no_reset(void **state)
{
    (void)state;
    w->world_fake->fake_reach = "f";
    start_up(1);
    ASK("a");
    w->world_ended = 0;
    assert_int_equal(ask(0, "hang"), PG_DONE);
    assert_int_equal(ask(1, "b"), PG_DONE);
    turn();
    fake_break_all(w->world_fake);
    UNTIL(w->world_ended == 2);
    UNTIL(pg_pool_up(w->world_pool) == 1);
    ASK("c", "d");
    expect_answer(0);
    expect_answer(1);
    expect_idle();
    assert_int_equal(COUNTED(disconnects), 1);
}

/* The query with its reset, or neither. */
static void without_a_buffer_neither_is_sent(void **state)
{
    struct buf *hog[4096];
    unsigned n = 0, sent;

    (void)state;
    w->world_conf.pool_max_inflight = QUERIES;
    w->world_fake->fake_reach = "f";
    start_up(1);
    assert_int_equal(ask(0, "a"), PG_DONE); /* a block that has room for some more */
    while ((hog[n] = buf_get(w->world_buffers, 1)) != NULL)
        n++;
    for (sent = 1; sent < QUERIES && ask(sent, "a") == PG_DONE; sent++)
        ;
    assert_in_range(sent, 2, QUERIES - 1);
    while (n > 0)
        buf_put(w->world_buffers, &hog[--n]);
    UNTIL(w->world_ended == sent && w->world_fake->fake_resets == sent);
    assert_int_equal(COUNTED(resets), sent);
    assert_int_equal(COUNTED(disconnects), 0);
    ASK("b");
    expect_answer(0);
}

static void the_catalogue_is_asked_again(void **state)
{
    unsigned parses;

    (void)state;
    start_up(2);
    assert_int_equal(w->world_fake->fake_reaches, 2);
    parses = w->world_fake->fake_parses;
    w->world_fake->fake_reach = "f"; /* somebody replaced it */
    pg_pool_tick(w->world_pool, pg_now() + 50ull * SECOND);
    turn();
    assert_int_equal(w->world_fake->fake_reaches, 2);
    pg_pool_tick(w->world_pool, pg_now() + 65ull * SECOND);
    UNTIL(w->world_fake->fake_reaches == 3 && pg_pool_up(w->world_pool) == 2);
    assert_true(RESETS);
    assert_int_equal(w->world_fake->fake_parses, parses); /* nothing else */
    assert_int_equal(COUNTED(disconnects), 0);
    ASK("a", "b");
    expect_answer(1);
    assert_int_equal(COUNTED(resets), 2);
}

/* What becomes ready, or is another, is taken to change its session until it has been asked for; what is the same was.
 */
static void news_are_asked_about(void **state)
{
    (void)state;
    w->world_fake->fake_refuse = "42883";
    start_up(1);
    assert_int_equal(w->world_fake->fake_reaches, 1);
    w->world_fake->fake_refuse = NULL; /* somebody made the function */
    assert_int_equal(ask(0, "a"), PG_BROKEN);
    pg_pool_tick(w->world_pool, pg_now() + 2ull * SECOND);
    UNTIL(w->world_statement.statement_state == STATEMENT_READY);
    assert_true(RESETS);
    assert_int_equal(w->world_fake->fake_reaches, 1);
    UNTIL(!RESETS);
    assert_int_equal(w->world_fake->fake_reaches, 2);
    w->world_fake->fake_stale = 1;
    ASK("stale");
    assert_int_equal(OUTCOME(0), PG_DONE);
    assert_int_equal(w->world_fake->fake_deallocates, 2);
    w->world_fake->fake_column_oid = 23;
    w->world_fake->fake_reach = "f";
    w->world_fake->fake_stale = 1;
    assert_int_equal(ask(0, "stale"), PG_DONE);
    UNTIL(w->world_fake->fake_reaches == 3 && pg_pool_up(w->world_pool) == 1);
    assert_true(RESETS);
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static void a_stopped_pool_finishes_and_says_goodbye(void **state)
{
    (void)state;
    start_up(2);
    assert_int_equal(ask(0, "a"), PG_DONE);
    pg_pool_stop(w->world_pool);
    UNTIL(w->world_ended == 1);
    expect_answer(0);
    UNTIL(pg_pool_up(w->world_pool) == 0);
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(w->world_fake->fake_terminates, 2);
    pg_pool_tick(w->world_pool, pg_now() + 60ull * SECOND);
    turn();
    assert_int_equal(pg_pool_up(w->world_pool), 0); /* and does not come back */
    assert_int_equal(ask(1, "b"), PG_SHED_DOWN);
}

static void a_freed_pool_gives_every_query_back(void **state)
{
    (void)state;
    w->world_conf.pool_max_inflight = 2;
    start_up(1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ask(i, "hang"), PG_DONE);
    turn();
    pg_pool_free(&w->world_pool);
    assert_int_equal(w->world_ended, 4);
}

static void nothing_is_allocated_once_it_is_up(void **state)
{
    uint64_t steady;
    enum alloc_scope old;

    (void)state;
    start_up(2);
    ASK("a", "b");
    alloc_ready();
    old = alloc_enter(ALLOC_PG);
    steady = stats.stats_worker[STAT_alloc_pg];
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ask(i, i % 5 == 3 ? "err:22012" : "rows:20"), PG_DONE);
    pg_pool_flush(w->world_pool, pg_now());
    alloc_leave(old);
    for (unsigned i = 0; i < 100; i++)
        (void)event_base_loop(w->world_base, EVLOOP_NONBLOCK), pg_pool_flush(w->world_pool, pg_now());
    assert_int_equal(stats.stats_worker[STAT_alloc_pg], steady); /* the fake's are counted elsewhere */
    assert_int_equal(w->world_ended, 22);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_statement_is_described_once),
        TEST(queries_of_one_turn_share_a_sync),
        TEST(a_batch_holds_sync_batch_queries),
        TEST(slow_queries_spread_out),
        TEST(every_octet_on_its_own_changes_nothing),
        TEST(the_others_of_a_failed_batch_are_sent_again),
        TEST(a_write_has_a_sync_of_its_own),
        TEST(a_write_is_done_when_it_is_committed),
        TEST(a_row_too_large_is_skipped),
        TEST(a_refused_row_ends_the_query_only),
        TEST(what_cannot_be_bound_is_refused_and_leaves_no_trace),
        TEST(without_a_buffer_a_query_is_shed),
        TEST(a_lost_read_is_tried_on_another_connection),
        TEST(the_last_connection_lost_means_down),
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
        TEST(an_owners_objection_breaks_the_statement),
        TEST(a_passing_trouble_does_not_break_a_statement),
        TEST(full_is_queued_then_shed),
        TEST(without_a_queue_full_is_shed_at_once),
        TEST(who_waits_too_long_is_shed),
        TEST(who_waited_does_not_count_as_one_who_did_not),
        TEST(more_slots_let_the_waiting_in),
        TEST(without_a_server_it_starts_and_sheds),
        TEST(while_all_are_down_one_of_them_keeps_trying),
        TEST(too_many_connections_backs_off),
        TEST(an_abandoned_query_keeps_its_place),
        TEST(a_waiting_query_leaves_at_once),
        TEST(a_skipped_abandoned_query_is_not_sent_again),
        TEST(an_abandoned_query_that_runs_on_is_cancelled),
        TEST(a_neighbour_is_never_cancelled),
        TEST(a_stray_cancel_is_not_the_clients_problem),
        TEST(a_server_that_falls_silent_is_given_up),
        TEST(a_long_idle_connection_is_not_taken_for_silent),
        TEST(a_reset_follows_what_may_change_its_session),
        TEST(the_setting_has_the_last_word),
        TEST(what_is_not_known_is_reset),
        TEST(the_others_share_their_syncs),
        TEST(what_is_reported_is_set_back),
        TEST(a_failed_reset_costs_the_connection),
        TEST(a_write_waits_for_the_reset),
        TEST(slots_behind_a_reset_count),
        TEST(a_reset_without_an_answer_is_given_up),
        TEST(a_lost_connection_owes_no_reset),
        TEST(without_a_buffer_neither_is_sent),
        TEST(the_catalogue_is_asked_again),
        TEST(news_are_asked_about),
        TEST(a_stopped_pool_finishes_and_says_goodbye),
        TEST(a_freed_pool_gives_every_query_back),
        TEST(nothing_is_allocated_once_it_is_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
