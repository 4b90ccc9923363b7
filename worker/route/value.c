#include "worker/route/value.h"

#include "worker/route/runs.h"

#define DIMENSIONS_MAX 6u /* PostgreSQL's MAXDIM */
#define DIGITS_SAFE 19u   /* so many digits never overflow 64 bits */

/* RFC 8259 section 6, fed octet by octet. */
enum number {
    NUMBER_START,
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_INT,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_SIGN,
    NUMBER_EXPONENT,
    NUMBER_BAD
};

static const char *check_json(const struct param_value *v);
static const char *check_array(const struct pg_type *elem, const struct param_value *v, unsigned dimensions);
static const char *check_bool(const struct param_value *v);
static inline const char *check_integer(const struct param_value *v, uint64_t lowest, uint64_t highest,
                                        const char *range);
static const char *check_integer_odd(const struct param_value *v, uint64_t lowest, uint64_t highest, const char *range)
    __attribute__((noinline));
static const char *check_number(const struct param_value *v);
static const char *check_uuid(const struct param_value *v);
static enum number number_step(enum number state, char c);
static void write_array(struct out *o, const struct pg_type *type, const struct param_value *v);
static void write_element(struct out *o, struct slice run);

static const char why_integer[] = "is not a whole number";

const char *value_check(const struct pg_type *type, const struct param_value *v)
{
    if (v->value_form == PARAM_NULL)
        return NULL;
    if (value_wants_json(type))
        return v->value_has_nul && type->type_kind == PG_JSONB ? "holds \\u0000, which jsonb cannot" : check_json(v);
    if (v->value_form >= PARAM_JSON_STRING) {
        if (v->value_has_nul)
            return "holds \\u0000, which text cannot";
        if (value_wants_array(type))
            return v->value_form == PARAM_JSON_VALUE && *v->value_p == '[' ? check_array(type->type_elem, v, 1)
                                                                           : "is not an array";
        if (v->value_form == PARAM_JSON_VALUE)
            return *v->value_p == '[' ? "is an array" : "is an object";
    }
    switch (type->type_kind) {
    case PG_BOOL:
        return check_bool(v);
    case PG_INT2:
        return check_integer(v, 1u << 15, INT16_MAX, "is out of range for int2 (-32768 to 32767)");
    case PG_INT4:
        return check_integer(v, 1u << 31, INT32_MAX, "is out of range for int4 (-2147483648 to 2147483647)");
    case PG_INT8:
        return check_integer(v, 1ull << 63, INT64_MAX,
                             "is out of range for int8 (-9223372036854775808 to 9223372036854775807)");
    case PG_OID:
        return check_integer(v, 0, UINT32_MAX, "is out of range for oid (0 to 4294967295)");
    case PG_FLOAT4:
    case PG_FLOAT8:
    case PG_NUMERIC:
        return check_number(v);
    case PG_UUID:
        return check_uuid(v);
    default:
        return NULL;
    }
}

void value_write(struct out *o, const struct pg_type *type, const struct param_value *v)
{
    unsigned char *p;
    struct out_mark length;
    struct slice piece;
    struct value_runs r;

    if (v->value_form == PARAM_NULL) {
        out_write(o, "\xff\xff\xff\xff", 4);
        return;
    }
    if (value_piece(type, v, &piece)) {
        unsigned char be[4] = {(unsigned char)(piece.slice_len >> 24), (unsigned char)(piece.slice_len >> 16),
                               (unsigned char)(piece.slice_len >> 8), (unsigned char)piece.slice_len};

        if (piece.slice_len > OUT_RESERVE_MAX - 4) {
            out_write(o, be, 4);
            out_write(o, piece.slice_p, piece.slice_len);
        } else if ((p = out_reserve(o, piece.slice_len + 4)) != NULL) {
            memcpy(p, be, 4);
            memcpy(p + 4, piece.slice_p, piece.slice_len);
            out_commit(o, piece.slice_len + 4);
        }
        return;
    }
    length = out_hole(o, 4);
    if (v->value_form == PARAM_JSON_VALUE) {
        write_array(o, type, v);
    } else {
        value_runs(&r, v);
        while ((piece = value_next(&r)).slice_len > 0)
            out_write(o, piece.slice_p, piece.slice_len);
    }
    out_patch_be32(length, (uint32_t)(out_since(o, length) - 4));
}

