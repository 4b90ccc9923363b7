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

/* Appends Int32 length and octets in text format, as in Bind (-1 and nothing for NULL); v was checked against type. */
void value_write(struct out *o, const struct pg_type *type, const struct param_value *v);

/* Appends it as JSON; v was checked against type. */
void value_echo(struct out *o, const struct pg_type *type, const struct param_value *v);

#endif
