#include "ctl/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct table {
    unsigned magic;
#define TABLE_MAGIC 0x7ab1e5c3u
    size_t table_columns, table_cells_n, table_cells_room;
    char **table_cells; /* the headings are the first row; each is malloc'ed */
    bool *table_right;  /* by column */
};

static void table_add(struct table *t, char *text);
static void table_print_row(const struct table *t, const size_t *widths, size_t row, FILE *to);
static size_t table_width(const char *s);
static void *table_need(void *p);

struct table *table_new(const char *const *headings)
{
    struct table *t = table_need(calloc(1, sizeof(*t)));

    t->magic = TABLE_MAGIC;
    for (; *headings != NULL; headings++)
        table_column(t, *headings);
    return t;
}

void table_column(struct table *t, const char *heading)
{
    CHECK_OBJ(t, TABLE_MAGIC);
    AN(t->table_cells_n == t->table_columns);
    t->table_right = table_need(realloc(t->table_right, (t->table_columns + 1) * sizeof(*t->table_right)));
    t->table_right[t->table_columns] = *heading == '>';
    t->table_columns++;
    table_text(t, "%s", heading + (*heading == '>'));
}

void table_text(struct table *t, const char *fmt, ...)
{
    char *text;
    va_list ap;
    int n;

    CHECK_OBJ(t, TABLE_MAGIC);
    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    table_add(t, table_need(n < 0 ? NULL : text));
}

void table_number(struct table *t, uint64_t v)
{
    table_text(t, "%" PRIu64, v);
}

static void table_add(struct table *t, char *text)
{
    char *p;

    for (p = text; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    if (t->table_cells_n == t->table_cells_room) {
        t->table_cells_room = t->table_cells_room * 2 + 64;
        t->table_cells = table_need(realloc(t->table_cells, t->table_cells_room * sizeof(*t->table_cells)));
    }
    t->table_cells[t->table_cells_n++] = text;
}

void table_print(struct table **tp, FILE *to)
{
    struct table *t = *tp;
    size_t *widths, i, width;

    CHECK_OBJ(t, TABLE_MAGIC);
    AN(t->table_columns > 0 && t->table_cells_n % t->table_columns == 0);
    widths = table_need(calloc(t->table_columns, sizeof(*widths)));
    for (i = 0; i < t->table_cells_n; i++) {
        width = table_width(t->table_cells[i]);
        if (width > widths[i % t->table_columns])
            widths[i % t->table_columns] = width;
    }
    for (i = 0; i < t->table_cells_n / t->table_columns; i++)
        table_print_row(t, widths, i, to);
    for (i = 0; i < t->table_cells_n; i++)
        free(t->table_cells[i]);
    free(widths);
    free(t->table_cells);
    free(t->table_right);
    t->magic = 0;
    free(t);
    *tp = NULL;
}

static void table_print_row(const struct table *t, const size_t *widths, size_t row, FILE *to)
{
    const char *cell;
    size_t i;
    int pad;

    for (i = 0; i < t->table_columns; i++) {
        cell = t->table_cells[row * t->table_columns + i];
        pad = (int)(widths[i] - table_width(cell));
        if (i > 0)
            fputs("  ", to);
        if (t->table_right[i])
            fprintf(to, "%*s%s", pad, "", cell);
        else
            fprintf(to, "%s%*s", cell, i + 1 < t->table_columns ? pad : 0, "");
    }
    fputc('\n', to);
}

/* Characters, taking each as one column wide. */
static size_t table_width(const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void *table_need(void *p)
{
    if (p != NULL)
        return p;
    fputs("vanillactl: out of memory\n", stderr);
    exit(1);
}
