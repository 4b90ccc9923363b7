/*
 * One connection of a pool: its life (connect, serve, be replaced), its list of queries in flight and its bytes.
 * Internal to worker/pg: the structs of connection and pool, and what their files (conn, wire, answer, batch, queue,
 * pool) ask of each other.
 */
#ifndef VANILLA_WORKER_PG_CONN_H
#define VANILLA_WORKER_PG_CONN_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>

#include "shm/stats.h"
#include "worker/mem/out.h"
#include "worker/pg/cancel.h"
#include "worker/pg/link.h"
#include "worker/pg/pool.h"
#include "worker/pg/reader.h"

/* A state is a list: a connection is on pool_conns[conn_state], moved by conn_move only. */
enum conn_state {
    CONN_DOWN,       /* no socket; the tick connects at conn_retry_at */
    CONN_LINKING,    /* libpq has it: connecting, or preparing its statements (again) */
    CONN_READY,      /* takes queries */
    CONN_CANCELLING, /* a CancelRequest for what it does is under way: takes no others */
    CONN_DRAINING,   /* takes no others; when the last one has been answered, conn_after says what next */
    CONN_STATES
};

enum conn_after {                /* what becomes of a draining connection */
                  AFTER_REACH,   /* what its statements can reach is asked again */
                  AFTER_PREPARE, /* its statements are stale: prepare them again */
                  AFTER_REPLACE, /* close, connect anew */
                  AFTER_STOP     /* close */
};

enum conn_loss {                /* how a connection ended, and so what may have run */
                 LOSS_SUDDEN,   /* the socket broke: whatever was sent may have run */
                 LOSS_FATAL,    /* the server said so, in step: what it had not begun has not run */
                 LOSS_PROTOCOL, /* we do not understand it: the query at the head is the likely cause */
                 LOSS_STOP      /* our own wish */
};

TAILQ_HEAD(conn_list, pg_conn);
TAILQ_HEAD(query_list, pg_query);

struct pg_conn {
    unsigned magic;
    enum conn_state conn_state;
    struct pg_pool *conn_pool;
    TAILQ_ENTRY(pg_conn) conn_link;
    TAILQ_ENTRY(pg_conn) conn_dirty_link; /* pool_dirty: something to send at the end of the turn */
    TAILQ_ENTRY(pg_conn) conn_again_link; /* pool_again: has read its share of this turn, and there is more */
    bool conn_dirty, conn_again;

    /* In flight, in the order of their answers. */
    struct query_list conn_inflight;
    unsigned conn_inflight_n;
    unsigned conn_abandoned_n; /* of those */
    uint64_t conn_cost_ns;     /* what they are expected to take, together */
    uint32_t conn_sync_sent;   /* Syncs appended; so also the number of the batch that is being built */
    uint32_t conn_sync_done;   /* ReadyForQuery seen; so also the number of the batch that is being answered */
    unsigned conn_batch_n;     /* queries appended and not followed by a Sync yet */
    uint64_t conn_batch_limit; /* the batch is full when conn_cost_ns reaches this */
    unsigned conn_resets;      /* batches in flight that reset the session; each has the number of a Sync, too */
    uint32_t conn_reset_at;    /* the number of the first of them */

    /* The query at the head. */
    uint8_t conn_verdict; /* enum pg_outcome that it will have, if PostgreSQL has no other */
    bool conn_prefaced;   /* what comes before it has come: behind a pooler its settings, else a reset's answer */
    bool conn_bound;      /* BindComplete has come: it has begun to run */
    bool conn_complete;   /* CommandComplete has come; committed only at ReadyForQuery */
    bool conn_outdated;   /* its rows are not of the statement's present description */
    bool conn_skipping;   /* an error: PostgreSQL skips what follows up to the Sync */

    /* Bytes. */
    int conn_fd;
    SSL *conn_ssl;     /* NULL: plain; belongs to the PGconn */
    bool conn_blocked; /* the socket takes no more: wait for EV_WRITE */
    bool conn_unsure;  /* the last read was short: an error may wait behind it */
    struct event conn_event;
    struct out conn_out;
    uint64_t conn_written; /* octets that went into the socket */
    struct reader conn_reader;

    uint64_t conn_busy_since; /* ns: since when the head's time runs; 0: nothing has been sent */
    bool conn_fresh;          /* nothing was in flight when what is in flight was sent */
    uint64_t conn_heard;      /* ns: when anything last came, or something was sent to an idle connection */

    /* Life. */
    struct link conn_pq;
    enum conn_after conn_after;
    unsigned conn_replacing; /* being made anew, with so many tries: whoever waits for it may go on waiting */
    bool conn_changed;       /* a setting of its session was changed: to be replaced */
    uint64_t conn_mended_at; /* when its statements were last prepared again on suspicion */
    uint32_t conn_versions;  /* the pool's when its statements were prepared */
    bool conn_tried;         /* one attempt is over, whatever its end */
    bool conn_up;            /* was ready since the last attempt began */
    unsigned conn_failures;  /* in a row */
    uint64_t conn_retry_at, conn_up_since, conn_lost_at;
    struct cancel conn_cancel;
    uint64_t conn_cancel_at;    /* when a cancel was last sent; 0: never */
    uint32_t conn_cancel_batch; /* and for which batch, */
    unsigned conn_cancel_n;     /* which has had so many */
};
#define PG_CONN_MAGIC 0x90c0221fu

