/*
 * Making a connection with libpq, without blocking: look names up, connect (multiple hosts, passwords, TLS are libpq's
 * business), prepare and describe the pool's statements in pipeline mode, learn types and what they can reach.  At the
 * end the socket is at a message boundary and libpq has nothing buffered: from then on the connection speaks for itself
 * and keeps the PGconn for its TLS and for its end.  All in allocation scope `connect`.
 */
#ifndef VANILLA_WORKER_PG_LINK_H
#define VANILLA_WORKER_PG_LINK_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <libpq-fe.h>

#include "worker/pg/conninfo.h"
#include "worker/pg/describe.h"
#include "worker/pg/keydata.h"
#include "worker/pg/resolve.h"

enum link_state {
    LINK_IDLE,       /* nothing under way */
    LINK_RESOLVING,  /* waits for link_resolve */
    LINK_CONNECTING, /* PQconnectPoll */
    LINK_PREPARING,  /* PREPARE and DESCRIBE are on their way */
    LINK_LEARNING,   /* the catalogue is being asked about types */
    LINK_REACHING    /* ... and about the code that statements can reach */
};

struct link {
    enum link_state link_state;
    struct event_base *link_base;
    const struct conf_pool *link_pool;
    struct pg_statement *const *link_statements; /* the pool's, link_statements_n of them */
    unsigned link_statements_n;
    struct pg_types *link_types;
    void (*link_log)(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

    PGconn *link_pg;
    struct event link_event;
    struct resolve *link_resolve;
    struct keydata link_keydata;
    PQconninfoOption *link_options;
    struct describe_entry *link_entries;
    unsigned link_at;       /* which statement's results come next */
    unsigned link_step;     /* its commands that succeeded */
    bool link_lead;         /* the results of DISCARD ALL come first */
    bool link_prepared;     /* link_entries are new descriptions */
    bool link_news;         /* ... and at least one is another, or of a statement that was not ready */
    bool link_reached;      /* the catalogue was asked what statements can reach */
    bool link_flagged;      /* ... and one that was said to leave its session alone can change it now */
    PGresult *link_reach;   /* its answer; NULL: none */
    uint64_t link_reach_ns; /* when it was asked; then how long that took */
    bool link_hasty;        /* set before link_connect: gives up early */
    unsigned link_timeouts; /* in a row: the next attempt begins with another host, libpq would wait for ever */
    char link_why[256];

    /* Called from the loop when it is over: why NULL, and link_pg is ready; or the reason, and link_pg is finished. */
    void (*link_done)(void *arg, const char *why);
    void *link_arg;
};

/* Begins an attempt.  What statements can reach is asked as long as nobody has: it takes longer than all the rest.
 * Later one that is another now (link_news) is taken to reach anything, until it is asked.  Returns 0, or -1 with
 * link_why when it failed at once (link_done is not called). */
int link_connect(struct link *l) MUSTCHECK;
/* Prepares all statements again on a connection that is idle and at a message boundary; as link_connect. */
int link_prepare_again(struct link *l) MUSTCHECK;
/* On such a connection: only asks again what the statements can reach; as link_connect. */
int link_reach_again(struct link *l) MUSTCHECK;
/* Ends the attempt or the connection, whatever there is. */
void link_close(struct link *l);

#endif
