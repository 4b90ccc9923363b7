#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "worker/json/read.h"

/* Memory for so many more requests of shape.c: then one is refused, and those after it are not. */
static int callocs_left = -1;

static void *scarce_calloc(size_t n, size_t size)
{
    return callocs_left-- == 0 ? NULL : calloc(n, size);
}
#define calloc scarce_calloc
#include "worker/json/shape.c"
#undef calloc

static struct buffers *buffers;
static struct pg_types *types;

/* A DataRow's cells, in memory of exactly their length. */
struct row {
    char *row_p;
    size_t row_len;
    unsigned row_columns;
};

static void row_add(struct row *r, const char *p, size_t len)
{
    uint32_t be = p == NULL ? UINT32_MAX : htobe32((uint32_t)len);

    r->row_p = realloc(r->row_p, r->row_len + 4 + len);
    memcpy(r->row_p + r->row_len, &be, 4);
    if (p != NULL)
        memcpy(r->row_p + r->row_len + 4, p, len);
    r->row_len += 4 + len;
    r->row_columns++;
}

static void row_free(struct row *r)
{
    free(r->row_p);
    memset(r, 0, sizeof(*r));
}

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

/* The row's JSON, to be freed; the row stays as it was. */
static char *json_of(const struct json_shape *shape, const struct row *r)
{
    char *copy = malloc(r->row_len), *json;
    struct out o;

    if (r->row_len > 0)
        memcpy(copy, r->row_p, r->row_len);
    out_init(&o, buffers, 0);
    assert_int_equal(json_write_row(&o, shape, copy, r->row_len, r->row_columns), 0);
    assert_int_equal(o.out_error, OUT_OK);
    json = taken(&o);
    out_reset(&o);
    free(copy);
    return json;
}

/* A shape of n int4 columns. */
static struct json_shape *shape_of(const char *const *names, unsigned n, char **why)
{
    const struct pg_type *list[COLUMNS_MAX + 1];
    unsigned i;

    for (i = 0; i < n; i++)
        list[i] = pg_types_find(types, 23);
    return json_shape_new(names, list, n, why);
}

