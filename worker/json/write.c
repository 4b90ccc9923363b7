#include "worker/json/write.h"

#include <strings.h>

#include "worker/json/scan.h"

#define DEPTH_MAX 64u
#define TIMESTAMP_MAX 64u /* PostgreSQL's MAXDATELEN is 128, but what ISO prints is below 40 */
#define VOID_OID 2278u

enum array_state { ARRAY_FIRST, ARRAY_NEXT, ARRAY_AFTER }; /* a value or the end; a value; a comma or the end */

static void write_any(struct out *o, const struct pg_type *type, char *text, size_t len, unsigned depth);
static void write_number(struct out *o, const char *p, size_t len, unsigned depth);
static void write_timestamp(struct out *o, const char *p, size_t len, bool zone);
static void write_json(struct out *o, const char *p, size_t len);
static void write_array(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth);
static void write_vector(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth);
static char *array_bare(char *p, const char *end, char delim, size_t *len);
static char *array_quoted(char *p, const char *end, size_t *len);
static void write_composite(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth);
static char *composite_field(char *p, const char *end, size_t *len);
static void write_hstore(struct out *o, char *p, size_t len);
static unsigned escape(char to[6], unsigned char c);

void json_write_value(struct out *o, const struct pg_type *type, char *text, size_t len)
{
    write_any(o, type, text, len, 0);
}

void json_write_string(struct out *o, const char *p, size_t len)
{
    out_literal(o, "\"");
    for (;;) {
        size_t n = scan_clean(p, len);
        char to[6];

        if (n > 0)
            out_write(o, p, n);
        if (n == len)
            break;
        out_write(o, to, escape(to, (unsigned char)p[n]));
        p += n + 1;
        len -= n + 1;
    }
    out_literal(o, "\"");
}

size_t json_quote(char *to, const char *p, size_t len)
{
    char *from = to;

    *to++ = '"';
    for (;;) {
        size_t n = scan_clean(p, len);

        memcpy(to, p, n);
        to += n;
        if (n == len)
            break;
        to += escape(to, (unsigned char)p[n]);
        p += n + 1;
        len -= n + 1;
    }
    *to++ = '"';
    return (size_t)(to - from);
}

bool json_number_valid(const char *p, size_t len)
{
    const char *end = p + len;

    if (p < end && *p == '-')
        p++;
    if (p == end || *p < '0' || *p > '9')
        return false;
    if (*p == '0')
        p++;
    else
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    if (p < end && *p == '.') {
        p++;
        if (p == end || *p < '0' || *p > '9')
            return false;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || *p < '0' || *p > '9')
            return false;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    return p == end;
}

/* depth: how many arrays and composites are around the value. */
static void write_any(struct out *o, const struct pg_type *type, char *text, size_t len, unsigned depth)
{
    if (text == NULL) {
        out_literal(o, "null");
        return;
    }
    switch (type->type_kind) {
    case PG_BOOL:
        if (len == 1 && *text == 't')
            out_literal(o, "true");
        else if (len == 1 && *text == 'f')
            out_literal(o, "false");
        else
            json_write_string(o, text, len);
        break;
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
    case PG_FLOAT4:
    case PG_FLOAT8:
    case PG_NUMERIC:
        write_number(o, text, len, depth);
        break;
    case PG_JSON:
    case PG_JSONB:
        write_json(o, text, len);
        break;
    case PG_TIMESTAMP:
        write_timestamp(o, text, len, false);
        break;
    case PG_TIMESTAMPTZ:
        write_timestamp(o, text, len, true);
        break;
    case PG_ARRAY:
        if (depth < DEPTH_MAX)
            write_array(o, type, text, len, depth);
        else
            json_write_string(o, text, len);
        break;
    case PG_COMPOSITE:
        if (depth < DEPTH_MAX)
            write_composite(o, type, text, len, depth);
        else
            json_write_string(o, text, len);
        break;
    case PG_HSTORE:
        write_hstore(o, text, len);
        break;
    case PG_OTHER:
        if (len == 0 && type->type_oid == VOID_OID) {
            out_literal(o, "null"); /* to_json refuses it; a function that returns nothing says null */
            break;
        }
        json_write_string(o, text, len);
        break;
    case PG_OID:
    case PG_DATE:
    case PG_BYTEA:
    case PG_UUID:
    case PG_TEXT:
        json_write_string(o, text, len);
        break;
    }
}

/* What PostgreSQL prints for a number is one by JSON's grammar, but for NaN and the infinities.  Inside arrays and
 * composites all of it is looked at: there the text may not be of the type that was learnt (ALTER TYPE). */