/* What came as JSON was checked with its document.  Other text is checked here; what is too long to be decoded into one
 * piece is left to PostgreSQL. */
static const char *check_json(const struct param_value *v)
{
    struct slice text = {v->value_p, v->value_len};

    if (v->value_form >= PARAM_JSON_STRING)
        return NULL;
    if (v->value_has_escape) {
        struct value_gathered all = value_gather(v);

        if (all.gathered_p == NULL)
            return NULL;
        text = (struct slice){all.gathered_p, all.gathered_len};
    }
    return json_check(text, NULL, NULL);
}

/* A JSON array for an array of `elem`.  Arrays inside are further dimensions, but for json, whose elements they are. */
static const char *check_array(const struct pg_type *elem, const struct param_value *v, unsigned dimensions)
{
    struct slice array = {v->value_p, v->value_len}, value;
    enum json_kind kind;
    struct param_value e;
    size_t at = 0;

    if (dimensions > DIMENSIONS_MAX)
        return "has more than six dimensions";
    while (json_array_next(array, &at, &value, &kind)) {
        const char *why;

        e = value_element(v, value, kind);
        if (kind == JSON_ARRAY && !value_wants_json(elem))
            why = check_array(elem, &e, dimensions + 1);
        else
            why = value_check(elem, &e);
        if (why != NULL)
            return why;
    }
    return NULL;
}

static const char *check_bool(const struct param_value *v)
{
    static const struct slice words[] = {SLICE_LITERAL("true"), SLICE_LITERAL("false"), SLICE_LITERAL("t"),
                                         SLICE_LITERAL("f"),    SLICE_LITERAL("1"),     SLICE_LITERAL("0")};
    unsigned i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (value_eq(v, words[i].slice_p, words[i].slice_len))
            return NULL;
    return "is not true or false";
}

/* -?[0-9]+, of any length.  lowest: the magnitude of the lowest value. */
static inline const char *check_integer(const struct param_value *v, uint64_t lowest, uint64_t highest,
                                        const char *range)
{
    bool negative;
    uint64_t n = 0;
    size_t i;

    if (__builtin_expect(v->value_has_escape || v->value_len > DIGITS_SAFE || v->value_len == 0, 0))
        return check_integer_odd(v, lowest, highest, range);
    negative = *v->value_p == '-';
    for (i = negative; i < v->value_len; i++) {
        unsigned d = (unsigned char)v->value_p[i] - (unsigned)'0';

        if (d > 9)
            return why_integer;
        n = n * 10 + d;
    }
    if (v->value_len == (size_t)negative)
        return why_integer;
    return n > (negative ? lowest : highest) ? range : NULL;
}

/* Any number of digits, in any form. */
static const char *check_integer_odd(const struct param_value *v, uint64_t lowest, uint64_t highest, const char *range)
{
    bool negative = false, sign = true, digit = false, over = false;
    uint64_t n = 0;
    struct slice run;
    struct value_runs r;
    size_t i;

    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        for (i = 0; i < run.slice_len; i++) {
            unsigned d = (unsigned char)run.slice_p[i] - (unsigned)'0';

            if (d > 9) {
                if (run.slice_p[i] != '-' || !sign)
                    return why_integer;
                negative = true;
            } else {
                digit = true;
                over =
                    over || __builtin_mul_overflow(n, (uint64_t)10, &n) || __builtin_add_overflow(n, (uint64_t)d, &n);
            }
            sign = false;
        }
    }
    if (!digit)
        return why_integer;
    return over || n > (negative ? lowest : highest) ? range : NULL;
}

static const char *check_number(const struct param_value *v)
{
    enum number state = NUMBER_START;
    struct slice run;
    struct value_runs r;
    size_t i;

    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0)
        for (i = 0; i < run.slice_len; i++)
            state = number_step(state, run.slice_p[i]);
    if (state == NUMBER_ZERO || state == NUMBER_INT || state == NUMBER_FRACTION || state == NUMBER_EXPONENT ||
        value_is_word(v))
        return NULL;
    return "is not a number";
}