static void test_shapes(void **state)
{
    /* the columns' values are their numbers */
    static const struct {
        const char *names[8];
        const char *json;
        bool in_order;
    } cases[] = {
        {{NULL}, "{}", true},
        {{"id"}, "{\"id\":0}", true},
        {{"id", "name"}, "{\"id\":0,\"name\":1}", true},
        {{"id", "rating.score", "rating.count"}, "{\"id\":0,\"rating\":{\"score\":1,\"count\":2}}", true},
        {{"r.a", "r.b", "x"}, "{\"r\":{\"a\":0,\"b\":1},\"x\":2}", true},
        {{"r.a", "x", "r.b"}, "{\"r\":{\"a\":0,\"b\":2},\"x\":1}", false},
        {{"a.b.c", "a.b.d", "a.e", "f"}, "{\"a\":{\"b\":{\"c\":0,\"d\":1},\"e\":2},\"f\":3}", true},
        {{"a.b.c", "x.y", "a.d", "x.z", "a.b.e"},
         "{\"a\":{\"b\":{\"c\":0,\"e\":4},\"d\":2},\"x\":{\"y\":1,\"z\":3}}",
         false},
        {{"a.a", "b.a", "ab"}, "{\"a\":{\"a\":0},\"b\":{\"a\":1},\"ab\":2}", true},
        {{"A", "a"}, "{\"A\":0,\"a\":1}", true},
        {{"?column?", "with space", "q\"\\\n", "\xc3\xbc"},
         "{\"?column?\":0,\"with space\":1,\"q\\\"\\\\\\n\":2,\"\xc3\xbc\":3}",
         true},
        {{"a name of sixty-three octets, which is as long as they can be !!", "b"},
         "{\"a name of sixty-three octets, which is as long as they can be !!\":0,\"b\":1}",
         true},
        {{"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z"},
         "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":{\"i\":{\"j\":{\"k\":{\"l\":{\"m\":{\"n\":{\"o\":{"
         "\"p\":{"
         "\"q\":{\"r\":{\"s\":{\"t\":{\"u\":{\"v\":{\"w\":{\"x\":{\"y\":{\"z\":0}}}}}}}}}}}}}}}}}}}}}}}}}}",
         true},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned n = 0, k;
        struct row r = {NULL, 0, 0};
        struct json_shape *shape;
        char *why, *json;

        while (n < 8 && cases[i].names[n] != NULL)
            n++;
        shape = shape_of(cases[i].names, n, &why);
        assert_non_null(shape);
        assert_null(why);
        assert_int_equal(shape->shape_in_order, cases[i].in_order);
        for (k = 0; k < n; k++) {
            char digit = (char)('0' + k);

            row_add(&r, &digit, 1);
        }
        json = json_of(shape, &r);
        assert_string_equal(json, cases[i].json);
        assert_null(json_check((struct slice){json, strlen(json)}, NULL, NULL));
        free(json);
        row_free(&r);
        json_shape_free(&shape);
        assert_null(shape);
    }
}

static void test_conflicts(void **state)
{
    static const struct {
        const char *names[4];
        const char *why;
    } cases[] = {
        {{"a", "a"}, "two columns with the name: \"a\""},
        {{"a.b", "c", "a.b"}, "two columns with the name: \"a.b\""},
        {{"a", "a.b"}, "a prefix of the column name is itself a column: \"a.b\""},
        {{"a.b", "a"}, "other columns nest below the name: \"a\""},
        {{"a.b.c", "a.b"}, "other columns nest below the name: \"a.b\""},
        {{"a.b", "a.b.c"}, "a prefix of the column name is itself a column: \"a.b.c\""},
        {{""}, "a column has no name"},
        {{"."}, "an empty part"},
        {{"a."}, "an empty part"},
        {{".a"}, "an empty part"},
        {{"a..b"}, "an empty part"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned n = 0;
        char *why = NULL;

        while (n < 4 && cases[i].names[n] != NULL)
            n++;
        assert_null(shape_of(cases[i].names, n, &why));
        assert_non_null(why);
        assert_non_null(strstr(why, cases[i].why));
        free(why);
    }
}

static void test_most_columns(void **state)
{
    static char text[COLUMNS_MAX + 1][8];
    const char *names[COLUMNS_MAX + 1];
    struct json_shape *shape;
    struct row r = {NULL, 0, 0};
    char *why, *json;
    unsigned i;

    (void)state;
    for (i = 0; i <= COLUMNS_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "c%u.%c", i / 2 % 600, 'a' + i % 2 + (i >= 1200 ? 2 : 0));
        names[i] = text[i];
    }
    assert_null(shape_of(names, COLUMNS_MAX + 1, &why));
    assert_non_null(strstr(why, "more columns"));
    free(why);
    shape = shape_of(names, COLUMNS_MAX, &why);
    assert_non_null(shape);
    assert_false(shape->shape_in_order);
    for (i = 0; i < COLUMNS_MAX; i++)
        row_add(&r, i % 3 == 0 ? NULL : "12", i % 3 == 0 ? 0 : 2);
    json = json_of(shape, &r);
    assert_null(json_check((struct slice){json, strlen(json)}, NULL, NULL));
    free(json);
    row_free(&r);
    json_shape_free(&shape);
}

/* What a row must be for every type and length: the prefixes and what json_write_value says. */
static void check_row(const struct json_shape *shape, const struct row *r)
{
    char *copy = malloc(r->row_len), *wanted, *json, *at = copy;
    struct out o;
    unsigned i;

    memcpy(copy, r->row_p, r->row_len);
    out_init(&o, buffers, 0);
    for (i = 0; i < shape->shape_columns_n; i++) {
        size_t len = 0;
        char *cell = NULL;

        assert_true(cell_next(&at, copy + r->row_len, &cell, &len));
        out_write(&o, shape->shape_columns[i].column_prefix, shape->shape_columns[i].column_prefix_len);
        json_write_value(&o, shape->shape_columns[i].column_type, cell, len);
    }
    out_write(&o, shape->shape_tail, shape->shape_tail_len);
    wanted = taken(&o);
    out_reset(&o);
    json = json_of(shape, r);
    assert_string_equal(json, wanted);
    free(json);
    free(wanted);
    free(copy);
}

static void test_rows_like_values(void **state)
{
    static const uint32_t oids[] = {16,   20,   21,   23,   25,   26,   17,   114,  700,  701,
                                    1007, 1009, 1082, 1114, 1184, 1186, 1700, 2278, 2950, 3802};
    static const char *const texts[] = {
        "",
        "t",
        "f",
        "x",
        "1",
        "-1",
        "-",
        "123456789012345",
        "1234567890123456",
        "12345678901234567",
        "1234567890123456789012345678901234567890",
        "NaN",
        "-Infinity",
        "a string of 15.",
        "a string of 16..",
        "a string of 17...",
        "a string of thirty-two octets...",
        "a longer string with a \" in it, and more behind it",
        "\xc3\xa4 string with UTF-8 \xf0\x9f\x98\x80",
        "a string with UTF-8 \xe2\x82\xac",
        "not UTF-8: \xff",
        "\xff",
        "controls \n",
        "\\xdeadbeef",
        "2024-02-29 12:34:56",
        "2024-02-29 12:34:56.789",
        "2024-02-29 12:34:56+00",
        "2024-02-29 12:34:56.789-03",
        "2024-02-29 12:34:56+05:30",
        "0044-03-15 12:00:00+00 BC",
        "0044-03-15 12:00:00 BC",
        "12345-02-29 12:34:56+00",
        "infinity",
        "{1,2,NULL}",
        "{\"a b\",c}",
        "{\"a\": [1, \"\xc3\xa4\"]}",
        "[1, 2, {\"x\": \"y\"}]",
    };
    enum { OIDS = sizeof(oids) / sizeof(oids[0]), TEXTS = sizeof(texts) / sizeof(texts[0]) };
    static const char *const names[] = {"a", "b.c", "b.d", "e"};
    size_t i, k, m;

    (void)state;
    for (i = 0; i < OIDS; i++) {
        for (k = 0; k < OIDS; k++) {
            const struct pg_type *list[] = {pg_types_find(types, oids[i]), pg_types_find(types, 23),
                                            pg_types_find(types, oids[k]), pg_types_find(types, 25)};
            char *why;
            struct json_shape *shape = json_shape_new(names, list, 4, &why);

            for (m = 0; m < TEXTS; m++) {
                struct row r = {NULL, 0, 0};

                row_add(&r, texts[m], strlen(texts[m]));
                row_add(&r, m % 3 == 0 ? NULL : "4711", m % 3 == 0 ? 0 : 4);
                row_add(&r, texts[(m + i) % TEXTS], strlen(texts[(m + i) % TEXTS]));
                row_add(&r, m % 2 == 0 ? NULL : texts[m], m % 2 == 0 ? 0 : strlen(texts[m]));
                check_row(shape, &r);
                row_free(&r);
            }
            json_shape_free(&shape);
        }
    }
}

/* Strings of every length, at the row's end and before it, with something special at every place. */
static void test_strings_of_every_length(void **state)
{
    static const char *const names[] = {"a", "b"};
    const struct pg_type *list[] = {pg_types_find(types, 25), pg_types_find(types, 25)};
    static const char specials[] = {'a', '"', '\n', '\xff'};
    char *why, text[64];
    struct json_shape *shape = json_shape_new(names, list, 2, &why);
    size_t len, at, s;

    (void)state;
    for (len = 0; len < sizeof(text); len++) {
        for (at = 0; at < (len == 0 ? 1 : len); at++) {
            for (s = 0; s < sizeof(specials); s++) {
                struct row r = {NULL, 0, 0};

                memset(text, 'x', len);
                if (len > 0)
                    text[at] = specials[s];
                row_add(&r, text, len);
                row_add(&r, text, len);
                check_row(shape, &r);
                row_free(&r);
            }
        }
    }
    json_shape_free(&shape);
}

static void test_long_rows(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    const struct pg_type *list[] = {pg_types_find(types, 25), pg_types_find(types, 23), pg_types_find(types, 25)};
    static char text[200000];
    char *why;
    struct json_shape *shape = json_shape_new(names, list, 3, &why);
    static const size_t lengths[] = {2900, 3000, 3040, 3050, 3060, 3072, 3073, 5000, 66000, 200000};
    size_t i;

    (void)state;
    memset(text, 'x', sizeof(text));
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct row r = {NULL, 0, 0};

        row_add(&r, text, lengths[i]);
        row_add(&r, "1", 1);
        row_add(&r, "\"", 1);
        check_row(shape, &r);
        row_free(&r);
        row_add(&r, "\"", 1);
        row_add(&r, "1", 1);
        row_add(&r, text, lengths[i]);
        check_row(shape, &r);
        row_free(&r);
    }
    json_shape_free(&shape);
}

