#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/route/params.c"

#define VALUES 8

static struct buffers *buffers;
static struct pg_types *types;

/* A route made of specs as they stand in the file, and a request to it. */
struct scene {
    struct conf_route scene_route;
    struct conf_param scene_params[VALUES];
    char scene_specs[VALUES][64], scene_names[VALUES][64];
    struct params *scene_compiled;
    struct param_value scene_values[VALUES];
    struct params_error scene_error;
    struct http_request scene_rq;
    struct slice scene_args[4];
    char *scene_octets;
};

static void scene_make(struct scene *s, const char *const *specs, unsigned n)
{
    static const struct {
        const char *prefix;
        enum conf_source source;
    } sources[] = {{"path.", SOURCE_PATH},     {"query.", SOURCE_QUERY},     {"header.", SOURCE_HEADER},
                   {"cookie.", SOURCE_COOKIE}, {"body.", SOURCE_BODY_FIELD}, {"body", SOURCE_BODY},
                   {"conn.ip", SOURCE_CONN_IP}};
    unsigned i, k, segments = 0;

    memset(s, 0, sizeof(*s));
    s->scene_route.route_params = s->scene_params;
    s->scene_route.route_params_n = n;
    for (i = 0; i < n; i++) {
        struct conf_param *p = &s->scene_params[i];
        char *equals;

        snprintf(s->scene_specs[i], sizeof(s->scene_specs[i]), "%s", specs[i]);
        equals = strchr(s->scene_specs[i], '=');
        if (equals != NULL) {
            *equals = '\0';
            p->param_default = equals + 1;
        }
        p->param_spec = s->scene_specs[i];
        for (k = 0; strncmp(p->param_spec, sources[k].prefix, strlen(sources[k].prefix)) != 0; k++)
            ;
        p->param_source = sources[k].source;
        if (p->param_source != SOURCE_BODY && p->param_source != SOURCE_CONN_IP)
            snprintf(s->scene_names[i], sizeof(s->scene_names[i]), "%s", p->param_spec + strlen(sources[k].prefix));
        p->param_name = s->scene_names[i];
        if (p->param_source == SOURCE_PATH)
            p->param_segment = segments++;
    }
    s->scene_compiled = params_new(&s->scene_route);
    assert_non_null(s->scene_compiled);
}

static void scene_free(struct scene *s)
{
    params_free(&s->scene_compiled);
    assert_null(s->scene_compiled);
    free(s->scene_octets);
}

/* Sends head and body, in memory of exactly their length; returns what params_find does. */
static int scene_send(struct scene *s, const char *head, const char *body, size_t body_len)
{
    static const struct conf_limits limits = {8192, 16384, 100, 1u << 20, 1u << 20};
    struct http_parser parser;
    size_t head_len = strlen(head);

    free(s->scene_octets);
    s->scene_octets = malloc(head_len + body_len);
    memcpy(s->scene_octets, head, head_len);
    memcpy(s->scene_octets + head_len, body, body_len);
    http_parser_init(&parser);
    assert_int_equal(http_parse(&parser, &s->scene_rq, s->scene_octets, (uint32_t)(head_len + body_len), &limits),
                     HTTP_PARSE_COMPLETE);
    assert_int_equal(parser.parser_head, head_len);
    if (body_len > 0)
        s->scene_rq.rq_body = (struct slice){s->scene_octets + head_len, body_len};
    memset(&s->scene_error, 0, sizeof(s->scene_error));
    memset(s->scene_values, 0xa5, sizeof(s->scene_values)); /* what a request before left behind */
    return params_find(s->scene_compiled, &s->scene_rq, s->scene_args, SLICE_LITERAL("192.0.2.1"), s->scene_values,
                       &s->scene_error);
}

static int scene_get(struct scene *s, const char *target, const char *fields)
{
    char head[1024];

    snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", target, fields);
    return scene_send(s, head, "", 0);
}

