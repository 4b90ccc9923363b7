#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/route/echo.c"
#include "worker/route/value.c"

static struct buffers *buffers;
static struct pg_types *types;

enum { /* OIDs */
       BOOL = 16,
       BYTEA = 17,
       INT8 = 20,
       INT2 = 21,
       VECTOR = 22,
       INT4 = 23,
       TEXT = 25,
       OID = 26,
       JSON = 114,
       JSONS = 199,
       FLOAT4 = 700,
       FLOAT8 = 701,
       BOOLS = 1000,
       INTS = 1007,
       TEXTS = 1009,
       BOXES = 1020,
       DATE = 1082,
       NUMERIC = 1700,
       NUMERICS = 1231,
       UUID = 2950,
       JSONB = 3802,
       JSONBS = 3807
};

/* A value as params_find leaves it, in memory of exactly its length.  JSON strings stand between their quotes. */
struct held {
    char *held_copy;
    struct param_value held_value;
};

static struct held hold(enum param_form form, const char *text)
{
    size_t len = strlen(text), quote = form == PARAM_JSON_STRING;
    struct held h = {malloc(len + 2 * quote), {0}};

    memcpy(h.held_copy + quote, text, len);
    if (quote)
        h.held_copy[0] = h.held_copy[len + 1] = '"';
    h.held_value.value_p = h.held_copy + quote;
    h.held_value.value_len = (uint32_t)len;
    h.held_value.value_form = (uint8_t)form;
    switch (form) {
    case PARAM_PERCENT:
        h.held_value.value_has_escape = strchr(text, '%') != NULL;
        break;
    case PARAM_FORM:
        h.held_value.value_has_escape = strpbrk(text, "%+") != NULL;
        break;
    case PARAM_JSON_STRING:
        h.held_value.value_has_escape = strchr(text, '\\') != NULL;
        break;
    default:
        break;
    }
    h.held_value.value_has_nul = form >= PARAM_JSON_STRING && strstr(text, "\\u0000") != NULL;
    return h;
}

static const char *check(unsigned oid, enum param_form form, const char *text)
{
    struct held h = hold(form, text);
    const char *why = value_check(pg_types_find(types, oid), &h.held_value);

    free(h.held_copy);
    return why;
}

static char *taken(struct out *o, size_t *len)
{
    char *text = calloc(1, o->out_bytes + 1), *to = text;
    struct buf *b;

    for (b = o->out_head; b != NULL; b = b->buf_next) {
        memcpy(to, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
        to += b->buf_end - b->buf_start;
    }
    *len = o->out_bytes;
    return text;
}

/* Checks it, and that what goes to PostgreSQL is `text` (NULL: SQL NULL) and its echo is `json`. */
static void assert_value(unsigned oid, enum param_form form, const char *in, const char *text, const char *json)
{
    const struct pg_type *type = pg_types_find(types, oid);
    struct held h = hold(form, in);
    const char *why = value_check(type, &h.held_value);
    struct out o;
    size_t len;
    char *got;

    if (why != NULL)
        fail_msg("%s: %s", in, why);
    out_init(&o, buffers, 0);
    value_write(&o, type, &h.held_value);
    assert_int_equal(o.out_error, OUT_OK);
    got = taken(&o, &len);
    if (text == NULL) {
        assert_int_equal(len, 4);
        assert_memory_equal(got, "\xff\xff\xff\xff", 4);
    } else {
        assert_string_equal(got + 4, text);
        assert_int_equal(len, 4 + strlen(text));
        assert_int_equal((unsigned char)got[0] << 24 | (unsigned char)got[1] << 16 | (unsigned char)got[2] << 8 |
                             (unsigned char)got[3],
                         strlen(text));
    }
    free(got);
    out_reset(&o);
    value_echo(&o, type, &h.held_value);
    got = taken(&o, &len);
    assert_string_equal(got, json);
    assert_null(json_check((struct slice){got, len}, NULL, NULL));
    free(got);
    out_reset(&o);
    free(h.held_copy);
}

static void test_integer_ranges(void **state)
{
    static const struct {
        unsigned oid;
        const char *text;
        bool fits;
    } cases[] = {
        {INT2, "0", true},
        {INT2, "-0", true},
        {INT2, "007", true},
        {INT2, "32767", true},
        {INT2, "32768", false},
        {INT2, "-32768", true},
        {INT2, "-32769", false},
        {INT2, "00000000000000000000000000000000000000000000000000032767", true},
        {INT2, "-00000000000000000000000000000000000000000000000000032769", false},
        {INT4, "2147483647", true},
        {INT4, "2147483648", false},
        {INT4, "-2147483648", true},
        {INT4, "-2147483649", false},
        {INT4, "4294967295", false},
        {INT4, "4294967296", false},
        {INT4, "18446744073709551616", false},
        {INT4, "18446744073709551617", false},
        {INT8, "9223372036854775807", true},
        {INT8, "9223372036854775808", false},
        {INT8, "-9223372036854775808", true},
        {INT8, "-9223372036854775809", false},
        {INT8, "18446744073709551615", false},
        {INT8, "18446744073709551616", false},
        {INT8, "184467440737095516160", false},
        {INT8, "99999999999999999999999999999999999999999999999999999999999999999999999999", false},
        {INT8, "-99999999999999999999999999999999999999999999999999999999999999999999999999", false},
        {OID, "0", true},
        {OID, "4294967295", true},
        {OID, "4294967296", false},
        {OID, "-1", false},
    };
    static const enum param_form forms[] = {PARAM_PLAIN, PARAM_PERCENT, PARAM_FORM, PARAM_JSON_STRING,
                                            PARAM_JSON_LITERAL};
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
            const char *why = check(cases[i].oid, forms[k], cases[i].text);

            assert_int_equal(why == NULL, cases[i].fits);
            if (why != NULL)
                assert_memory_equal(why, "is out of range for ", 20);
        }
    }
}

