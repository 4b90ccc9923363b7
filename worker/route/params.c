#include "worker/route/params.h"

#include <stdlib.h>
#include <strings.h>

#include "worker/http/target.h"
#include "worker/json/read.h"
#include "worker/json/scan.h"
#include "worker/route/value.h"

#define PARAMS_MAGIC 0x9a4a3550u

enum body_kind { BODY_JSON, BODY_FORM, BODY_UNSUPPORTED };

/* Which of a route's parameters come from one source; most routes have one or two sources. */
struct list {
    unsigned list_n;
    unsigned *list_index; /* into route_params */
};

struct params {
    unsigned magic;
    const struct conf_route *params_route;
    struct slice *params_names; /* by index */
    bool params_paths_only;
    bool params_uncoded;       /* takes a body, and does not ask how it is coded */
    struct list params_direct; /* path, conn.ip, body: nothing is looked for */
    struct list params_query, params_headers, params_cookies, params_fields;
    struct json_member
        *params_members; /* of params_fields, in its order: names set, the rest is used by each request */
};

static bool list_add(struct list *l, unsigned i, unsigned n);
static int find_direct(const struct params *p, const struct http_request *rq, const struct slice *args,
                       struct slice peer, struct param_value *values, struct params_error *error);
static int find_pairs(const struct params *p, const struct list *l, struct slice pairs, bool all,
                      struct param_value *values, struct params_error *error);
static int find_headers(const struct params *p, const struct http_request *rq, struct param_value *values,
                        struct params_error *error);
static int find_cookies(const struct params *p, struct slice cookies, struct param_value *values,
                        struct params_error *error);
static int find_fields(const struct params *p, const struct http_request *rq, struct param_value *values,
                       struct params_error *error);
static int find_members(const struct params *p, struct slice body, struct param_value *values,
                        struct params_error *error);
static int find_defaults(const struct params *p, struct param_value *values, struct params_error *error);
static int set_encoded(struct param_value *v, struct slice s, enum param_form form, const struct conf_param *param,
                       struct params_error *error);
static inline bool name_eq(struct slice name, bool escaped, struct slice plain);
static inline bool is_plain(struct slice s);
static bool has_escape(struct slice s, enum param_form form);
static int set_plain(struct param_value *v, struct slice s, const struct conf_param *param, struct params_error *error);
static enum body_kind body_kind(struct slice type);
static bool lower_eq(struct slice s, const char *lower);
static struct slice trim(const char *p, const char *end);
static int refuse(struct params_error *error, unsigned status, const struct conf_param *param, const char *why);
static int refuse_coded(struct params_error *error) __attribute__((noinline));

static const char why_twice[] = "is given more than once";
static const char why_coded[] = "is coded (Content-Encoding), and no coding is undone here";
static const char why_type[] =
    "is of a type that is not accepted here: application/json or application/x-www-form-urlencoded, in UTF-8";

struct params *params_new(const struct conf_route *route)
{
    struct params *p = calloc(1, sizeof(*p));
    unsigned n = route->route_params_n, i;

    if (p == NULL)
        return NULL;
    p->magic = PARAMS_MAGIC;
    p->params_paths_only = true;
    for (i = 0; i < n; i++)
        if (route->route_params[i].param_source == SOURCE_BODY ||
            route->route_params[i].param_source == SOURCE_BODY_FIELD)
            p->params_uncoded = true;
    for (i = 0; i < n; i++)
        if (route->route_params[i].param_source == SOURCE_HEADER &&
            strcmp(route->route_params[i].param_name, "content-encoding") == 0)
            p->params_uncoded = false;
    p->params_route = route;
    p->params_names = calloc(n + 1, sizeof(*p->params_names));
    p->params_members = calloc(n + 1, sizeof(*p->params_members));
    if (p->params_names == NULL || p->params_members == NULL)
        goto bad;
    for (i = 0; i < n; i++) {
        const struct conf_param *param = &route->route_params[i];
        struct list *l = NULL;

        p->params_names[i] = (struct slice){param->param_name, strlen(param->param_name)};
        if (param->param_source != SOURCE_PATH)
            p->params_paths_only = false;
        switch (param->param_source) {
        case SOURCE_PATH:
        case SOURCE_BODY:
        case SOURCE_CONN_IP:
            l = &p->params_direct;
            break;
        case SOURCE_QUERY:
            l = &p->params_query;
            break;
        case SOURCE_HEADER:
            l = &p->params_headers;
            break;
        case SOURCE_COOKIE:
            l = &p->params_cookies;
            break;
        case SOURCE_BODY_FIELD:
            l = &p->params_fields;
            p->params_members[l->list_n].member_name = p->params_names[i].slice_p;
            p->params_members[l->list_n].member_name_len = p->params_names[i].slice_len;
            break;
        }
        if (l == NULL || !list_add(l, i, n))
            goto bad;
    }
    return p;
bad:
    params_free(&p);
    return NULL;
}