/* As uuid_in reads it: 32 hexadecimal digits, a hyphen after any group of four, braces around it all. */
static const char *check_uuid(const struct param_value *v)
{
    static const char why[] = "is not a UUID";
    bool open = false, closed = false, hyphen = false, first = true;
    unsigned digits = 0;
    struct slice run;
    struct value_runs r;
    size_t i;

    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        for (i = 0; i < run.slice_len; i++) {
            char c = run.slice_p[i], lower = (char)(c | 0x20);

            if (closed)
                return why;
            if ((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f')) {
                if (++digits > 32)
                    return why;
                hyphen = false;
            } else if (c == '-' && digits > 0 && digits < 32 && digits % 4 == 0 && !hyphen) {
                hyphen = true;
            } else if (c == '{' && first) {
                open = true;
            } else if (c == '}' && open && digits == 32) {
                closed = true;
            } else {
                return why;
            }
            first = false;
        }
    }
    return digits == 32 && open == closed ? NULL : why;
}

static enum number number_step(enum number state, char c)
{
    bool digit = c >= '0' && c <= '9';

    switch (state) {
    case NUMBER_START:
        if (c == '-')
            return NUMBER_MINUS;
        __attribute__((fallthrough));
    case NUMBER_MINUS:
        return !digit ? NUMBER_BAD : c == '0' ? NUMBER_ZERO : NUMBER_INT;
    case NUMBER_INT:
        if (digit)
            return NUMBER_INT;
        __attribute__((fallthrough));
    case NUMBER_ZERO:
        return c == '.' ? NUMBER_POINT : c == 'e' || c == 'E' ? NUMBER_E : NUMBER_BAD;
    case NUMBER_POINT:
        return digit ? NUMBER_FRACTION : NUMBER_BAD;
    case NUMBER_FRACTION:
        return digit ? NUMBER_FRACTION : c == 'e' || c == 'E' ? NUMBER_E : NUMBER_BAD;
    case NUMBER_E:
        if (c == '+' || c == '-')
            return NUMBER_SIGN;
        __attribute__((fallthrough));
    case NUMBER_SIGN:
    case NUMBER_EXPONENT:
        return digit ? NUMBER_EXPONENT : NUMBER_BAD;
    case NUMBER_BAD:
        break;
    }
    return NUMBER_BAD;
}

/* A JSON array as an array literal (PostgreSQL manual 8.15.2).  Its depth was checked. */
static void write_array(struct out *o, const struct pg_type *type, const struct param_value *v)
{
    struct slice array = {v->value_p, v->value_len}, value;
    const struct pg_type *elem = type->type_elem;
    enum json_kind kind;
    struct param_value e;
    size_t at = 0;
    char delim = '{';

    while (json_array_next(array, &at, &value, &kind)) {
        out_write(o, &delim, 1);
        delim = type->type_delim;
        e = value_element(v, value, kind);
        if (kind == JSON_NULL) {
            out_literal(o, "NULL");
        } else if (kind == JSON_ARRAY && !value_wants_json(elem)) {
            write_array(o, type, &e);
        } else if (e.value_form == PARAM_JSON_LITERAL) {
            out_write(o, value.slice_p, value.slice_len);
        } else {
            struct value_runs r;

            out_literal(o, "\"");
            if (value_piece(elem, &e, &value)) {
                write_element(o, value);
            } else {
                value_runs(&r, &e);
                while ((value = value_next(&r)).slice_len > 0)
                    write_element(o, value);
            }
            out_literal(o, "\"");
        }
    }
    if (delim == '{')
        out_literal(o, "{");
    out_literal(o, "}");
}

/* Octets between the quotes of an array's element. */
static void write_element(struct out *o, struct slice run)
{
    size_t from = 0, i;

    for (i = 0; i < run.slice_len; i++) {
        if (run.slice_p[i] == '"' || run.slice_p[i] == '\\') {
            out_write(o, run.slice_p + from, i - from);
            out_literal(o, "\\");
            from = i;
        }
    }
    out_write(o, run.slice_p + from, run.slice_len - from);
}
