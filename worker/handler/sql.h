/* The sql handler's state, as the admin pages see it. */
#ifndef VANILLA_WORKER_HANDLER_SQL_H
#define VANILLA_WORKER_HANDLER_SQL_H

#include "worker/pg/pool.h"

/* The statement of a route whose handler is handler_sql; as long-lived as the state. */
const struct pg_statement *sql_statement(const void *state);

#endif
