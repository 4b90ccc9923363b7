#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "worker/pg/types.c"

/* A row of PG_TYPES_QUERY; 0 or NULL where the catalogue has NULL. */
static int learn(struct pg_types *t, unsigned oid, unsigned base, const char *name, const char *class, unsigned elem,
                 const char *delim, const char *fields)
{
    char oid_text[16], base_text[16], elem_text[16];
    const char *columns[COLUMNS] = {oid_text, base_text, name, class, elem != 0 ? elem_text : NULL, delim, fields};

    snprintf(oid_text, sizeof(oid_text), "%u", oid);
    snprintf(base_text, sizeof(base_text), "%u", base);
    snprintf(elem_text, sizeof(elem_text), "%u", elem);
    return pg_types_learn(t, columns, COLUMNS);
}

static void test_builtins_are_in_order(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < BUILTINS; i++) {
        assert_ptr_equal(builtin_find(builtins[i].type_oid), &builtins[i]);
        if (i > 0)
            assert_true(builtins[i].type_oid > builtins[i - 1].type_oid);
        if (builtins[i].type_kind == PG_ARRAY) {
            assert_non_null(builtins[i].type_elem);
            assert_int_equal(builtins[i].type_delim, builtins[i].type_elem->type_delim);
        } else {
            assert_null(builtins[i].type_elem);
        }
    }
}

static void test_builtins(void **state)
{
    static const struct {
        uint32_t oid;
        enum pg_kind kind;
        const char *name;
        uint32_t elem;
    } cases[] = {{16, PG_BOOL, "bool", 0},
                 {17, PG_BYTEA, "bytea", 0},
                 {19, PG_TEXT, "name", 0},
                 {20, PG_INT8, "int8", 0},
                 {21, PG_INT2, "int2", 0},
                 {22, PG_ARRAY, "int2vector", 21},
                 {23, PG_INT4, "int4", 0},
                 {25, PG_TEXT, "text", 0},
                 {26, PG_OID, "oid", 0},
                 {114, PG_JSON, "json", 0},
                 {199, PG_ARRAY, "_json", 114},
                 {700, PG_FLOAT4, "float4", 0},
                 {701, PG_FLOAT8, "float8", 0},
                 {705, PG_TEXT, "unknown", 0},
                 {790, PG_OTHER, "money", 0},
                 {1007, PG_ARRAY, "_int4", 23},
                 {1009, PG_ARRAY, "_text", 25},
                 {1020, PG_ARRAY, "_box", 603},
                 {1042, PG_TEXT, "bpchar", 0},
                 {1043, PG_TEXT, "varchar", 0},
                 {1082, PG_DATE, "date", 0},
                 {1083, PG_OTHER, "time", 0},
                 {1114, PG_TIMESTAMP, "timestamp", 0},
                 {1184, PG_TIMESTAMPTZ, "timestamptz", 0},
                 {1186, PG_OTHER, "interval", 0},
                 {1700, PG_NUMERIC, "numeric", 0},
                 {2249, PG_OTHER, "record", 0},
                 {2278, PG_OTHER, "void", 0},
                 {2287, PG_ARRAY, "_record", 2249},
                 {2950, PG_UUID, "uuid", 0},
                 {3802, PG_JSONB, "jsonb", 0},
                 {3904, PG_OTHER, "int4range", 0},
                 {6157, PG_ARRAY, "_int8multirange", 4536}};
    struct pg_types *t = pg_types_new();
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct pg_type *type = pg_types_find(t, cases[i].oid);

        assert_non_null(type);
        assert_int_equal(type->type_oid, cases[i].oid);
        assert_int_equal(type->type_kind, cases[i].kind);
        assert_string_equal(type->type_name, cases[i].name);
        if (cases[i].elem != 0)
            assert_int_equal(type->type_elem->type_oid, cases[i].elem);
    }
    assert_int_equal(pg_types_find(t, 603)->type_delim, ';');
    assert_int_equal(pg_types_find(t, 1020)->type_delim, ';');
    assert_int_equal(pg_types_find(t, 1007)->type_delim, ',');
    assert_null(pg_types_find(t, 0));
    assert_null(pg_types_find(t, 1));
    assert_null(pg_types_find(t, 16384));
    assert_null(pg_types_find(t, UINT32_MAX));
    pg_types_free(&t);
    assert_null(t);
    pg_types_free(&t);
}

