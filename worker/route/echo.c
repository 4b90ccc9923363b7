#include "worker/json/write.h"
#include "worker/route/runs.h"
#include "worker/route/value.h"

static void echo_array(struct out *o, const struct pg_type *elem, const struct param_value *v);
static void echo_integer(struct out *o, const struct param_value *v);
static void echo_octets(struct out *o, const struct param_value *v);

void value_echo(struct out *o, const struct pg_type *type, const struct param_value *v)
{
    struct value_gathered all;
    struct slice piece;
    struct value_runs r;

    if (v->value_form == PARAM_NULL) {
        out_literal(o, "null");
        return;
    }
    switch (type->type_kind) {
    case PG_BOOL:
        value_runs(&r, v);
        piece = value_next(&r);
        if (piece.slice_len > 0 && (piece.slice_p[0] == 't' || piece.slice_p[0] == '1'))
            out_literal(o, "true");
        else
            out_literal(o, "false");
        return;
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
        echo_integer(o, v);
        return;
    case PG_FLOAT4:
    case PG_FLOAT8:
    case PG_NUMERIC:
        if (value_is_word(v))
            break;
        __attribute__((fallthrough));
    case PG_JSON:
    case PG_JSONB:
        if (value_piece(type, v, &piece)) {
            out_write(o, piece.slice_p, piece.slice_len);
            return;
        }
        value_runs(&r, v);
        while ((piece = value_next(&r)).slice_len > 0)
            out_write(o, piece.slice_p, piece.slice_len);
        return;
    case PG_ARRAY:
        if (v->value_form == PARAM_JSON_VALUE) {
            echo_array(o, type->type_elem, v);
            return;
        }
        all = value_gather(v);
        if (all.gathered_p != NULL) {
            json_write_value(o, type, all.gathered_p, all.gathered_len);
            return;
        }
        break;
    default:
        break;
    }
    if (v->value_form == PARAM_JSON_STRING) { /* it stood in a JSON string */
        out_literal(o, "\"");
        out_write(o, v->value_p, v->value_len);
        out_literal(o, "\"");
    } else if (v->value_has_escape) {
        echo_octets(o, v);
    } else {
        json_write_string(o, v->value_p, v->value_len);
    }
}

static void echo_array(struct out *o, const struct pg_type *elem, const struct param_value *v)
{
    struct slice array = {v->value_p, v->value_len}, value;
    enum json_kind kind;
    struct param_value e;
    size_t at = 0;
    char before = '[';

    while (json_array_next(array, &at, &value, &kind)) {
        out_write(o, &before, 1);
        before = ',';
        e = value_element(v, value, kind);
        if (kind == JSON_ARRAY && !value_wants_json(elem))
            echo_array(o, elem, &e);
        else
            value_echo(o, elem, &e);
    }
    if (before == '[')
        out_literal(o, "[");
    out_literal(o, "]");
}

/* Without leading zeros, which JSON does not have; minus zero is zero. */
static void echo_integer(struct out *o, const struct param_value *v)
{
    bool negative = false, begun = false;
    struct slice run;
    struct value_runs r;

    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        size_t i = 0;

        for (; !begun && i < run.slice_len; i++) {
            if (run.slice_p[i] == '-')
                negative = true;
            else if (run.slice_p[i] != '0')
                break;
        }
        if (i == run.slice_len)
            continue;
        if (!begun && negative)
            out_literal(o, "-");
        begun = true;
        out_write(o, run.slice_p + i, run.slice_len - i);
    }
    if (!begun)
        out_literal(o, "0");
}

/* A percent-encoded value as a JSON string.  Its octets are UTF-8 as a whole, but not run by run. */
static void echo_octets(struct out *o, const struct param_value *v)
{
    struct slice run;
    struct value_runs r;
    size_t i, from;

    out_literal(o, "\"");
    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        for (i = from = 0; i < run.slice_len; i++) {
            unsigned char c = (unsigned char)run.slice_p[i];

            if (c >= 0x20 && c != '"' && c != '\\')
                continue;
            out_write(o, run.slice_p + from, i - from);
            if (c >= 0x20) {
                out_literal(o, "\\");
                from = i;
            } else {
                char quoted[8];
                size_t n = json_quote(quoted, run.slice_p + i, 1);

                out_write(o, quoted + 1, n - 2);
                from = i + 1;
            }
        }
        out_write(o, run.slice_p + from, run.slice_len - from);
    }
    out_literal(o, "\"");
}
