/*
 * The shape of a row: column names compiled into ready-made octets to put before each value, and one tail.  A dotted
 * alias nests: "rating.score", "rating.count" -> {"rating":{"score":S,"count":N}}.  An object stands where its first
 * member stands.
 */
#ifndef VANILLA_WORKER_JSON_SHAPE_H
#define VANILLA_WORKER_JSON_SHAPE_H

#include "shm/assert.h"
#include "worker/mem/out.h"
#include "worker/pg/types.h"

struct json_shape_column {
    const char *column_prefix; /* `{"id":`, `,"rating":{"score":`, `},"x":`; readable up to a multiple of 16 */
    uint32_t column_prefix_len;
    uint32_t column_index; /* which column of the DataRow */
    const struct pg_type *column_type;
};

struct json_shape { /* columns in the order in which they are written */
    struct json_shape_column *shape_columns;
    unsigned shape_columns_n;
    bool shape_in_order;    /* column_index == position for all: cells can be written as they come */
    const char *shape_tail; /* `}`, `}}`, or `{}` when there is no column */
    uint32_t shape_tail_len;
    uint32_t shape_fixed_len; /* of all prefixes and the tail: a row's octets but for its values */
};

/* Compiles n columns (start-up and connect: may allocate).  NULL on a conflict: a duplicate name, `a` beside `a.b`, an
 * empty part; then *why is a message to be freed by the caller. */
struct json_shape *json_shape_new(const char *const *names, const struct pg_type *const *types, unsigned n,
                                  char **why) MUSTCHECK;
void json_shape_free(struct json_shape **sp);

/* Appends one DataRow as an object.  `row` points behind the column count (protocol "DataRow (B)": Int32 length,
 * octets, ...), len octets, mutable as in json_write_value.  Returns -1 when the row does not have the shape's columns
 * or runs out of its length (a protocol error: nothing useful was appended), else 0; out's sticky error is for the
 * caller to look at. */
int json_write_row(struct out *o, const struct json_shape *shape, char *row, size_t len, unsigned columns) MUSTCHECK;

#endif
