#include "conf/statement.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void right_statements_and_their_parameters(void **state)
{
    static const struct {
        const char *sql;
        uint64_t params;
    } right[] = {
        {"SELECT 1", 0},
        {"select $1", 1},
        {"SELECT $1, $3 ; ", 5},
        {"SELECT $64;; -- done\n/* and /* nested */ over */", (uint64_t)1 << 63},
        {"SELECT '$1; $2'", 0},
        {"SELECT 'it''s $1', $2", 2},
        {"SELECT 'back\\', $1", 1}, /* standard_conforming_strings: no escape here */
        {"SELECT E'quote\\' $1;', $2", 2},
        {"SELECT e'a'\n 'b\\' $1', $2", 2}, /* continued, and still E */
        {"SELECT E'a' , 'b\\', $1", 1},
        {"SELECT 'a'\n'b\\', $1", 1},
        {"SELECT \"col;$1\"\"x\" FROM t", 0},
        {"SELECT $$ $1; ' $$, $2", 2},
        {"SELECT $t$ $$ $1 $t$, $1", 1},
        {"SELECT $a$ $ab$ $1 $a$, $2", 2},
        {"SELECT a$1, b$2$3 FROM t", 0}, /* $ belongs to an identifier */
        {"SELECT 1$1", 1},
        {"SELECT -- $1; '\n $2", 2},
        {"SELECT /* $1 '; /* \" */ */ $2", 2},
        {"SELECT B'1', X'1f', N'a', U&'\\0041', $1", 1},
        {"UPDATE t SET a = $1", 1},
        {"UPDATE t SET a = 1 WHERE b = 'SET'", 0},
        {"INSERT INTO t VALUES ($1) ON CONFLICT DO UPDATE SET a = 1", 1},
        {"WITH s AS (SELECT 1) SELECT * FROM s", 0},
        {"(SELECT 1) UNION (SELECT $1)", 1},
        {"VACUUM t", 0},
        {"NOTIFY c, 'x'", 0},
        {"CALL p($1)", 1},
        {"DO $$ BEGIN PERFORM 1; END $$", 0},
        {"SELECT set_config('a.b', $1, true)", 1},
        {"SELECT pg_catalog.set_config($1, $2, is_local => TRUE)", 3},
        {"SELECT set_config('a.b', f('x', (1, 2)), true) FROM t", 0},
        {"SELECT 'set_config(a, b, false)'", 0},
        {"SELECT set_config FROM t", 0},
        {"SELECT pg_advisory_xact_lock(1)", 0},
        {"SELECT begin, set FROM \"commit\"", 0},
        {"TABLE fortune", 0},
        {"VALUES ($1::int)", 1},
        {"CREATE TABLE temp_x (a int)", 0},
        {"SELECT 'größer', \"größer\", größer$1", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct statement st;

        if (!statement_check(right[i].sql, &st))
            fail_msg("%s: %s", right[i].sql, st.statement_why);
        if (st.statement_params != right[i].params)
            fail_msg("%s: parameters %llx", right[i].sql, (unsigned long long)st.statement_params);
    }
}

static void statements_that_are_refused(void **state)
{
    static const struct {
        const char *sql, *why;
    } wrong[] = {
        {"", "no statement"},
        {" ; ", "no statement"},
        {"-- SELECT 1", "no statement"},
        {"SELECT 1; SELECT 2", "more than one"},
        {"SELECT 1;;x", "more than one"},
        {"SELECT 1; 'x'", "more than one"},
        {"SELECT 'abc", "'"},
        {"SELECT E'abc\\'", "'"},
        {"SELECT \"abc", "\""},
        {"SELECT \"abc\"\"", "\""},
        {"SELECT $x$ abc $X$", "$x$"},
        {"SELECT $$ abc", "$$"},
        {"SELECT /* /* */", "/*"},
        {"/* SELECT 1", "/*"},
        {"SELECT $0", "$0"},
        {"SELECT $65", "$65"},
        {"SELECT $4294967297", "$4294967297"},
        {"SELECT $99999999999999999999999999", "$1..$64"},
        {"SET a = 1", "SET"},
        {"set local a = 1", "SET"},
        {"/* x */ SeT a = 1", "SET"},
        {"(SET a = 1)", "SET"},
        {"RESET ALL", "RESET"},
        {"BEGIN", "BEGIN"},
        {"START TRANSACTION", "START"},
        {"COMMIT", "COMMIT"},
        {"END", "END"},
        {"ROLLBACK", "ROLLBACK"},
        {"ABORT", "ABORT"},
        {"SAVEPOINT a", "SAVEPOINT"},
        {"RELEASE a", "RELEASE"},
        {"LISTEN a", "LISTEN"},
        {"UNLISTEN *", "UNLISTEN"},
        {"PREPARE a AS SELECT 1", "PREPARE"},
        {"EXECUTE a", "EXECUTE"},
        {"DEALLOCATE a", "DEALLOCATE"},
        {"DISCARD ALL", "DISCARD"},
        {"LOAD 'x'", "LOAD"},
        {"DECLARE c CURSOR FOR SELECT 1", "DECLARE"},
        {"CLOSE c", "CLOSE"},
        {"FETCH 1 FROM c", "FETCH"},
        {"MOVE c", "MOVE"},
        {"COPY t TO STDOUT", "COPY"},
        {"LOCK TABLE t", "LOCK"},
        {"CREATE TEMP TABLE t (a int)", "temporary"},
        {"CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", "temporary"},
        {"CREATE LOCAL TEMP TABLE t (a int)", "temporary"},
        {"SELECT set_config('a', 'b', false)", "set_config"},
        {"SELECT set_config('a', 'b', $1)", "set_config"},
        {"SELECT set_config('a', 'b', NOT true)", "set_config"},
        {"SELECT set_config('a', 'b', true AND false)", "set_config"},
        {"SELECT Set_Config ('a', 'b', 'f')", "set_config"},
        {"SELECT \"set_config\"('a', 'b', false)", "set_config"},
        {"SELECT pg_catalog.set_config(f(1, 2, true), 'b', false)", "set_config"},
        {"SELECT set_config('a', 'b'", "set_config"},
        {"SELECT set_config('a', 'b', true), set_config('a', 'b', false)", "set_config"},
        {"SELECT pg_advisory_lock(1)", "pg_advisory_lock"},
        {"SELECT pg_try_advisory_lock_shared (1)", "_xact_"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct statement st;

        if (statement_check(wrong[i].sql, &st))
            fail_msg("accepted: %s", wrong[i].sql);
        if (strstr(st.statement_why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].sql, st.statement_why);
    }
}

/* Every beginning of a statement is looked at without reading past its end (under a sanitizer), and says why. */
static void cut_statements(void **state)
{
    static const char sql[] =
        "SELECT E'a\\'b'\n'c', \"d\"\"e\", $x$f$x$, $1 /* g /* h */ */ -- i\n, set_config('j', 'k', true);";

    (void)state;
    for (size_t n = 0; n <= sizeof sql - 1; n++) {
        char *cut = malloc(n + 1);
        struct statement st;

        memcpy(cut, sql, n);
        cut[n] = '\0';
        if (!statement_check(cut, &st))
            assert_true(st.statement_why[0] != '\0');
        free(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_statements_and_their_parameters),
        cmocka_unit_test(statements_that_are_refused),
        cmocka_unit_test(cut_statements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
