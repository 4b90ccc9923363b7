#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/pg/scraps.c"

static int setup(void **state)
{
    (void)state;
    scraps_install();
    alloc_scope_now = ALLOC_PG;
    return scraps_free == NULL;
}

static int teardown(void **state)
{
    (void)state;
    alloc_scope_now = ALLOC_START;
    return 0;
}

static void small_blocks_come_from_here_and_go_back(void **state)
{
    unsigned char *p = OPENSSL_malloc(40), *again;

    (void)state;
    assert_true(scrap_is(p));
    memset(p, 0xaa, 40);
    OPENSSL_free(p);
    again = OPENSSL_zalloc(SCRAP_BYTES);
    assert_ptr_equal(again, p);
    for (unsigned i = 0; i < SCRAP_BYTES; i++)
        assert_int_equal(again[i], 0);
    OPENSSL_free(again);
}

static void large_ones_and_those_of_a_connection_do_not(void **state)
{
    void *p = OPENSSL_malloc(SCRAP_BYTES + 1);

    (void)state;
    assert_false(scrap_is(p));
    OPENSSL_free(p);
    alloc_scope_now = ALLOC_CONNECT;
    p = OPENSSL_malloc(40);
    assert_false(scrap_is(p));
    alloc_scope_now = ALLOC_PG;
    OPENSSL_free(p);
}

static void growing_moves_the_octets(void **state)
{
    char *p = OPENSSL_malloc(10);

    (void)state;
    strcpy(p, "123456789");
    assert_ptr_equal(OPENSSL_realloc(p, SCRAP_BYTES), p);
    p = OPENSSL_realloc(p, 1000);
    assert_false(scrap_is(p));
    assert_string_equal(p, "123456789");
    p = OPENSSL_realloc(p, 2000);
    assert_string_equal(p, "123456789");
    OPENSSL_free(p);
}

static void when_they_run_out_malloc_goes_on(void **state)
{
    void *p[SCRAPS + 10];
    unsigned ours = 0, left = 0;

    (void)state;
    for (unsigned i = 0; i < SCRAPS + 10; i++) {
        p[i] = OPENSSL_malloc(8);
        assert_non_null(p[i]);
        ours += scrap_is(p[i]);
    }
    assert_int_equal(ours, SCRAPS);
    for (unsigned i = 0; i < SCRAPS + 10; i++)
        OPENSSL_free(p[i]);
    for (const union scrap *s = scraps_free; s != NULL; s = s->scrap_next)
        left++;
    assert_int_equal(left, SCRAPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_come_from_here_and_go_back),
        cmocka_unit_test(large_ones_and_those_of_a_connection_do_not),
        cmocka_unit_test(growing_moves_the_octets),
        cmocka_unit_test(when_they_run_out_malloc_goes_on),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
