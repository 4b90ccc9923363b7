/*
 * A worker's share of one pool: connections made by libpq (link), spoken to by our own codec (protocol version 3,
 * extended query), queries in flight, Sync batching, the queue, and what to do when things break (DESIGN 4).
 * Queries are owned by whoever submits them and are embedded in a request.
 */
#ifndef VANILLA_WORKER_PG_POOL_H
#define VANILLA_WORKER_PG_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "conf/conf.h"
#include "shm/assert.h"
#include "worker/mem/out.h"
#include "worker/pg/types.h"

struct event_base;
struct evdns_base;
struct pg_pool;
struct pg_conn;

/* One statement of a pool, prepared on each of its connections under the name "v<index>".  Made at start, one per sql
 * route. */
enum pg_statement_state {
    STATEMENT_UNKNOWN, /* no connection has described it yet: pool down, 503 */
    STATEMENT_READY,
    STATEMENT_BROKEN /* PostgreSQL or the route's owner refuses it: 500; tried again at each connect */
};

struct pg_column {
    const char *column_name;
    const struct pg_type *column_type;
};

struct pg_statement {
    unsigned magic;
    const char *statement_sql;
    bool statement_calls;        /* CALL or DO: an error does not take back what it has committed on its way */
    const char *statement_label; /* for the log: "GET /items/{id}" */
    char statement_name[16];
    unsigned statement_index; /* the route's index */
    enum pg_statement_state statement_state;
    char statement_why[256];                 /* broken: PostgreSQL's message, or the owner's */
    const struct pg_type **statement_params; /* owned by the pool, replaced at each describe that differs */
    unsigned statement_params_n;
    struct pg_column *statement_columns;
    unsigned statement_columns_n;
    uint32_t statement_version; /* grows whenever the description changes */
    uint32_t statement_avg_ns;  /* what one is expected to take in PostgreSQL */
    /* Where that comes from: the least of this half second and of the one before; all of this one; was there any. */
    uint32_t statement_least_ns[2];
    uint64_t statement_sum_ns, statement_samples;
    bool statement_timed;
    bool statement_resets;  /* it may change its session, which is reset behind each of its queries (reach.h) */
    bool statement_reached; /* the catalogue was asked that, once at least */
    bool statement_doubted; /* since then: see pg_statement_doubt */
    uint64_t statement_doubted_ns, statement_doubt_wait_ns;
    /* Called in scope connect when a description is new or has changed; returns NULL, or why the route is broken. */
    const char *(*statement_described)(struct pg_statement *s, void *arg);
    void *statement_arg;
    struct pg_pool *statement_pool;
    /* The pool's own: the Bind message up to the parameter values, and for a pooler the Parse before it. */
    unsigned char statement_bind[32];
    unsigned statement_bind_len;
    unsigned char *statement_parse;
    size_t statement_parse_len;
};
#define PG_STATEMENT_MAGIC 0x9057a7e1u
#define PG_DOUBT_FIRST_NS 1000000000u

enum pg_outcome {           /* how a query ended */
                  PG_DONE,  /* CommandComplete; rows were delivered */
                  PG_ERROR, /* PostgreSQL refused it: see the error */
                  PG_SHED_FULL,
                  PG_SHED_TIMEOUT,
                  PG_SHED_DOWN,    /* not run, safe to retry: shed status */
                  PG_SHED_BUFFERS, /* not run: no buffer for its messages */
                  PG_UNKNOWN,      /* connection lost while it may have run: 502, outcome unknown */
                  PG_BROKEN,       /* the statement is broken: 500 */
                  PG_TOO_LARGE,    /* run, but a row of its answer is larger than config_message_max: 500 */
                  PG_NO_BUFFERS,   /* run, but there was no buffer for its answer */
                  PG_INTERNAL      /* a protocol error or a result that the row callback refused: 500 */
};

struct pg_error { /* slices live during the done callback */
    char error_sqlstate[6];
    const char *error_message, *error_detail, *error_hint; /* NUL-terminated; NULL: not sent */
    unsigned error_parameter; /* the number of the parameter whose value does not fit; 0: it is about something else */
};

struct pg_query;
struct pg_query_ops {
    /* Appends the Bind message's body from "Int16 number of parameter values" on (params_write).  May be called again
     * when the query is sent again; the types are those of the statement's version of the day. Returns 0, or -1: the
     * values no longer fit (then done is called with PG_INTERNAL). */
    int (*query_bind)(struct pg_query *q, struct out *o);
    /* A DataRow: `cells` is mutable, valid during the call.  Returns 0 to go on, -1: drop the remaining rows and end
     * with PG_INTERNAL. */
    int (*query_row)(struct pg_query *q, char *cells, size_t len, unsigned columns);
    /* The query is sent once more (its connection was lost, or a neighbour's error skipped it): forget rows delivered
     * so far. */
    void (*query_restart)(struct pg_query *q);
    /* The end, exactly once for every accepted query; the query belongs to its owner again. error is set for PG_ERROR
     * only. */
    void (*query_done)(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error);
    /* May be NULL.  It has been in flight for 100 ms; called once.  Its owner may look whether it is still wanted, and
     * abandon it from inside. */
    void (*query_long)(struct pg_query *q);
};

