/*
 * What tests of the pool share: a pool in front of a PostgreSQL that misbehaves on demand (fake_postgres.h), and
 * questions whose value says what happens to them.
 */
#ifndef VANILLA_TESTS_UNIT_POOL_WORLD_H
#define VANILLA_TESTS_UNIT_POOL_WORLD_H

#include "tests/unit/fake_postgres.h"
#include "worker/mem/alloc.h"
#include "worker/pg/conn.h"

#define QUERIES 64
#define SECOND 1000000000u

struct question {
    struct pg_query question_query;
    char question_value[32];
    bool question_unbindable, question_row_refused;
    unsigned question_rows, question_restarts, question_ends, question_looks;
    bool question_left;            /* of which nobody was told */
    unsigned question_takes_along; /* how many of the questions are abandoned when this one ends, itself aside */
    size_t question_octets;        /* of all its rows' cells */
    char question_last[64];        /* the last row's value */
    enum pg_outcome question_outcome;
    char question_sqlstate[6];
};

struct world {
    struct event_base *world_base;
    struct buffers *world_buffers;
    struct fake *world_fake;
    struct conf_pool world_conf;
    char world_conninfo[128];
    struct pg_statement world_statement;
    unsigned world_described;
    const char *world_objection; /* what statement_described says */
    struct pg_pool *world_pool;
    struct question world_questions[QUERIES];
    unsigned world_ended;
    char world_order[1024]; /* values in the order in which their queries ended */
};

static struct world *w;