static void test_integer_forms(void **state)
{
    static const char *const bad[] = {"",    "-",   "+1",  "--1",      "1-",  " 1",  "1 ",  "1.0", "1e3",  "0x1", "1_0",
                                      "NaN", "one", "1,0", "\xd9\xa1", "-+1", "1\n", "\t1", "- 1", "true", "null"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(check(INT2, PARAM_PLAIN, bad[i]), "is not a whole number");
        assert_string_equal(check(INT4, PARAM_PLAIN, bad[i]), "is not a whole number");
        assert_string_equal(check(INT8, PARAM_PLAIN, bad[i]), "is not a whole number");
        assert_string_equal(check(OID, PARAM_PLAIN, bad[i]), "is not a whole number");
    }
    assert_non_null(check(INT4, PARAM_FORM, "+1"));
    assert_non_null(check(INT4, PARAM_FORM, "1%20"));
    assert_non_null(check(INT4, PARAM_JSON_STRING, "1\\u0000"));
    assert_value(INT4, PARAM_PERCENT, "%2d%34%32", "-42", "-42");
    assert_value(INT4, PARAM_JSON_STRING, "\\u0034\\u0032", "42", "42");
    assert_value(INT8, PARAM_JSON_STRING, "9007199254740993", "9007199254740993", "9007199254740993");
    assert_value(INT4, PARAM_JSON_LITERAL, "-7", "-7", "-7");
    /* an echo is JSON, where numbers have no leading zeros */
    assert_value(INT4, PARAM_PLAIN, "007", "007", "7");
    assert_value(INT4, PARAM_PLAIN, "-007", "-007", "-7");
    assert_value(INT4, PARAM_PLAIN, "000", "000", "0");
    assert_value(INT4, PARAM_PLAIN, "-0", "-0", "0");
    assert_value(INT4, PARAM_PERCENT, "%30%30%31%30", "0010", "10");
    assert_value(INT4, PARAM_PERCENT, "-0%30%31%30", "-0010", "-10");
    assert_value(OID, PARAM_PLAIN, "42", "42", "\"42\"");
}

