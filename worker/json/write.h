/* JSON out of PostgreSQL's text format, the way to_json prints it (RFC 8259). */
#ifndef VANILLA_WORKER_JSON_WRITE_H
#define VANILLA_WORKER_JSON_WRITE_H

#include "shm/assert.h"
#include "worker/mem/out.h"
#include "worker/pg/types.h"

/* Appends `text` (len octets, as PostgreSQL prints the type in text format; the octets may be overwritten: arrays and
 * composites are unquoted in place) as one JSON value.  NULL text: null.  Errors are out's sticky ones. Nesting beyond
 * 64 levels prints the rest as strings.*/
void json_write_value(struct out *o, const struct pg_type *type, char *text, size_t len);

/* Appends a JSON string with its quotes.  What is not UTF-8 becomes U+FFFD: an answer is always valid. */
void json_write_string(struct out *o, const char *p, size_t len);

/* The same into memory: `to` has room for 6 * len + 2 octets; returns how many were written. */
size_t json_quote(char *to, const char *p, size_t len);

/* Whether the text is a number by RFC 8259's grammar, all of it. */
bool json_number_valid(const char *p, size_t len);

#endif
