/* Statement descriptions. */
#include "worker/pg/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct pg_type *describe_type(const struct pg_types *types, Oid oid);
static bool describe_same(const struct pg_statement *s, const PGresult *r, const struct pg_types *types);
static int describe_take(struct pg_statement *s, const PGresult *r, const struct pg_types *types);
static bool describe_broken(struct pg_statement *s, const char *why);

unsigned describe_foreign(const struct describe_entry *entries, unsigned n, FILE *list)
{
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        const PGresult *r = entries[i].entry_result;

        if (r == NULL)
            continue;
        for (int k = 0; k < PQnparams(r); k++)
            if (!pg_types_builtin(PQparamtype(r, k)))
                fprintf(list, "%s%u", found++ > 0 ? "," : "", PQparamtype(r, k));
        for (int k = 0; k < PQnfields(r); k++)
            if (!pg_types_builtin(PQftype(r, k)))
                fprintf(list, "%s%u", found++ > 0 ? "," : "", PQftype(r, k));
    }
    return found;
}

bool describe_news(const struct pg_statement *s, const struct describe_entry *e, const struct pg_types *types)
{
    CHECK_OBJ(s, PG_STATEMENT_MAGIC);
    return e->entry_result != NULL &&
           (s->statement_state != STATEMENT_READY || !describe_same(s, e->entry_result, types));
}

bool describe_apply(struct pg_statement *s, const struct describe_entry *e, const struct pg_types *types)
{
    const char *why;

    CHECK_OBJ(s, PG_STATEMENT_MAGIC);
    if (e->entry_result == NULL)
        return describe_broken(s, e->entry_refused);
    if (s->statement_version > 0 && describe_same(s, e->entry_result, types)) {
        if (s->statement_state == STATEMENT_READY)
            return false;
    } else if (describe_take(s, e->entry_result, types) != 0) {
        return describe_broken(s, "out of memory");
    }
    why = s->statement_described != NULL ? s->statement_described(s, s->statement_arg) : NULL;
    if (why != NULL)
        return describe_broken(s, why);
    s->statement_state = STATEMENT_READY;
    s->statement_why[0] = '\0';
    return false;
}

bool describe_matches(const struct pg_statement *s, const struct codec_message *m, const struct pg_types *types)
{
    const unsigned char *p = m->message_body, *end = p + m->message_len;
    unsigned n = 0;

    if (m->message_type == 'T') {
        if (m->message_len < 2)
            return false;
        n = codec_be16(p);
        p += 2;
    }
    if (n != s->statement_columns_n)
        return false;
    for (unsigned i = 0; i < n; i++) { /* name, table, column, type, length, modifier, format */
        const unsigned char *nul = memchr(p, '\0', (size_t)(end - p));

        if (nul == NULL || end - nul < 1 + 18 || strcmp((const char *)p, s->statement_columns[i].column_name) != 0 ||
            describe_type(types, codec_be32(nul + 1 + 6)) != s->statement_columns[i].column_type)
            return false;
        p = nul + 1 + 18;
    }
    return p == end;
}

void describe_forget(struct pg_statement *s)
{
    for (unsigned i = 0; i < s->statement_columns_n; i++)
        free((char *)(uintptr_t)s->statement_columns[i].column_name);
    free(s->statement_columns);
    free(s->statement_params);
    s->statement_columns = NULL;
    s->statement_params = NULL;
    s->statement_columns_n = s->statement_params_n = 0;
}

static const struct pg_type *describe_type(const struct pg_types *types, Oid oid)
{
    const struct pg_type *t = pg_types_find(types, oid);

    return t != NULL ? t : &pg_type_other;
}

static bool describe_same(const struct pg_statement *s, const PGresult *r, const struct pg_types *types)
{
    if (s->statement_params_n != (unsigned)PQnparams(r) || s->statement_columns_n != (unsigned)PQnfields(r))
        return false;
    for (unsigned i = 0; i < s->statement_params_n; i++)
        if (s->statement_params[i] != describe_type(types, PQparamtype(r, (int)i)))
            return false;
    for (unsigned i = 0; i < s->statement_columns_n; i++)
        if (s->statement_columns[i].column_type != describe_type(types, PQftype(r, (int)i)) ||
            strcmp(s->statement_columns[i].column_name, PQfname(r, (int)i)) != 0)
            return false;
    return true;
}

/* gcc's analyzer does not see what is stored at places that it cannot count. */
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
static int describe_take(struct pg_statement *s, const PGresult *r, const struct pg_types *types)
{
    unsigned params_n = (unsigned)PQnparams(r), columns_n = (unsigned)PQnfields(r);

    describe_forget(s);
    s->statement_version++;
    s->statement_doubt_wait_ns = PG_DOUBT_FIRST_NS; /* it does change */
    s->statement_params = calloc(params_n + 1, sizeof(struct pg_type *));
    s->statement_columns = calloc(columns_n + 1, sizeof *s->statement_columns);
    if (s->statement_params == NULL || s->statement_columns == NULL)
        return -1;
    for (unsigned i = 0; i < params_n; i++)
        s->statement_params[i] = describe_type(types, PQparamtype(r, (int)i));
    s->statement_params_n = params_n;
    for (unsigned i = 0; i < columns_n; i++) {
        s->statement_columns[i].column_type = describe_type(types, PQftype(r, (int)i));
        s->statement_columns[i].column_name = strdup(PQfname(r, (int)i));
        if (s->statement_columns[i].column_name == NULL)
            return -1;
        s->statement_columns_n = i + 1;
    }
    return 0;
}
#pragma GCC diagnostic pop

static bool describe_broken(struct pg_statement *s, const char *why)
{
    bool news = s->statement_state != STATEMENT_BROKEN || strcmp(s->statement_why, why) != 0;

    s->statement_state = STATEMENT_BROKEN;
    if (why != s->statement_why)
        snprintf(s->statement_why, sizeof s->statement_why, "%s", why);
    return news;
}
