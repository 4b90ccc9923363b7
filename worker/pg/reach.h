/*
 * Which statements can reach code that may change its session: SET, set_config, a lock of the session, a temporary
 * table.  PostgreSQL does not tell in advance, and of most changes not afterwards; its catalogue has the code.
 */
#ifndef VANILLA_WORKER_PG_REACH_H
#define VANILLA_WORKER_PG_REACH_H

#include <libpq-fe.h>

#include "worker/pg/pool.h"

/* A statement with $1 = text[], the SQL of all statements, that returns a row for each that may: its number from 1,
 * and the first name in it that leads there, in text form; NULL: it says so itself.  For PostgreSQL 13 and later. */
extern const char PG_REACH_QUERY[];

/* That array in text form: to be freed by the caller; NULL when memory is out. */
char *reach_statements(struct pg_statement *const *statements, unsigned n) MUSTCHECK;
/* What the catalogue has said of the statement that is number `n` there; `through` points into `r`.  r NULL: it has not
 * been asked, which says yes. */
bool reach_said(const PGresult *r, unsigned n, const char **through) MUSTCHECK;

#endif