void params_free(struct params **pp)
{
    struct params *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    CHECK_OBJ(p, PARAMS_MAGIC);
    free(p->params_names);
    free(p->params_members);
    free(p->params_direct.list_index);
    free(p->params_query.list_index);
    free(p->params_headers.list_index);
    free(p->params_cookies.list_index);
    free(p->params_fields.list_index);
    p->magic = 0;
    free(p);
}

int params_find(const struct params *p, const struct http_request *rq, const struct slice *args, struct slice peer,
                struct param_value *values, struct params_error *error)
{
    unsigned n = p->params_route->route_params_n, i;

    CHECK_OBJ(p, PARAMS_MAGIC);
    if (p->params_paths_only) { /* always there, so no default is looked for either */
        for (i = 0; i < n; i++) {
            const struct conf_param *param = &p->params_route->route_params[i];
            struct slice s = args[param->param_segment];

            values[i] = (struct param_value){
                .value_p = s.slice_p, .value_len = (uint32_t)s.slice_len, .value_form = PARAM_PERCENT};
            if (rq->rq_path_escaped && set_encoded(&values[i], s, PARAM_PERCENT, param, error) != 0)
                return -1;
        }
        return 0;
    }
    if (__builtin_expect(rq->rq_coded && p->params_uncoded && rq->rq_body.slice_len > 0, 0))
        return refuse_coded(error);
    for (i = 0; i < n; i++)
        values[i] = (struct param_value){0};
    if (p->params_direct.list_n > 0 && find_direct(p, rq, args, peer, values, error) != 0)
        return -1;
    if (p->params_direct.list_n == n)
        return find_defaults(p, values, error);
    if (p->params_query.list_n > 0 && rq->rq_query.slice_len > 0 &&
        find_pairs(p, &p->params_query, rq->rq_query, false, values, error) != 0)
        return -1;
    if (p->params_headers.list_n > 0 && find_headers(p, rq, values, error) != 0)
        return -1;
    if (p->params_cookies.list_n > 0 && rq->rq_cookie.slice_p != NULL) {
        if (!rq->rq_cookies_more) {
            if (find_cookies(p, rq->rq_cookie, values, error) != 0)
                return -1;
        } else {
            struct slice cookies;
            uint32_t at = 0;

            while (http_field_find(rq, "cookie", 6, &at, &cookies))
                if (find_cookies(p, cookies, values, error) != 0)
                    return -1;
        }
    }
    if (p->params_fields.list_n > 0 && rq->rq_body.slice_len > 0 && find_fields(p, rq, values, error) != 0)
        return -1;
    return find_defaults(p, values, error);
}

int params_check(const struct params *p, const struct pg_type *const *types, const struct param_value *values,
                 struct params_error *error)
{
    unsigned n = p->params_route->route_params_n, i;

    for (i = 0; i < n; i++) {
        const char *why;

        if (__builtin_expect(value_is_digits(types[i], &values[i]), 1))
            continue;
        why = value_check(types[i], &values[i]);
        if (__builtin_expect(why != NULL, 0))
            return refuse(error, values[i].value_is_default ? 500 : 400, &p->params_route->route_params[i], why);
    }
    return 0;
}

int params_check_defaults(const struct params *p, const struct pg_type *const *types, struct params_error *error)
{
    unsigned n = p->params_route->route_params_n, i;

    for (i = 0; i < n; i++) {
        const struct conf_param *param = &p->params_route->route_params[i];
        struct param_value v = {.value_p = param->param_default, .value_form = PARAM_PLAIN, .value_is_default = true};
        const char *why;

        if (param->param_default == NULL)
            continue;
        v.value_len = (uint32_t)strlen(param->param_default);
        why = value_check(types[i], &v);
        if (why != NULL)
            return refuse(error, 500, param, why);
    }
    return 0;
}