static int scene_post(struct scene *s, const char *type, const char *body)
{
    char head[256];

    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: x\r\n%s%s%sContent-Length: %zu\r\n\r\n",
             type != NULL ? "Content-Type: " : "", type != NULL ? type : "", type != NULL ? "\r\n" : "", strlen(body));
    return scene_send(s, head, body, strlen(body));
}

static void assert_error(const struct scene *s, unsigned status, const char *spec, const char *why)
{
    assert_int_equal(s->scene_error.error_status, status);
    if (spec == NULL)
        assert_null(s->scene_error.error_param);
    else
        assert_string_equal(s->scene_error.error_param->param_spec, spec);
    if (strstr(s->scene_error.error_why, why) == NULL)
        fail_msg("\"%s\" where \"%s\" was expected", s->scene_error.error_why, why);
}

/* That value i goes to PostgreSQL as this text (NULL: SQL NULL). */
static void assert_text(const struct scene *s, unsigned i, const char *text)
{
    const struct pg_type *type = pg_types_find(types, 25);
    struct out o;

    out_init(&o, buffers, 0);
    value_write(&o, type, &s->scene_values[i]);
    if (text == NULL) {
        assert_int_equal(o.out_bytes, 4);
        assert_memory_equal(o.out_head->buf_data + o.out_head->buf_start, "\xff\xff\xff\xff", 4);
    } else {
        assert_int_equal(o.out_bytes, 4 + strlen(text));
        assert_memory_equal(o.out_head->buf_data + o.out_head->buf_start + 4, text, strlen(text));
    }
    out_reset(&o);
}

#define SCENE(s, ...)                                 \
    static const char *const specs[] = {__VA_ARGS__}; \
    struct scene s;                                   \
    (void)state;                                      \
    scene_make(&(s), specs, sizeof(specs) / sizeof(specs[0]))

static void test_path(void **state)
{
    SCENE(s, "path.b", "conn.ip", "path.a");

    /* the router hands over what is between the slashes */
    s.scene_args[0] = SLICE_LITERAL("42");
    s.scene_args[1] = SLICE_LITERAL("a%2Fb+c%C3%BC");
    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_text(&s, 0, "42");
    assert_text(&s, 1, "192.0.2.1");
    assert_text(&s, 2, "a/b+c\xc3\xbc");
    assert_false(s.scene_values[0].value_has_escape);
    assert_true(s.scene_values[2].value_has_escape);
    s.scene_args[1] = SLICE_LITERAL("");
    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_text(&s, 2, "");
    s.scene_args[1] = (struct slice){NULL, 0};
    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_text(&s, 2, "");
    s.scene_args[1] = SLICE_LITERAL("%00");
    assert_int_equal(scene_get(&s, "/", ""), -1);
    assert_error(&s, 400, "path.a", "zero");
    s.scene_args[1] = SLICE_LITERAL("%ff");
    assert_int_equal(scene_get(&s, "/", ""), -1);
    assert_error(&s, 400, "path.a", "UTF-8");
    scene_free(&s);
}

/* The client of a unix socket has no address. */
static void test_no_address(void **state)
{
    SCENE(s, "conn.ip", "conn.ip=127.0.0.1");

    memset(&s.scene_rq, 0, sizeof(s.scene_rq));
    assert_int_equal(params_find(s.scene_compiled, &s.scene_rq, s.scene_args, (struct slice){NULL, 0}, s.scene_values,
                                 &s.scene_error),
                     0);
    assert_text(&s, 0, NULL);
    assert_text(&s, 1, "127.0.0.1");
    scene_free(&s);
}