static void write_number(struct out *o, const char *p, size_t len, unsigned depth)
{
    bool valid;

    if (depth > 0)
        valid = json_number_valid(p, len);
    else
        valid = len > 0 && ((p[0] >= '0' && p[0] <= '9') || (p[0] == '-' && len > 1 && p[1] >= '0' && p[1] <= '9'));
    if (valid)
        out_write(o, p, len);
    else
        json_write_string(o, p, len);
}

/* From DateStyle=ISO to ISO 8601 as to_json has it: `2024-02-29 12:34:56.5+01` -> `2024-02-29T12:34:56.5+01:00`; the
 * zone has minutes always and seconds when it needs them.  `infinity` and a trailing ` BC` stay. */
static void write_timestamp(struct out *o, const char *p, size_t len, bool zone)
{
    char iso[TIMESTAMP_MAX + 3];
    const char *space, *end = p + len, *sign;
    size_t n;

    space = memchr(p, ' ', len);
    if (len > TIMESTAMP_MAX || space == NULL || *p < '0' || *p > '9') {
        json_write_string(o, p, len);
        return;
    }
    memcpy(iso, p, len);
    iso[space - p] = 'T';
    n = len;
    if (zone) {
        const char *stop = memchr(space + 1, ' ', (size_t)(end - space - 1));

        if (stop == NULL)
            stop = end;
        for (sign = stop - 1; sign > space && *sign != '+' && *sign != '-'; sign--)
            ;
        if (sign > space && stop - sign == 3) { /* +hh */
            size_t at = (size_t)(stop - p);

            memcpy(iso + at, ":00", 3);
            memcpy(iso + at + 3, stop, (size_t)(end - stop));
            n += 3;
        }
    }
    json_write_string(o, iso, n);
}

/* json and jsonb as they are; a database in SQL_ASCII may hold what is not UTF-8. */
static void write_json(struct out *o, const char *p, size_t len)
{
    if (len == 0) {
        out_literal(o, "null");
        return;
    }
    while (len > 0) {
        size_t n = scan_ascii(p, len);

        while (n < len) {
            unsigned sequence = scan_utf8(p + n, len - n);

            if (sequence == 0)
                break;
            n += sequence;
            n += scan_ascii(p + n, len - n);
        }
        if (n > 0)
            out_write(o, p, n);
        if (n == len)
            break;
        out_literal(o, "\xef\xbf\xbd");
        p += n + 1;
        len -= n + 1;
    }
}

/* `{1,NULL,"a\"b"}`, `{{1,2},{3,4}}`, `[0:2]={1,2,3}` (PostgreSQL manual 8.15.6).  What does not go on as it should is
 * cut off there, and the brackets are closed. */
static void write_array(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth)
{
    const char *end = p + len;
    enum array_state state = ARRAY_NEXT;
    char *open = p;
    unsigned level = 0;

    if (len == 0 || (*p != '{' && *p != '[')) {
        write_vector(o, type, p, len, depth);
        return;
    }
    if (*p == '[') {
        open = memchr(p, '=', len);
        if (open != NULL)
            open++;
    }
    if (open == NULL || open == end || *open != '{') {
        json_write_string(o, p, len);
        return;
    }
    for (p = open; p < end;) {
        if (*p == ' ') {
            p++;
        } else if (*p == '{' && state != ARRAY_AFTER && depth + level < DEPTH_MAX) {
            out_literal(o, "[");
            level++;
            p++;
            state = ARRAY_FIRST;
        } else if (*p == '}' && state != ARRAY_NEXT) {
            out_literal(o, "]");
            level--;
            p++;
            state = ARRAY_AFTER;
            if (level == 0)
                break;
        } else if (*p == type->type_delim && state == ARRAY_AFTER) {
            out_literal(o, ",");
            p++;
            state = ARRAY_NEXT;
        } else if (state == ARRAY_AFTER || *p == type->type_delim || *p == '}' || *p == '{') {
            break;
        } else {
            char *value = p;
            bool quoted = *p == '"';
            size_t n;

            if (quoted)
                p = array_quoted(++value, end, &n);
            else
                p = array_bare(value, end, type->type_delim, &n);
            if (!quoted && n == 4 && strncasecmp(value, "null", 4) == 0)
                value = NULL;
            write_any(o, type->type_elem, value, n, depth + level);
            state = ARRAY_AFTER;
        }
    }
    if (level > 0 && state == ARRAY_NEXT)
        out_literal(o, "null");
    for (; level > 0; level--)
        out_literal(o, "]");
}

/* int2vector and oidvector: `1 2 3`. */
static void write_vector(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth)
{
    char *end = p + len;

    out_literal(o, "[");
    while (p < end) {
        char *space = memchr(p, ' ', (size_t)(end - p));

        if (space == NULL)
            space = end;
        write_any(o, type->type_elem, p, (size_t)(space - p), depth + 1);
        if (space == end)
            break;
        out_literal(o, ",");
        p = space + 1;
        if (p == end)
            out_literal(o, "null"); /* malformed: PostgreSQL leaves no space at the end */
    }
    out_literal(o, "]");
}

