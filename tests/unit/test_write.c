#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/json/read.h"
#include "worker/json/write.c"

static struct buffers *buffers;

static const struct pg_type type_bool = {16, PG_BOOL, ',', "bool", NULL, NULL, 0};
static const struct pg_type type_int2 = {21, PG_INT2, ',', "int2", NULL, NULL, 0};
static const struct pg_type type_int4 = {23, PG_INT4, ',', "int4", NULL, NULL, 0};
static const struct pg_type type_int8 = {20, PG_INT8, ',', "int8", NULL, NULL, 0};
static const struct pg_type type_oid = {26, PG_OID, ',', "oid", NULL, NULL, 0};
static const struct pg_type type_float4 = {700, PG_FLOAT4, ',', "float4", NULL, NULL, 0};
static const struct pg_type type_float8 = {701, PG_FLOAT8, ',', "float8", NULL, NULL, 0};
static const struct pg_type type_numeric = {1700, PG_NUMERIC, ',', "numeric", NULL, NULL, 0};
static const struct pg_type type_text = {25, PG_TEXT, ',', "text", NULL, NULL, 0};
static const struct pg_type type_json = {114, PG_JSON, ',', "json", NULL, NULL, 0};
static const struct pg_type type_jsonb = {3802, PG_JSONB, ',', "jsonb", NULL, NULL, 0};
static const struct pg_type type_timestamp = {1114, PG_TIMESTAMP, ',', "timestamp", NULL, NULL, 0};
static const struct pg_type type_timestamptz = {1184, PG_TIMESTAMPTZ, ',', "timestamptz", NULL, NULL, 0};
static const struct pg_type type_date = {1082, PG_DATE, ',', "date", NULL, NULL, 0};
static const struct pg_type type_bytea = {17, PG_BYTEA, ',', "bytea", NULL, NULL, 0};
static const struct pg_type type_uuid = {2950, PG_UUID, ',', "uuid", NULL, NULL, 0};
static const struct pg_type type_interval = {1186, PG_OTHER, ',', "interval", NULL, NULL, 0};
static const struct pg_type type_void = {2278, PG_OTHER, ',', "void", NULL, NULL, 0};
static const struct pg_type type_box = {603, PG_OTHER, ';', "box", NULL, NULL, 0};
static const struct pg_type type_hstore = {50000, PG_HSTORE, ',', "hstore", NULL, NULL, 0};
static const struct pg_type type_ints = {1007, PG_ARRAY, ',', "_int4", &type_int4, NULL, 0};
static const struct pg_type type_bools = {1000, PG_ARRAY, ',', "_bool", &type_bool, NULL, 0};
static const struct pg_type type_floats = {1022, PG_ARRAY, ',', "_float8", &type_float8, NULL, 0};
static const struct pg_type type_texts = {1009, PG_ARRAY, ',', "_text", &type_text, NULL, 0};
static const struct pg_type type_jsons = {199, PG_ARRAY, ',', "_json", &type_json, NULL, 0};
static const struct pg_type type_boxes = {1020, PG_ARRAY, ';', "_box", &type_box, NULL, 0};
static const struct pg_type type_stamps = {1185, PG_ARRAY, ',', "_timestamptz", &type_timestamptz, NULL, 0};
static const struct pg_type type_vector = {22, PG_ARRAY, ',', "int2vector", &type_int2, NULL, 0};
static const struct pg_type type_oids = {30, PG_ARRAY, ',', "oidvector", &type_oid, NULL, 0};
static const struct pg_type type_vectors = {1006, PG_ARRAY, ',', "_int2vector", &type_vector, NULL, 0};
static const struct pg_field pair_fields[] = {{"a", &type_int4}, {"b \"q\"", &type_text}};
static const struct pg_type type_pair = {50001, PG_COMPOSITE, ',', "pair", NULL, pair_fields, 2};
static const struct pg_type type_pairs = {50002, PG_ARRAY, ',', "_pair", &type_pair, NULL, 0};
static const struct pg_field deep_fields[] = {{"p", &type_pair}, {"ps", &type_pairs}, {"j", &type_json}};
static const struct pg_type type_deep = {50003, PG_COMPOSITE, ',', "deep", NULL, deep_fields, 3};
static const struct pg_type type_empty = {50004, PG_COMPOSITE, ',', "empty", NULL, NULL, 0};

