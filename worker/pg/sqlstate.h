/* SQLSTATE -> HTTP status, one table (PostgreSQL manual, appendix A; DESIGN 4). */
#ifndef VANILLA_WORKER_PG_SQLSTATE_H
#define VANILLA_WORKER_PG_SQLSTATE_H

#include <stdbool.h>

struct pg_sqlstate {
    const char *sqlstate_prefix; /* "23505", or a class "22" */
    unsigned short sqlstate_status;
    bool sqlstate_retry_after;  /* the client may try again soon */
    const char *sqlstate_title; /* for the problem document */
};

/* The longest entry that sqlstate begins with; never NULL (the last is "", 500). */
const struct pg_sqlstate *pg_sqlstate_find(const char *sqlstate);

#endif