/* An element without quotes; returns what follows. */
static char *array_bare(char *p, const char *end, char delim, size_t *len)
{
    char *from = p, *last;

    while (p < end && *p != delim && *p != '}')
        p++;
    for (last = p; last > from && last[-1] == ' '; last--)
        ;
    *len = (size_t)(last - from);
    return p;
}

/* An element behind its opening quote, unquoted in place; returns what follows the closing one. */
static char *array_quoted(char *p, const char *end, size_t *len)
{
    char *from = p, *to;

    while (p < end && *p != '"' && *p != '\\')
        p++;
    to = p;
    while (p < end && *p != '"') {
        if (*p == '\\' && p + 1 < end)
            p++;
        *to++ = *p++;
    }
    *len = (size_t)(to - from);
    return p < end ? p + 1 : p;
}

/* `(1,,"a ""b\\""")` (PostgreSQL manual 8.16.6).  Fields that the text lacks are null, and what is too much is left
 * out: both mean that the type was altered after it was learnt. */
static void write_composite(struct out *o, const struct pg_type *type, char *p, size_t len, unsigned depth)
{
    const char *end = p + len;
    bool more = true;
    unsigned i;

    if (len == 0 || *p != '(') {
        json_write_string(o, p, len);
        return;
    }
    p++;
    out_literal(o, "{");
    for (i = 0; i < type->type_fields_n; i++) {
        const struct pg_field *field = &type->type_fields[i];
        char *value = NULL;
        size_t n = 0;

        if (i > 0)
            out_literal(o, ",");
        json_write_string(o, field->field_name, strlen(field->field_name));
        out_literal(o, ":");
        if (more) {
            if (p < end && *p != ',' && *p != ')') {
                value = p;
                p = composite_field(p, end, &n);
            }
            more = p < end && *p == ',';
            if (more)
                p++;
        }
        if (!more && i + 1 < type->type_fields_n)
            pg_types_outdated = true;
        write_any(o, field->field_type, value, n, depth + 1);
    }
    if (more && type->type_fields_n > 0)
        pg_types_outdated = true;
    out_literal(o, "}");
}

/* A field that is not empty, unquoted in place; returns the comma or parenthesis behind it. */
static char *composite_field(char *p, const char *end, size_t *len)
{
    char *from = p, *to = p;
    bool quoted = false;

    for (; p < end; p++) {
        if (*p == '\\' && p + 1 < end) {
            *to++ = *++p;
        } else if (*p == '"') {
            if (quoted && p + 1 < end && p[1] == '"')
                *to++ = *p++;
            else
                quoted = !quoted;
        } else if (!quoted && (*p == ',' || *p == ')')) {
            break;
        } else {
            *to++ = *p;
        }
    }
    *len = (size_t)(to - from);
    return p;
}

/* `"a"=>"1", "b"=>NULL`: an object of strings and nulls. */
static void write_hstore(struct out *o, char *p, size_t len)
{
    const char *end = p + len;
    bool first = true;

    out_literal(o, "{");
    while (p < end && *p == '"') {
        char *name = p + 1;
        size_t n;

        p = array_quoted(name, end, &n);
        if (end - p < 3 || p[0] != '=' || p[1] != '>')
            break;
        if (!first)
            out_literal(o, ",");
        first = false;
        json_write_string(o, name, n);
        out_literal(o, ":");
        p += 2;
        if (*p == '"') {
            char *value = p + 1;

            p = array_quoted(value, end, &n);
            json_write_string(o, value, n);
        } else {
            out_literal(o, "null");
            while (p < end && *p != ',')
                p++;
        }
        if (end - p < 2 || p[0] != ',' || p[1] != ' ')
            break;
        p += 2;
    }
    out_literal(o, "}");
}

/* An octet that a JSON string does not take as it is; returns how many were written.  PostgreSQL's escape_json has the
 * same short forms. */
static unsigned escape(char to[6], unsigned char c)
{
    static const char digits[] = "0123456789abcdef";

    if (c >= 0x80) {
        memcpy(to, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 3;
    }
    to[0] = '\\';
    switch (c) {
    case '"':
    case '\\':
        to[1] = (char)c;
        return 2;
    case '\b':
        to[1] = 'b';
        return 2;
    case '\f':
        to[1] = 'f';
        return 2;
    case '\n':
        to[1] = 'n';
        return 2;
    case '\r':
        to[1] = 'r';
        return 2;
    case '\t':
        to[1] = 't';
        return 2;
    default:
        memcpy(to + 1, "u00", 3);
        to[4] = digits[c >> 4];
        to[5] = digits[c & 15];
        return 6;
    }
}