/* A row that is cut off anywhere, or is too long, or has lengths that lie, is refused. */
static void test_malformed_rows(void **state)
{
    static const char *const orders[2][3] = {{"a", "b", "c.d"}, {"x.a", "b", "x.c"}};
    unsigned k;

    (void)state;
    for (k = 0; k < 2; k++) {
        char *why;
        struct json_shape *shape = shape_of(orders[k], 3, &why);
        struct row r = {NULL, 0, 0};
        struct out o;
        size_t len, at;

        assert_int_equal(shape->shape_in_order, k == 0);
        row_add(&r, "123", 3);
        row_add(&r, NULL, 0);
        row_add(&r, "4", 1);
        out_init(&o, buffers, 0);
        for (len = 0; len < r.row_len; len++) {
            char *copy = malloc(len);

            memcpy(copy, r.row_p, len);
            assert_int_equal(json_write_row(&o, shape, copy, len, 3), -1);
            free(copy);
        }
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 2), -1);
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 4), -1);
        for (at = 0; at < 4; at++) { /* the first length made wrong, octet by octet */
            char was = r.row_p[at];

            r.row_p[at] = (char)0x7f;
            assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 3), -1);
            r.row_p[at] = (char)0xff;
            assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 3), -1);
            r.row_p[at] = was;
        }
        row_add(&r, "5", 1);
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 3), -1);
        out_reset(&o);
        row_free(&r);
        json_shape_free(&shape);
    }
}

