/*
 * A parameter value's octets, decoded as they are read, run by run: no memory of its own, however long the value is.
 */
#ifndef VANILLA_WORKER_ROUTE_RUNS_H
#define VANILLA_WORKER_ROUTE_RUNS_H

#include "worker/json/read.h"
#include "worker/route/params.h"

struct value_runs {
    const char *runs_p, *runs_end;
    uint8_t runs_form; /* enum param_form; PARAM_PLAIN when there is nothing to decode */
    char runs_scratch[4];
};

/* Begins to read v (not PARAM_NULL). */
void value_runs(struct value_runs *r, const struct param_value *v);
/* The next run, which lives until the one after it; empty at the end. */
struct slice value_next(struct value_runs *r);

/* Whether the decoded octets are `plain`; whether they are NaN, Infinity or -Infinity. */
bool value_eq(const struct param_value *v, const char *plain, size_t len);
bool value_is_word(const struct param_value *v);

/* Whether the octets that go to PostgreSQL are there as they are: then *piece is them.  A JSON string for a json type
 * goes with its quotes, still escaped. */
bool value_piece(const struct pg_type *type, const struct param_value *v, struct slice *piece);

/* All decoded octets in one piece, which is the worker's and may be overwritten until the next call; slice_p is NULL
 * when the value is longer than VALUE_GATHER_MAX. */
#define VALUE_GATHER_MAX 16384u
struct value_gathered {
    char *gathered_p;
    size_t gathered_len;
};
struct value_gathered value_gather(const struct param_value *v);

/* An element of the JSON array `array` as a value of its own. */
struct param_value value_element(const struct param_value *array, struct slice value, enum json_kind kind);

/* Whether the type takes JSON as it is; whether it takes JSON arrays (int2vector and oidvector are arrays in answers
 * only: as parameters they are text, `1 2 3`). */
static inline bool value_wants_json(const struct pg_type *type)
{
    return type->type_kind == PG_JSON || type->type_kind == PG_JSONB;
}
static inline bool value_wants_array(const struct pg_type *type)
{
    return type->type_kind == PG_ARRAY && type->type_oid != 22 && type->type_oid != 30;
}

#endif
