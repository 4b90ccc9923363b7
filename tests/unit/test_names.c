#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/json/names.c"

static const char *add(struct json_names *all, const char *name)
{
    return json_names_add(all, name, strlen(name), strchr(name, '\\') != NULL);
}

static void test_same_names(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"a", "a"},
                                           {"a", "\\u0061"},
                                           {"\\u0061", "a"},
                                           {"\\u0061b", "a\\u0062"},
                                           {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
                                           {"x\\/y", "x/y"},
                                           {"\\u0000", "\\u0000"},
                                           {"a\\nb\\n", "a\\u000ab\\u000A"}};
    static const char *const other[][2] = {{"", "a"},          {"a", "A"},        {"a", "ab"},
                                           {"ab", "a"},        {"a\\u0000", "a"}, {"\\u0061b", "a\\u0063"},
                                           {"\\\\u0061", "a"}, {"\\u00e9", "e"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct json_names all;

        json_names_init(&all);
        assert_null(add(&all, pairs[i][0]));
        assert_string_equal(add(&all, pairs[i][1]), "has a name twice in its object");
    }
    for (i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        struct json_names all;

        json_names_init(&all);
        assert_null(add(&all, other[i][0]));
        assert_null(add(&all, other[i][1]));
    }
}

static void test_name_eq(void **state)
{
    struct json_name a = {"a\\u0062", 7, true, 1}, b = {"ac", 2, false, 1}, c = {"ab", 2, false, 1};

    (void)state;
    assert_false(name_eq(&a, &b));
    assert_false(name_eq(&b, &a));
    assert_false(name_eq(&b, &c));
    assert_true(name_eq(&a, &c));
    assert_true(name_eq(&c, &a));
}

static void test_json_name_eq(void **state)
{
    (void)state;
    assert_true(json_name_eq("abc", 3, false, "abc", 3));
    assert_false(json_name_eq("abc", 3, false, "ab", 2));
    assert_true(json_name_eq("a\\u0062c", 8, true, "abc", 3));
    assert_false(json_name_eq("a\\u0062c", 8, true, "ab", 2));
    assert_false(json_name_eq("a\\u0062c", 8, true, "abcd", 4));
    assert_false(json_name_eq("a\\u0062c", 8, true, "axc", 3));
    assert_true(json_name_eq("", 0, false, "", 0));
}

/* Sets of every size around where the table begins and ends: each name is found again, plain and escaped. */
static void test_many_names(void **state)
{
    static char plain[JSON_NAMES_MAX + 1][16], escaped[JSON_NAMES_MAX + 1][24];
    struct json_names all;
    unsigned n, i;

    (void)state;
    for (i = 0; i <= JSON_NAMES_MAX; i++) {
        snprintf(plain[i], sizeof(plain[i]), "name%u", i);
        snprintf(escaped[i], sizeof(escaped[i]), "n\\u0061me%u", i);
    }
    json_names_init(&all);
    for (n = 0; n < JSON_NAMES_MAX; n++) {
        assert_null(add(&all, n % 3 == 0 ? escaped[n] : plain[n]));
        for (i = 0; i <= n && n + 1 < JSON_NAMES_MAX; i += n < 40 ? 1 : 37) {
            assert_string_equal(add(&all, plain[i]), "has a name twice in its object");
            assert_string_equal(add(&all, escaped[i]), "has a name twice in its object");
        }
    }
    assert_string_equal(add(&all, plain[n]), "is not accepted: more than 1024 names in its object");
}

static void test_hash_depends_on_all_octets(void **state)
{
    char text[40];
    size_t len, i;

    (void)state;
    memset(text, 'a', sizeof(text));
    for (len = 1; len < sizeof(text); len++) {
        uint64_t h = hash(text, len, false);

        assert_true(h != hash(text, len - 1, false));
        for (i = 0; i < len; i++) {
            text[i] = 'b';
            assert_true(h != hash(text, len, false));
            text[i] = 'a';
        }
    }
    assert_true(hash("a\\u0062c", 8, true) == hash("abc", 3, false));
    assert_true(hash("", 0, false) == hash("", 0, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_names),
        cmocka_unit_test(test_name_eq),
        cmocka_unit_test(test_json_name_eq),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_hash_depends_on_all_octets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
