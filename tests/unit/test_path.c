#include "conf/path.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void right_paths(void **state)
{
    static const char *const right[] = {"/",        "//",           "/a",           "/a/",
                                        "/a/{b}",   "/{a}/{b}/c",   "/{a.b-c_D9}",  "/größe/東京",
                                        "/a:b@c;d", "/.well-known", "/a+b=c&d/{e}", "/.."};

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        char why[256] = "";

        if (!path_check(right[i], why, sizeof why))
            fail_msg("%s %s", right[i], why);
    }
}

static void wrong_paths(void **state)
{
    static const struct {
        const char *path, *why;
    } wrong[] = {
        {"", "begin with /"},
        {"a", "begin with /"},
        {"http://x/", "begin with /"},
        {"/a%20b", "'%'"},
        {"/a?b", "'?'"},
        {"/a#b", "'#'"},
        {"/a b", "' '"},
        {"/a{b}", "{"},
        {"/{a}b", "{"},
        {"/{a", "{"},
        {"/a}", "}"},
        {"/{a}{b}", "1..63 letters"},
        {"/{}", "1..63 letters"},
        {"/{a b}", "1..63 letters"},
        {"/{a=b}", "1..63 letters"},
        {"/{a%41}", "1..63 letters"},
        {"/{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", "1..63 letters"},
        {"/{a}/x/{a}", "{a} twice"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char why[256] = "";

        if (path_check(wrong[i].path, why, sizeof why))
            fail_msg("accepted: %s", wrong[i].path);
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].path, why);
    }
}

static void segments_are_counted(void **state)
{
    char path[2 * PATH_SEGMENTS_MAX + 3] = "", why[256];

    (void)state;
    for (unsigned i = 0; i < PATH_SEGMENTS_MAX; i++)
        strcat(path, "/x");
    assert_true(path_check(path, why, sizeof why));
    strcat(path, "/");
    assert_false(path_check(path, why, sizeof why));
    assert_non_null(strstr(why, "64 segments"));
}

static void parameters_are_numbered(void **state)
{
    (void)state;
    assert_int_equal(path_param("/a/{b}/c/{de}", "b"), 0);
    assert_int_equal(path_param("/a/{b}/c/{de}", "de"), 1);
    assert_int_equal(path_param("/a/{b}/c/{de}", "d"), -1);
    assert_int_equal(path_param("/a/{b}/c/{de}", "a"), -1);
    assert_int_equal(path_param("/", ""), -1);
}

static void names_of_parameters_make_no_difference(void **state)
{
    (void)state;
    assert_true(path_same("/a/{b}", "/a/{c}"));
    assert_true(path_same("/", "/"));
    assert_false(path_same("/a/{b}", "/a/b"));
    assert_false(path_same("/a", "/a/"));
    assert_false(path_same("/a/", "/a"));
    assert_false(path_same("/{a}/b", "/{a}/c"));
    assert_false(path_same("/a", "/A"));
    assert_false(path_same("/ab", "/a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_paths),
        cmocka_unit_test(wrong_paths),
        cmocka_unit_test(segments_are_counted),
        cmocka_unit_test(parameters_are_numbered),
        cmocka_unit_test(names_of_parameters_make_no_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