static void test_query(void **state)
{
    SCENE(s, "query.v", "query.w=default", "query.sp ace\xc3\xbc=");

    assert_int_equal(scene_get(&s, "/?v=a+b%2Bc&x=1&&z", ""), 0);
    assert_text(&s, 0, "a b+c");
    assert_text(&s, 1, "default");
    assert_true(s.scene_values[1].value_is_default);
    assert_text(&s, 2, "");
    assert_int_equal(scene_get(&s, "/?v&w=&sp+ace%C3%BC=1", ""), 0);
    assert_text(&s, 0, "");
    assert_text(&s, 1, "");
    assert_false(s.scene_values[1].value_is_default);
    assert_text(&s, 2, "1");
    assert_int_equal(scene_get(&s, "/?%76=a=b&sp%20ace%c3%bc=2", ""), 0);
    assert_text(&s, 0, "a=b");
    assert_text(&s, 2, "2");

    static const char *const absent[] = {"/", "/?", "/?w=1", "/?V=1", "/?vv=1", "/?=1", "/?%20v=1", "/?&&&"};
    size_t i;

    for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_int_equal(scene_get(&s, absent[i], ""), -1);
        assert_error(&s, 400, "query.v", "is required");
    }
    assert_int_equal(scene_get(&s, "/?v=1&w=2&v=1", ""), -1);
    assert_error(&s, 400, "query.v", "more than once");
    assert_int_equal(scene_get(&s, "/?v=1&w=2&%77=", ""), -1);
    assert_error(&s, 400, "query.w", "more than once");
    assert_int_equal(scene_get(&s, "/?x=1&x=2&v=1", ""), 0);
    assert_int_equal(scene_get(&s, "/?w=2&v=%00", ""), -1);
    assert_error(&s, 400, "query.v", "zero");
    assert_int_equal(scene_get(&s, "/?v=%ed%a0%80", ""), -1);
    assert_error(&s, 400, "query.v", "UTF-8");
    assert_int_equal(scene_get(&s, "/?v=%c3", ""), -1);
    assert_error(&s, 400, "query.v", "UTF-8");
    scene_free(&s);
}

/* Escapes that are cut off: the head's parser refuses them, but nobody here relies on it. */
static void test_broken_escapes(void **state)
{
    static const char *const broken[] = {"v=%", "v=%1", "v=%zz", "v=1&%", "v=1&%7", "v=1&%zz=1", "%7", "%"};
    size_t i;

    SCENE(s, "query.v");
    for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        char *copy = malloc(strlen(broken[i]));

        memcpy(copy, broken[i], strlen(broken[i]));
        memset(&s.scene_rq, 0, sizeof(s.scene_rq));
        s.scene_rq.rq_query = (struct slice){copy, strlen(broken[i])};
        assert_int_equal(params_find(s.scene_compiled, &s.scene_rq, s.scene_args, SLICE_LITERAL("::1"), s.scene_values,
                                     &s.scene_error),
                         -1);
        assert_int_equal(s.scene_error.error_status, 400);
        free(copy);
    }
    scene_free(&s);
}

static void test_headers(void **state)
{
    SCENE(s, "header.x-value", "header.user-agent=none");

    assert_int_equal(scene_get(&s, "/", "X-VALUE:  a%20+\"b\" \t\r\n"), 0);
    assert_text(&s, 0, "a%20+\"b\"");
    assert_text(&s, 1, "none");
    assert_int_equal(scene_get(&s, "/", "User-Agent: \xc3\xbc\r\nx-value:\r\n"), 0);
    assert_text(&s, 0, "");
    assert_text(&s, 1, "\xc3\xbc");
    assert_int_equal(scene_get(&s, "/", "X-Value-2: 1\r\nX-Valu: 2\r\n"), -1);
    assert_error(&s, 400, "header.x-value", "is required");
    assert_int_equal(scene_get(&s, "/", "X-Value: 1\r\nOther: 2\r\nx-vAlue: 1\r\n"), -1);
    assert_error(&s, 400, "header.x-value", "more than once");
    assert_int_equal(scene_get(&s, "/", "X-Value: \xff\r\n"), -1);
    assert_error(&s, 400, "header.x-value", "UTF-8");
    assert_int_equal(scene_get(&s, "/", "X-Value: 1\r\nOther: \xff\r\n"), 0);
    scene_free(&s);
}

