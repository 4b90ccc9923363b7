/* SQLSTATE -> HTTP status: the table is all there is to it. */
#include "worker/pg/sqlstate.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
static const struct pg_sqlstate sqlstates[] = {
    { "22",    400, false, "a value does not fit" },              /* data exception */
    { "23502", 400, false, "a value is missing" },                /* not null violation */
    { "23514", 400, false, "a value is not allowed" },            /* check violation */
    { "23505", 409, false, "it exists already" },                 /* unique violation */
    { "23503", 409, false, "what it refers to is in the way or missing" }, /* foreign key violation */
    { "23P01", 409, false, "it conflicts with what is there" },   /* exclusion violation */
    { "42501", 403, false, "permission denied" },                 /* insufficient privilege */
    { "25006", 405, false, "this route cannot write" },           /* read only transaction, on a read_only pool */
    { "57014", 504, false, "the query took too long" },           /* query canceled: statement_timeout */
    { "40001", 409, true,  "it conflicts with a concurrent change" }, /* serialization failure */
    { "40P01", 409, true,  "it conflicts with a concurrent change" }, /* deadlock detected */
    { "53",    503, true,  "the database is short of resources" },
    { "57P0",  503, true,  "the database is shutting down or starting" },
    { "08",    503, true,  "the database cannot be reached" },    /* connection exception */
    { "P0001", 400, false, "the request was refused" },           /* RAISE EXCEPTION */
    { "",      500, false, "the query failed" },
};
/* clang-format on */

const struct pg_sqlstate *pg_sqlstate_find(const char *sqlstate)
{
    const struct pg_sqlstate *best = NULL;
    size_t best_len = 0;

    for (size_t i = 0; i < sizeof sqlstates / sizeof sqlstates[0]; i++) {
        const char *prefix = sqlstates[i].sqlstate_prefix;
        size_t len = strlen(prefix);

        if (strncmp(sqlstate, prefix, len) == 0 && (best == NULL || len > best_len)) {
            best = &sqlstates[i];
            best_len = len;
        }
    }
    return best; /* never NULL: "" is a prefix of everything */
}
