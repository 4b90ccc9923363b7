#include "conf/near.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NEAR_NAME_MAX 64u

static unsigned near_distance(const char *a, const char *b);

bool near_names(enum option_group group, const char *name, char *out, size_t size)
{
    unsigned best = strlen(name) < 4 ? 1 : strlen(name) < 9 ? 2 : 3;
    const struct option *o;
    size_t n = 0;

    for (unsigned i = 0; (o = options_row(i)) != NULL; i++)
        if (o->option_group == group && near_distance(name, o->option_name) < best)
            best = near_distance(name, o->option_name);
    for (unsigned i = 0; (o = options_row(i)) != NULL; i++)
        if (o->option_group == group && near_distance(name, o->option_name) <= best && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s\"%s\"", n != 0 ? " or " : "", o->option_name);
    for (unsigned i = 0; n == 0 && (o = options_row(i)) != NULL; i++)
        if (strcmp(name, o->option_name) == 0)
            n += (size_t)snprintf(out, size, "\"%s\" of a %s", name, options_group_name(o->option_group));
    return n != 0;
}

/* How many letters must be changed, put in or taken out to make b of a (Levenshtein); case does not count. */
static unsigned near_distance(const char *a, const char *b)
{
    unsigned row[NEAR_NAME_MAX + 1];
    size_t m = strlen(a), n = strlen(b);

    if (m > NEAR_NAME_MAX || n > NEAR_NAME_MAX)
        return UINT_MAX;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; i <= m; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned above = row[j], best = diagonal + ((a[i - 1] | 0x20) != (b[j - 1] | 0x20));

            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}
