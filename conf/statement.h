/*
 * A route's SQL, looked at without a database: is it one statement, one that leaves the session as it found it, and
 * which $n does it use?  The lexical rules are PostgreSQL's (manual, section 4.1), with standard_conforming_strings on.
 */
#ifndef VANILLA_CONF_STATEMENT_H
#define VANILLA_CONF_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/assert.h"

#define STATEMENT_PARAMS_MAX 64u

struct statement {
    char statement_why[256];   /* what is wrong with it, and what is allowed */
    uint64_t statement_params; /* bit n - 1: $n is used */
    bool statement_calls;      /* CALL or DO: what it runs may end its transaction and begin others */
};

/* True, with statement_params, or false, with statement_why. */
bool statement_check(const char *sql, struct statement *st) MUSTCHECK;

#endif