static void test_bool(void **state)
{
    static const char *const bad[] = {"",      "TRUE", "True", "yes", "on", "2",    "tr",
                                      "truee", "no",   "off",  " t",  "t ", "null", "10"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(check(BOOL, PARAM_PLAIN, bad[i]), "is not true or false");
    assert_value(BOOL, PARAM_PLAIN, "true", "true", "true");
    assert_value(BOOL, PARAM_PLAIN, "t", "t", "true");
    assert_value(BOOL, PARAM_FORM, "1", "1", "true");
    assert_value(BOOL, PARAM_PERCENT, "%66alse", "false", "false");
    assert_value(BOOL, PARAM_PERCENT, "%74", "t", "true");
    assert_value(BOOL, PARAM_PLAIN, "f", "f", "false");
    assert_value(BOOL, PARAM_PLAIN, "0", "0", "false");
    assert_value(BOOL, PARAM_JSON_LITERAL, "true", "true", "true");
    assert_value(BOOL, PARAM_JSON_LITERAL, "0", "0", "false");
    assert_value(BOOL, PARAM_JSON_STRING, "false", "false", "false");
}

static void test_numbers(void **state)
{
    static const char *const good[] = {
        "0", "-0", "1", "-1.50", "0.001", "1e3", "1E+3", "1.5e-7", "123456789012345678901234567890.5", "1e9999"};
    static const char *const bad[] = {"",          "-",   "+1",       ".5",  "5.",  "01",   "-01",    "1e",  "1e+",
                                      "1.e1",      "--1", " 1",       "1 ",  "0x1", "nan",  "inf",    "NAN", "-NaN",
                                      "+Infinity", "Inf", "infinity", "1,5", "1_0", "NaNx", "Infinit"};
    static const unsigned oids[] = {FLOAT4, FLOAT8, NUMERIC};
    size_t i, k;

    (void)state;
    for (k = 0; k < 3; k++) {
        for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
            assert_value(oids[k], PARAM_PLAIN, good[i], good[i], good[i]);
            assert_value(oids[k], PARAM_JSON_STRING, good[i], good[i], good[i]);
        }
        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
            assert_string_equal(check(oids[k], PARAM_PLAIN, bad[i]), "is not a number");
        assert_value(oids[k], PARAM_PLAIN, "NaN", "NaN", "\"NaN\"");
        assert_value(oids[k], PARAM_JSON_STRING, "Infinity", "Infinity", "\"Infinity\"");
        assert_value(oids[k], PARAM_PERCENT, "%2DInfinity", "-Infinity", "\"-Infinity\"");
        assert_value(oids[k], PARAM_FORM, "1e%2B3", "1e+3", "1e+3");
        assert_non_null(check(oids[k], PARAM_FORM, "1e+3")); /* a space */
        assert_non_null(check(oids[k], PARAM_JSON_LITERAL, "true"));
    }
}

static void test_uuid(void **state)
{
    static const char *const good[] = {
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",  "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}"};
    static const char *const bad[] = {"",
                                      "a0eebc99",
                                      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
                                      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
                                      "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                                      "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                                      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
                                      "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
                                      "-a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                                      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
                                      "a0eeb-c999c0b4ef8bb6d6bb9bd380a11",
                                      " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                                      "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}}",
                                      "{{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
                                      "{}",
                                      "{"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_null(check(UUID, PARAM_PLAIN, good[i]));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_string_equal(check(UUID, PARAM_PLAIN, bad[i]), "is not a UUID");
    assert_non_null(check(UUID, PARAM_JSON_LITERAL, "1"));
}

static void test_text(void **state)
{
    (void)state;
    assert_value(TEXT, PARAM_PLAIN, "", "", "\"\"");
    assert_value(TEXT, PARAM_PLAIN, "a \"b\" \\ \xc3\xbc", "a \"b\" \\ \xc3\xbc", "\"a \\\"b\\\" \\\\ \xc3\xbc\"");
    assert_value(TEXT, PARAM_PLAIN, "%41+", "%41+", "\"%41+\"");
    assert_value(TEXT, PARAM_PERCENT, "a+b%2Bc%20d%2F%C3%BC%22%5C%0A%01", "a+b+c d/\xc3\xbc\"\\\n\x01",
                 "\"a+b+c d/\xc3\xbc\\\"\\\\\\n\\u0001\"");
    assert_value(TEXT, PARAM_FORM, "a+b%2Bc", "a b+c", "\"a b+c\"");
    assert_value(TEXT, PARAM_JSON_STRING, "a\\nb\\u00e9\\ud83d\\ude00\\/", "a\nb\xc3\xa9\xf0\x9f\x98\x80/",
                 "\"a\\nb\\u00e9\\ud83d\\ude00\\/\"");
    assert_value(TEXT, PARAM_JSON_LITERAL, "1.50e3", "1.50e3", "\"1.50e3\"");
    assert_value(TEXT, PARAM_JSON_LITERAL, "true", "true", "\"true\"");
    assert_value(DATE, PARAM_PLAIN, "2024-02-29", "2024-02-29", "\"2024-02-29\"");
    assert_value(BYTEA, PARAM_JSON_STRING, "\\\\xff", "\\xff", "\"\\\\xff\"");
    assert_string_equal(check(TEXT, PARAM_JSON_STRING, "a\\u0000"), "holds \\u0000, which text cannot");
    assert_string_equal(check(TEXT, PARAM_JSON_VALUE, "[1]"), "is an array");
    assert_string_equal(check(TEXT, PARAM_JSON_VALUE, "{}"), "is an object");
    assert_string_equal(check(INT4, PARAM_JSON_VALUE, "{}"), "is an object");
    assert_value(TEXT, PARAM_NULL, "null", NULL, "null");
    assert_value(INTS, PARAM_NULL, "null", NULL, "null");
    assert_value(JSONB, PARAM_NULL, "null", NULL, "null");
}

