#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/pg/codec.c"

static void a_bind_prefix_is_what_the_manual_says(void **state)
{
    static const unsigned char wanted[] = "B\0\0\0\0\0v12\0\0";
    unsigned char to[32];

    (void)state;
    assert_int_equal(codec_bind_prefix(to, sizeof to, "v12"), sizeof wanted);
    assert_memory_equal(to, wanted, sizeof wanted); /* the literal's NUL is the format count's second octet */
}

static void a_parse_counts_its_own_length(void **state)
{
    size_t len = 0;
    unsigned char *p = codec_parse("SELECT 1", &len);

    (void)state;
    assert_int_equal(len, 1 + 4 + 1 + 9 + 2);
    assert_memory_equal(p, "P\0\0\0\x10\0SELECT 1\0\0\0", len);
    free(p);
}

static void a_statement_without_parameters_is_asked_whole(void **state)
{
    size_t len = 0;
    unsigned char *p = codec_statement("SELECT 1", &len);
    static const char want[] = "P\0\0\0\x10\0SELECT 1\0\0\0"
                               "B\0\0\0\x0c\0\0\0\0\0\0\0\0"
                               "E\0\0\0\x09\0\0\0\0\0";

    (void)state;
    assert_int_equal(len, sizeof want - 1);
    assert_memory_equal(p, want, len);
    free(p);
}

static void a_cancel_request(void **state)
{
    unsigned char to[16];

    (void)state;
    codec_cancel(to, 0x01020304, 0xfffefdfc);
    assert_memory_equal(to, "\0\0\0\x10\x04\xd2\x16\x2e\x01\x02\x03\x04\xff\xfe\xfd\xfc", 16);
}

static void execute_and_sync_have_the_right_lengths(void **state)
{
    (void)state;
    assert_int_equal(sizeof CODEC_EXECUTE - 1, CODEC_EXECUTE_LEN);
    assert_int_equal(sizeof CODEC_SYNC - 1, CODEC_SYNC_LEN);
    assert_int_equal(sizeof CODEC_EXECUTE_SYNC - 1, CODEC_EXECUTE_LEN + CODEC_SYNC_LEN);
    assert_int_equal(codec_be32((const unsigned char *)CODEC_EXECUTE + 3), 9);
    assert_int_equal(codec_be32((const unsigned char *)CODEC_SYNC + 1), 4);
    assert_memory_equal(CODEC_EXECUTE_SYNC, CODEC_EXECUTE, CODEC_EXECUTE_LEN);
    assert_memory_equal(&CODEC_EXECUTE_SYNC[CODEC_EXECUTE_LEN], CODEC_SYNC, CODEC_SYNC_LEN);
}

static int parse_error(const char *body, size_t len, struct codec_error *e)
{
    unsigned char *copy = malloc(len > 0 ? len : 1); /* its own block: a sanitizer sees a step too far */
    struct codec_message m = {'E', copy, len};
    static unsigned char kept[256];
    int rc;

    memcpy(copy, body, len);
    rc = codec_error(&m, e);
    free(copy);
    if (rc == 0) { /* again where it stays: the fields point into the body */
        memcpy(kept, body, len);
        m.message_body = kept;
        rc = codec_error(&m, e);
    }
    return rc;
}

#define PARSE(body, e) parse_error((body), sizeof(body) - 1, (e))

static void a_reset_has_the_right_length(void **state)
{
    const unsigned char *p = (const unsigned char *)CODEC_RESET;

    (void)state;
    assert_int_equal(p[0], 'Q');
    assert_int_equal(codec_be32(p + 1), CODEC_RESET_LEN - 1);
    assert_string_equal((const char *)p + 5, CODEC_RESET_SQL);
    assert_int_equal(5 + strlen(CODEC_RESET_SQL) + 1, CODEC_RESET_LEN);
}

