#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/mem/out.c"

static struct buffers *arena;

static int arena_make(void **state)
{
    (void)state;
    arena = buffers_new(4 << 20);
    return arena == NULL;
}

static int arena_drop(void **state)
{
    (void)state;
    assert_int_equal(buffers_used(arena), 0);
    buffers_free(&arena);
    return 0;
}

/* All that waits in the chain, in one piece; freed by the caller. */
static char *all_of(const struct out *o)
{
    char *text = malloc(o->out_bytes + 1);
    size_t at = 0;
    struct buf *b;

    assert_non_null(text);
    for (b = o->out_head; b != NULL; b = b->buf_next) {
        memcpy(text + at, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
        at += b->buf_end - b->buf_start;
    }
    assert_int_equal(at, o->out_bytes);
    text[at] = '\0';
    return text;
}

static void assert_holds(const struct out *o, const char *expected)
{
    char *text = all_of(o);

    assert_string_equal(text, expected);
    free(text);
}

static void what_is_written_comes_out(void **state)
{
    struct out o;

    (void)state;
    out_init(&o, arena, 0);
    out_literal(&o, "answer ");
    out_u64(&o, 0);
    out_literal(&o, " ");
    out_u64(&o, UINT64_MAX);
    assert_holds(&o, "answer 0 18446744073709551615");
    out_reset(&o);
    assert_int_equal(o.out_bytes, 0);
}

static void long_writes_span_blocks_and_are_consumed_in_any_steps(void **state)
{
    static unsigned char data[300000];
    struct out o;
    size_t i, step = 1, taken = 0;

    (void)state;
    for (i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    out_init(&o, arena, 0);
    out_write(&o, data, 1000);
    out_write(&o, data + 1000, sizeof(data) - 1000);
    assert_int_equal(o.out_error, OUT_OK);
    assert_int_equal(o.out_bytes, sizeof(data));
    while (o.out_bytes > 0) {
        struct iovec iov[3];
        unsigned n = out_iovec(&o, iov, 3);

        assert_true(n >= 1);
        if (step > iov[0].iov_len)
            step = iov[0].iov_len;
        assert_memory_equal(iov[0].iov_base, data + taken, step);
        out_consume(&o, step);
        taken += step;
        step = step * 2 + 1;
    }
    assert_int_equal(taken, sizeof(data));
    assert_null(o.out_head);
}

static void the_limit_is_exact_and_sticky(void **state)
{
    struct out o;

    (void)state;
    out_init(&o, arena, 10);
    out_literal(&o, "0123456789");
    assert_int_equal(o.out_error, OUT_OK);
    out_literal(&o, "x");
    assert_int_equal(o.out_error, OUT_LIMIT);
    assert_null(out_reserve(&o, 1));
    assert_holds(&o, "0123456789");
    out_reset(&o);
    assert_int_equal(o.out_error, OUT_OK);
    o.out_shared = true; /* the limit of the day: whoever sees it may ask again */
    out_literal(&o, "0123456789x");
    assert_int_equal(o.out_error, OUT_SHARE);
    assert_null(out_reserve(&o, 1));
    assert_int_equal(o.out_bytes, 0);
    out_reset(&o);
}

static void what_is_large_leaves_the_last_eighth_to_others(void **state)
{
    static char data[8192];
    struct out large, small;

    (void)state;
    out_init(&large, arena, 0);
    out_init(&small, arena, 0);
    while (large.out_error == OUT_OK && large.out_bytes < 8u << 20)
        out_write(&large, data, sizeof(data));
    assert_int_equal(large.out_error, OUT_NO_BUFFERS);
    assert_in_range(buffers_used(arena), 7u << 19, (7u << 19) + 65536);
    while (small.out_error == OUT_OK && small.out_bytes < BUFFERS_LARGE)
        out_write(&small, data, sizeof(data));
    assert_int_equal(small.out_error, OUT_OK);
    out_reset(&large);
    out_reset(&small);
}

static void a_spent_budget_is_an_error_not_a_crash(void **state)
{
    struct buffers *small = buffers_new(4 * BUF_MIN_SIZE);
    static char data[100000];
    struct out o;

    (void)state;
    out_init(&o, small, 0);
    out_literal(&o, "before");
    out_write(&o, data, sizeof(data));
    assert_int_equal(o.out_error, OUT_NO_BUFFERS);
    assert_holds(&o, "before"); /* all or nothing */
    assert_int_equal(buffers_used(small), BUF_MIN_SIZE);
    out_literal(&o, "more");
    assert_int_equal(o.out_error, OUT_NO_BUFFERS);
    out_reset(&o);
    out_write(&o, data, sizeof(data));
    assert_int_equal(o.out_bytes, 0);
    assert_int_equal(buffers_used(small), 0);
    out_reset(&o);
    assert_int_equal(buffers_used(small), 0);
    out_literal(&o, "again");
    assert_holds(&o, "again");
    out_reset(&o);
    buffers_free(&small);
}

static void chains_are_joined_in_order(void **state)
{
    static char large[9000];
    struct out a, b;
    char *text;

    (void)state;
    memset(large, 'L', sizeof(large));
    out_init(&a, arena, 0);
    out_init(&b, arena, 0);
    out_append(&a, &b); /* nothing to nothing */
    assert_null(a.out_head);
    out_literal(&b, "one ");
    out_append(&a, &b);
    out_literal(&b, "two ");
    out_append(&a, &b);
    assert_null(b.out_head);
    out_write(&b, large, sizeof(large));
    out_append(&a, &b);
    out_literal(&b, " end");
    out_append(&a, &b);
    text = all_of(&a);
    assert_int_equal(a.out_bytes, 8 + sizeof(large) + 4);
    assert_memory_equal(text, "one two LLLL", 12);
    assert_string_equal(text + 8 + sizeof(large), " end");
    free(text);
    out_reset(&a);
}

static void holes_are_patched_and_messages_taken_back(void **state)
{
    static char large[20000];
    struct out o;
    struct out_mark m;
    struct iovec iov[1];

    (void)state;
    out_init(&o, arena, 0);
    out_literal(&o, "D");
    m = out_hole(&o, 4);
    out_literal(&o, "abc");
    assert_int_equal(out_since(&o, m), 7);
    out_patch_be32(m, 0x01020304);
    assert_int_equal(out_iovec(&o, iov, 1), 1);
    assert_memory_equal(iov[0].iov_base, "D\1\2\3\4abc", 8);
    m = out_hole(&o, 4);
    out_write(&o, large, sizeof(large));
    out_rewind(&o, m);
    assert_int_equal(o.out_bytes, 8);
    out_literal(&o, "!");
    assert_int_equal(out_iovec(&o, iov, 1), 1);
    assert_memory_equal(iov[0].iov_base, "D\1\2\3\4abc!", 9);
    out_reset(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_comes_out, arena_make, arena_drop),
        cmocka_unit_test_setup_teardown(long_writes_span_blocks_and_are_consumed_in_any_steps, arena_make, arena_drop),
        cmocka_unit_test_setup_teardown(the_limit_is_exact_and_sticky, arena_make, arena_drop),
        cmocka_unit_test_setup_teardown(what_is_large_leaves_the_last_eighth_to_others, arena_make, arena_drop),
        cmocka_unit_test(a_spent_budget_is_an_error_not_a_crash),
        cmocka_unit_test_setup_teardown(chains_are_joined_in_order, arena_make, arena_drop),
        cmocka_unit_test_setup_teardown(holes_are_patched_and_messages_taken_back, arena_make, arena_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
