#include "conf/param.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATH "/x/{id}/{sub}"

static void right_parameters(void **state)
{
    static const struct {
        const char *text, *spec, *name, *value;
        enum conf_source source;
        unsigned segment;
    } right[] = {
        {"path.id", "path.id", "id", NULL, SOURCE_PATH, 0},
        {"path.sub", "path.sub", "sub", NULL, SOURCE_PATH, 1},
        {"query.limit=10", "query.limit", "limit", "10", SOURCE_QUERY, 0},
        {"query.limit", "query.limit", "limit", NULL, SOURCE_QUERY, 0},
        {"query.filter[a b]==", "query.filter[a b]", "filter[a b]", "=", SOURCE_QUERY, 0},
        {"query.größe", "query.größe", "größe", NULL, SOURCE_QUERY, 0},
        {"query..", "query..", ".", NULL, SOURCE_QUERY, 0},
        {"header.X-Request-ID", "header.X-Request-ID", "x-request-id", NULL, SOURCE_HEADER, 0},
        {"header.accept=*/*", "header.accept", "accept", "*/*", SOURCE_HEADER, 0},
        {"cookie.Session", "cookie.Session", "Session", NULL, SOURCE_COOKIE, 0},
        {"body", "body", "", NULL, SOURCE_BODY, 0},
        {"body=", "body", "", "", SOURCE_BODY, 0},
        {"body={}", "body", "", "{}", SOURCE_BODY, 0},
        {"body.name", "body.name", "name", NULL, SOURCE_BODY_FIELD, 0},
        {"body.a.b=c d", "body.a.b", "a.b", "c d", SOURCE_BODY_FIELD, 0},
        {"conn.ip", "conn.ip", "", NULL, SOURCE_CONN_IP, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct memory m = {NULL};
        struct conf_param p = {0};
        char why[256] = "";

        if (!param_parse(right[i].text, PATH, METHOD_POST, &m, &p, why, sizeof why))
            fail_msg("%s %s", right[i].text, why);
        assert_string_equal(p.param_spec, right[i].spec);
        assert_string_equal(p.param_name, right[i].name);
        assert_int_equal(p.param_source, right[i].source);
        assert_int_equal(p.param_segment, right[i].segment);
        if (right[i].value == NULL)
            assert_null(p.param_default);
        else
            assert_string_equal(p.param_default, right[i].value);
        memory_free(&m);
    }
}

static void wrong_parameters(void **state)
{
    static const struct {
        const char *text, *why;
        enum conf_method method;
    } wrong[] = {
        {"", "path.NAME", METHOD_POST},
        {"=1", "path.NAME", METHOD_POST},
        {"id", "path.NAME", METHOD_POST},
        {"path", "path.NAME", METHOD_POST},
        {"query", "query.NAME", METHOD_POST},
        {"queries.a", "query.NAME", METHOD_POST},
        {"Query.a", "query.NAME", METHOD_POST},
        {"conn.port", "conn.ip", METHOD_POST},
        {"conn.ip.x", "conn.ip", METHOD_POST},
        {"bodyx", "body.NAME", METHOD_POST},
        {" body", "body.NAME", METHOD_POST},
        {"query.", "no name", METHOD_POST},
        {"query.=5", "no name", METHOD_POST},
        {"body.", "no name", METHOD_POST},
        {"path.nope", "the path " PATH, METHOD_POST},
        {"path.id=5", "always there", METHOD_POST},
        {"conn.ip=::1", "always there", METHOD_POST},
        {"header.a b", "header's name", METHOD_POST},
        {"header.größe", "header's name", METHOD_POST},
        {"cookie.a;b", "cookie's name", METHOD_POST},
        {"query.a\"b", "quote", METHOD_POST},
        {"body.a\\b", "backslash", METHOD_POST},
        {"body", "GET has not", METHOD_GET},
        {"body.a=1", "HEAD has not", METHOD_HEAD},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct memory m = {NULL};
        struct conf_param p = {0};
        char why[256] = "";

        if (param_parse(wrong[i].text, PATH, wrong[i].method, &m, &p, why, sizeof why))
            fail_msg("accepted: %s", wrong[i].text);
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
        memory_free(&m);
    }
}

static void a_wrong_path_hides_no_other_problem(void **state)
{
    struct memory m = {NULL};
    struct conf_param p = {0};
    char why[256];

    (void)state;
    assert_true(param_parse("path.any", NULL, METHOD_GET, &m, &p, why, sizeof why));
    assert_false(param_parse("path.", NULL, METHOD_GET, &m, &p, why, sizeof why));
    memory_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_parameters),
        cmocka_unit_test(wrong_parameters),
        cmocka_unit_test(a_wrong_path_hides_no_other_problem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