#define ROUND_MAX 32u
#define STUCK_NS 10000000u /* what has run for so long, and longer than expected, may not be through soon */

struct round_entry { /* neighbours of one statement that were answered in this read, to share out the time */
    struct pg_statement *round_statement;
    uint64_t round_cost_ns; /* together */
    unsigned round_n;
};

struct pg_pool {
    unsigned magic;
    struct pg_pool_config pool_config;
    unsigned pool_index; /* for the counters */
    bool pool_read_only;
    bool pool_single; /* each query has its own Sync, so its own transaction */
    bool pool_pooler;
    bool pool_stopping;
    unsigned pool_max_inflight, pool_sync_batch;
    uint64_t pool_batch_ns;
    struct pg_conn *pool_current; /* takes the queries of this turn */
    struct conn_list pool_dirty, pool_again;
    struct query_list pool_retry, pool_waiting; /* the first goes before the second */
    unsigned pool_retry_n, pool_waiting_n;
    uint64_t pool_shaken_ns, pool_shaken_until; /* a connection was lost: until then others may be, too */
    unsigned pool_abandoned_n;                  /* of those in flight, on all connections */
    /* How long a query may wait (queue.c). */
    uint64_t pool_patience_ns, pool_target_ns; /* queue_timeout_ms; under lasting overload */
    uint64_t pool_interval_ns;
    bool pool_overloaded;
    unsigned pool_late;                     /* how far those who waited for too long outweigh the others, */
    uint64_t pool_late_since, pool_late_at; /* ... since when they do; when the last of them was seen */
    uint64_t pool_counted;                  /* queries sent (STAT_pool_queries) and counted in that */
    bool pool_alarmed;                      /* pool_alarm_fd, a timerfd, is set */
    uint64_t pool_wake_at;                  /* who waits is to be looked at by then, too; 0: no need */
    int pool_alarm_fd;
    struct event pool_alarm;
    struct conn_list pool_conns[CONN_STATES];
    unsigned pool_conns_n[CONN_STATES];
    struct reader_space pool_space;
    struct event pool_again_event; /* on pool_again_fd, an eventfd: turns the loop while pool_again is not empty */
    int pool_again_fd;
    struct round_entry pool_round[ROUND_MAX];
    unsigned pool_round_n;
    uint64_t pool_round_cost;
    struct pg_conn *pool_all; /* config_connections of them */
    struct pg_statement **pool_statements;
    unsigned pool_statements_n;
    struct pg_types *pool_types;
    char pool_trouble[256], pool_logged[256];
    uint64_t pool_logged_at;
    uint64_t pool_random;
    unsigned pool_elsewhere; /* free slots of other workers, less the clients sent to them since the last tick */
    uint64_t pool_window_at; /* when the statements' times were last looked at */
    bool pool_broken_hit;    /* a broken statement was asked for: try to prepare it again */
    bool pool_doubted;       /* a statement is */
    uint32_t pool_versions;  /* of its statements, added up: grows with each description that is not the one before */
    uint64_t pool_mended_at;
    uint64_t pool_remake_at;    /* the last connection that is lost is made anew at once, but not before then */
    uint64_t pool_idle_lost_at; /* when the loss of an idle connection was last logged; 0: never */
    uint64_t pool_demoted_at;   /* when its server was last said to be read-only; 0: never */
    uint64_t pool_reached_at; /* when a connection last asked what statements can reach; 0: not since there was news */
    uint64_t pool_reach_ns;   /* how long that took */
};
#define PG_POOL_MAGIC 0x90019001u

uint64_t pg_now(void); /* CLOCK_MONOTONIC, ns */

/* conn.c: life. */
void conn_init(struct pg_conn *c, struct pg_pool *p);
void conn_connect(struct pg_conn *c);
/* The connection is gone: its queries are sent elsewhere or end, the next attempt is scheduled. */
void conn_lose(struct pg_conn *c, enum conn_loss loss, const char *why);
/* Takes no more queries; `after` happens when those in flight are through, at the next conn_settle. */
void conn_drain(struct pg_conn *c, enum conn_after after);
/* Its session is not as it was made: it takes no more queries and is made anew. */
void conn_replace(struct pg_conn *c);
/* The server is a standby now: made anew, where libpq may find another. */
void conn_demoted(struct pg_conn *c, uint64_t now);
/* Whether it may be suspected once more that its statements or what is known of its types are out of date. */
bool conn_suspect(struct pg_conn *c, uint64_t now) MUSTCHECK;
/* Whether a connection is about to prepare its statements again: others may have to as well. */
bool conn_mending(const struct pg_pool *p) MUSTCHECK;
/* Does what waits for the connection to be idle, if it is. */
void conn_settle(struct pg_conn *c);
void conn_tick(struct pg_conn *c, uint64_t now);
/* A cancel has been sent for what it does: it takes no more queries until that has an end (conn_settle); or none could
 * be, and it takes them as before. */
