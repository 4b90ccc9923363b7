/* Which requests have one answer, which answers are kept, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "worker/handler/kept.c"

#define MS UINT64_C(1000000)

static struct conf_route route = {.route_status = 200, .route_params_n = 2, .route_cache_ms = 50};
static struct server server;
static struct cache *cache;
static struct kept *kept;
static struct request *requests[8];

/* A request that came at that millisecond. */
static struct request *asking(unsigned ms, const char *first, const char *second)
{
    struct request *r = calloc(1, sizeof *r + 2 * sizeof r->req_values[0]);
    unsigned i;

    assert_non_null(r);
    r->magic = REQUEST_MAGIC;
    r->req_server = &server;
    r->req_started_ns = ms * MS;
    r->req_out.out_buffers = server.server_buffers;
    r->req_status = (uint16_t)route.route_status;
    r->req_values[0] = (struct param_value){.value_p = first, .value_len = (uint32_t)strlen(first)};
    r->req_values[1] = (struct param_value){.value_p = second, .value_len = (uint32_t)strlen(second)};
    for (i = 0; requests[i] != NULL; i++)
        ;
    server.server_now_ns = ms * MS;
    return requests[i] = r;
}

static int setup(void **state)
{
    (void)state;
    server.server_buffers = buffers_new(1 << 20);
    server.server_limits.limit_response_bytes = 1 << 16;
    cache = cache_new(2, 1 << 20);
    assert_true(server.server_buffers != NULL && cache != NULL);
    kept = kept_new(cache, 0, &route, 3);
    assert_non_null(kept);
    return 0;
}

static int teardown(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 8 && requests[i] != NULL; i++) {
        out_reset(&requests[i]->req_out);
        free(requests[i]);
        requests[i] = NULL;
    }
    kept_free(&kept);
    assert_null(kept);
    cache_free(&cache);
    buffers_free(&server.server_buffers);
    return 0;
}

static void answers(struct request *r, const char *body)
{
    out_write(request_out(r), body, strlen(body));
    kept_store(kept, r);
}

static bool says(struct request *r, const char *body)
{
    const struct buf *b = r->req_out.out_head;

    return b != NULL && r->req_out.out_bytes == strlen(body) &&
           memcmp(b->buf_data + b->buf_start, body, strlen(body)) == 0;
}

static void equal_ones_have_one_answer(void **state)
{
    struct request *a = asking(1000, "1", "x"), *b = asking(1050, "1", "x"), *c = asking(1051, "1", "x");

    (void)state;
    server.server_now_ns = 1000 * MS;
    assert_false(kept_answer(kept, a));
    answers(a, "one");
    assert_true(kept_answer(kept, b));
    assert_int_equal(b->req_status, 200);
    assert_true(says(b, "one"));
    assert_false(kept_answer(kept, c)); /* too old */
    assert_null(c->req_out.out_head);
}

static void others_have_their_own(void **state)
{
    static const char *const pairs[][2] = {{"1", "y"}, {"1x", ""}, {"", "1x"}, {"x", "1"}};
    struct request *a = asking(1000, "1", "x"), *b;
    unsigned i;

    (void)state;
    answers(a, "one");
    for (i = 0; i < 4; i++)
        assert_false(kept_answer(kept, asking(1000, pairs[i][0], pairs[i][1])));
    b = asking(1000, "1", "x");
    b->req_values[0].value_form = PARAM_PERCENT; /* the same octets, another value */
    assert_false(kept_answer(kept, b));
    b->req_values[0].value_form = 0;
    b->req_values[1].value_is_default = 1;
    assert_false(kept_answer(kept, b));
    b->req_values[1].value_is_default = 0;
    assert_true(kept_answer(kept, b));
}

static void another_route_has_its_own(void **state)
{
    struct kept *other = kept_new(cache, 0, &route, 4);

    (void)state;
    assert_non_null(other);
    answers(asking(1000, "1", "x"), "one");
    assert_false(kept_answer(other, asking(1000, "1", "x")));
    kept_free(&other);
}

static void no_such_row_is_kept_without_a_body(void **state)
{
    struct request *a = asking(1000, "1", "x"), *b = asking(1001, "1", "x");

    (void)state;
    a->req_status = 404;
    answers(a, "{a problem}");
    assert_true(kept_answer(kept, b));
    assert_int_equal(b->req_status, 404);
    assert_null(b->req_out.out_head);
}

static void errors_are_not(void **state)
{
    static const uint16_t statuses[] = {400, 409, 500, 503};
    unsigned i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct request *a = asking(1000, "1", "x");

        a->req_status = statuses[i];
        answers(a, "{}");
    }
    assert_false(kept_answer(kept, asking(1000, "1", "x")));
}

static void half_an_answer_is_not(void **state)
{
    struct request *a = asking(1000, "1", "x");

    (void)state;
    a->req_out.out_error = OUT_NO_BUFFERS;
    kept_store(kept, a);
    assert_false(kept_answer(kept, asking(1000, "1", "x")));
}

/* Its age counts from when it was asked for, not from when it came. */
static void a_slow_one_is_old_when_it_comes(void **state)
{
    struct request *a = asking(1000, "1", "x");

    (void)state;
    server.server_now_ns = 1050 * MS;
    answers(a, "late");
    assert_false(kept_answer(kept, asking(1050, "1", "x")));
    server.server_now_ns = 1030 * MS;
    kept_store(kept, a);
    assert_true(kept_answer(kept, asking(1050, "1", "x")));
    assert_false(kept_answer(kept, asking(1051, "1", "x")));
}

static void what_does_not_fit_is_not(void **state)
{
    static char large[CACHE_ROOM];
    struct request *a;

    (void)state;
    memset(large, 'x', sizeof large - 1);
    a = asking(1000, "1", "x");
    answers(a, large); /* with its key too much for a cell */
    assert_false(kept_answer(kept, asking(1000, "1", "x")));
    a = asking(1000, large, "x");
    assert_false(kept_answer(kept, a));
    answers(a, "small");
    assert_false(kept_answer(kept, asking(1000, large, "x")));
}

/* Over several blocks of the chain. */
static void a_long_one_is_whole(void **state)
{
    static char large[3 * 1024 + 700];
    struct request *a = asking(1000, "1", "x"), *b = asking(1000, "1", "x");
    struct buf *block;
    size_t at = 0;

    (void)state;
    memset(large, 'a', sizeof large - 1);
    memset(large + 2000, 'b', 1000);
    answers(a, large);
    assert_true(a->req_out.out_head != a->req_out.out_tail);
    assert_true(kept_answer(kept, b));
    assert_int_equal(b->req_out.out_bytes, sizeof large - 1);
    for (block = b->req_out.out_head; block != NULL; block = block->buf_next) {
        assert_memory_equal(block->buf_data + block->buf_start, large + at, block->buf_end - block->buf_start);
        at += block->buf_end - block->buf_start;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(equal_ones_have_one_answer),         TEST(others_have_their_own),    TEST(another_route_has_its_own),
        TEST(no_such_row_is_kept_without_a_body), TEST(errors_are_not),           TEST(half_an_answer_is_not),
        TEST(a_slow_one_is_old_when_it_comes),    TEST(what_does_not_fit_is_not), TEST(a_long_one_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
