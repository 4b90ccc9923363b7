/* What statements can reach: the question's parameter and its answer.  The question itself is put in
 * test_39_sessions.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/pg/reach.c"

static void statements_become_an_array(void **state)
{
    struct pg_statement a = {.statement_sql = "SELECT 1"}, b = {.statement_sql = "SELECT \"x\", '{,}', E'\\n'\nFROM t"};
    struct pg_statement *all[] = {&a, &b};
    char *list = reach_statements(all, 2);

    (void)state;
    assert_string_equal(list, "{\"SELECT 1\",\"SELECT \\\"x\\\", '{,}', E'\\\\n'\nFROM t\"}");
    free(list);
    list = reach_statements(all, 0);
    assert_string_equal(list, "{}");
    free(list);
}

static void a_row_says_yes(void **state)
{
    static PGresAttDesc columns[2]; /* libpq copies them */
    PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    const char *through;

    (void)state;
    columns[0].name = columns[1].name = (char *)(uintptr_t) "x";
    assert_int_equal(PQsetResultAttrs(r, 2, columns), 1);
    assert_int_equal(PQsetvalue(r, 0, 0, (char *)(uintptr_t) "12", 2), 1);
    assert_int_equal(PQsetvalue(r, 0, 1, (char *)(uintptr_t) "f", 1), 1);
    assert_int_equal(PQsetvalue(r, 1, 0, (char *)(uintptr_t) "3", 1), 1);
    assert_int_equal(PQsetvalue(r, 1, 1, NULL, -1), 1);
    assert_true(reach_said(r, 12, &through));
    assert_string_equal(through, "f");
    assert_true(reach_said(r, 3, &through));
    assert_null(through);
    assert_false(reach_said(r, 1, &through));
    assert_false(reach_said(r, 2, &through));
    assert_null(through);
    PQclear(r);
}

static void no_answer_says_yes(void **state)
{
    const char *through = "x";

    (void)state;
    assert_true(reach_said(NULL, 1, &through));
    assert_null(through);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_become_an_array),
        cmocka_unit_test(a_row_says_yes),
        cmocka_unit_test(no_answer_says_yes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
