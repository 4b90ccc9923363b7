/*
 * What is wrong with a file: collected while it is read and printed at the end in the order of the lines, so that a
 * person sees all of it in one go.  Where a report is NULL nothing is collected.
 */
#ifndef VANILLA_CONF_REPORT_H
#define VANILLA_CONF_REPORT_H

#include <libconfig.h>
#include <stdbool.h>
#include <stdio.h>

#include "conf/memory.h"

#define REPORT_LINES_MAX 200u /* printed; the rest is counted */

struct report_entry;

struct report {
    const char *report_file; /* its name as the caller wrote it */
    struct report_entry *report_entries;
    unsigned report_n, report_size, report_errors, report_left_out;
    struct memory report_memory;
};

/* A problem at a line of the file; 0: of the file as a whole. */
void report_error(struct report *r, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A problem of a setting: at its line, or at the -o that it came from (see override.h). */
void report_setting(struct report *r, const config_setting_t *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Something that may be meant so, but probably is not: does not make the file wrong. */
void report_warning(struct report *r, const config_setting_t *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A problem of an override: -o TEXT. */
void report_override(struct report *r, const char *text, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Prints everything to `out`, problems of the command line first, and forgets it.  Control characters come out as '?',
 * so that a file cannot speak to the terminal. */
void report_flush(struct report *r, FILE *out);

/* Forgets it. */
void report_discard(struct report *r);

#endif