void params_write(struct out *o, const struct params *p, const struct pg_type *const *types,
                  const struct param_value *values)
{
    unsigned n = p->params_route->route_params_n, i;
    unsigned char be[2] = {(unsigned char)(n >> 8), (unsigned char)n};

    out_write(o, be, 2);
    for (i = 0; i < n; i++)
        value_write(o, types[i], &values[i]);
}

void params_echo(struct out *o, const struct params *p, unsigned i, const struct pg_type *type,
                 const struct param_value *value)
{
    AN(i < p->params_route->route_params_n);
    value_echo(o, type, value);
}

static bool list_add(struct list *l, unsigned i, unsigned n)
{
    if (l->list_index == NULL)
        l->list_index = calloc(n, sizeof(*l->list_index));
    if (l->list_index == NULL)
        return false;
    l->list_index[l->list_n++] = i;
    return true;
}

static int find_direct(const struct params *p, const struct http_request *rq, const struct slice *args,
                       struct slice peer, struct param_value *values, struct params_error *error)
{
    unsigned k;

    for (k = 0; k < p->params_direct.list_n; k++) {
        unsigned i = p->params_direct.list_index[k];
        const struct conf_param *param = &p->params_route->route_params[i];
        struct param_value *v = &values[i];

        if (param->param_source == SOURCE_PATH) {
            if (set_encoded(v, args[param->param_segment], PARAM_PERCENT, param, error) != 0)
                return -1;
        } else if (param->param_source == SOURCE_CONN_IP) {
            if (peer.slice_len == 0 && param->param_default != NULL)
                continue;
            v->value_p = peer.slice_len > 0 ? peer.slice_p : "";
            v->value_len = (uint32_t)peer.slice_len;
            v->value_form = peer.slice_len > 0 ? PARAM_PLAIN : PARAM_NULL; /* a unix socket's client has none */
        } else if (rq->rq_body.slice_len > 0) {
            if (set_plain(v, rq->rq_body, param, error) != 0)
                return -1;
        } else if ((rq->rq_has_length || rq->rq_chunked) && param->param_default == NULL) {
            v->value_p = ""; /* a body was announced, and it is empty */
            v->value_form = PARAM_PLAIN;
        }
    }
    return 0;
}

/* A query or a form.  all: values that nobody wants are checked too, for nobody has done it yet. */
static int find_pairs(const struct params *p, const struct list *l, struct slice pairs, bool all,
                      struct param_value *values, struct params_error *error)
{
    struct slice name, value;
    const char *why;
    size_t at = 0;
    unsigned k;

    while (http_pair_next(pairs, &at, &name, &value)) {
        bool escaped = !is_plain(name) && has_escape(name, PARAM_FORM);

        if (__builtin_expect(escaped, 0) && (why = http_escapes_check(name)) != NULL)
            return refuse(error, 400, NULL, why);
        for (k = 0; k < l->list_n; k++) {
            unsigned i = l->list_index[k];
            const struct conf_param *param = &p->params_route->route_params[i];

            if (!name_eq(name, escaped, p->params_names[i]))
                continue;
            if (values[i].value_p != NULL)
                return refuse(error, 400, param, why_twice);
            if (set_encoded(&values[i], value, PARAM_FORM, param, error) != 0)
                return -1;
            break;
        }
        if (k == l->list_n && all && (why = http_escapes_check(value)) != NULL)
            return refuse(error, 400, NULL, why);
    }
    return 0;
}

static int find_headers(const struct params *p, const struct http_request *rq, struct param_value *values,
                        struct params_error *error)
{
    unsigned k;

    for (k = 0; k < p->params_headers.list_n; k++) {
        unsigned i = p->params_headers.list_index[k];
        const struct conf_param *param = &p->params_route->route_params[i];
        struct slice name = p->params_names[i], value, again;
        uint32_t at = 0;

        if (!http_field_find(rq, name.slice_p, name.slice_len, &at, &value))
            continue;
        if (http_field_find(rq, name.slice_p, name.slice_len, &at, &again))
            return refuse(error, 400, param, why_twice);
        if (set_plain(&values[i], value, param, error) != 0)
            return -1;
    }
    return 0;
}