static void test_json(void **state)
{
    static const unsigned oids[] = {JSON, JSONB};
    unsigned k;

    (void)state;
    for (k = 0; k < 2; k++) {
        assert_value(oids[k], PARAM_JSON_STRING, "a\\n\\\"b", "\"a\\n\\\"b\"", "\"a\\n\\\"b\"");
        assert_value(oids[k], PARAM_JSON_STRING, "", "\"\"", "\"\"");
        assert_value(oids[k], PARAM_JSON_LITERAL, "1.50", "1.50", "1.50");
        assert_value(oids[k], PARAM_JSON_VALUE, "{\"a\": [1, null]}", "{\"a\": [1, null]}", "{\"a\": [1, null]}");
        assert_value(oids[k], PARAM_PLAIN, "{\"a\": 1}", "{\"a\": 1}", "{\"a\": 1}");
        assert_value(oids[k], PARAM_FORM, "%7B%22a%22%3A+1%7d", "{\"a\": 1}", "{\"a\": 1}");
        assert_value(oids[k], PARAM_PERCENT, "null", "null", "null");
        assert_memory_equal(check(oids[k], PARAM_PLAIN, "{"), "is not JSON", 11);
        assert_memory_equal(check(oids[k], PARAM_PLAIN, ""), "is not JSON", 11);
        assert_memory_equal(check(oids[k], PARAM_FORM, "%7B%22a%22%3A+%7d"), "is not JSON", 11);
        assert_memory_equal(check(oids[k], PARAM_PLAIN, "01"), "is not JSON", 11);
    }
    /* json keeps the text; jsonb has no place for the octet zero */
    assert_null(check(JSON, PARAM_JSON_STRING, "\\u0000"));
    assert_string_equal(check(JSONB, PARAM_JSON_STRING, "\\u0000"), "holds \\u0000, which jsonb cannot");
    assert_string_equal(check(JSONB, PARAM_JSON_VALUE, "[\"\\u0000\"]"), "holds \\u0000, which jsonb cannot");
}

/* More than fits into one piece for checking is left to PostgreSQL, but it arrives there whole. */
static void test_long_escaped_json(void **state)
{
    size_t n = VALUE_GATHER_MAX, i;
    char *text = calloc(1, 3 * n + 1), *plain = calloc(1, n + 1);

    (void)state;
    for (i = 0; i < n; i++)
        plain[i] = i % 2 == 1 ? '1' : ',';
    plain[0] = '[';
    plain[n - 2] = '1';
    plain[n - 3] = ' ';
    plain[n - 1] = ']';
    for (i = 0; i < n; i++)
        sprintf(text + 3 * i, "%%%02x", plain[i]);
    assert_value(JSONB, PARAM_FORM, text, plain, plain);
    free(text);
    free(plain);
}