static void test_cookies(void **state)
{
    SCENE(s, "cookie.session=none", "cookie.b=none");

    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_text(&s, 0, "none");
    assert_int_equal(scene_get(&s, "/", "Cookie: a=1; session=x=y; b=\"2 3\"\r\n"), 0);
    assert_text(&s, 0, "x=y");
    assert_text(&s, 1, "2 3");
    assert_int_equal(scene_get(&s, "/", "Cookie: xsession=1; session2=2;Session=3;session\r\n"), 0);
    assert_text(&s, 0, "none");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=;b=\"\r\n"), 0);
    assert_text(&s, 0, "");
    assert_text(&s, 1, "\"");
    assert_int_equal(scene_get(&s, "/", "Cookie: ;;  session = 1 ; ;b=%20;\r\n"), 0);
    assert_text(&s, 0, "1");
    assert_text(&s, 1, "%20");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=1\r\nX: y\r\nCookie: b=2\r\n"), 0);
    assert_text(&s, 0, "1");
    assert_text(&s, 1, "2");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=1; session=1\r\n"), -1);
    assert_error(&s, 400, "cookie.session", "more than once");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=1\r\nCookie: session=1\r\n"), -1);
    assert_error(&s, 400, "cookie.session", "more than once");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=1; b=\xff\r\n"), -1);
    assert_error(&s, 400, "cookie.b", "UTF-8");
    assert_int_equal(scene_get(&s, "/", "Cookie: session=1; c=\xff; c=2\r\n"), 0);
    scene_free(&s);
}

static void test_json_body(void **state)
{
    SCENE(s, "body.id", "body.name=Anna", "body.tags={}");

    assert_int_equal(scene_post(&s, "application/json", "{\"id\": 42, \"other\": [1], \"tags\": [\"a\"]}"), 0);
    assert_int_equal(s.scene_values[0].value_form, PARAM_JSON_LITERAL);
    assert_text(&s, 0, "42");
    assert_text(&s, 1, "Anna");
    assert_true(s.scene_values[1].value_is_default);
    assert_int_equal(s.scene_values[2].value_form, PARAM_JSON_VALUE);
    assert_int_equal(scene_post(&s, NULL, "{\"id\": \"4\\u0032\", \"na\\u006de\": null}"), 0);
    assert_text(&s, 0, "42");
    assert_text(&s, 1, NULL);
    assert_false(s.scene_values[1].value_is_default);
    assert_int_equal(scene_post(&s, NULL, "{\"id\": true, \"name\": \"\\u0000\"}"), 0);
    assert_text(&s, 0, "true");
    assert_true(s.scene_values[1].value_has_nul);

    assert_int_equal(scene_post(&s, NULL, "{\"name\": 1}"), -1);
    assert_error(&s, 400, "body.id", "is required");
    assert_int_equal(scene_post(&s, NULL, ""), -1);
    assert_error(&s, 400, "body.id", "is required");
    assert_int_equal(scene_post(&s, NULL, "{\"id\":1,\"name\":2,\"id\":1}"), -1);
    assert_error(&s, 400, "body.id", "more than once");
    assert_int_equal(scene_post(&s, NULL, "{\"id\":1,\"x\":2,\"x\":1}"), -1);
    assert_error(&s, 400, NULL, "twice");
    assert_int_equal(scene_post(&s, NULL, "[1]"), -1);
    assert_error(&s, 400, NULL, "is not a JSON object");
    assert_int_equal(scene_post(&s, NULL, "{\"id\":1,}"), -1);
    assert_error(&s, 400, NULL, "is not JSON");
    assert_int_equal(scene_post(&s, NULL, "{\"id\":1,\"y\":\"\xff\"}"), -1);
    assert_error(&s, 400, NULL, "UTF-8");
    assert_int_equal(scene_post(&s, NULL, "id=1"), -1);
    assert_error(&s, 400, NULL, "is not JSON");
    /* nothing of a refused document is kept */
    assert_int_equal(scene_post(&s, NULL, "{\"id\":2}"), 0);
    assert_text(&s, 0, "2");
    scene_free(&s);
}