static void quiet(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void quiet(int level, const char *fmt, ...)
{
    va_list ap;

    if (getenv("TEST_VERBOSE") == NULL)
        return;
    va_start(ap, fmt);
    fprintf(stderr, "log %d: ", level);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static int question_bind(struct pg_query *q, struct out *o)
{
    const struct question *x = (const struct question *)q;
    size_t n = strlen(x->question_value);
    unsigned char head[6] = {0, 1};

    if (x->question_unbindable)
        return -1;
    codec_put_be32(head + 2, (uint32_t)n);
    out_write(o, head, sizeof head);
    out_write(o, x->question_value, n);
    return 0;
}

static int question_row(struct pg_query *q, char *cells, size_t len, unsigned columns)
{
    struct question *x = (struct question *)q;
    size_t n = len - 4;

    assert_int_equal(x->question_ends, 0);
    assert_false(q->query_abandoned);
    assert_int_equal(columns, 1);
    assert_int_equal(codec_be32((unsigned char *)cells), n);
    x->question_rows++;
    x->question_octets += len;
    if (n >= sizeof x->question_last)
        n = sizeof x->question_last - 1;
    memcpy(x->question_last, cells + 4, n);
    x->question_last[n] = '\0';
    return x->question_row_refused ? -1 : 0;
}

static void question_restart(struct pg_query *q)
{
    struct question *x = (struct question *)q;

    x->question_rows = 0;
    x->question_restarts++;
}

static void question_done(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error)
{
    struct question *x = (struct question *)q;

    assert_int_equal(q->query_state, QUERY_IDLE);
    assert_true((outcome == PG_ERROR) == (error != NULL));
    x->question_ends++;
    x->question_outcome = outcome;
    if (error != NULL)
        memcpy(x->question_sqlstate, error->error_sqlstate, 6);
    w->world_ended++;
    strcat(strcat(w->world_order, x->question_value), " ");
    for (unsigned i = 0; i < x->question_takes_along; i++)
        if (&w->world_questions[i] != x)
            assert_false(pg_query_abandon(&w->world_questions[i].question_query));
}

static void question_long(struct pg_query *q)
{
    struct question *x = (struct question *)q;

    x->question_looks++;
    if (x->question_left)
        assert_false(pg_query_abandon(q));
}

static const struct pg_query_ops question_ops = {question_bind, question_row, question_restart, question_done,
                                                 question_long};

static const char *described(struct pg_statement *s, void *arg)
{
    (void)arg;
    assert_ptr_equal(s, &w->world_statement);
    assert_int_equal(alloc_scope_now, ALLOC_CONNECT);
    w->world_described++;
    return w->world_objection;
}

static int setup(void **state)
{
    (void)state;
    w = calloc(1, sizeof *w);
    w->world_base = event_base_new();
    w->world_buffers = buffers_new(8 << 20);
    w->world_fake = fake_new(w->world_base);
    snprintf(w->world_conninfo, sizeof w->world_conninfo, "host=%s port=5432 dbname=app user=u sslmode=disable",
             w->world_fake->fake_dir);
    w->world_conf = (struct conf_pool){.pool_name = "p",
                                       .pool_conninfo = w->world_conninfo,
                                       .pool_max_inflight = 32,
                                       .pool_sync_batch = 32,
                                       .pool_batch_us = 100000,
                                       .pool_queue = 16,
                                       .pool_queue_timeout_ms = 60000,
                                       .pool_statement_timeout_ms = 5000,
                                       .pool_reconnect_max_ms = 100,
                                       .pool_abandon_ms = 1000,
                                       .pool_read_only = true};
    w->world_statement = (struct pg_statement){.magic = PG_STATEMENT_MAGIC,
                                               .statement_sql = "SELECT $1",
                                               .statement_index = 7,
                                               .statement_described = described};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pg_pool_free(&w->world_pool);
    assert_int_equal(buffers_used(w->world_buffers), 0);
    fake_free(w->world_fake);
    event_base_free(w->world_base);
    buffers_free(&w->world_buffers);
    free(w);
    return 0;
}

static void turn(void)
{
    pg_pool_flush(w->world_pool, pg_now());
    (void)event_base_loop(w->world_base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
    pg_pool_flush(w->world_pool, pg_now());
}

/* Turns the loop until the condition holds; fails when it does not within some seconds. */
#define UNTIL(condition) UNTIL_EACH(condition, pg_pool_tick(w->world_pool, pg_now()))
/* As long as that, nothing is left to a tick. */
#define UNTIL_UNTICKED(condition) UNTIL_EACH(condition, (void)0)
/* What hangs is answered after all. */
#define UNTIL_FINISHED(condition) UNTIL_EACH(condition, fake_finish_all(w->world_fake))
#define UNTIL_EACH(condition, each)                              \
    do {                                                         \
        uint64_t until_start = pg_now();                         \
        while (!(condition)) {                                   \
            assert_true(pg_now() - until_start < 8ull * SECOND); \
            turn();                                              \
            each;                                                \
        }                                                        \
    } while (0)

static void start(unsigned connections)
{
    const struct pg_pool_config config = {.config_base = w->world_base,
                                          .config_buffers = w->world_buffers,
                                          .config_pool = &w->world_conf,
                                          .config_connections = connections,
                                          .config_message_max = 100000,
                                          .config_log = quiet};

    memset(stats.stats_pools[0].pool_counters, 0, sizeof stats.stats_pools[0].pool_counters);
    w->world_pool = pg_pool_new(&config);
    assert_non_null(w->world_pool);
    pg_pool_add_statement(w->world_pool, &w->world_statement);
    pg_pool_start(w->world_pool);
}

static inline void start_up(unsigned connections)
{
    start(connections);
    UNTIL(pg_pool_up(w->world_pool) == connections);
}

static enum pg_outcome ask(unsigned i, const char *value)
{
    struct question *x = &w->world_questions[i];
    enum pg_outcome outcome;

    memset(&x->question_query, 0, sizeof x->question_query);
    x->question_query.magic = PG_QUERY_MAGIC;
    x->question_query.query_statement = &w->world_statement;
    x->question_query.query_ops = &question_ops;
    snprintf(x->question_value, sizeof x->question_value, "%s", value);
    x->question_rows = x->question_ends = x->question_restarts = 0;
    x->question_octets = 0;
    outcome = pg_pool_submit(w->world_pool, &x->question_query, pg_now());
    assert_int_equal(x->question_ends, 0); /* never from inside */
    return outcome;
}

/* Asks all, in one turn; waits for all. */
static inline void ask_all(const char *const *values)
{
    unsigned n = 0;

    w->world_ended = 0;
    w->world_order[0] = w->world_fake->fake_log[0] = '\0';
    while (values[n] != NULL) {
        assert_int_equal(ask(n, values[n]), PG_DONE);
        n++;
    }
    UNTIL(w->world_ended == n);
    for (int extra = 0; extra < 5; extra++)
        turn();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(w->world_questions[i].question_ends, 1);
}

#define ASK(...) ask_all((const char *const[]){__VA_ARGS__, NULL})
#define OUTCOME(i) (w->world_questions[i].question_outcome)
#define SQLSTATE(i) (w->world_questions[i].question_sqlstate)
#define COUNTED(name) (stats.stats_pools[0].pool_counters[STAT_pool_##name])

static inline void expect_answer(unsigned i)
{
    const struct question *x = &w->world_questions[i];

    assert_int_equal(x->question_outcome, PG_DONE);
    assert_int_equal(x->question_rows, 1);
    assert_string_equal(x->question_last, x->question_value);
}

static inline void expect_idle(void)
{
    pg_pool_tick(w->world_pool, pg_now());
    assert_int_equal(COUNTED(inflight), 0);
    assert_int_equal(COUNTED(waiting), 0);
}

#endif
