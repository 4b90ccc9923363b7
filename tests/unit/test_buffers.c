#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/mem/buffers.c"

static void blocks_are_of_the_size_asked_for(void **state)
{
    struct buffers *b = buffers_new(1 << 20);
    size_t size;

    (void)state;
    assert_non_null(b);
    for (size = 1; size <= 200000; size = size * 3 / 2 + 1) {
        struct buf *buf = buf_get(b, size);

        assert_non_null(buf);
        assert_true(buf->buf_size >= size);
        assert_int_equal(buf->buf_start, 0);
        assert_int_equal(buf->buf_end, 0);
        memset(buf->buf_data, 1, buf->buf_size);
        buf_put(b, &buf);
        assert_null(buf);
    }
    assert_int_equal(buffers_used(b), 0);
    assert_true(buffers_peak(b) >= 200000 / 2);
    buffers_free(&b);
    assert_null(b);
}

static void the_budget_is_never_exceeded(void **state)
{
    struct buffers *b = buffers_new(64 * BUF_MIN_SIZE);
    struct buf *all[65];
    unsigned i, n = 0;

    (void)state;
    while ((all[n] = buf_get(b, BUF_DATA_MIN)) != NULL)
        n++;
    assert_int_equal(n, 64);
    assert_int_equal(buffers_used(b), buffers_total(b));
    for (i = 0; i < n; i++)
        buf_put(b, &all[i]);
    assert_int_equal(buffers_used(b), 0);
    buffers_free(&b);
}

/* Small blocks that were handed back, in any order, make room for the largest one again. */
static void small_blocks_merge_again(void **state)
{
    struct buffers *b = buffers_new(1024 * BUF_MIN_SIZE);
    struct buf *all[1024], *large;
    unsigned i, step;

    (void)state;
    for (step = 1; step < 1024; step += 2) {
        for (i = 0; i < 1024; i++) {
            all[i] = buf_get(b, 100);
            assert_non_null(all[i]);
        }
        assert_null(buf_get(b, 100));
        for (i = 0; i < 1024; i++)
            buf_put(b, &all[(i * step) % 1024]);
        large = buf_get(b, 512 * BUF_MIN_SIZE - sizeof(struct buf));
        assert_non_null(large);
        buf_put(b, &large);
        for (i = 0; i < 1024; i++) { /* on either side */
            all[i] = buf_get(b, 512 * BUF_MIN_SIZE - sizeof(struct buf));
            if (all[i] == NULL)
                break;
        }
        assert_int_equal(i, 1); /* what is left would take the last eighth, too */
        large = all[0];
        buf_put(b, &large);
        step += 40;
    }
    buffers_free(&b);
}

static void the_last_eighth_is_for_small_blocks(void **state)
{
    struct buffers *b = buffers_new(1024 * BUF_MIN_SIZE);
    struct buf *large[32], *small[1024];
    unsigned n = 0, m = 0;

    (void)state;
    while (n < 32 && (large[n] = buf_get(b, 64 * BUF_MIN_SIZE - sizeof(struct buf))) != NULL)
        n++;
    assert_int_equal(n, 14);
    assert_true(buffers_scarce(b));
    while (m < 1024 && (small[m] = buf_get(b, 1)) != NULL)
        m++;
    assert_int_equal(m, 128);
    while (m > 0)
        buf_put(b, &small[--m]);
    buf_put(b, &large[--n]);
    assert_false(buffers_scarce(b));
    large[n] = buf_get(b, 64 * BUF_MIN_SIZE - sizeof(struct buf));
    assert_non_null(large[n++]);
    while (n > 0)
        buf_put(b, &large[--n]);
    buffers_free(&b);
}

static void an_arena_need_not_be_a_power_of_two(void **state)
{
    struct buffers *b = buffers_new(100 * BUF_MIN_SIZE + 77);
    struct buf *all[101];
    unsigned i, n = 0;

    (void)state;
    assert_int_equal(buffers_total(b), 100 * BUF_MIN_SIZE);
    assert_null(buf_get(b, 65 * BUF_MIN_SIZE));
    while ((all[n] = buf_get(b, 1)) != NULL)
        n++;
    assert_int_equal(n, 100);
    for (i = 0; i < n; i++)
        buf_put(b, &all[i]);
    all[0] = buf_get(b, 64 * BUF_MIN_SIZE - sizeof(struct buf));
    assert_non_null(all[0]);
    buf_put(b, &all[0]);
    buffers_free(&b);
}

static void no_two_blocks_overlap(void **state)
{
    struct buffers *b = buffers_new(512 * BUF_MIN_SIZE);
    struct buf *have[64] = {NULL};
    unsigned seed = 42, round, i;

    (void)state;
    for (round = 0; round < 20000; round++) {
        seed = seed * 1103515245u + 12345u;
        i = (seed >> 16) % 64;
        if (have[i] != NULL) {
            uint32_t at;

            for (at = 0; at < have[i]->buf_size; at += 997)
                assert_int_equal(have[i]->buf_data[at], (unsigned char)(i + 1));
            buf_put(b, &have[i]);
            continue;
        }
        seed = seed * 1103515245u + 12345u;
        have[i] = buf_get(b, (seed >> 12) % 60000);
        if (have[i] != NULL)
            memset(have[i]->buf_data, (int)i + 1, have[i]->buf_size);
    }
    for (i = 0; i < 64; i++)
        if (have[i] != NULL)
            buf_put(b, &have[i]);
    assert_int_equal(buffers_used(b), 0);
    buffers_free(&b);
}

static void a_shared_block_lives_until_its_last_reader(void **state)
{
    struct buffers *b = buffers_new(8 * BUF_MIN_SIZE);
    struct buf *one = buf_get(b, 10), *two = one;

    (void)state;
    one->buf_refs++;
    buf_unref(b, &one);
    assert_null(one);
    assert_int_equal(buffers_used(b), BUF_MIN_SIZE);
    buf_unref(b, &two);
    assert_int_equal(buffers_used(b), 0);
    buffers_free(&b);
}

static void absurd_sizes_are_refused(void **state)
{
    struct buffers *b = buffers_new(8 * BUF_MIN_SIZE);

    (void)state;
    assert_null(buf_get(b, SIZE_MAX));
    assert_null(buf_get(b, SIZE_MAX / 2));
    assert_null(buf_get(b, 9 * BUF_MIN_SIZE));
    buffers_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_of_the_size_asked_for),
        cmocka_unit_test(the_budget_is_never_exceeded),
        cmocka_unit_test(small_blocks_merge_again),
        cmocka_unit_test(the_last_eighth_is_for_small_blocks),
        cmocka_unit_test(an_arena_need_not_be_a_power_of_two),
        cmocka_unit_test(no_two_blocks_overlap),
        cmocka_unit_test(a_shared_block_lives_until_its_last_reader),
        cmocka_unit_test(absurd_sizes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
