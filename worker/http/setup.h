/* Makes a server at start: everything that it will ever need is reserved here. */
#ifndef VANILLA_WORKER_HTTP_SETUP_H
#define VANILLA_WORKER_HTTP_SETUP_H

#include "worker/http/server.h"

struct server_config {
    struct event_base *config_base;
    const struct conf *config_conf;               /* limits, time-outs, shed */
    const struct conf *config_routes;             /* whose conf_routes to serve: config_conf, or admin_conf */
    const struct handler *const *config_handlers; /* by route index; NULL: chosen by route_handler */
    struct pg_pool *const *config_pools;
    struct cache *config_cache; /* NULL: no route keeps answers */
    unsigned config_slot;       /* the worker's */
    bool config_public;
    unsigned config_connections;       /* the most that are served at the same time */
    unsigned config_spare;             /* on top of it: connections that are told politely that there are too many */
    size_t config_slots, config_queue; /* queries of all pools that are with PostgreSQL, and that wait */
    size_t config_slots_more;          /* as many more may be asked for later (server_slots): address space only */
    struct buffers *config_buffers;    /* taken over */
};

/* Returns 0 with the server, or -1 with a sentence in why. server_fini gives everything back. */
int server_init(struct server *s, const struct server_config *config, char why[256]) MUSTCHECK;
void server_fini(struct server *s);

/* The pools have so many slots from now on, up to those that config_slots_more foresaw. */
void server_slots(struct server *s, size_t slots);

#endif