void conn_cancel(struct pg_conn *c, bool sent);
/* Connections that take no queries now, and soon will again without another attempt: their statements are being
 * prepared again, or they are being replaced. */
unsigned conn_returning(const struct pg_pool *p) MUSTCHECK;
/* Whether some connection takes queries, or is returning. */
bool conn_serving(const struct pg_pool *p);

/* wire.c: bytes. */
void wire_start(struct pg_conn *c); /* the link is done: the socket is ours */
void wire_stop(struct pg_conn *c);  /* takes the socket off the loop, forgets what is buffered */
/* Writes what the chain holds, as far as the socket takes it.  -1: the connection was lost (conn_lose was called). */
int wire_write(struct pg_conn *c, uint64_t now) MUSTCHECK;
void wire_read(struct pg_conn *c, bool closed);
/* Continues with the connections that had more to read than their share. */
void wire_read_again(struct pg_pool *p);

/* answer.c: what a message means.  -1: the connection was lost (conn_lose was called). */
int answer_message(struct pg_conn *c, const struct codec_message *m) MUSTCHECK;
/* The end of a read: shares the time out among the queries that it answered. */
void answer_round(struct pg_conn *c, uint64_t now);
/* Twice a second: what a statement is expected to take. */
void answer_window(struct pg_statement *s);
/* Takes a query off the list of those in flight, and forgets what was known of the head. */
void answer_pop(struct pg_conn *c, struct pg_query *q);

/* forsaken.c: connections on which nobody waits for anything. */
void forsaken_init(struct pg_conn *c);
/* One more of its queries in flight has been abandoned.  Ends none. */
void forsaken_note(struct pg_conn *c);
/* Cancels what the connection does, if nobody waits for anything there.  Ends no query. */
void forsaken_cancel(struct pg_conn *c, uint64_t now);
/* Asks about queries that have been in flight for long whether they are still wanted. */
void forsaken_look(struct pg_conn *c, uint64_t now);
/* Whether a new query had better not go behind what it does, which is of no use and can be cancelled. */
bool forsaken_yields(const struct pg_conn *c) MUSTCHECK;
/* Somebody waits: cancels what is in the way, or sees to it that it is done a little later.  True when a cancel could
 * not be sent, so that its connection is as good as any other (batch_pick).  Ends no query. */
bool forsaken_relieve(struct pg_pool *p, uint64_t now);
/* How many slots will be free in no time, because what is in them, or before them, is of no use. */
unsigned forsaken_slots(const struct pg_pool *p, uint64_t now) MUSTCHECK;
/* Whether to wait for one of them is better than to go behind what `best` does. */
bool forsaken_nearer(struct pg_pool *p, const struct pg_conn *best, uint64_t now) MUSTCHECK;
/* How long it then waits, at most. */
#define FORSAKEN_NEAR_NS 50000000u

/* batch.c: which connection, and the messages. */
/* `patient`: it may wait for a while, if it is soon better off.  NULL: there is no room, or nothing better to do than
 * to wait. */
struct pg_conn *batch_pick(struct pg_pool *p, bool patient, uint64_t now) MUSTCHECK;
/* Appends the query's messages; `alone`: under a Sync of its own.  PG_DONE: it is in flight. */
enum pg_outcome batch_append(struct pg_conn *c, struct pg_query *q, bool alone, uint64_t now) MUSTCHECK;
/* Ends the batch that is being built, if there is one. */
void batch_sync(struct pg_conn *c);
/* Free slots that wait for the reset of their connection's session. */
unsigned batch_held(const struct pg_pool *p) MUSTCHECK;

/* queue.c: queries that wait. */
int queue_init(struct pg_pool *p) MUSTCHECK;
void queue_fini(struct pg_pool *p);
void queue_wait(struct pg_pool *p, struct pg_query *q, uint64_t now);
void queue_retry(struct pg_pool *p, struct pg_query *q, uint64_t now);
/* Sees to it that who waits is looked at again (queue_pump) by then. */
void queue_wake(struct pg_pool *p, uint64_t at, uint64_t now);
/* A connection has been lost: what is to be sent again waits a moment, in case others follow. */
void queue_shaken(struct pg_pool *p, uint64_t now);
void queue_remove(struct pg_pool *p, struct pg_query *q);
/* Sends what waits while there are free slots. */
void queue_pump(struct pg_pool *p, uint64_t now);
/* Ends those that have waited too long. */
void queue_expire(struct pg_pool *p, uint64_t now);
/* Ends all: there is no connection. */
void queue_shed(struct pg_pool *p);

/* Gives a query back to its owner. */
static inline void query_end(struct pg_query *q, enum pg_outcome outcome, const struct pg_error *error)
{
    q->query_state = QUERY_IDLE;
    q->query_conn = NULL;
    q->query_ops->query_done(q, outcome, error);
}

#endif