/* No shape comes of it, whichever piece of memory is refused; with all of them one does, or the conflict is found. */
static void test_out_of_memory(void **state)
{
    static const struct {
        const char *names[3];
        unsigned n;
        bool conflict;
    } all[] = {{{NULL}, 0, false}, {{"a", "b.c", "b.d"}, 3, false}, {{"a", "a"}, 2, true}, {{"a.b", "a"}, 2, true}};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        bool refused = true;

        for (int k = 0; refused; k++) {
            struct json_shape *shape;
            char *why;

            callocs_left = k;
            shape = shape_of(all[i].names, all[i].n, &why);
            refused = callocs_left < 0;
            callocs_left = -1;
            if (refused || all[i].conflict)
                assert_null(shape);
            else
                assert_non_null(shape);
            assert_true((shape == NULL) == (why != NULL));
            free(why);
            if (shape != NULL)
                json_shape_free(&shape);
        }
    }
}

/* The limit counts what is written, not what was reserved to be on the safe side. */
static void test_limit_is_exact(void **state)
{
    static const char *const names[] = {"id", "value"};
    char *why;
    struct json_shape *shape = shape_of(names, 2, &why);
    struct row r = {NULL, 0, 0};
    const size_t size = strlen("{\"id\":1,\"value\":22}");
    size_t limit;

    (void)state;
    row_add(&r, "1", 1);
    row_add(&r, "22", 2);
    for (limit = 1; limit < size + 100; limit++) {
        struct out o;

        out_init(&o, buffers, limit);
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 2), 0);
        assert_int_equal(o.out_error, limit < size ? OUT_LIMIT : OUT_OK);
        assert_true(o.out_bytes <= limit);
        out_reset(&o);
    }
    row_free(&r);
    json_shape_free(&shape);
}

static void test_out_of_buffers(void **state)
{
    struct buffers *few = buffers_new(BUF_MIN_SIZE);
    static const char *const names[] = {"id", "value"};
    static char text[5000];
    char *why;
    struct json_shape *shape = shape_of(names, 2, &why);
    struct row r = {NULL, 0, 0};
    struct buf *all[64];
    unsigned n = 0, left;
    struct out o;

    (void)state;
    memset(text, '1', sizeof(text));
    row_add(&r, text, sizeof(text));
    row_add(&r, "22", 2);
    while (n < 64 && (all[n] = buf_get(few, 1)) != NULL)
        n++;
    assert_true(n > 0 && n < 64);
    for (left = 0; left < 2; left++) { /* nothing to write into, then too little */
        if (left > 0)
            buf_put(few, &all[--n]);
        out_init(&o, few, 0);
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 2), 0);
        assert_int_equal(o.out_error, OUT_NO_BUFFERS);
        assert_int_equal(json_write_row(&o, shape, r.row_p, r.row_len, 2), 0);
        out_reset(&o);
    }
    while (n > 0)
        buf_put(few, &all[--n]);
    buffers_free(&few);
    row_free(&r);
    json_shape_free(&shape);
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
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_most_columns),
        cmocka_unit_test(test_rows_like_values),
        cmocka_unit_test(test_strings_of_every_length),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_malformed_rows),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_limit_is_exact),
        cmocka_unit_test(test_out_of_buffers),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
