/*
 * A route's parameters: from the request's slices to Bind's parameter values, without a copy in between.  Three steps,
 * each cheap: find (where is it, is it there, given twice?), check (does it fit the type that DESCRIBE told?), write
 * (into the Bind message).
 */
#ifndef VANILLA_WORKER_ROUTE_PARAMS_H
#define VANILLA_WORKER_ROUTE_PARAMS_H

#include "conf/conf.h"
#include "worker/http/request.h"
#include "worker/mem/out.h"
#include "worker/pg/types.h"

enum param_form {                     /* how the octets of a found value are to be read */
                  PARAM_NULL,         /* SQL NULL: JSON null */
                  PARAM_PLAIN,        /* as they are: header, cookie, conn.ip, whole body, default */
                  PARAM_PERCENT,      /* percent-encoded: path */
                  PARAM_FORM,         /* percent-encoded with '+' for space: query and form */
                  PARAM_JSON_STRING,  /* JSON string content, may hold escapes */
                  PARAM_JSON_LITERAL, /* JSON number, true, false: its digits or letters */
                  PARAM_JSON_VALUE    /* JSON array or object */
};

struct param_value { /* lives in the request; points into its octets or into the configuration */
    const char *value_p;
    uint32_t value_len;
    uint8_t value_form;       /* enum param_form */
    uint8_t value_has_escape; /* there is something to decode; else the octets are the value */
    uint8_t value_is_default;
    uint8_t value_has_nul; /* JSON: there is \u0000 in it, which PostgreSQL's text cannot hold */
};

struct params_error {
    unsigned error_status;                /* 400, 415 */
    const struct conf_param *error_param; /* NULL: the body as a whole */
    const char *error_why;                /* static sentence: "is required", "is not a whole number", ... */
    bool error_coded;                     /* 415 because of a content coding, not of the type */
};

/* What of a route can be prepared once (start-up: may allocate). */
struct params;
struct params *params_new(const struct conf_route *route) MUSTCHECK;
void params_free(struct params **pp);

/* Finds all values.  args: the path's segments by param_segment; peer: conn.ip as text (empty: NULL, or the default).
 * values: route_params_n of them. Checks: required, given twice, escapes, UTF-8, content type (415), the JSON document.
 * Returns 0 or -1 with *error. */
int params_find(const struct params *p, const struct http_request *rq, const struct slice *args, struct slice peer,
                struct param_value *values, struct params_error *error) MUSTCHECK;

/* Checks the values against the types of the described statement (n == route_params_n).  0 or -1 with *error. */
int params_check(const struct params *p, const struct pg_type *const *types, const struct param_value *values,
                 struct params_error *error) MUSTCHECK;

/* Checks all defaults against the types.  0 or -1 with *error. */
int params_check_defaults(const struct params *p, const struct pg_type *const *types,
                          struct params_error *error) MUSTCHECK;

/* Appends Bind's "parameter values" part for all n: for each Int32 length (-1: NULL) and the octets, text format
 * (protocol "Bind (F)", from the Int16 number of parameter values on).  JSON arrays become array literals for PG_ARRAY
 * types. */
void params_write(struct out *o, const struct params *p, const struct pg_type *const *types,
                  const struct param_value *values);

/* Appends value i as JSON by its type (for `echo`). */
void params_echo(struct out *o, const struct params *p, unsigned i, const struct pg_type *type,
                 const struct param_value *value);

#endif