static void test_learn_in_any_order(void **state)
{
    struct pg_types *t = pg_types_new();
    const struct pg_type *pairs, *pair;

    (void)state;
    /* an array of a composite whose field is a domain over an enum: the array comes first */
    assert_int_equal(learn(t, 50001, 50001, "_pair", "a", 50000, ",", NULL), 0);
    pairs = pg_types_find(t, 50001);
    assert_int_equal(pairs->type_kind, PG_ARRAY);
    assert_null(pg_types_find(t, 50000)); /* referred to, not learnt */
    assert_int_equal(pairs->type_elem->type_kind, PG_OTHER);
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61:23,6220c3bc:50002"), 0);
    pair = pg_types_find(t, 50000);
    assert_ptr_equal(pairs->type_elem, pair);
    assert_int_equal(pair->type_kind, PG_COMPOSITE);
    assert_int_equal(pair->type_fields_n, 2);
    assert_string_equal(pair->type_name, "pair");
    assert_string_equal(pair->type_fields[0].field_name, "a");
    assert_int_equal(pair->type_fields[0].field_type->type_kind, PG_INT4);
    assert_string_equal(pair->type_fields[1].field_name, "b \xc3\xbc");
    assert_int_equal(learn(t, 50002, 50002, "mood", "o", 0, ",", NULL), 0);
    assert_ptr_equal(pair->type_fields[1].field_type, pg_types_find(t, 50002));
    assert_int_equal(pg_types_find(t, 50002)->type_kind, PG_OTHER);
    pg_types_free(&t);
}

static void test_domains(void **state)
{
    struct pg_types *t = pg_types_new();

    (void)state;
    assert_int_equal(learn(t, 50000, 23, "positive", "d", 0, ",", NULL), 0);
    assert_ptr_equal(pg_types_find(t, 50000), pg_types_find(t, 23));
    assert_int_equal(learn(t, 50001, 1185, "stamps", "d", 0, ",", NULL), 0);
    assert_int_equal(pg_types_find(t, 50001)->type_elem->type_kind, PG_TIMESTAMPTZ);
    /* before its base is learnt, and after */
    assert_int_equal(learn(t, 50002, 50003, "thing", "d", 0, ",", NULL), 0);
    assert_int_equal(pg_types_find(t, 50002)->type_kind, PG_OTHER);
    assert_int_equal(learn(t, 50003, 50003, "base", "c", 0, ",", "78:23"), 0);
    assert_ptr_equal(pg_types_find(t, 50002), pg_types_find(t, 50003));
    assert_int_equal(pg_types_find(t, 50002)->type_kind, PG_COMPOSITE);
    /* an array of a domain over box */
    assert_int_equal(learn(t, 50004, 603, "area", "d", 0, ";", NULL), 0);
    assert_int_equal(learn(t, 50005, 50005, "_area", "a", 603, ";", NULL), 0);
    assert_int_equal(pg_types_find(t, 50005)->type_delim, ';');
    assert_ptr_equal(pg_types_find(t, 50005)->type_elem, pg_types_find(t, 603));
    pg_types_free(&t);
}

static void test_learn_again(void **state)
{
    struct pg_types *t = pg_types_new();
    const struct pg_type *pair;
    const struct pg_field *fields;
    const char *name;

    (void)state;
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61:23,62:25"), 0);
    pair = pg_types_find(t, 50000);
    fields = pair->type_fields;
    name = pair->type_name;
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61:23,62:25"), 0);
    assert_ptr_equal(pair->type_fields, fields); /* nothing new */
    assert_int_equal(learn(t, 50000, 50000, "couple", "c", 0, ",", "61:20,62:25,63:16"), 0);
    assert_ptr_equal(pg_types_find(t, 50000), pair);
    assert_string_equal(pair->type_name, "couple");
    assert_int_equal(pair->type_fields_n, 3);
    assert_int_equal(pair->type_fields[0].field_type->type_kind, PG_INT8);
    assert_string_equal(pair->type_fields[2].field_name, "c");
    /* what was given out lives on */
    assert_string_equal(name, "pair");
    assert_string_equal(fields[1].field_name, "b");
    /* even another kind of type: a dropped one's OID may come back */
    assert_int_equal(learn(t, 50000, 50000, "couple", "a", 25, ",", NULL), 0);
    assert_int_equal(pair->type_kind, PG_ARRAY);
    assert_int_equal(pair->type_elem->type_kind, PG_TEXT);
    pg_types_free(&t);
}

