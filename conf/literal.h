/*
 * A pass of our own over the file's text, before libconfig's.  libconfig 1.5 wraps a number that is too big in silence
 * (4294967297 becomes 1), takes an open comment for the end of the file, says "syntax error" to everything else, and
 * puts elements of lists on the line of the token behind them.  So the literals are read here too, with their lines,
 * and put right in its tree afterwards.
 */
#ifndef VANILLA_CONF_LITERAL_H
#define VANILLA_CONF_LITERAL_H

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/memory.h"
#include "conf/report.h"
#include "shm/assert.h"

#define LITERAL_DEPTH_MAX 16u /* brackets within brackets; libconfig recurses over them */

/* A scalar of the file. */
struct literal {
    int literal_line;
    bool literal_is_int;
    bool literal_wraps;      /* libconfig will see another number */
    long long literal_value; /* of an int; LLONG_MAX or LLONG_MIN when 64 bits do not hold it */
};

struct literals { /* in the order of the file */
    struct literal *literals_array;
    unsigned literals_n, literals_size;
};

/* Reads the n octets of text; `l` is empty before, and freed by literals_free.  What is wrong with strings, comments,
 * brackets and commas is reported, more of it and better than libconfig does.  0, or -1: there is no use in asking
 * libconfig. */
int literals_scan(struct literals *l, const char *text, size_t n, struct report *r) MUSTCHECK;

/* Gives the tree that libconfig made of the same text the lines and the numbers that stand there.  A number that 64
 * bits do not hold becomes LLONG_MAX or LLONG_MIN, which is out of any setting's range. */
void literals_apply(const struct literals *l, config_setting_t *root);

/* Without a tree: reports the numbers that would have been wrapped. */
void literals_report(const struct literals *l, struct report *r);

void literals_free(struct literals *l);

#endif