enum pg_query_state {                /* on which list: */
                      QUERY_IDLE,    /* none: its owner has it */
                      QUERY_WAITING, /* the pool's queue */
                      QUERY_RETRY,   /* the pool's list of queries to be sent again, which goes before the queue */
                      QUERY_SENT     /* a connection's list of queries in flight */
};

struct pg_query {
    unsigned magic;
    uint8_t query_state;               /* enum pg_query_state */
    bool query_abandoned;              /* the client has left: rows are dropped, done is still called */
    bool query_retried, query_started; /* sent a second time; a row has come */
    bool query_looked;                 /* query_long has been called */
    uint8_t query_unlucky;             /* how often its connection was lost before it began */
    uint8_t query_stale;               /* how often its statement had to be prepared again */
    bool query_reset;                  /* the batch behind its own is a reset of the session */
    uint32_t query_batch;              /* number of the Sync it is under */
    uint32_t query_version;            /* of the statement when it was bound */
    TAILQ_ENTRY(pg_query) query_link;
    struct pg_statement *query_statement;
    struct pg_conn *query_conn; /* NULL: that one is lost, or it is not sent */
    const struct pg_query_ops *query_ops;
    uint64_t query_at_ns; /* when it was queued, then when it was sent */
    /* The pool's own: where its first octet stands in all that its connection ever sends, and what it was expected to
     * cost. */
    uint64_t query_out_at;
    uint32_t query_cost_ns;
};
#define PG_QUERY_MAGIC 0x90f1e7d3u

struct pg_pool_config {
    struct event_base *config_base;
    struct buffers *config_buffers;
    const struct conf_pool *config_pool;
    unsigned config_index;       /* which pool: for the counters */
    unsigned config_connections; /* this worker's share */
    unsigned config_message_max; /* the largest message taken from PostgreSQL: response_bytes and some */
    bool *config_unflushed;      /* set when pg_pool_flush has something to do */
    uint64_t *config_now;        /* set whenever the pool reads the clock; NULL: nobody wants to know */
    void (*config_log)(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
};

/* Makes the pool (start-up: may allocate); nothing is connected before pg_pool_start. */
struct pg_pool *pg_pool_new(const struct pg_pool_config *config) MUSTCHECK;
/* Closes everything.  Queries that are still with the pool end (query_done is called): so before the requests, the
 * statements and the buffers that they live in are freed. */
void pg_pool_free(struct pg_pool **pp);
/* Adds a statement before the start; the caller owns it and keeps it as long as the pool. */
void pg_pool_add_statement(struct pg_pool *p, struct pg_statement *s);
/* Begins to connect, all connections at once, without blocking. */
void pg_pool_start(struct pg_pool *p);
/* Stops reconnecting; idle connections are ended politely (Terminate), busy ones when they are through. */
void pg_pool_stop(struct pg_pool *p);

/* Submits a query.  Returns PG_DONE when it was accepted: query_done will be called later, never from inside this call.
 * Anything else: refused with that outcome, query_done will not be called.  `now` in ns (CLOCK_MONOTONIC). */
enum pg_outcome pg_pool_submit(struct pg_pool *p, struct pg_query *q, uint64_t now) MUSTCHECK;
/* The client has left.  A waiting query leaves the queue and gives it back at once (returns true: query_done is not
 * called); a sent one becomes a tombstone: query_done comes when its answer has been read (returns false), and where
 * nobody waits for anything on its connection, it is cancelled.  Ends no other query from inside this call. */
bool pg_query_abandon(struct pg_query *q) MUSTCHECK;

/* Ends the loop turn: Syncs what was batched, one send per connection.  Called once after each turn, and cheap when
 * there is nothing. */
void pg_pool_flush(struct pg_pool *p, uint64_t now);
/* Called every tick (100 ms or less): queue time-outs, back-off, cancels, gauges. */
void pg_pool_tick(struct pg_pool *p, uint64_t now);

/* Whether any connection is up; how many are. */
unsigned pg_pool_up(const struct pg_pool *p);
/* Whether every connection has been tried at least once (readiness, reload). */
bool pg_pool_tried(const struct pg_pool *p);
/* The last failure to connect, for /ready: "" when none. */
const char *pg_pool_trouble(const struct pg_pool *p);
/* A value was refused because it is not of its parameter's type, which may have changed since the statement was
 * prepared.  When none of its queries goes well for a second, that is done again; when it brings no news, the next time
 * is after twice as long, a minute in the end.  `now` in ns. */
void pg_statement_doubt(struct pg_statement *s, uint64_t now);
/* How many slots other workers' shares of this pool have free: told each tick. */
void pg_pool_set_elsewhere(struct pg_pool *p, unsigned slots);
/* Whether a client that is shed now had better connect anew, to be dealt to another worker; true at most as often per
 * tick as there are free slots elsewhere. */
bool pg_pool_send_away(struct pg_pool *p) MUSTCHECK;
/* Changes max_inflight while running. */
void pg_pool_set_max_inflight(struct pg_pool *p, unsigned n);

#endif
