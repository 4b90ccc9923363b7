/* Protocol version 3: messages to PostgreSQL, and what an ErrorResponse says. */
#include "worker/pg/codec.h"

#include <stdlib.h>

unsigned codec_bind_prefix(unsigned char *to, size_t size, const char *name)
{
    size_t len = strlen(name);

    AN(size >= len + 9);
    to[0] = 'B';
    codec_put_be32(to + 1, 0);
    to[5] = '\0'; /* portal */
    memcpy(to + 6, name, len + 1);
    to[7 + len] = to[8 + len] = 0; /* no parameter format codes: all text */
    return (unsigned)(len + 9);
}

unsigned char *codec_parse(const char *sql, size_t *len)
{
    size_t sql_len = strlen(sql);
    size_t body = 4 + 1 + sql_len + 1 + 2;
    unsigned char *p = malloc(1 + body);

    if (p == NULL)
        return NULL;
    p[0] = 'P';
    codec_put_be32(p + 1, (uint32_t)body);
    p[5] = '\0'; /* the unnamed statement */
    memcpy(p + 6, sql, sql_len + 1);
    p[7 + sql_len] = p[8 + sql_len] = 0; /* no parameter types: inferred */
    *len = 1 + body;
    return p;
}

unsigned char *codec_statement(const char *sql, size_t *len)
{
    static const unsigned char none[] = {0, 0}; /* parameter values */
    unsigned char bind[16], *p = codec_parse(sql, len), *all;
    unsigned bind_len = codec_bind_prefix(bind, sizeof bind, "");

    if (p == NULL)
        return NULL;
    all = realloc(p, *len + bind_len + sizeof none + CODEC_EXECUTE_LEN);
    if (all == NULL) {
        free(p);
        return NULL;
    }
    /* Bind's length word does not count its type, but two octets of it come with CODEC_EXECUTE. */
    codec_put_be32(bind + 1, bind_len + (uint32_t)sizeof none + 1);
    memcpy(all + *len, bind, bind_len);
    memcpy(all + *len + bind_len, none, sizeof none);
    memcpy(all + *len + bind_len + sizeof none, CODEC_EXECUTE, CODEC_EXECUTE_LEN);
    *len += bind_len + sizeof none + CODEC_EXECUTE_LEN;
    return all;
}

void codec_cancel(unsigned char to[16], uint32_t pid, uint32_t key)
{
    codec_put_be32(to, 16);
    codec_put_be32(to + 4, 80877102); /* 1234 << 16 | 5678 */
    codec_put_be32(to + 8, pid);
    codec_put_be32(to + 12, key);
}

int codec_error(const struct codec_message *m, struct codec_error *e)
{
    const char *p = (const char *)m->message_body, *end = p + m->message_len;

    memset(e, 0, sizeof *e);
    memcpy(e->error_public.error_sqlstate, "XX000", 6);
    while (p < end && *p != '\0') {
        char field = *p++;
        const char *value = p, *nul = memchr(p, '\0', (size_t)(end - p));

        if (nul == NULL)
            return -1;
        p = nul + 1;
        switch (field) {
        case 'V':
            e->error_severity = value;
            break;
        case 'C':
            if (nul - value == 5)
                memcpy(e->error_public.error_sqlstate, value, 6);
            break;
        case 'M':
            e->error_public.error_message = value;
            break;
        case 'D':
            e->error_public.error_detail = value;
            break;
        case 'H':
            e->error_public.error_hint = value;
            break;
        case 'W':
            e->error_context = value;
            break;
        case 'R':
            e->error_routine = value;
            break;
        default: /* others are for people who read server logs */
            break;
        }
    }
    return p + 1 == end ? 0 : -1; /* the terminator is the last octet */
}

bool codec_error_fatal(const struct codec_error *e)
{
    return e->error_severity != NULL &&
           (strcmp(e->error_severity, "FATAL") == 0 || strcmp(e->error_severity, "PANIC") == 0);
}

unsigned codec_error_parameter(const struct codec_error *e)
{
    const char *dollar = e->error_context != NULL ? strchr(e->error_context, '$') : NULL;
    unsigned n = 0;

    for (dollar = dollar != NULL ? dollar + 1 : ""; *dollar >= '0' && *dollar <= '9' && n < 100000; dollar++)
        n = 10 * n + (unsigned)(*dollar - '0');
    return n;
}

bool codec_error_changed(const struct codec_error *e)
{
    const char *state = e->error_public.error_sqlstate;

    return (strncmp(state, "42", 2) == 0 && strcmp(state, "42501") != 0) || strcmp(state, "3F000") == 0;
}

bool codec_error_stale(const struct codec_error *e)
{
    if (strcmp(e->error_public.error_sqlstate, "26000") == 0)
        return true;
    /* 0A000 is any "feature not supported", and may be the route's own. */
    return strcmp(e->error_public.error_sqlstate, "0A000") == 0 && e->error_routine != NULL &&
           strcmp(e->error_routine, "RevalidateCachedQuery") == 0;
}
