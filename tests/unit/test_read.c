#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/json/read.c"

/* Checks a document in memory of exactly its length. */
static const char *check(const char *text, size_t len, enum json_kind *kind, bool *has_nul)
{
    char *copy = malloc(len);
    const char *why;

    memcpy(copy, text, len);
    why = json_check((struct slice){copy, len}, kind, has_nul);
    free(copy);
    return why;
}

struct document {
    const char *text;
    enum json_kind kind;
};

static void test_accepted(void **state)
{
    static const struct document y[] = {
        {"null", JSON_NULL},
        {"true", JSON_TRUE},
        {"false", JSON_FALSE},
        {"0", JSON_NUMBER},
        {"-0", JSON_NUMBER},
        {"-1", JSON_NUMBER},
        {"10", JSON_NUMBER},
        {"0.5", JSON_NUMBER},
        {"-0.50", JSON_NUMBER},
        {"1e1", JSON_NUMBER},
        {"1E+1", JSON_NUMBER},
        {"1e-1", JSON_NUMBER},
        {"0e0", JSON_NUMBER},
        {"123.456e78", JSON_NUMBER},
        {"1e9999999999999999999", JSON_NUMBER},
        {"123456789012345678901234567890123456789012345678901234567890", JSON_NUMBER},
        {"0.000000000000000000000000000000000000000000000000000000000000000001", JSON_NUMBER},
        {"\"\"", JSON_STRING},
        {"\"a\"", JSON_STRING},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", JSON_STRING},
        {"\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"", JSON_STRING},
        {"\"\\ud83d\\ude00\"", JSON_STRING},
        {"\"\\uffff\\ufffe\"", JSON_STRING},
        {"\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"", JSON_STRING},
        {"\"\xe2\x80\xa8\xe2\x80\xa9\x7f\"", JSON_STRING},
        {"\"\xef\xbb\xbf\"", JSON_STRING}, /* a byte order mark inside a string is a character like others */
        {"\"\xf4\x8f\xbf\xbf\"", JSON_STRING},
        {"\"'\"", JSON_STRING},
        {"\"/* not a comment */\"", JSON_STRING},
        {"[]", JSON_ARRAY},
        {"[ ]", JSON_ARRAY},
        {"[1]", JSON_ARRAY},
        {"[1,2]", JSON_ARRAY},
        {" [ 1 , 2 ] ", JSON_ARRAY},
        {"[[],[[]],{}]", JSON_ARRAY},
        {"[null,true,false,0,\"\",[],{}]", JSON_ARRAY},
        {"{}", JSON_OBJECT},
        {"{ }", JSON_OBJECT},
        {"{\"a\":1}", JSON_OBJECT},
        {"{\"\":0}", JSON_OBJECT},
        {"{\"a\":{\"a\":{\"a\":1}}}", JSON_OBJECT},
        {"{\"a\":[{\"b\":1,\"b\":2}]}", JSON_OBJECT}, /* below the top level names are nobody's business */
        {"{\"a\":1,\"b\":2,\"A\":3}", JSON_OBJECT},
        {"\t\n\r {\t\"a\"\r\n:\n1\t,\n\"b\" : [ ] } \n", JSON_OBJECT},
        {"\"a\"\n", JSON_STRING},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(y) / sizeof(y[0]); i++) {
        enum json_kind kind = JSON_ABSENT;
        bool nul = true;
        const char *why = check(y[i].text, strlen(y[i].text), &kind, &nul);

        if (why != NULL)
            fail_msg("%s: %s", y[i].text, why);
        assert_int_equal(kind, y[i].kind);
        assert_false(nul);
    }
}

static void test_refused(void **state)
{
    static const char *const n[] = {
        /* nothing */
        "",
        " ",
        "\n",
        "\xef\xbb\xbf",
        "\xef\xbb\xbf{}",
        "\xef\xbb\xbf 1",
        "\xff\xfe",
        "\xef\xbb",
        /* words */
        "nul",
        "nulll",
        "n",
        "NULL",
        "Null",
        "True",
        "TRUE",
        "tru",
        "truex",
        "fals",
        "undefined",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "a",
        "'a'",
        "nullnull",
        "true false",
        "\\u0031",
        /* numbers */
        "01",
        "-01",
        "00",
        "+1",
        "-",
        "--1",
        "-a",
        ".5",
        "-.5",
        "1.",
        "-1.",
        "1.e1",
        "1e",
        "1E",
        "1e+",
        "1e-",
        "1e1.5",
        "1e1e1",
        "0x10",
        "0x",
        "0b1",
        "1_000",
        "1,000",
        "1 000",
        "1a",
        "0.",
        "0e",
        "0e+",
        "1.2.3",
        "-0.",
        "2.e3",
        "1eE2",
        "\xef\xbc\x91",
        "- 1",
        "1-1",
        "1+1",
        "0-",
        "9.e+",
        "1.5f",
        "01.5",
        "Inf",
        "1n",
        "[-]",
        "[1.]",
        "[01]",
        "[1e]",
        "[.1]",
        "[+1]",
        "[1 2]",
        "[- 1]",
        /* strings */
        "\"",
        "\"a",
        "'a'",
        "\"\\\"",
        "\"\\",
        "\"\\x41\"",
        "\"\\a\"",
        "\"\\0\"",
        "\"\\'\"",
        "\"\\U0041\"",
        "\"\\u\"",
        "\"\\u1\"",
        "\"\\u12\"",
        "\"\\u123\"",
        "\"\\u123g\"",
        "\"\\u 123\"",
        "\"\\u+123\"",
        "\"\\u-123\"",
        "\"\\u0x41\"",
        "\"\\u00",
        "\"\\u0041",
        "\"\n\"",
        "\"\t\"",
        "\"\r\"",
        "\"\x01\"",
        "\"\x1f\"",
        "\"a\nb\"",
        "\"\\\n\"",
        "\"\\\xc3\xbc\"",
        "\"a\"b\"",
        "\"a\"\"b\"",
        "\\\"a\\\"",
        "\"\\\\\\\"",
        "\"\\u\xef\xbc\x91\xef\xbc\x91\"",
        /* surrogates */
        "\"\\ud800\"",
        "\"\\udbff\"",
        "\"\\udc00\"",
        "\"\\udfff\"",
        "\"\\ud800a\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\ud83d\\u\"",
        "\"\\ud83d\\ude0\"",
        "\"\\ud83d\\\"",
        "\"\\ud83d",
        "\"\\ud83d\\ude0",
        "\"\\uD83D\\uDE00\\uD83D\"",
        "\"\\ud83d \\ude00\"",
        /* UTF-8 */
        "\"\x80\"",
        "\"\xff\"",
        "\"\xfe\"",
        "\"\xc3\"",
        "\"\xc3(\"",
        "\"\xe2\x82\"",
        "\"\xf0\x9f\x98\"",
        "\"\xc0\x80\"",
        "\"\xc0\xaf\"",
        "\"\xc1\xbf\"",
        "\"\xe0\x80\x80\"",
        "\"\xe0\x9f\xbf\"",
        "\"\xf0\x80\x80\x80\"",
        "\"\xf0\x8f\xbf\xbf\"",
        "\"\xed\xa0\x80\"",
        "\"\xed\xbf\xbf\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xf8\x88\x80\x80\x80\"",
        "\xc3\xbc",
        "[\xff]",
        "{\"\xff\":1}",
        "\"\xe4\xf6\xfc\"",
        "\"\xc3",
        "\"\xf0\x9f",
        "1\xff",
        /* white space that is none */
        "\f1",
        "\v1",
        "1\f",
        "\xc2\xa0"
        "1",
        "[\xc2\xa0]",
        "[1,\x0c"
        "2]",
        "\xe2\x80\xa8"
        "1",
        /* arrays */
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[,]",
        "[1,,2]",
        "[1 2]",
        "[1;2]",
        "[1}",
        "[}",
        "[]]",
        "[[]",
        "[1],",
        "[1]x",
        "[\"a\"",
        "[\"a",
        "[1:2]",
        "(1)",
        "[",
        "[[[[",
        "[\"a\":1]",
        "[1,\n",
        "[true,fals]",
        "[x]",
        "[\\n]",
        "[1]]",
        "1]",
        /* objects */
        "{",
        "}",
        "{]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\" 1}",
        "{\"a\"::1}",
        "{\"a\":}",
        "{\"a\",1}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{null:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1}}",
        "{\"a\":1}{",
        "{\"a\":1;\"b\":2}",
        "{\"a\":1]",
        "{:1}",
        "{\"a\"}",
        "{[]:1}",
        "{\"a\":b}",
        "{\"a\":1,1}",
        "{\"a\":\"b}",
        "{\"a",
        "{ ",
        "{\"a\" :",
        "{\"a\\u00\":1}",
        "{\"a\\ud800\":1}",
        "{\"a\n\":1}",
        "{}}",
        /* comments and other extensions */
        "/**/1",
        "1/**/",
        "// x\n1",
        "1 // x",
        "[1,/* x */2]",
        "{\"a\":/**/1}",
        "# x\n1",
        "1;",
        "1,",
        ",1",
        "*",
        "<null>",
        "{\"a\": undefined}",
        "[1]\n#",
        "`a`",
        "\"a\" + \"b\"",
        "@",
        "1 1",
        "[][]",
        "{}[]",
        "\"\"\"\"",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(n) / sizeof(n[0]); i++)
        if (check(n[i], strlen(n[i]), NULL, NULL) == NULL)
            fail_msg("accepted: %s", n[i]);
    /* octets that a C string cannot hold */
    assert_non_null(check("1\0", 2, NULL, NULL));
    assert_non_null(check("\0", 1, NULL, NULL));
    assert_non_null(check("\"a\0b\"", 5, NULL, NULL));
    assert_non_null(check("[\0]", 3, NULL, NULL));
    assert_non_null(json_check((struct slice){NULL, 0}, NULL, NULL));
}

/* A document cut off anywhere is refused, and nothing behind the cut is looked at. */
static void test_truncated(void **state)
{
    static const char text[] =
        "{\"a\\u00e9\\ud83d\\ude00\xc3\xbc\": [1.5e-7, true, false, null, \"\xf0\x9f\x98\x80\\n\", "
        "{\"b\": [[], {}]}], \"c\": -0.25}";
    size_t len;

    (void)state;
    assert_null(check(text, strlen(text), NULL, NULL));
    for (len = 0; len < strlen(text); len++)
        assert_non_null(check(text, len, NULL, NULL));
}

static void test_depth(void **state)
{
    char text[600];
    unsigned depth, i;
    size_t len;

    (void)state;
    for (depth = 1; depth <= 66; depth++) {
        const char *why;

        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        why = check(text, 2 * depth, NULL, NULL);
        assert_int_equal(why == NULL, depth <= 64);
        if (why != NULL)
            assert_string_equal(why, "is not accepted: JSON nested deeper than 64");
        /* arrays and objects in turn: what is open is known at each depth */
        for (i = 0, len = 0; i < depth; i++)
            len += (size_t)sprintf(text + len, i % 2 == 0 ? "{\"k\":" : "[0,");
        text[len++] = '1';
        for (i = depth; i-- > 0;)
            text[len++] = i % 2 == 0 ? '}' : ']';
        assert_int_equal(check(text, len, NULL, NULL) == NULL, depth <= 64);
        for (i = 0; i < depth && depth <= 64; i++) { /* one bracket of the wrong kind */
            char was = text[len - 1 - i];

            text[len - 1 - i] = was == ']' ? '}' : ']';
            assert_non_null(check(text, len, NULL, NULL));
            text[len - 1 - i] = was;
        }
    }
}

static void test_nul(void **state)
{
    static const struct {
        const char *text;
        bool nul;
    } cases[] = {{"\"\\u0000\"", true},     {"\"a\\u0000b\"", true}, {"[1,{\"a\":\"\\u0000\"}]", true},
                 {"{\"\\u0000\":1}", true}, {"\"\\u0001\"", false},  {"\"\\\\u0000\"", false},
                 {"\"\\\\\\u0000\"", true}, {"[\"u0000\"]", false},  {"0", false}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool nul = !cases[i].nul;

        assert_null(check(cases[i].text, strlen(cases[i].text), NULL, &nul));
        assert_int_equal(nul, cases[i].nul);
    }
}

#define MEMBER(name)                                               \
    {                                                              \
        .member_name = (name), .member_name_len = sizeof(name) - 1 \
    }

static const char *read_object(const char *text, struct json_member *members, unsigned n)
{
    return json_read_object((struct slice){text, strlen(text)}, members, n);
}

static void assert_member(const struct json_member *m, enum json_kind kind, const char *value, bool escape, bool nul)
{
    assert_int_equal(m->member_kind, kind);
    assert_int_equal(m->member_value.slice_len, strlen(value));
    if (kind != JSON_ABSENT)
        assert_memory_equal(m->member_value.slice_p, value, strlen(value));
    assert_int_equal(m->member_has_escape, escape);
    assert_int_equal(m->member_has_nul, nul);
}

static void test_members(void **state)
{
    struct json_member m[] = {MEMBER("s"), MEMBER("n"),        MEMBER("a"),       MEMBER("o"), MEMBER("t"),
                              MEMBER("z"), MEMBER("\xc3\xbc"), MEMBER("missing"), MEMBER(""),  MEMBER("e")};

    (void)state;
    assert_null(read_object(
        " { \"x\" : {\"s\": 9, \"n\": [\"\\u0000\"]} , \"s\":\"a\\nb\", \"n\" :-1.50e3 ,\"a\": [1, \"\\u0000\", {}] , "
        "\"o\":{ \"s\" : 1 }\n, \"t\":true,\"z\":null, \"\\u00FC\": \"\\u0000\", \"\":false, \"e\":\"\" } ",
        m, 10));
    assert_member(&m[0], JSON_STRING, "a\\nb", true, false);
    assert_member(&m[1], JSON_NUMBER, "-1.50e3", false, false);
    assert_member(&m[2], JSON_ARRAY, "[1, \"\\u0000\", {}]", false, true);
    assert_member(&m[3], JSON_OBJECT, "{ \"s\" : 1 }", false, false);
    assert_member(&m[4], JSON_TRUE, "true", false, false);
    assert_member(&m[5], JSON_NULL, "null", false, false);
    assert_member(&m[6], JSON_STRING, "\\u0000", true, true);
    assert_member(&m[7], JSON_ABSENT, "", false, false);
    assert_member(&m[8], JSON_FALSE, "false", false, false);
    assert_member(&m[9], JSON_STRING, "", false, false);
    /* used again: nothing stays */
    assert_null(read_object("{\"missing\":1}", m, 10));
    assert_member(&m[0], JSON_ABSENT, "", false, false);
    assert_member(&m[6], JSON_ABSENT, "", false, false);
    assert_member(&m[7], JSON_NUMBER, "1", false, false);
    assert_null(read_object("{}", NULL, 0));
}

static void test_escaped_names_match(void **state)
{
    struct json_member m[] = {MEMBER("a/b\"\\"), MEMBER("\xf0\x9f\x98\x80"), MEMBER("name")};

    (void)state;
    assert_null(read_object("{\"a\\/b\\u0022\\\\\":1,\"\\ud83d\\ude00\":2,\"\\u006e\\u0061me\":3}", m, 3));
    assert_member(&m[0], JSON_NUMBER, "1", false, false);
    assert_member(&m[1], JSON_NUMBER, "2", false, false);
    assert_member(&m[2], JSON_NUMBER, "3", false, false);
    assert_null(
        read_object("{\"nam\":1,\"nama\":2,\"\\u006e\":3,\"NAME\":4,\"name\\u0000\":5,\"nam\\u0065s\":6}", m, 3));
    assert_member(&m[2], JSON_ABSENT, "", false, false);
}

static void test_not_an_object(void **state)
{
    static const char *const texts[] = {"[]", "[{\"a\":1}]", "1", "\"a\"", "null", "true", "[{\"a\":1,\"a\":2}]"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct json_member m = MEMBER("a");

        assert_string_equal(read_object(texts[i], &m, 1), "is not a JSON object");
        assert_int_equal(m.member_kind, JSON_ABSENT);
    }
    assert_non_null(read_object("", NULL, 0));
    assert_non_null(read_object("{", NULL, 0));
}

static void test_duplicates(void **state)
{
    static const char *const twice[] = {
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\u0061\":1,\"a\":2}",
        "{\"\\u0061b\":1,\"a\\u0062\":2}",
        "{\"\":1,\"\":2}",
        "{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}",
        "{\"x\\/y\":1,\"x/y\":2}",
        "{\"\\u0000\":1,\"\\u0000\":2}",
    };
    struct json_member m[] = {MEMBER("a"), MEMBER("b")};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(twice) / sizeof(twice[0]); i++)
        assert_string_equal(read_object(twice[i], NULL, 0), "has a name twice in its object");
    assert_non_null(read_object("{\"c\":0,\"\\u0062\":2,\"a\":1,\"b\":1}", m, 2));
    assert_false(m[0].member_twice);
    assert_true(m[1].member_twice);
    assert_null(read_object("{\"a\":{\"b\":1,\"b\":2},\"b\":[{\"a\":1,\"a\":2}]}", m, 2));
    assert_false(m[0].member_twice);
    assert_false(m[1].member_twice);
    assert_null(read_object("{\"a\":1,\"a\\u0000\":2,\"ab\":3,\"A\":4,\"a \":5}", m, 2));
}

static void test_string_next(void **state)
{
    static const struct {
        const char *text, *plain;
        size_t len;
    } cases[] = {
        {"", "", 0},
        {"abc", "abc", 3},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8},
        {"a\\u0041b\\u00e9\\u20ac\\ud83d\\ude00c",
         "aAb\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
         "c",
         13},
        {"\\u0000", "\0", 1},
        {"\\u007f\\u0080\\u07ff\\u0800\\uffff", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11},
        {"\\ud800\\udc00\\udbff\\udfff", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
        {"\xc3\xbc\\n\xc3\xbc", "\xc3\xbc\n\xc3\xbc", 5},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = strlen(cases[i].text), n = 0;
        char *copy = malloc(len), plain[64], scratch[4];
        const char *p = copy;
        struct slice run;

        memcpy(copy, cases[i].text, len);
        while ((run = json_string_next(&p, copy + len, scratch)).slice_len > 0) {
            memcpy(plain + n, run.slice_p, run.slice_len);
            n += run.slice_len;
        }
        assert_int_equal(n, cases[i].len);
        assert_memory_equal(plain, cases[i].plain, n);
        free(copy);
    }
}

static void test_array_next(void **state)
{
    static const char text[] = "[ 1 ,\"a,]\\\"[\", [2,[3, \"]\"]] ,{\"x\":[4,\"}\"]},null,true,\"\",-1.5e3\n]";
    static const struct {
        enum json_kind kind;
        const char *value;
    } wanted[] = {{JSON_NUMBER, "1"},
                  {JSON_STRING, "a,]\\\"["},
                  {JSON_ARRAY, "[2,[3, \"]\"]]"},
                  {JSON_OBJECT, "{\"x\":[4,\"}\"]}"},
                  {JSON_NULL, "null"},
                  {JSON_TRUE, "true"},
                  {JSON_STRING, ""},
                  {JSON_NUMBER, "-1.5e3"}};
    struct slice value;
    enum json_kind kind;
    size_t at = 0, i = 0;

    (void)state;
    assert_null(check(text, strlen(text), NULL, NULL));
    while (json_array_next((struct slice){text, strlen(text)}, &at, &value, &kind)) {
        assert_true(i < sizeof(wanted) / sizeof(wanted[0]));
        assert_int_equal(kind, wanted[i].kind);
        assert_int_equal(value.slice_len, strlen(wanted[i].value));
        assert_memory_equal(value.slice_p, wanted[i].value, value.slice_len);
        i++;
    }
    assert_int_equal(i, sizeof(wanted) / sizeof(wanted[0]));
    at = 0;
    assert_false(json_array_next(SLICE_LITERAL("[]"), &at, &value, &kind));
    at = 0;
    assert_false(json_array_next(SLICE_LITERAL("[ \n ]"), &at, &value, &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_escaped_names_match),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_string_next),
        cmocka_unit_test(test_array_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
