/*
 * PostgreSQL's types as vanilla needs them: how a value in text format becomes JSON (PostgreSQL's own to_json is the
 * reference) and what a parameter must look like.  Built-in types are one static table; enums, domains, composites,
 * ranges and extension types are learnt from the catalogue when a connection is made (scope connect).
 */
#ifndef VANILLA_WORKER_PG_TYPES_H
#define VANILLA_WORKER_PG_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

enum pg_kind { /* what the JSON writer and the parameter checks switch on */
               PG_BOOL,
               PG_INT2,
               PG_INT4,
               PG_INT8,
               PG_OID,
               PG_FLOAT4,
               PG_FLOAT8,
               PG_NUMERIC, /* bool and numbers; oid is a JSON string in to_json */
               PG_JSON,
               PG_JSONB,
               PG_TIMESTAMP,
               PG_TIMESTAMPTZ,
               PG_DATE,
               PG_BYTEA,
               PG_UUID,
               PG_TEXT, /* text, varchar, bpchar, name, unknown */
               PG_ARRAY,
               PG_COMPOSITE,
               PG_HSTORE, /* the extension's type: to_json goes through its cast to json */
               PG_OTHER   /* text form as a JSON string */
};

struct pg_type {
    uint32_t type_oid;
    enum pg_kind type_kind;
    char type_delim; /* between elements, in its own text form or in that of arrays of it; ',' but for box */
    const char *type_name;
    const struct pg_type *type_elem;    /* PG_ARRAY: of what */
    const struct pg_field *type_fields; /* PG_COMPOSITE, in attribute order, dropped ones left out */
    unsigned type_fields_n;
};

struct pg_field {
    const char *field_name;
    const struct pg_type *field_type;
};

/* The types of one database: the static table and what was learnt.  A domain resolves to its base type. */
struct pg_types;

struct pg_types *pg_types_new(void) MUSTCHECK;
void pg_types_free(struct pg_types **tp);
/* Set by whoever finds a value that is not of its type as it was learnt: ALTER TYPE, of which PostgreSQL does not tell.
 */
extern bool pg_types_outdated;
/* Whether it is in the static table: then nobody can change it. */
bool pg_types_builtin(uint32_t oid);
/* NULL when the OID is not known (yet): then the link asks the catalogue with PG_TYPES_QUERY and feeds the rows to
 * pg_types_learn. */
const struct pg_type *pg_types_find(const struct pg_types *t, uint32_t oid);
/* A statement with $1 = oid[] (text form "{1,2}") that returns what pg_types_learn wants about these types and all that
 * they are made of, domains resolved, in any order.  Feed all of its rows before using what pg_types_find returns. */
extern const char PG_TYPES_QUERY[];
/* One row of that query as n text columns (NULL pointers for NULL).  Learning a type again updates it in place:
 * pointers given out stay valid, and what changed (ALTER TYPE) is seen through them.  Returns 0, or -1 for a row that
 * does not make sense (logged by the caller; the type is then PG_OTHER). */
int pg_types_learn(struct pg_types *t, const char *const *columns, unsigned n) MUSTCHECK;
/* What to use for an OID that even the catalogue does not have: text as a string. */
extern const struct pg_type pg_type_other;

#endif