/* RFC 6265 section 4.2.1: `a=b; c=d`, a value may be in quotes. */
static int find_cookies(const struct params *p, struct slice cookies, struct param_value *values,
                        struct params_error *error)
{
    const char *at = cookies.slice_p, *end = at + cookies.slice_len;

    while (at < end) {
        const char *stop = memchr(at, ';', (size_t)(end - at)), *equals;
        struct slice name, value;
        unsigned k;

        if (stop == NULL)
            stop = end;
        equals = memchr(at, '=', (size_t)(stop - at));
        if (equals != NULL) {
            name = trim(at, equals);
            value = trim(equals + 1, stop);
            if (value.slice_len >= 2 && value.slice_p[0] == '"' && value.slice_p[value.slice_len - 1] == '"') {
                value.slice_p++;
                value.slice_len -= 2;
            }
            for (k = 0; k < p->params_cookies.list_n; k++) {
                unsigned i = p->params_cookies.list_index[k];
                const struct conf_param *param = &p->params_route->route_params[i];

                if (!slice_eq(name, p->params_names[i]))
                    continue;
                if (values[i].value_p != NULL)
                    return refuse(error, 400, param, why_twice);
                if (set_plain(&values[i], value, param, error) != 0)
                    return -1;
                break;
            }
        }
        at = stop < end ? stop + 1 : end;
    }
    return 0;
}

static int find_fields(const struct params *p, const struct http_request *rq, struct param_value *values,
                       struct params_error *error)
{
    switch (body_kind(rq->rq_content_type)) {
    case BODY_JSON:
        return find_members(p, rq->rq_body, values, error);
    case BODY_FORM:
        return find_pairs(p, &p->params_fields, rq->rq_body, true, values, error);
    case BODY_UNSUPPORTED:
        break;
    }
    return refuse(error, 415, NULL, why_type);
}

static int find_members(const struct params *p, struct slice body, struct param_value *values,
                        struct params_error *error)
{
    const struct list *l = &p->params_fields;
    const char *why = json_read_object(body, p->params_members, l->list_n);
    unsigned k;

    for (k = 0; k < l->list_n; k++) {
        const struct json_member *m = &p->params_members[k];
        unsigned i = l->list_index[k];
        struct param_value *v = &values[i];

        if (why != NULL) {
            if (m->member_twice)
                return refuse(error, 400, &p->params_route->route_params[i], why_twice);
            continue;
        }
        v->value_p = m->member_value.slice_p;
        v->value_len = (uint32_t)m->member_value.slice_len;
        v->value_has_escape = m->member_has_escape;
        v->value_has_nul = m->member_has_nul;
        switch (m->member_kind) {
        case JSON_ABSENT:
            v->value_p = NULL;
            break;
        case JSON_NULL:
            v->value_form = PARAM_NULL;
            break;
        case JSON_FALSE:
        case JSON_TRUE:
        case JSON_NUMBER:
            v->value_form = PARAM_JSON_LITERAL;
            break;
        case JSON_STRING:
            v->value_form = PARAM_JSON_STRING;
            break;
        case JSON_ARRAY:
        case JSON_OBJECT:
            v->value_form = PARAM_JSON_VALUE;
            break;
        }
    }
    return why == NULL ? 0 : refuse(error, 400, NULL, why);
}

/* What was not found takes its default. */
static int find_defaults(const struct params *p, struct param_value *values, struct params_error *error)
{
    unsigned n = p->params_route->route_params_n, i;

    for (i = 0; i < n; i++) {
        const struct conf_param *param = &p->params_route->route_params[i];

        if (__builtin_expect(values[i].value_p != NULL, 1))
            continue;
        if (param->param_default == NULL)
            return refuse(error, 400, param, "is required");
        values[i].value_p = param->param_default;
        values[i].value_len = (uint32_t)strlen(param->param_default);
        values[i].value_form = PARAM_PLAIN;
        values[i].value_is_default = true;
    }
    return 0;
}

/* A percent-encoded value: its escapes whole, UTF-8 once decoded, no NUL. */
static int set_encoded(struct param_value *v, struct slice s, enum param_form form, const struct conf_param *param,
                       struct params_error *error)
{
    const char *why;

    v->value_p = s.slice_len > 0 ? s.slice_p : ""; /* NULL would mean absent */
    v->value_len = (uint32_t)s.slice_len;
    v->value_form = (uint8_t)form;
    if (__builtin_expect(is_plain(s), 1))
        return 0;
    why = http_escapes_check(s);
    if (why != NULL)
        return refuse(error, 400, param, why);
    v->value_has_escape = has_escape(s, form);
    return 0;
}

