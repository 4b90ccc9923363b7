#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/pg/sqlstate.c"

static void the_table_of_the_design(void **state)
{
    static const struct {
        const char *sqlstate;
        unsigned status;
        bool retry_after;
    } wanted[] = {
        {"22003", 400, false}, {"22P02", 400, false}, {"23502", 400, false}, {"23514", 400, false},
        {"23505", 409, false}, {"23503", 409, false}, {"23P01", 409, false}, {"42501", 403, false},
        {"25006", 405, false}, {"57014", 504, false}, {"40001", 409, true},  {"40P01", 409, true},
        {"53300", 503, true},  {"53100", 503, true},  {"57P01", 503, true},  {"57P03", 503, true},
        {"08006", 503, true},  {"P0001", 400, false}, {"P0002", 500, false}, {"42P01", 500, false},
        {"23000", 500, false}, {"25001", 500, false}, {"40002", 500, false}, {"42601", 500, false},
        {"XX000", 500, false}, {"0A000", 500, false}, {"57000", 500, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct pg_sqlstate *s = pg_sqlstate_find(wanted[i].sqlstate);

        assert_int_equal(s->sqlstate_status, wanted[i].status);
        assert_int_equal(s->sqlstate_retry_after, wanted[i].retry_after);
        assert_true(s->sqlstate_title[0] != '\0');
    }
}

static void nonsense_is_a_500(void **state)
{
    (void)state;
    assert_int_equal(pg_sqlstate_find("")->sqlstate_status, 500);
    assert_int_equal(pg_sqlstate_find("2")->sqlstate_status, 500);
    assert_int_equal(pg_sqlstate_find("2350")->sqlstate_status, 500);
    assert_int_equal(pg_sqlstate_find("?????")->sqlstate_status, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_the_design),
        cmocka_unit_test(nonsense_is_a_500),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
