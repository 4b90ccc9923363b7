/* Sessions that are reset behind what may change them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/pg/batch.c"

#include "tests/unit/pool_world.h"

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
    w->world_fake->fake_reach = NULL;       /* and so it stays */
    assert_int_equal(ask(1, "b"), PG_DONE); /* behind it, in a session that is as it should not be */
    UNTIL(w->world_questions[0].question_ends == 1 && COUNTED(disconnects) == 1);
    expect_answer(0);
    assert_int_equal(w->world_questions[1].question_rows, 0);
    UNTIL(w->world_questions[1].question_ends == 1);
    expect_answer(1); /* in the session that is made instead */
    assert_int_equal(w->world_questions[1].question_restarts, 1);
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
    UNTIL_FINISHED(w->world_ended == 2);
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
    UNTIL_UNTICKED(w->world_fake->fake_reaches == 3 && w->world_pool->pool_conns_n[CONN_READY] == 2);
    assert_true(RESETS);
    assert_int_equal(w->world_fake->fake_parses, parses); /* nothing else */
    assert_int_equal(COUNTED(disconnects), 0);
    UNTIL(COUNTED(connects) == 4 && pg_pool_up(w->world_pool) == 2); /* their sessions may have been changed before */
    assert_int_equal(COUNTED(disconnects), 2);
    ASK("a", "b");
    expect_answer(1);
    assert_int_equal(COUNTED(resets), 2);
}

/* The longer it takes, the more seldom; and never when it takes the only connection for longer than anybody waits. */
static void a_long_question_is_rare(void **state)
{
    (void)state;
    start_up(2);
    assert_int_equal(w->world_fake->fake_reaches, 2);
    w->world_pool->pool_reach_ns = SECOND;
    pg_pool_tick(w->world_pool, pg_now() + 590ull * SECOND);
    turn();
    assert_int_equal(w->world_fake->fake_reaches, 2);
    pg_pool_tick(w->world_pool, pg_now() + 605ull * SECOND);
    UNTIL(w->world_fake->fake_reaches == 3 && pg_pool_up(w->world_pool) == 2);
    assert_true(w->world_pool->pool_reach_ns < SECOND);
}

static void the_only_connection_is_not_away_for_long(void **state)
{
    (void)state;
    start_up(1);
    assert_int_equal(w->world_fake->fake_reaches, 1);
    w->world_pool->pool_reach_ns = w->world_conf.pool_queue_timeout_ms * 1000000ull + 1;
    pg_pool_tick(w->world_pool, pg_now() + 40000ull * SECOND);
    turn();
    assert_int_equal(w->world_fake->fake_reaches, 1);
    w->world_pool->pool_reach_ns--;
    pg_pool_tick(w->world_pool, pg_now() + 40000ull * SECOND);
    UNTIL(w->world_fake->fake_reaches == 2 && pg_pool_up(w->world_pool) == 1);
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
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
        TEST(a_long_question_is_rare),
        TEST(the_only_connection_is_not_away_for_long),
        TEST(news_are_asked_about),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