static void an_error_gives_its_fields(void **state)
{
    struct codec_error e;

    (void)state;
    assert_int_equal(PARSE("SFEHLER\0VERROR\0C23505\0Mdoppelt\0Dda\0Handers\0Rfoo\0xnever heard of\0\0", &e), 0);
    assert_string_equal(e.error_public.error_sqlstate, "23505");
    assert_string_equal(e.error_public.error_message, "doppelt");
    assert_string_equal(e.error_public.error_detail, "da");
    assert_string_equal(e.error_public.error_hint, "anders");
    assert_string_equal(e.error_routine, "foo");
    assert_false(codec_error_fatal(&e));
    assert_int_equal(PARSE("VFATAL\0C57P01\0\0", &e), 0);
    assert_true(codec_error_fatal(&e));
    assert_null(e.error_public.error_message);
    assert_int_equal(PARSE("VPANIC\0\0", &e), 0);
    assert_true(codec_error_fatal(&e));
    assert_string_equal(e.error_public.error_sqlstate, "XX000");
}

static void the_parameter_of_an_error(void **state)
{
    static const struct {
        const char *context;
        unsigned number;
    } cases[] = {
        {"unnamed portal parameter $2 = 'x'", 2},
        {"unbenanntes Portal, Parameter $12", 12},
        {"no number", 0},
        {"$", 0},
        {"$x", 0},
        {"$99999999999999999999 is not one", 999999u},
        {"", 0},
    };
    struct codec_error e = {.error_context = NULL};

    (void)state;
    assert_int_equal(codec_error_parameter(&e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        e.error_context = cases[i].context;
        assert_int_equal(codec_error_parameter(&e), cases[i].number);
    }
    assert_int_equal(PARSE("C22P02\0Wparameter $3\0\0", &e), 0);
    assert_int_equal(codec_error_parameter(&e), 3);
}

static void what_made_sense_once_and_does_not_now(void **state)
{
    static const char *const changed[] = {"42P01", "42883", "42804", "42703", "3F000"};
    static const char *const not [] = {"42501", "22P02", "23505", "0A000", "XX000"};
    struct codec_error e = {.error_context = NULL};

    (void)state;
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        memcpy(e.error_public.error_sqlstate, changed[i], 6);
        assert_true(codec_error_changed(&e));
        memcpy(e.error_public.error_sqlstate, not [i], 6);
        assert_false(codec_error_changed(&e));
    }
}

static void an_error_that_does_not_hold_together_is_refused(void **state)
{
    static const char whole[] = "VERROR\0C23505\0Mtext\0";
    struct codec_error e;

    (void)state;
    assert_int_equal(parse_error(whole, sizeof whole, &e), 0);
    for (size_t n = 0; n < sizeof whole; n++)
        assert_int_equal(parse_error(whole, n, &e), -1);
    assert_int_equal(PARSE("\0C22000\0\0", &e), -1); /* octets behind the end */
    assert_int_equal(PARSE("C123456\0\0", &e), 0);   /* not a SQLSTATE: as if there were none */
    assert_string_equal(e.error_public.error_sqlstate, "XX000");
}

static void a_stale_plan_is_told_from_other_0A000(void **state)
{
    struct codec_error e;

    (void)state;
    assert_int_equal(PARSE("C0A000\0RRevalidateCachedQuery\0\0", &e), 0);
    assert_true(codec_error_stale(&e));
    assert_int_equal(PARSE("C0A000\0Rexec_stmt_raise\0\0", &e), 0);
    assert_false(codec_error_stale(&e));
    assert_int_equal(PARSE("C0A000\0\0", &e), 0);
    assert_false(codec_error_stale(&e));
    assert_int_equal(PARSE("C26000\0\0", &e), 0);
    assert_true(codec_error_stale(&e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bind_prefix_is_what_the_manual_says),
        cmocka_unit_test(a_parse_counts_its_own_length),
        cmocka_unit_test(a_statement_without_parameters_is_asked_whole),
        cmocka_unit_test(the_parameter_of_an_error),
        cmocka_unit_test(what_made_sense_once_and_does_not_now),
        cmocka_unit_test(a_cancel_request),
        cmocka_unit_test(execute_and_sync_have_the_right_lengths),
        cmocka_unit_test(a_reset_has_the_right_length),
        cmocka_unit_test(an_error_gives_its_fields),
        cmocka_unit_test(an_error_that_does_not_hold_together_is_refused),
        cmocka_unit_test(a_stale_plan_is_told_from_other_0A000),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
