/*
 * What a server may send: whole or in pieces the outcome is the same, every query ends exactly once, nothing is left
 * behind.  The first octet says read-only or not, behind a pooler or not and how to cut, the second how many queries
 * are in flight and which of them is abandoned, the rest is what the server answers.
 */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/pg/conn.c"

#define QUERIES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct asked {
    struct pg_query asked_query;
    unsigned asked_rows, asked_ends, asked_restarts;
    uint32_t asked_sum;
    enum pg_outcome asked_outcome;
    char asked_sqlstate[6];
};

struct run {
    struct asked run_asked[QUERIES];
    unsigned run_n, run_restarts;
    bool run_lost;
};

static struct event_base *base;
static struct buffers *buffers;

static void quiet(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void quiet(int level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

static void never(int fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

static int bind_nothing(struct pg_query *q, struct out *o)
{
    (void)q;
    out_write(o, "\0\0", 2);
    return 0;
}

static int take_row(struct pg_query *q, char *cells, size_t len, unsigned columns)
{
    struct asked *a = (struct asked *)q;

    AN(a->asked_ends == 0 && !q->query_abandoned);
    a->asked_rows++;
    a->asked_sum += columns;
    for (size_t i = 0; i < len; i++) {
        a->asked_sum = a->asked_sum * 31 + (unsigned char)cells[i];
        cells[i] = 'x'; /* ours to write on */
    }
    return len > 3 && len % 7 == 0 ? -1 : 0;
}

static void restart(struct pg_query *q)
{
    struct asked *a = (struct asked *)q;

    a->asked_restarts++;
    a->asked_rows = 0;
    a->asked_sum = 0;
}

static void done(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error)
{
    struct asked *a = (struct asked *)q;

    AN(++a->asked_ends == 1);
    AN((outcome == PG_ERROR) == (error != NULL));
    a->asked_outcome = outcome;
    if (error != NULL) {
        memcpy(a->asked_sqlstate, error->error_sqlstate, 6);
        AN(strlen(a->asked_sqlstate) == 5);
        a->asked_sum += error->error_message != NULL ? (uint32_t)strlen(error->error_message) : 0;
    }
}

static const struct pg_query_ops ops = {bind_nothing, take_row, restart, done, NULL};

/* A connection without a server behind it: what libpq would have made, but its socket is ours. */
static struct pg_conn *conn_make(struct pg_pool *p, int fd)
{
    struct pg_conn *c = &p->pool_all[0];

    c->conn_pq.link_pg = PQconnectStart("host=/nonexistent");
    c->conn_fd = fd;
    p->pool_space.space_size = 64; /* small, so that small inputs reach all of the reader */
    c->conn_reader.reader_max = 300;
    c->conn_up = true;
    AZ(event_assign(&c->conn_event, base, fd, EV_READ | EV_ET | EV_PERSIST, never, c));
    conn_move(c, CONN_READY);
    return c;
}

static void answer(struct run *r, uint8_t how, uint8_t what, const uint8_t *data, size_t size, size_t step)
{
    const struct conf_pool conf = {.pool_name = "p",
                                   .pool_conninfo = "",
                                   .pool_max_inflight = QUERIES,
                                   .pool_sync_batch = 3,
                                   .pool_batch_us = 1000000000,
                                   .pool_queue = 1,
                                   .pool_queue_timeout_ms = 1000000,
                                   .pool_reconnect_max_ms = 1000,
                                   .pool_read_only = how & 1,
                                   .pool_pooler = how & 64};
    const struct pg_pool_config config = {.config_base = base,
                                          .config_buffers = buffers,
                                          .config_pool = &conf,
                                          .config_connections = 1,
                                          .config_message_max = 300,
                                          .config_log = quiet};
    struct pg_statement s = {.magic = PG_STATEMENT_MAGIC, .statement_sql = "SELECT 1", .statement_index = 1};
    struct pg_pool *p = pg_pool_new(&config);
    struct pg_conn *c;
    int fds[2];

    AN(p);
    memset(r, 0, sizeof *r);
    pg_pool_add_statement(p, &s);
    s.statement_state = STATEMENT_READY;
    AZ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
    c = conn_make(p, fds[0]);
    r->run_n = what % QUERIES + 1u;
    for (unsigned i = 0; i < r->run_n; i++) {
        struct asked *a = &r->run_asked[i];

        a->asked_query = (struct pg_query){.magic = PG_QUERY_MAGIC, .query_statement = &s, .query_ops = &ops};
        AN(pg_pool_submit(p, &a->asked_query, pg_now()) == PG_DONE);
        if (i == what / QUERIES)
            AZ(pg_query_abandon(&a->asked_query));
    }
    pg_pool_flush(p, pg_now());
    for (size_t at = 0; at < size && c->conn_fd != -1; at += step) {
        size_t n = size - at < step ? size - at : step;

        AN(write(fds[1], data + at, n) == (ssize_t)n);
        wire_read(c, false);
        while (!TAILQ_EMPTY(&p->pool_again)) /* it has read its share of a turn */
            wire_read_again(p);
        pg_pool_flush(p, pg_now());
    }
    r->run_lost = c->conn_fd == -1;
    for (unsigned i = 0; i < r->run_n; i++) {
        struct asked *a = &r->run_asked[i];

        r->run_restarts += a->asked_restarts;
        if (a->asked_ends == 0)
            a->asked_outcome = PG_DONE; /* unanswered so far; pg_pool_free ends it otherwise */
    }
    {
        struct run before = *r;

        pg_pool_free(&p);
        for (unsigned i = 0; i < r->run_n; i++) {
            AN(r->run_asked[i].asked_ends == 1);
            r->run_asked[i].asked_outcome = before.run_asked[i].asked_outcome;
            r->run_asked[i].asked_ends = before.run_asked[i].asked_ends;
        }
    }
    (void)close(fds[1]);
    (void)close(fds[0]);
    AZ(buffers_used(buffers));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run whole, split;

    if (size < 2 || size > 4096)
        return 0;
    if (base == NULL) {
        base = event_base_new();
        buffers = buffers_new(1 << 20);
        AN(base != NULL && buffers != NULL);
    }
    answer(&whole, data[0], data[1], data + 2, size - 2, size);
    answer(&split, data[0], data[1], data + 2, size - 2, data[0] / 2 % 32 + 1u);
    /* What is sent again can be answered by octets that, in one piece, came before it was sent. */
    if (whole.run_restarts + split.run_restarts > 0)
        return 0;
    AN(whole.run_lost == split.run_lost);
    for (unsigned i = 0; i < whole.run_n; i++) {
        const struct asked *a = &whole.run_asked[i], *b = &split.run_asked[i];

        AN(a->asked_ends == b->asked_ends && a->asked_outcome == b->asked_outcome && a->asked_rows == b->asked_rows);
        AN(a->asked_sum == b->asked_sum && memcmp(a->asked_sqlstate, b->asked_sqlstate, 6) == 0);
    }
    return 0;
}
