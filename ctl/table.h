/* An aligned table: headings, then cells row by row. */
#ifndef VANILLA_CTL_TABLE_H
#define VANILLA_CTL_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "shm/assert.h"

struct table;

/* One column per heading, up to the NULL; a heading that begins with '>' is of a column that is flush right. */
struct table *table_new(const char *const *headings) MUSTCHECK;
/* One more column, before the first cell. */
void table_column(struct table *t, const char *heading);
/* The next cell.  Control characters are shown as '?': names come out of a file. */
void table_text(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_number(struct table *t, uint64_t v);
/* Prints and frees.  Nothing but the headings when there is no row. */
void table_print(struct table **tp, FILE *to);

#endif