static void test_recursive_composite(void **state)
{
    struct pg_types *t = pg_types_new();

    (void)state;
    assert_int_equal(learn(t, 50000, 50000, "tree", "c", 0, ",", "6b:50001"), 0);
    assert_int_equal(learn(t, 50001, 50001, "_tree", "a", 50000, ",", NULL), 0);
    assert_ptr_equal(pg_types_find(t, 50000)->type_fields[0].field_type->type_elem, pg_types_find(t, 50000));
    pg_types_free(&t);
}

static void test_builtins_stay(void **state)
{
    struct pg_types *t = pg_types_new();

    (void)state;
    assert_int_equal(learn(t, 23, 23, "int4", "o", 0, ",", NULL), 0);
    assert_int_equal(pg_types_find(t, 23)->type_kind, PG_INT4);
    assert_int_equal(learn(t, 50000, 50000, "hstore", "h", 0, ",", NULL), 0);
    assert_int_equal(pg_types_find(t, 50000)->type_kind, PG_HSTORE);
    assert_int_equal(learn(t, 50001, 50001, "empty", "c", 0, ",", NULL), 0);
    assert_int_equal(pg_types_find(t, 50001)->type_kind, PG_COMPOSITE);
    assert_int_equal(pg_types_find(t, 50001)->type_fields_n, 0);
    pg_types_free(&t);
}

static void test_rows_without_sense(void **state)
{
    static const struct {
        const char *columns[COLUMNS];
        unsigned n;
    } cases[] = {
        {{"50000", "50000", "x", "o", NULL, ",", NULL}, COLUMNS - 1},
        {{"50000", "50000", "x", "o", NULL, ",", NULL}, 0},
        {{NULL, "50000", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"50000", NULL, "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", NULL, "o", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", NULL, NULL, ",", NULL}, COLUMNS},
        {{"", "50000", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"0", "0", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"-1", "-1", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"4294967296", "4294967296", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"99999999999999999999999", "1", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"50000x", "50000", "x", "o", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "z", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "aa", "23", ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "d", NULL, ",", NULL}, COLUMNS}, /* a domain over itself */
        {{"50000", "23", "x", "o", NULL, ",", NULL}, COLUMNS},    /* a base, but no domain */
        {{"50000", "50000", "x", "a", NULL, ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "a", "x", ",", NULL}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "61"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "61:"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "6:23"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "61:23,"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "61:23;62:25"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "00:23"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "zz:23"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", "61:0"}, COLUMNS},
        {{"50000", "50000", "x", "c", NULL, ",", ","}, COLUMNS},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pg_types *t = pg_types_new();
        const struct pg_type *type;

        assert_int_equal(pg_types_learn(t, cases[i].columns, cases[i].n), -1);
        type = pg_types_find(t, 50000);
        assert_true(type == NULL || type->type_kind == PG_OTHER);
        pg_types_free(&t);
    }
}

/* A composite that can no longer be understood is text, also for those who knew it before. */
static void test_refused_change(void **state)
{
    struct pg_types *t = pg_types_new();
    const struct pg_type *pair;

    (void)state;
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61:23"), 0);
    pair = pg_types_find(t, 50000);
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61"), -1);
    assert_int_equal(pair->type_kind, PG_OTHER);
    assert_int_equal(learn(t, 50000, 50000, "pair", "c", 0, ",", "61:23"), 0);
    assert_int_equal(pair->type_kind, PG_COMPOSITE);
    assert_string_equal(pair->type_fields[0].field_name, "a");
    pg_types_free(&t);
}

static void test_many(void **state)
{
    struct pg_types *t = pg_types_new();
    unsigned i;

    (void)state;
    for (i = 0; i < 3000; i++)
        assert_int_equal(learn(t, 20000 + i, 20000 + i, "e", "o", 0, ",", NULL), 0);
    for (i = 0; i < 3000; i++)
        assert_int_equal(pg_types_find(t, 20000 + i)->type_oid, 20000 + i);
    pg_types_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtins_are_in_order), cmocka_unit_test(test_builtins),
        cmocka_unit_test(test_learn_in_any_order),    cmocka_unit_test(test_domains),
        cmocka_unit_test(test_learn_again),           cmocka_unit_test(test_recursive_composite),
        cmocka_unit_test(test_builtins_stay),         cmocka_unit_test(test_rows_without_sense),
        cmocka_unit_test(test_refused_change),        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
