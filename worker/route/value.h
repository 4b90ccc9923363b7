/*
 * One parameter's value: does it fit a type, how does it go to PostgreSQL, how does it come back as JSON.  Values are
 * never decoded into memory of their own: they are read run by run from the request's octets.
 */
#ifndef VANILLA_WORKER_ROUTE_VALUE_H
#define VANILLA_WORKER_ROUTE_VALUE_H

#include "worker/route/params.h"

/* Whether the value can be of the type (DESIGN 9, "Parameters").  NULL: yes, or only PostgreSQL can tell; else a static
 * sentence. */
const char *value_check(const struct pg_type *type, const struct param_value *v) MUSTCHECK;

/* The same for what is nearly always asked: a few plain digits for an int4 or int8.  False: ask value_check. */
static inline bool value_is_digits(const struct pg_type *type, const struct param_value *v)
{
    uint32_t i;

    if ((type->type_kind != PG_INT4 && type->type_kind != PG_INT8) || v->value_form == PARAM_NULL ||
        v->value_form >= PARAM_JSON_STRING || v->value_has_escape || v->value_len == 0 || v->value_len > 9)
        return false;
    for (i = 0; i < v->value_len; i++)
        if ((unsigned char)(v->value_p[i] - '0') > 9)
            return false;
    return true;
}

/* Appends Int32 length and octets in text format, as in Bind (-1 and nothing for NULL); v was checked against type. */
void value_write(struct out *o, const struct pg_type *type, const struct param_value *v);

/* Appends it as JSON; v was checked against type. */
void value_echo(struct out *o, const struct pg_type *type, const struct param_value *v);

#endif
