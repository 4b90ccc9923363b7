#include "worker/route/runs.h"

#include "worker/http/target.h"

/* A worker has one thread, and nothing is kept in it. */
static char scratch[VALUE_GATHER_MAX];

void value_runs(struct value_runs *r, const struct param_value *v)
{
    r->runs_p = v->value_p;
    r->runs_end = v->value_p + v->value_len;
    r->runs_form = v->value_has_escape ? v->value_form : PARAM_PLAIN;
}

struct slice value_next(struct value_runs *r)
{
    const char *p = r->runs_p;
    struct slice run = {p, (size_t)(r->runs_end - p)};

    switch (r->runs_form) {
    case PARAM_JSON_STRING:
        return json_string_next(&r->runs_p, r->runs_end, r->runs_scratch);
    case PARAM_PERCENT:
    case PARAM_FORM:
        if (p == r->runs_end)
            return run;
        while (p < r->runs_end && *p != '%' && (*p != '+' || r->runs_form != PARAM_FORM))
            p++;
        if (p > r->runs_p) {
            run.slice_len = (size_t)(p - r->runs_p);
            r->runs_p = p;
            return run;
        }
        r->runs_scratch[0] = (char)http_unescape_next(&r->runs_p, r->runs_form == PARAM_FORM);
        return (struct slice){r->runs_scratch, 1};
    default:
        r->runs_p = r->runs_end;
        return run;
    }
}

bool value_eq(const struct param_value *v, const char *plain, size_t len)
{
    struct slice run;
    struct value_runs r;

    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        if (run.slice_len > len || memcmp(run.slice_p, plain, run.slice_len) != 0)
            return false;
        plain += run.slice_len;
        len -= run.slice_len;
    }
    return len == 0;
}

bool value_is_word(const struct param_value *v)
{
    return value_eq(v, "NaN", 3) || value_eq(v, "Infinity", 8) || value_eq(v, "-Infinity", 9);
}

bool value_piece(const struct pg_type *type, const struct param_value *v, struct slice *piece)
{
    *piece = (struct slice){v->value_p, v->value_len};
    if (v->value_form == PARAM_JSON_STRING && value_wants_json(type)) { /* with its quotes, still escaped */
        piece->slice_p--;
        piece->slice_len += 2;
        return true;
    }
    return !v->value_has_escape && (v->value_form != PARAM_JSON_VALUE || value_wants_json(type));
}

struct value_gathered value_gather(const struct param_value *v)
{
    struct value_gathered all = {NULL, 0};
    struct value_runs r;
    struct slice run;

    if (v->value_len > VALUE_GATHER_MAX) /* decoded it may be shorter, but never longer */
        return all;
    all.gathered_p = scratch;
    value_runs(&r, v);
    while ((run = value_next(&r)).slice_len > 0) {
        memcpy(scratch + all.gathered_len, run.slice_p, run.slice_len);
        all.gathered_len += run.slice_len;
    }
    return all;
}

struct param_value value_element(const struct param_value *array, struct slice value, enum json_kind kind)
{
    struct param_value e = {0};

    e.value_p = value.slice_p;
    e.value_len = (uint32_t)value.slice_len;
    e.value_has_nul = array->value_has_nul;
    if (kind == JSON_NULL) {
        e.value_form = PARAM_NULL;
    } else if (kind == JSON_STRING) {
        e.value_form = PARAM_JSON_STRING;
        e.value_has_escape = memchr(value.slice_p, '\\', value.slice_len) != NULL;
    } else {
        e.value_form = kind == JSON_ARRAY || kind == JSON_OBJECT ? PARAM_JSON_VALUE : PARAM_JSON_LITERAL;
    }
    return e;
}