static inline bool name_eq(struct slice name, bool escaped, struct slice plain)
{
    if (__builtin_expect(escaped, 0))
        return http_unescaped_eq(name, true, plain);
    return name.slice_len == plain.slice_len &&
           (name.slice_len == 0 ||
            (*name.slice_p == *plain.slice_p && memcmp(name.slice_p, plain.slice_p, name.slice_len) == 0));
}

/* Whether there is nothing to look at: ASCII without NUL, '%' and '+'.  True for most of what comes. */
static inline bool is_plain(struct slice s)
{
    const char *p = s.slice_p;
    uint64_t found = 0, w;
    size_t left;

    for (left = s.slice_len; left >= 8; left -= 8, p += 8) {
        memcpy(&w, p, 8);
        found |= SCAN_HAS_ZERO(w ^ SCAN_ONES * '%') | SCAN_HAS_ZERO(w ^ SCAN_ONES * '+') | SCAN_HAS_ZERO(w) | w;
    }
    for (; left > 0; left--, p++)
        found |= (uint64_t)(*p == '%' || *p == '+' || *p <= 0) << 63;
    return (found & SCAN_HIGHS) == 0;
}

static bool has_escape(struct slice s, enum param_form form)
{
    bool found = false;
    size_t i;

    for (i = 0; i < s.slice_len; i++)
        found |= s.slice_p[i] == '%' || (s.slice_p[i] == '+' && form == PARAM_FORM);
    return found;
}

static int set_plain(struct param_value *v, struct slice s, const struct conf_param *param, struct params_error *error)
{
    if (!utf8_valid(s.slice_p, s.slice_len))
        return refuse(error, 400, param, "is not UTF-8");
    if (s.slice_len > 0 && memchr(s.slice_p, '\0', s.slice_len) != NULL)
        return refuse(error, 400, param, "holds the octet zero");
    v->value_p = s.slice_len > 0 ? s.slice_p : "";
    v->value_len = (uint32_t)s.slice_len;
    v->value_form = PARAM_PLAIN;
    return 0;
}

/* By Content-Type (RFC 9110 section 8.3.1); an absent one is taken as JSON. */
static enum body_kind body_kind(struct slice type)
{
    enum body_kind kind = BODY_UNSUPPORTED;
    const char *semicolon, *end;
    struct slice media;

    if (type.slice_p == NULL)
        return BODY_JSON;
    end = type.slice_p + type.slice_len;
    semicolon = memchr(type.slice_p, ';', type.slice_len);
    media = trim(type.slice_p, semicolon != NULL ? semicolon : end);
    if (lower_eq(media, "application/x-www-form-urlencoded"))
        kind = BODY_FORM;
    else if (lower_eq(media, "application/json") ||
             (media.slice_len > 5 && memchr(media.slice_p, '/', media.slice_len) != NULL &&
              lower_eq((struct slice){media.slice_p + media.slice_len - 5, 5}, "+json")))
        kind = BODY_JSON;
    while (semicolon != NULL) {
        const char *from = semicolon + 1, *equals;
        struct slice value;

        semicolon = memchr(from, ';', (size_t)(end - from));
        equals = memchr(from, '=', (size_t)((semicolon != NULL ? semicolon : end) - from));
        if (equals == NULL || !lower_eq(trim(from, equals), "charset"))
            continue;
        value = trim(equals + 1, semicolon != NULL ? semicolon : end);
        if (!lower_eq(value, "utf-8") && !lower_eq(value, "\"utf-8\""))
            return BODY_UNSUPPORTED;
    }
    return kind;
}

static bool lower_eq(struct slice s, const char *lower)
{
    return strlen(lower) == s.slice_len && strncasecmp(s.slice_p, lower, s.slice_len) == 0;
}

static struct slice trim(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct slice){p, (size_t)(end - p)};
}

static int refuse(struct params_error *error, unsigned status, const struct conf_param *param, const char *why)
{
    error->error_status = status;
    error->error_param = param;
    error->error_why = why;
    error->error_coded = false;
    return -1;
}

static int refuse_coded(struct params_error *error)
{
    (void)refuse(error, 415, NULL, why_coded);
    error->error_coded = true;
    return -1;
}
