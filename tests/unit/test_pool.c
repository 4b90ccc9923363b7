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

/* What is usually quick hangs for once. */
static void nobody_goes_behind_what_is_stuck(void **state)
{
    const struct pg_conn *stuck;

    (void)state;
    for (unsigned read_only = 0; read_only < 2; read_only++) {
        pg_pool_free(&w->world_pool);
        w->world_conf.pool_read_only = read_only;
        start_up(2);
        pg_pool_set_max_inflight(w->world_pool, 2);
        assert_int_equal(ask(0, "hang"), PG_DONE);
        stuck = w->world_questions[0].question_query.query_conn;
        pg_pool_flush(w->world_pool, pg_now());
        w->world_questions[0].question_query.query_conn->conn_busy_since -= SECOND;
        for (unsigned i = 1; i < 4; i++) {
            assert_int_equal(ask(i, "hang"), PG_DONE);
            pg_pool_flush(w->world_pool, pg_now());
            /* But for who has no other slot. */
            assert_true((w->world_questions[i].question_query.query_conn == stuck) == (i == 3));
        }
        w->world_ended = 0;
        UNTIL_FINISHED(w->world_ended == 4);
    }
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
    assert_int_equal(COUNTED(disconnects), 0);
    pg_pool_tick(w->world_pool, pg_now() + 20ull * SECOND);
    assert_int_equal(COUNTED(disconnects), 1);
    UNTIL_FINISHED(w->world_ended == 1); /* it was sent once more */
    expect_answer(0);
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
        TEST(nobody_goes_behind_what_is_stuck),
        TEST(every_octet_on_its_own_changes_nothing),
        TEST(the_others_of_a_failed_batch_are_sent_again),
        TEST(a_write_has_a_sync_of_its_own),
        TEST(a_write_is_done_when_it_is_committed),
        TEST(a_row_too_large_is_skipped),
        TEST(a_refused_row_ends_the_query_only),
        TEST(what_cannot_be_bound_is_refused_and_leaves_no_trace),
        TEST(without_a_buffer_a_query_is_shed),
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
        TEST(a_stopped_pool_finishes_and_says_goodbye),
        TEST(a_freed_pool_gives_every_query_back),
        TEST(nothing_is_allocated_once_it_is_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
