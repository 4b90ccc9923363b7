/* The admin listener's pages: /live, /ready, /metrics. */
#ifndef VANILLA_WORKER_HANDLER_ADMIN_H
#define VANILLA_WORKER_HANDLER_ADMIN_H

#include "worker/handler/handler.h"

struct segment;
struct server;

/* What the pages tell of. */
struct admin {
    const struct segment *admin_segment;
    const struct server *admin_public; /* the server that serves the configuration's routes */
    struct pg_pool *const *admin_pools;
    const struct conf *admin_conf;
};

/* Set once before the admin server's handlers are made; must live as long as they. */
void admin_subject(const struct admin *admin);

/* A configuration that holds the pages as routes, and the handler of each, by the same index; static. */
extern const struct conf admin_conf;
extern const struct handler *const admin_handlers[];

#endif
