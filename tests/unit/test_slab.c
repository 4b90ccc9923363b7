#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/mem/slab.c"

static void as_many_as_were_asked_for_and_not_one_more(void **state)
{
    struct slab *s = slab_new(100, 5);
    void *objects[5];
    unsigned i, j;

    (void)state;
    assert_non_null(s);
    assert_int_equal(slab_object_size(s), 128);
    assert_int_equal(slab_bytes(s), 5 * 128);
    for (i = 0; i < 5; i++) {
        objects[i] = slab_get(s);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % SLAB_ALIGN, 0);
        for (j = 0; j < i; j++)
            assert_ptr_not_equal(objects[i], objects[j]);
        memset(objects[i], (int)i, 100);
    }
    assert_null(slab_get(s));
    assert_int_equal(slab_used(s), 5);
    for (i = 0; i < 5; i++)
        assert_int_equal(((unsigned char *)objects[i])[99], i);
    slab_put(s, objects[2]);
    assert_int_equal(slab_used(s), 4);
    assert_ptr_equal(slab_get(s), objects[2]);
    assert_null(slab_get(s));
    slab_free(&s);
    assert_null(s);
}

static void the_last_one_back_is_the_first_one_out(void **state)
{
    struct slab *s = slab_new(64, 100);
    void *a = slab_get(s), *b = slab_get(s);

    (void)state;
    slab_put(s, a);
    slab_put(s, b);
    assert_ptr_equal(slab_get(s), b);
    assert_ptr_equal(slab_get(s), a);
    slab_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_were_asked_for_and_not_one_more),
        cmocka_unit_test(the_last_one_back_is_the_first_one_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