static void test_empty_body_with_defaults(void **state)
{
    SCENE(s, "body.a=1", "body.b=2");

    assert_int_equal(scene_post(&s, NULL, ""), 0);
    assert_text(&s, 0, "1");
    assert_text(&s, 1, "2");
    assert_int_equal(scene_post(&s, "application/json", ""), 0);
    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_int_equal(scene_post(&s, "application/json", "{}"), 0);
    assert_int_equal(scene_post(&s, "application/json", " "), -1);
    assert_error(&s, 400, NULL, "is not JSON");
    scene_free(&s);
}

static void test_form_body(void **state)
{
    static const char form[] = "application/x-www-form-urlencoded";
    SCENE(s, "body.id", "body.na me=none");

    assert_int_equal(scene_post(&s, form, "id=4%32&na+me=a+b%26&x"), 0);
    assert_text(&s, 0, "42");
    assert_text(&s, 1, "a b&");
    assert_int_equal(scene_post(&s, "Application/X-WWW-Form-URLencoded ; Charset=\"UTF-8\"", "id"), 0);
    assert_text(&s, 0, "");
    assert_text(&s, 1, "none");
    assert_int_equal(scene_post(&s, form, "id=1&id=1"), -1);
    assert_error(&s, 400, "body.id", "more than once");
    assert_int_equal(scene_post(&s, form, "id=%zz"), -1);
    assert_error(&s, 400, "body.id", "hexadecimal");
    assert_int_equal(scene_post(&s, form, "id=\xff"), -1);
    assert_error(&s, 400, "body.id", "UTF-8");
    assert_int_equal(scene_post(&s, form, "id=1&x=%"), -1);
    assert_error(&s, 400, NULL, "hexadecimal");
    assert_int_equal(scene_post(&s, form, "id=1&%z=1"), -1);
    assert_error(&s, 400, NULL, "hexadecimal");
    assert_int_equal(scene_post(&s, form, "{\"id\":1}"), -1);
    assert_error(&s, 400, "body.id", "is required");
    scene_free(&s);
}

static void test_content_types(void **state)
{
    static const struct {
        const char *type;
        bool json;
    } cases[] = {
        {"application/json", true},
        {"APPLICATION/JSON", true},
        {"application/json;charset=utf-8", true},
        {"application/json ; charset=UTF-8 ; profile=x", true},
        {"application/json; profile=\"x\"; charset=\"utf-8\"", true},
        {"application/json;", true},
        {"application/vnd.api+json", true},
        {"text/x+JSON; a", true},
        {"application/json; charset=latin1", false},
        {"application/json; charset=utf-16", false},
        {"application/json; charset=", false},
        {"application/json; charset=utf-8; charset=latin1", false},
        {"application/jsonx", false},
        {"application/jso", false},
        {"+json", false},
        {"x+json", false},
        {"text/plain", false},
        {"text/json", false},
        {"", false},
        {";", false},
        {"multipart/form-data; boundary=x", false},
        {"application/x-www-form-urlencoded; charset=iso-8859-1", false},
        {"application/x-www-form-urlencoded2", false},
        {"application/octet-stream", false},
        {"application/json, text/plain", false},
    };
    size_t i;

    SCENE(s, "body.id=0");
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int found = scene_post(&s, cases[i].type, "{\"id\":1}");

        if (found != (cases[i].json ? 0 : -1))
            fail_msg("%s", cases[i].type);
        if (cases[i].json)
            assert_text(&s, 0, "1");
        else
            assert_error(&s, 415, NULL, "is of a type that is not accepted");
    }
    scene_free(&s);
}

/* No coding is undone: only a route that asks for it gets coded octets. */
static int coded(struct scene *s, const char *body)
{
    char head[200];

    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    return scene_send(s, head, body, strlen(body));
}