/* What is in the chain, to be freed. */
static char *taken(struct out *o)
{
    char *text = calloc(1, o->out_bytes + 1), *to = text;
    struct buf *b;

    for (b = o->out_head; b != NULL; b = b->buf_next) {
        memcpy(to, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
        to += b->buf_end - b->buf_start;
    }
    return text;
}

/* The value's JSON, to be freed.  The text is copied to memory of exactly its length, so that AddressSanitizer sees
 * every octet too many. */
static char *json_of(const struct pg_type *type, const char *text, size_t len)
{
    char *copy = malloc(len), *json;
    struct out o;

    memcpy(copy, text, len);
    out_init(&o, buffers, 0);
    json_write_value(&o, type, copy, len);
    assert_int_equal(o.out_error, OUT_OK);
    json = taken(&o);
    out_reset(&o);
    free(copy);
    return json;
}

struct value {
    const struct pg_type *type;
    const char *text, *json;
};

static void check_all(const struct value *values, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        char *json = json_of(values[i].type, values[i].text, strlen(values[i].text));

        assert_string_equal(json, values[i].json);
        free(json);
    }
}
#define CHECK_ALL(values) check_all(values, sizeof(values) / sizeof((values)[0]))

static void test_null(void **state)
{
    struct out o;
    char *json;

    (void)state;
    out_init(&o, buffers, 0);
    json_write_value(&o, &type_int4, NULL, 0);
    json_write_value(&o, &type_ints, NULL, 0);
    json_write_value(&o, &type_pair, NULL, 0);
    json = taken(&o);
    assert_string_equal(json, "nullnullnull");
    free(json);
    out_reset(&o);
}

static void test_scalars(void **state)
{
    static const struct value values[] = {
        {&type_bool, "t", "true"},
        {&type_bool, "f", "false"},
        {&type_bool, "x", "\"x\""},
        {&type_bool, "", "\"\""},
        {&type_int2, "-32768", "-32768"},
        {&type_int4, "0", "0"},
        {&type_int8, "9223372036854775807", "9223372036854775807"},
        {&type_int4, "", "\"\""},
        {&type_int4, "-", "\"-\""},
        {&type_oid, "4294967295", "\"4294967295\""},
        {&type_float4, "1e+20", "1e+20"},
        {&type_float8, "-1.5e-07", "-1.5e-07"},
        {&type_float8, "-0", "-0"},
        {&type_float8, "NaN", "\"NaN\""},
        {&type_float8, "Infinity", "\"Infinity\""},
        {&type_float8, "-Infinity", "\"-Infinity\""},
        {&type_numeric, "1234567890123456789012345678901234567890.1234567890",
         "1234567890123456789012345678901234567890.1234567890"},
        {&type_numeric, "NaN", "\"NaN\""},
        {&type_numeric, "-Infinity", "\"-Infinity\""},
        {&type_text, "", "\"\""},
        {&type_text, "null", "\"null\""},
        {&type_date, "2024-02-29", "\"2024-02-29\""},
        {&type_date, "0044-03-15 BC", "\"0044-03-15 BC\""},
        {&type_bytea, "\\xdead", "\"\\\\xdead\""},
        {&type_uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""},
        {&type_interval, "1 year -2 days", "\"1 year -2 days\""},
        {&type_void, "", "null"},
        {&pg_type_other, "", "\"\""},
        {&type_json, "{\"a\": [1,\n 2]}", "{\"a\": [1,\n 2]}"},
        {&type_jsonb, "\"\xc3\xbc\"", "\"\xc3\xbc\""},
        {&type_json, "", "null"},
        {&type_json, "[\"\xff\xc3\"]", "[\"\xef\xbf\xbd\xef\xbf\xbd\"]"},
    };

    (void)state;
    CHECK_ALL(values);
}

