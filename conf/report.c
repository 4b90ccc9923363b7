#include "conf/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct report_entry {
    int entry_line;       /* 0: the file as a whole */
    unsigned entry_order; /* of arrival: what one line has stays in order */
    bool entry_warning;
    const char *entry_override; /* NULL: not from the command line */
    char *entry_text;
};

static void report_add(struct report *r, const config_setting_t *where, int line, const char *override, bool warning,
                       const char *format, va_list ap) __attribute__((format(printf, 6, 0)));
static const char *report_origin(const config_setting_t *where);
static int report_compare(const void *a, const void *b);

void report_error(struct report *r, int line, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    report_add(r, NULL, line, NULL, false, format, ap);
    va_end(ap);
}

void report_setting(struct report *r, const config_setting_t *where, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    report_add(r, where, 0, NULL, false, format, ap);
    va_end(ap);
}

void report_warning(struct report *r, const config_setting_t *where, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    report_add(r, where, 0, NULL, true, format, ap);
    va_end(ap);
}

void report_override(struct report *r, const char *text, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    report_add(r, NULL, 0, text, false, format, ap);
    va_end(ap);
}

void report_flush(struct report *r, FILE *out)
{
    if (r->report_n != 0)
        qsort(r->report_entries, r->report_n, sizeof *r->report_entries, report_compare);
    for (unsigned i = 0; i < r->report_n; i++) {
        const struct report_entry *e = &r->report_entries[i];

        if (e->entry_override != NULL)
            fprintf(out, "-o %s: ", e->entry_override);
        else if (e->entry_line != 0)
            fprintf(out, "%s:%d: ", r->report_file, e->entry_line);
        else
            fprintf(out, "%s: ", r->report_file);
        fprintf(out, "%s%s\n", e->entry_warning ? "warning: " : "", e->entry_text);
    }
    if (r->report_left_out != 0)
        fprintf(out, "%s: and %u more\n", r->report_file, r->report_left_out);
    report_discard(r);
}

void report_discard(struct report *r)
{
    free(r->report_entries);
    memory_free(&r->report_memory);
    *r = (struct report){.report_file = r->report_file, .report_errors = r->report_errors};
}

static void report_add(struct report *r, const config_setting_t *where, int line, const char *override, bool warning,
                       const char *format, va_list ap)
{
    struct report_entry *e;
    char text[1024];

    if (r == NULL)
        return;
    if (!warning)
        r->report_errors++;
    if (r->report_n == REPORT_LINES_MAX) {
        r->report_left_out++;
        return;
    }
    if (r->report_n == r->report_size) {
        struct report_entry *more;

        more = realloc(r->report_entries, (r->report_size * 2 + 16) * sizeof *more);
        if (more == NULL) {
            r->report_left_out++;
            return;
        }
        r->report_entries = more;
        r->report_size = r->report_size * 2 + 16;
    }
    (void)vsnprintf(text, sizeof text, format, ap);
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    e = &r->report_entries[r->report_n];
    if (where != NULL)
        line = config_setting_is_root(where) ? 1 : (int)config_setting_source_line(where);
    e->entry_line = line;
    e->entry_order = r->report_n++;
    e->entry_warning = warning;
    e->entry_override = where != NULL ? report_origin(where) : override;
    e->entry_text = memory_text(&r->report_memory, text, strlen(text));
}

/* The -o that a setting came from, itself or with a group around it; NULL when it stands in the file. */
static const char *report_origin(const config_setting_t *where)
{
    for (; where != NULL; where = config_setting_parent(where))
        if (config_setting_get_hook(where) != NULL)
            return config_setting_get_hook(where);
    return NULL;
}

static int report_compare(const void *a, const void *b)
{
    const struct report_entry *x = a, *y = b;

    if ((x->entry_override != NULL) != (y->entry_override != NULL))
        return x->entry_override != NULL ? -1 : 1;
    if (x->entry_override == NULL && x->entry_line != y->entry_line)
        return x->entry_line < y->entry_line ? -1 : 1;
    return x->entry_order < y->entry_order ? -1 : 1;
}