static void test_coded_fields(void **state)
{
    SCENE(s, "body.id=0");
    assert_int_equal(coded(&s, "{\"id\":1}"), -1);
    assert_error(&s, 415, NULL, "is coded");
    assert_int_equal(scene_post(&s, "application/json", "{\"id\":1}"), 0);
    scene_free(&s);
}

static void test_coded_body(void **state)
{
    SCENE(s, "body", "query.a=1");
    assert_int_equal(coded(&s, "abc"), -1);
    assert_error(&s, 415, NULL, "is coded");
    assert_int_equal(coded(&s, ""), 0); /* nothing is */
    scene_free(&s);
}

static void test_coded_for_who_asks(void **state)
{
    SCENE(s, "body", "header.content-encoding=");
    assert_int_equal(coded(&s, "abc"), 0);
    assert_text(&s, 1, "gzip");
    scene_free(&s);
}

static void test_coded_for_nobody(void **state)
{
    SCENE(s, "query.a=1");
    assert_int_equal(coded(&s, "abc"), 0);
    scene_free(&s);
}

static void test_whole_body(void **state)
{
    SCENE(s, "body", "header.content-type=none");

    assert_int_equal(scene_post(&s, "text/plain", "any \"text\" {"), 0);
    assert_text(&s, 0, "any \"text\" {");
    assert_text(&s, 1, "text/plain");
    assert_int_equal(s.scene_values[0].value_form, PARAM_PLAIN);
    assert_int_equal(scene_post(&s, NULL, ""), 0);
    assert_text(&s, 0, "");
    assert_int_equal(scene_get(&s, "/", ""), -1);
    assert_error(&s, 400, "body", "is required");
    assert_int_equal(scene_post(&s, NULL, "\xff"), -1);
    assert_error(&s, 400, "body", "UTF-8");
    assert_int_equal(scene_send(&s, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", "a\0b", 3), -1);
    assert_error(&s, 400, "body", "zero");
    scene_free(&s);
}

static void test_whole_body_default(void **state)
{
    SCENE(s, "body={}");

    assert_int_equal(scene_post(&s, NULL, ""), 0);
    assert_text(&s, 0, "{}");
    assert_int_equal(scene_get(&s, "/", ""), 0);
    assert_text(&s, 0, "{}");
    assert_int_equal(scene_post(&s, NULL, "[]"), 0);
    assert_text(&s, 0, "[]");
    scene_free(&s);
}

static void test_no_parameters(void **state)
{
    struct scene s;

    (void)state;
    scene_make(&s, NULL, 0);
    assert_int_equal(scene_get(&s, "/?v=%ff", "Cookie: \xff\r\n"), 0);
    assert_int_equal(scene_post(&s, "text/plain", "\xff"), 0);
    scene_free(&s);
}

static void test_check(void **state)
{
    const struct pg_type *list[2] = {pg_types_find(types, 23), pg_types_find(types, 16)};
    SCENE(s, "query.id", "query.flag=maybe");

    assert_int_equal(scene_get(&s, "/?id=1&flag=t", ""), 0);
    assert_int_equal(params_check(s.scene_compiled, list, s.scene_values, &s.scene_error), 0);
    assert_int_equal(scene_get(&s, "/?id=x&flag=t", ""), 0);
    assert_int_equal(params_check(s.scene_compiled, list, s.scene_values, &s.scene_error), -1);
    assert_error(&s, 400, "query.id", "is not a whole number");
    /* a default that does not fit is the file's fault */
    assert_int_equal(scene_get(&s, "/?id=1", ""), 0);
    assert_int_equal(params_check(s.scene_compiled, list, s.scene_values, &s.scene_error), -1);
    assert_error(&s, 500, "query.flag", "is not true or false");
    scene_free(&s);
}

/* Int16 count, then Int32 length and octets of each (protocol "Bind (F)"). */
static void test_write_and_echo(void **state)
{
    static const char wanted[] = "\0\4\0\0\0\2"
                                 "42\0\0\0\3a/b\xff\xff\xff\xff\0\0\0\5{1,2}";
    const struct pg_type *list[] = {pg_types_find(types, 23), pg_types_find(types, 25), pg_types_find(types, 25),
                                    pg_types_find(types, 1007)};
    struct out o;
    unsigned i;

    SCENE(s, "path.id", "path.name", "body.x", "body.y");
    s.scene_args[0] = SLICE_LITERAL("42");
    s.scene_args[1] = SLICE_LITERAL("a%2fb");
    assert_int_equal(scene_post(&s, NULL, "{\"x\":null,\"y\":[1,2]}"), 0);
    assert_int_equal(params_check(s.scene_compiled, list, s.scene_values, &s.scene_error), 0);
    out_init(&o, buffers, 0);
    for (i = 0; i < 2; i++) { /* a query that is sent again is written again */
        params_write(&o, s.scene_compiled, list, s.scene_values);
        assert_int_equal(o.out_bytes, sizeof(wanted) - 1);
        assert_memory_equal(o.out_head->buf_data + o.out_head->buf_start, wanted, sizeof(wanted) - 1);
        out_reset(&o);
    }
    for (i = 0; i < 4; i++) {
        params_echo(&o, s.scene_compiled, i, list[i], &s.scene_values[i]);
        out_literal(&o, ";");
    }
    assert_int_equal(o.out_bytes, strlen("42;\"a/b\";null;[1,2];"));
    assert_memory_equal(o.out_head->buf_data + o.out_head->buf_start, "42;\"a/b\";null;[1,2];", o.out_bytes);
    out_reset(&o);
    scene_free(&s);
}

static void test_out_of_buffers(void **state)
{
    struct buffers *few = buffers_new(BUF_MIN_SIZE);
    const struct pg_type *list[] = {pg_types_find(types, 25)};
    char *target = malloc(6000);
    struct buf *all[64];
    struct out o;
    unsigned n = 0;

    SCENE(s, "query.v");
    memset(target, 'a', 5999);
    memcpy(target, "v=%20", 5);
    memset(&s.scene_rq, 0, sizeof(s.scene_rq));
    s.scene_rq.rq_query = (struct slice){target, 5999};
    assert_int_equal(
        params_find(s.scene_compiled, &s.scene_rq, s.scene_args, SLICE_LITERAL(""), s.scene_values, &s.scene_error), 0);
    while (n < 64 && (all[n] = buf_get(few, 1)) != NULL)
        n++;
    assert_true(n > 0 && n < 64);
    out_init(&o, few, 0);
    params_write(&o, s.scene_compiled, list, s.scene_values);
    assert_int_equal(o.out_error, OUT_NO_BUFFERS);
    out_reset(&o);
    buf_put(few, &all[--n]); /* one block: the message begins and does not end */
    params_write(&o, s.scene_compiled, list, s.scene_values);
    assert_int_equal(o.out_error, OUT_NO_BUFFERS);
    out_reset(&o);
    while (n > 0)
        buf_put(few, &all[--n]);
    buffers_free(&few);
    free(target);
    scene_free(&s);
}

static int set_up(void **state)
{
    (void)state;
    buffers = buffers_new(1u << 20);
    types = pg_types_new();
    return buffers == NULL || types == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(buffers_used(buffers), 0);
    buffers_free(&buffers);
    pg_types_free(&types);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_broken_escapes),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_cookies),
        cmocka_unit_test(test_json_body),
        cmocka_unit_test(test_empty_body_with_defaults),
        cmocka_unit_test(test_form_body),
        cmocka_unit_test(test_content_types),
        cmocka_unit_test(test_coded_fields),
        cmocka_unit_test(test_coded_body),
        cmocka_unit_test(test_coded_for_who_asks),
        cmocka_unit_test(test_coded_for_nobody),
        cmocka_unit_test(test_whole_body),
        cmocka_unit_test(test_whole_body_default),
        cmocka_unit_test(test_no_parameters),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_write_and_echo),
        cmocka_unit_test(test_out_of_buffers),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