static void test_timestamps(void **state)
{
    static const struct value values[] = {
        {&type_timestamp, "2024-02-29 12:34:56", "\"2024-02-29T12:34:56\""},
        {&type_timestamp, "2024-02-29 12:34:56.000001", "\"2024-02-29T12:34:56.000001\""},
        {&type_timestamp, "0044-03-15 12:00:00 BC", "\"0044-03-15T12:00:00 BC\""},
        {&type_timestamp, "294276-12-31 23:59:59.999999", "\"294276-12-31T23:59:59.999999\""},
        {&type_timestamp, "infinity", "\"infinity\""},
        {&type_timestamp, "-infinity", "\"-infinity\""},
        {&type_timestamptz, "2024-02-29 12:34:56+00", "\"2024-02-29T12:34:56+00:00\""},
        {&type_timestamptz, "2024-02-29 12:34:56.5-11", "\"2024-02-29T12:34:56.5-11:00\""},
        {&type_timestamptz, "2024-02-29 12:34:56+05:30", "\"2024-02-29T12:34:56+05:30\""},
        {&type_timestamptz, "1850-01-01 05:21:10+05:21:10", "\"1850-01-01T05:21:10+05:21:10\""},
        {&type_timestamptz, "0044-03-15 12:00:00+00 BC", "\"0044-03-15T12:00:00+00:00 BC\""},
        {&type_timestamptz, "0044-03-15 12:00:00+05:30 BC", "\"0044-03-15T12:00:00+05:30 BC\""},
        {&type_timestamptz, "12345-06-07 12:34:56+00", "\"12345-06-07T12:34:56+00:00\""},
        {&type_timestamptz, "infinity", "\"infinity\""},
        {&type_timestamptz, "-infinity", "\"-infinity\""},
        /* not as PostgreSQL prints them */
        {&type_timestamptz, "", "\"\""},
        {&type_timestamptz, " ", "\" \""},
        {&type_timestamptz, "1 ", "\"1T\""},
        {&type_timestamptz, "1 +", "\"1T+\""},
        {&type_timestamptz, "1 +00", "\"1T+00:00\""},
        {&type_timestamptz, "1 \"+00", "\"1T\\\"+00:00\""},
        {&type_timestamp, "1 \n", "\"1T\\n\""},
        {&type_timestamptz, "1234567890123456789012345678901234567890123456789012345678901 +00",
         "\"1234567890123456789012345678901234567890123456789012345678901 +00\""},
    };

    (void)state;
    CHECK_ALL(values);
}

static void test_string_escapes(void **state)
{
    unsigned c;

    (void)state;
    for (c = 1; c < 0x80; c++) {
        char text[2] = {(char)c, 0}, wanted[16], *json;

        switch (c) {
        case '"':
            strcpy(wanted, "\"\\\"\"");
            break;
        case '\\':
            strcpy(wanted, "\"\\\\\"");
            break;
        case '\b':
            strcpy(wanted, "\"\\b\"");
            break;
        case '\f':
            strcpy(wanted, "\"\\f\"");
            break;
        case '\n':
            strcpy(wanted, "\"\\n\"");
            break;
        case '\r':
            strcpy(wanted, "\"\\r\"");
            break;
        case '\t':
            strcpy(wanted, "\"\\t\"");
            break;
        default:
            snprintf(wanted, sizeof(wanted), c < 0x20 ? "\"\\u%04x\"" : "\"%c\"", c);
        }
        json = json_of(&type_text, text, 1);
        assert_string_equal(json, wanted);
        free(json);
    }
    {
        char *json = json_of(&type_text, "a\0b", 3);

        assert_string_equal(json, "\"a\\u0000b\"");
        free(json);
    }
}

