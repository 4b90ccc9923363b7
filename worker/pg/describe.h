/* What PREPARE and DESCRIBE told about a pool's statements, and taking it over. */
#ifndef VANILLA_WORKER_PG_DESCRIBE_H
#define VANILLA_WORKER_PG_DESCRIBE_H

#include <libpq-fe.h>

#include "worker/pg/codec.h"
#include "worker/pg/pool.h"

struct describe_entry {      /* one statement's result on one connection */
    PGresult *entry_result;  /* of DESCRIBE, owned; NULL when refused */
    char entry_refused[256]; /* the server's message; "": not refused */
};

/* Appends the OIDs of types that are not built in, which may have changed since, to `list`, the text form of an oid[]
 * in an open memory stream, without braces; returns how many. */
unsigned describe_foreign(const struct describe_entry *entries, unsigned n, FILE *list);
/* Whether that would make a statement ready that is not, or change the description of one that is. */
bool describe_news(const struct pg_statement *s, const struct describe_entry *e,
                   const struct pg_types *types) MUSTCHECK;
/* Takes one statement's description over: arrays are replaced and statement_described is called when it is new or
 * differs, and again for a broken one.  Returns true when the statement has become broken or its reason has changed
 * (statement_why): to be logged. */
bool describe_apply(struct pg_statement *s, const struct describe_entry *e, const struct pg_types *types) MUSTCHECK;
/* Whether a RowDescription (or NoData) is of the columns that the statement is known to have. */
bool describe_matches(const struct pg_statement *s, const struct codec_message *m,
                      const struct pg_types *types) MUSTCHECK;
/* Frees what the pool owns of a statement. */
void describe_forget(struct pg_statement *s);

#endif