static void test_arrays(void **state)
{
    (void)state;
    assert_value(INTS, PARAM_JSON_VALUE, "[]", "{}", "[]");
    assert_value(INTS, PARAM_JSON_VALUE, "[ ]", "{}", "[]");
    assert_value(INTS, PARAM_JSON_VALUE, "[1, null,\"-3\"]", "{1,NULL,\"-3\"}", "[1,null,-3]");
    assert_value(INTS, PARAM_JSON_VALUE, "[[1,2],[3,4]]", "{{1,2},{3,4}}", "[[1,2],[3,4]]");
    assert_value(INTS, PARAM_JSON_VALUE, "[[[[[[1]]]]]]", "{{{{{{1}}}}}}", "[[[[[[1]]]]]]");
    assert_value(BOOLS, PARAM_JSON_VALUE, "[true,false,null,1,\"t\"]", "{true,false,NULL,1,\"t\"}",
                 "[true,false,null,true,true]");
    assert_value(NUMERICS, PARAM_JSON_VALUE, "[1.50,\"NaN\",1e2]", "{1.50,\"NaN\",1e2}", "[1.50,\"NaN\",1e2]");
    assert_value(TEXTS, PARAM_JSON_VALUE, "[\"a\",\"\",\"null\",null,\"{},\\\"\\\\ \\n\\u00e9\",\" x \",1,true]",
                 "{\"a\",\"\",\"null\",NULL,\"{},\\\"\\\\ \n\xc3\xa9\",\" x \",1,true}",
                 "[\"a\",\"\",\"null\",null,\"{},\\\"\\\\ \\n\\u00e9\",\" x \",\"1\",\"true\"]");
    assert_value(JSONS, PARAM_JSON_VALUE, "[{\"a\": \"b\\\"c\"},[1,[2]],\"s\",null,1.5,true]",
                 "{\"{\\\"a\\\": \\\"b\\\\\\\"c\\\"}\",\"[1,[2]]\",\"\\\"s\\\"\",NULL,1.5,true}",
                 "[{\"a\": \"b\\\"c\"},[1,[2]],\"s\",null,1.5,true]");
    assert_value(BOXES, PARAM_JSON_VALUE, "[\"(1,1),(0,0)\",null]", "{\"(1,1),(0,0)\";NULL}", "[\"(1,1),(0,0)\",null]");
    /* as text, elsewhere */
    assert_value(INTS, PARAM_FORM, "{1,NULL,3}", "{1,NULL,3}", "[1,null,3]");
    assert_value(INTS, PARAM_FORM, "%7B1%2C+2%7D", "{1, 2}", "[1,2]");
    assert_value(TEXTS, PARAM_PLAIN, "{\"a b\",c}", "{\"a b\",c}", "[\"a b\",\"c\"]");
    assert_value(VECTOR, PARAM_JSON_STRING, "1 2", "1 2", "[1,2]");

    assert_string_equal(check(INTS, PARAM_JSON_STRING, "{1,2}"), "is not an array");
    assert_string_equal(check(INTS, PARAM_JSON_LITERAL, "1"), "is not an array");
    assert_string_equal(check(INTS, PARAM_JSON_VALUE, "{\"a\":1}"), "is not an array");
    assert_string_equal(check(INTS, PARAM_JSON_VALUE, "[1,\"x\"]"), "is not a whole number");
    assert_string_equal(check(INTS, PARAM_JSON_VALUE, "[[1],[2147483648]]"),
                        "is out of range for int4 (-2147483648 to 2147483647)");
    assert_string_equal(check(INTS, PARAM_JSON_VALUE, "[1,{}]"), "is an object");
    assert_string_equal(check(TEXTS, PARAM_JSON_VALUE, "[\"a\",{}]"), "is an object");
    assert_string_equal(check(TEXTS, PARAM_JSON_VALUE, "[\"\\u0000\"]"), "holds \\u0000, which text cannot");
    assert_string_equal(check(JSONBS, PARAM_JSON_VALUE, "[[\"\\u0000\"]]"), "holds \\u0000, which text cannot");
    assert_string_equal(check(INTS, PARAM_JSON_VALUE, "[[[[[[[1]]]]]]]"), "has more than six dimensions");
    assert_string_equal(check(BOOLS, PARAM_JSON_VALUE, "[\"yes\"]"), "is not true or false");
}

static void test_long_values(void **state)
{
    static const size_t lengths[] = {
        OUT_RESERVE_MAX - 5, OUT_RESERVE_MAX - 4, OUT_RESERVE_MAX - 3, OUT_RESERVE_MAX, 5000, 100000};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char *text = malloc(lengths[i] + 3), *json = malloc(lengths[i] + 3);

        memset(text, 'x', lengths[i]);
        text[lengths[i]] = '\0';
        sprintf(json, "\"%s\"", text);
        assert_value(TEXT, PARAM_PLAIN, text, text, json);
        assert_value(TEXT, PARAM_JSON_STRING, text, text, json);
        memcpy(text, "%78", 3);
        memset(json + 1, 'x', lengths[i] - 2);
        strcpy(json + lengths[i] - 1, "\"");
        {
            char *plain = strdup(json + 1);

            plain[lengths[i] - 2] = '\0';
            assert_value(TEXT, PARAM_PERCENT, text, plain, json);
            free(plain);
        }
        free(text);
        free(json);
    }
}

static int set_up(void **state)
{
    (void)state;
    buffers = buffers_new(8u << 20);
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
        cmocka_unit_test(test_integer_ranges), cmocka_unit_test(test_integer_forms),
        cmocka_unit_test(test_bool),           cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_uuid),           cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),           cmocka_unit_test(test_long_escaped_json),
        cmocka_unit_test(test_arrays),         cmocka_unit_test(test_long_values),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