static void test_string_utf8(void **state)
{
#define BAD "\xef\xbf\xbd"
    static const struct value values[] = {
        {&type_text, "\xc3\xbc\xe2\x80\xa8\xf0\x9f\x98\x80", "\"\xc3\xbc\xe2\x80\xa8\xf0\x9f\x98\x80\""},
        {&type_text, "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
         "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""},
        {&type_text, "\xff", "\"" BAD "\""},
        {&type_text, "a\x80z", "\"a" BAD "z\""},
        {&type_text, "\xc3", "\"" BAD "\""},
        {&type_text, "\xc3(", "\"" BAD "(\""},
        {&type_text, "\xe2\x80", "\"" BAD BAD "\""},
        {&type_text, "\xe2\x80\"", "\"" BAD BAD "\\\"\""},
        {&type_text, "\xf0\x9f\x98", "\"" BAD BAD BAD "\""},
        {&type_text, "\xc0\xaf", "\"" BAD BAD "\""},
        {&type_text, "\xe0\x9f\xbf", "\"" BAD BAD BAD "\""},
        {&type_text, "\xed\xa0\x80", "\"" BAD BAD BAD "\""},
        {&type_text, "\xf0\x8f\xbf\xbf", "\"" BAD BAD BAD BAD "\""},
        {&type_text, "\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""},
        {&type_text, "\xf5\x80\x80\x80", "\"" BAD BAD BAD BAD "\""},
        {&type_text, "\xe4ndern", "\"" BAD "ndern\""},
    };

    (void)state;
    CHECK_ALL(values);
}

/* An octet that needs care at every place of strings of every length around the 16 octets that are looked at at once.
 */
static void test_string_every_place(void **state)
{
    static const char *const specials[][2] = {{"\"", "\\\""},      {"\\", "\\\\"},           {"\x01", "\\u0001"},
                                              {"\x1f", "\\u001f"}, {"\xc3\xbc", "\xc3\xbc"}, {"\xff", BAD}};
    char text[128], wanted[160], memory[6 * 128 + 2];
    size_t len, at, s;

    (void)state;
    for (s = 0; s < sizeof(specials) / sizeof(specials[0]); s++) {
        for (len = 0; len < 50; len++) {
            for (at = 0; at <= len; at++) {
                char *json;
                size_t n;

                snprintf(text, sizeof(text), "%.*s%s%.*s", (int)at,
                         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", specials[s][0], (int)(len - at),
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ");
                snprintf(wanted, sizeof(wanted), "\"%.*s%s%.*s\"", (int)at,
                         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", specials[s][1], (int)(len - at),
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ");
                json = json_of(&type_text, text, strlen(text));
                assert_string_equal(json, wanted);
                n = json_quote(memory, text, strlen(text));
                assert_int_equal(n, strlen(wanted));
                assert_memory_equal(memory, wanted, n);
                free(json);
            }
        }
    }
}

static void test_arrays(void **state)
{
    static const struct value values[] = {
        {&type_ints, "{}", "[]"},
        {&type_ints, "{1}", "[1]"},
        {&type_ints, "{1,NULL,-3}", "[1,null,-3]"},
        {&type_ints, "{{1,2},{3,4}}", "[[1,2],[3,4]]"},
        {&type_ints, "{{{1},{NULL}}}", "[[[1],[null]]]"},
        {&type_ints, "[0:2]={1,2,3}", "[1,2,3]"},
        {&type_ints, "[-1:0][2:3]={{1,2},{3,4}}", "[[1,2],[3,4]]"},
        {&type_bools, "{t,f,NULL}", "[true,false,null]"},
        {&type_floats, "{1.5,NaN,-Infinity,1e+100}", "[1.5,\"NaN\",\"-Infinity\",1e+100]"},
        {&type_texts, "{a,\"b c\",\"\",\"NULL\",NULL,\"\\\"q\\\"\",\"\\\\\",\"{\",\"}\",\",\"}",
         "[\"a\",\"b c\",\"\",\"NULL\",null,\"\\\"q\\\"\",\"\\\\\",\"{\",\"}\",\",\"]"},
        {&type_texts, "{\"a\\\\\\\"b\",\"\xc3\xbc\n\"}", "[\"a\\\\\\\"b\",\"\xc3\xbc\\n\"]"},
        {&type_texts, "{{a,b},{\"c,d\",NULL}}", "[[\"a\",\"b\"],[\"c,d\",null]]"},
        {&type_texts, "{nullable,xNULL,NULLx}", "[\"nullable\",\"xNULL\",\"NULLx\"]"},
        {&type_jsons, "{\"{\\\"a\\\": \\\"b \\\\\\\" c\\\"}\",\"null\",NULL,1}", "[{\"a\": \"b \\\" c\"},null,null,1]"},
        {&type_boxes, "{(1,1),(0,0);NULL;(3,3),(2,2)}", "[\"(1,1),(0,0)\",null,\"(3,3),(2,2)\"]"},
        {&type_stamps, "{\"2024-02-29 12:34:56+00\",infinity}", "[\"2024-02-29T12:34:56+00:00\",\"infinity\"]"},
        {&type_vector, "1 2 -3", "[1,2,-3]"},
        {&type_vector, "", "[]"},
        {&type_oids, "1 4294967295", "[\"1\",\"4294967295\"]"},
        {&type_vectors, "{\"1 2\",\"3\",NULL}", "[[1,2],[3],null]"},
        /* as people write them (echoed parameters) */
        {&type_ints, "{ 1 , null , 3 }", "[1,null,3]"},
        {&type_texts, "{ a b , \"c\" }", "[\"a b\",\"c\"]"},
        {&type_ints, "{007,+1, x}", "[\"007\",\"+1\",\"x\"]"},
    };

    (void)state;
    CHECK_ALL(values);
}

static void test_malformed_arrays(void **state)
{
    static const struct value values[] = {
        {&type_ints, "{", "[]"},
        {&type_ints, "{{", "[[]]"},
        {&type_ints, "{1", "[1]"},
        {&type_ints, "{1,", "[1,null]"},
        {&type_ints, "{1,}", "[1,null]"},
        {&type_ints, "{,1}", "[]"},
        {&type_ints, "{1,,2}", "[1,null]"},
        {&type_ints, "{1}}", "[1]"},
        {&type_ints, "{1}{2}", "[1]"},
        {&type_ints, "{{1}2}", "[[1]]"},
        {&type_ints, "{{1}{2}}", "[[1]]"},
        {&type_ints, "{1{2}}", "[\"1{2\"]"},
        {&type_texts, "{\"", "[\"\"]"},
        {&type_texts, "{\"a", "[\"a\"]"},
        {&type_texts, "{\"a\\", "[\"a\\\\\"]"},
        {&type_texts, "{\"a\"b}", "[\"a\"]"},
        {&type_ints, "[0:2]", "\"[0:2]\""},
        {&type_ints, "[0:2]=", "\"[0:2]=\""},
        {&type_ints, "[0:2]=1", "\"[0:2]=1\""},
        {&type_ints, "[=", "\"[=\""},
        {&type_vector, " ", "[\"\",null]"},
        {&type_vector, "1 ", "[1,null]"},
        {&type_ints, "x", "[\"x\"]"},
    };
    char text[400];
    size_t i;
    char *json;

    (void)state;
    CHECK_ALL(values);
    /* deeper than is followed */
    memset(text, '{', 200);
    json = json_of(&type_ints, text, 200);
    for (i = 0; i < 64; i++)
        assert_int_equal(json[i], '[');
    assert_int_equal(strlen(json), 128);
    free(json);
}

static void test_composites(void **state)
{
    static const struct value values[] = {
        {&type_pair, "(1,x)", "{\"a\":1,\"b \\\"q\\\"\":\"x\"}"},
        {&type_pair, "(,)", "{\"a\":null,\"b \\\"q\\\"\":null}"},
        {&type_pair, "(,\"\")", "{\"a\":null,\"b \\\"q\\\"\":\"\"}"},
        {&type_pair, "(1,\"a \"\"b\\\\\"\"\")", "{\"a\":1,\"b \\\"q\\\"\":\"a \\\"b\\\\\\\"\"}"},
        {&type_pair, "(1,\"a,b)(\")", "{\"a\":1,\"b \\\"q\\\"\":\"a,b)(\"}"},
        {&type_pair, "(1,\" \n\")", "{\"a\":1,\"b \\\"q\\\"\":\" \\n\"}"},
        {&type_empty, "()", "{}"},
        {&type_pairs, "{\"(1,x)\",NULL,\"(,\\\"a \\\"\\\"b\\\\\\\\c\\\")\"}",
         "[{\"a\":1,\"b \\\"q\\\"\":\"x\"},null,{\"a\":null,\"b \\\"q\\\"\":\"a \\\"b\\\\c\"}]"},
        {&type_deep, "(\"(1,\"\"x y\"\")\",\"{\"\"(2,\\\\\"\"a b\\\\\"\")\"\",NULL}\",\"{\"\"k\"\":[1,2]}\")",
         "{\"p\":{\"a\":1,\"b \\\"q\\\"\":\"x y\"},\"ps\":[{\"a\":2,\"b \\\"q\\\"\":\"a "
         "b\"},null],\"j\":{\"k\":[1,2]}}"},
        /* ALTER TYPE since it was learnt: fewer fields, more, another type */
        {&type_pair, "(1)", "{\"a\":1,\"b \\\"q\\\"\":null}"},
        {&type_pair, "(1,x,2,3)", "{\"a\":1,\"b \\\"q\\\"\":\"x\"}"},
        {&type_pair, "(1abc,x)", "{\"a\":\"1abc\",\"b \\\"q\\\"\":\"x\"}"},
        {&type_pair, "()", "{\"a\":null,\"b \\\"q\\\"\":null}"},
        /* malformed */
        {&type_pair, "(", "{\"a\":null,\"b \\\"q\\\"\":null}"},
        {&type_pair, "(1", "{\"a\":1,\"b \\\"q\\\"\":null}"},
        {&type_pair, "(1,", "{\"a\":1,\"b \\\"q\\\"\":null}"},
        {&type_pair, "(1,\"", "{\"a\":1,\"b \\\"q\\\"\":\"\"}"},
        {&type_pair, "(1,\"x\\", "{\"a\":1,\"b \\\"q\\\"\":\"x\\\\\"}"},
        {&type_pair, "", "\"\""},
        {&type_pair, "x", "\"x\""},
    };

    (void)state;
    CHECK_ALL(values);
}

static void test_hstore(void **state)
{
    static const struct value values[] = {
        {&type_hstore, "", "{}"},
        {&type_hstore, "\"a\"=>\"1\"", "{\"a\":\"1\"}"},
        {&type_hstore, "\"a\"=>\"1\", \"b c\"=>NULL, \"q\\\"\"=>\"x\\\\y\", \"n\"=>\"NULL\", \"e\"=>\"\"",
         "{\"a\":\"1\",\"b c\":null,\"q\\\"\":\"x\\\\y\",\"n\":\"NULL\",\"e\":\"\"}"},
        {&type_hstore, "\"a\"", "{}"},
        {&type_hstore, "\"a\"=>", "{}"},
        {&type_hstore, "\"a\"=>\"", "{\"a\":\"\"}"},
        {&type_hstore, "\"a\"=>N", "{\"a\":null}"},
        {&type_hstore, "\"a\"=>NULL,", "{\"a\":null}"},
        {&type_hstore, "\"a\"=>\"1\", ", "{\"a\":\"1\"}"},
        {&type_hstore, "\"a\"=>\"1\",x\"b\"=>\"2\"", "{\"a\":\"1\"}"},
        {&type_hstore, "x", "{}"},
    };

    (void)state;
    CHECK_ALL(values);
}

/* A composite that holds an array of itself: as deep as the text says, but never deeper than is allowed. */
static void test_depth(void **state)
{
    struct pg_type tree = {50010, PG_COMPOSITE, ',', "tree", NULL, NULL, 1};
    struct pg_type trees = {50011, PG_ARRAY, ',', "_tree", &tree, NULL, 0};
    const struct pg_field field = {"k", &trees};
    char text[1000];
    size_t i;
    char *json;

    (void)state;
    tree.type_fields = &field;
    for (i = 0; i < sizeof(text); i++)
        text[i] = i % 2 == 0 ? '(' : '{';
    json = json_of(&tree, text, sizeof(text));
    assert_null(json_check((struct slice){json, strlen(json)}, NULL, NULL));
    assert_memory_equal(json, "{\"k\":[{\"k\":[", 12);
    free(json);
}

/* Random pieces of the grammars: always valid JSON, never out of bounds. */
static void test_noise(void **state)
{
    static const struct pg_type *const types[] = {&type_ints,   &type_texts,     &type_jsons,      &type_boxes,
                                                  &type_pair,   &type_pairs,     &type_deep,       &type_empty,
                                                  &type_hstore, &type_vector,    &type_bools,      &type_bool,
                                                  &type_text,   &type_timestamp, &type_timestamptz};
    static const char alphabet[] = "{{}}((,,;\"\"\\\\ NULLnull01-:=[]>tf\xc3\xbc\xff\n+";
    uint32_t seed = 12345;
    unsigned round;

    (void)state;
    for (round = 0; round < 200000; round++) {
        const struct pg_type *type = types[round % (sizeof(types) / sizeof(types[0]))];
        char text[40];
        size_t len, i;
        char *json;

        seed = seed * 1664525u + 1013904223u;
        len = (seed >> 8) % sizeof(text);
        for (i = 0; i < len; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = alphabet[(seed >> 8) % (sizeof(alphabet) - 1)];
        }
        if (type == &type_jsons || type == &type_deep)
            for (i = 0; i < len; i++) /* what is spliced must be JSON itself: digits and nothing that separates them */
                if (strchr("{}(),\"\\", text[i]) == NULL)
                    text[i] = '1';
        json = json_of(type, text, len);
        if (type != &type_jsons && type != &type_deep)
            assert_null(json_check((struct slice){json, strlen(json)}, NULL, NULL));
        free(json);
    }
}

static void test_large_values(void **state)
{
    size_t len = 300000, i;
    char *text = malloc(len), *json;

    (void)state;
    for (i = 0; i < len; i++)
        text[i] = (char)(i % 7 == 0 ? '"' : 'a' + (char)(i % 26));
    json = json_of(&type_text, text, len);
    assert_int_equal(strlen(json), len + (len + 6) / 7 + 2);
    assert_null(json_check((struct slice){json, strlen(json)}, NULL, NULL));
    free(json);
    free(text);
}

static void test_limit_is_sticky(void **state)
{
    char text[] = "{1,2,3,4,5,6,7,8,9}";
    struct out o;

    (void)state;
    out_init(&o, buffers, 10);
    json_write_value(&o, &type_ints, text, strlen(text));
    assert_int_equal(o.out_error, OUT_LIMIT);
    json_write_string(&o, "x", 1);
    assert_int_equal(o.out_error, OUT_LIMIT);
    assert_true(o.out_bytes <= 10);
    out_reset(&o);
    /* exactly as much as is allowed */
    out_init(&o, buffers, 19);
    strcpy(text, "{1,2,3,4,5,6,7,8,9}");
    json_write_value(&o, &type_ints, text, strlen(text));
    assert_int_equal(o.out_error, OUT_OK);
    assert_int_equal(o.out_bytes, 19);
    out_reset(&o);
}

static void test_number_valid(void **state)
{
    static const char *const good[] = {
        "0", "-0", "1", "10", "0.0", "-1.50", "1e1", "1E+1", "1e-10", "0e0", "123456789012345678901"};
    static const char *const bad[] = {"",    "-",  "01", "-01", "1.",  ".5",  "+1",    "1e",       "1e+", "1.e1",
                                      "0x1", " 1", "1 ", "NaN", "1,5", "--1", "1e1.5", "Infinity", "1_0", "00"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(json_number_valid(good[i], strlen(good[i])));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(json_number_valid(bad[i], strlen(bad[i])));
}

static int set_up(void **state)
{
    (void)state;
    buffers = buffers_new(8u << 20);
    return buffers == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(buffers_used(buffers), 0);
    buffers_free(&buffers);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null),         cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_timestamps),   cmocka_unit_test(test_string_escapes),
        cmocka_unit_test(test_string_utf8),  cmocka_unit_test(test_string_every_place),
        cmocka_unit_test(test_arrays),       cmocka_unit_test(test_malformed_arrays),
        cmocka_unit_test(test_composites),   cmocka_unit_test(test_hstore),
        cmocka_unit_test(test_depth),        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_large_values), cmocka_unit_test(test_limit_is_sticky),
        cmocka_unit_test(test_number_valid),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
