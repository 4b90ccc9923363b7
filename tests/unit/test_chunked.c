/* The chunked coding: what is decoded and what is refused, and that cutting it makes no difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/http/chunked.c"

#define BODY_MAX 1000
#define TRAILER_MAX 100

struct result {
    enum http_chunked_result result;
    size_t consumed, decoded;
    const char *why;
    char body[4096];
};

/* Feeds first, then step octets at a time, each time from a buffer of exactly that size. */
static struct result decode_apart(const char *text, size_t len, size_t first, size_t step, uint64_t max,
                                  uint32_t trailer)
{
    struct http_chunked c = {0};
    struct result r = {.result = CHUNKED_MORE};

    for (size_t n = first; r.result == CHUNKED_MORE; n = step) {
        size_t left = len - r.consumed, used = 0;
        if (n > left)
            n = left;
        char *in = malloc(n != 0 ? n : 1), *out = malloc(n != 0 ? n : 1);
        size_t got = 0;
        memcpy(in, text + r.consumed, n);
        r.result = http_chunked(&c, in, n, &used, out, &got, max, trailer);
        assert_true(used <= n);
        assert_true(got <= used);
        if (r.result == CHUNKED_MORE)
            assert_int_equal(used, n);
        memcpy(r.body + r.decoded, out, got);
        r.decoded += got;
        r.consumed += used;
        free(in);
        free(out);
        if (r.result == CHUNKED_MORE && n == left)
            break;
    }
    assert_int_equal(c.chunked_total, r.decoded);
    r.why = c.chunked_why;
    return r;
}

/* The same in one buffer, as the connection does it: decoded octets close up at its beginning. */
static struct result decode_in_place(const char *text, size_t len, size_t step, uint64_t max, uint32_t trailer)
{
    struct http_chunked c = {0};
    struct result r = {.result = CHUNKED_MORE};
    char *base = malloc(len != 0 ? len : 1);

    memcpy(base, text, len);
    do {
        size_t left = len - r.consumed, n = step < left ? step : left, used = 0;
        r.result = http_chunked(&c, base + r.consumed, n, &used, base + r.decoded, &r.decoded, max, trailer);
        r.consumed += used;
    } while (r.result == CHUNKED_MORE && r.consumed < len);
    memcpy(r.body, base, r.decoded);
    r.why = c.chunked_why;
    free(base);
    return r;
}

static void assert_same(const struct result *a, const struct result *b)
{
    assert_int_equal(a->result, b->result);
    assert_int_equal(a->consumed, b->consumed);
    assert_int_equal(a->decoded, b->decoded);
    assert_ptr_equal(a->why, b->why);
    assert_memory_equal(a->body, b->body, a->decoded);
}

static struct result decode(const char *text, size_t len, uint64_t max, uint32_t trailer)
{
    struct result whole = decode_apart(text, len, len, 1, max, trailer), other;

    for (size_t cut = 0; cut < len; cut++) {
        other = decode_apart(text, len, cut, len, max, trailer);
        assert_same(&whole, &other);
    }
    other = decode_apart(text, len, 1, 1, max, trailer);
    assert_same(&whole, &other);
    for (size_t step = 1; step <= len; step = step * 2 + 1) {
        other = decode_in_place(text, len, step, max, trailer);
        assert_same(&whole, &other);
    }
    other = decode_in_place(text, len, len, max, trailer);
    assert_same(&whole, &other);
    return whole;
}

#define S(text) text, sizeof(text) - 1

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *body;
    } goods[] = {
        {S("2\r\n39\r\n0\r\n\r\n"), "39"},
        {S("1\r\n3\r\n1\r\n9\r\n0\r\n\r\n"), "39"},
        {S("0\r\n\r\n"), ""},
        {S("A\r\n1234567890\r\n0\r\n\r\n"), "1234567890"},
        {S("a\r\n1234567890\r\n000\r\n\r\n"), "1234567890"},
        {S("10\r\n0123456789abcdef\r\n0\r\n\r\n"), "0123456789abcdef"},
        {S("00000000000000000000000000000002\r\n39\r\n0\r\n\r\n"), "39"},
        {S("5\r\n\r\n0\r\n\r\n0\r\n\r\n"), "\r\n0\r\n"},
        {S("2;a\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2;a=b\r\n39\r\n0;c=d\r\n\r\n"), "39"},
        {S("2;a;b=c;d=\"e\"\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2;!#$%&'*+-.^_`|~=1\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2 ;\ta = b ; c\t=\t\"d\" ;e\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2;a=\";\\\"\\\\ \t\x80\"\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2;a=\"\"\r\n39\r\n0\r\n\r\n"), "39"},
        {S("2\r\n39\r\n0\r\nA: b\r\nC:d\r\nE:\r\nF:\t \x80 g\r\n\r\n"), "39"},
        {S("2\r\n39\r\n0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nHost: x\r\n\r\n"), "39"},
    };
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
        struct result r = decode(goods[i].text, goods[i].len, BODY_MAX, TRAILER_MAX);
        if (r.result != CHUNKED_DONE)
            fail_msg("%d (%s): %s", (int)r.result, r.why, goods[i].text);
        assert_int_equal(r.consumed, goods[i].len);
        assert_int_equal(r.decoded, strlen(goods[i].body));
        assert_memory_equal(r.body, goods[i].body, r.decoded);
        /* What follows is not touched; what is missing is waited for. */
        char next[300];
        memcpy(next, goods[i].text, goods[i].len);
        memcpy(next + goods[i].len, "GET", 3);
        assert_int_equal(decode(next, goods[i].len + 3, BODY_MAX, TRAILER_MAX).consumed, goods[i].len);
        for (size_t n = 0; n < goods[i].len; n++)
            assert_int_equal(decode_apart(goods[i].text, n, n, 1, BODY_MAX, TRAILER_MAX).result, CHUNKED_MORE);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } bads[] = {
        /* sizes */
        {S("\r\n")},
        {S("\r\n2\r\n39\r\n0\r\n\r\n")},
        {S("-2\r\n")},
        {S("+2\r\n")},
        {S("0x2\r\n")},
        {S(" 2\r\n")},
        {S("\t2\r\n")},
        {S("2g\r\n")},
        {S("2 2\r\n")},
        {S("2,2\r\n")},
        {S("2\x0b\r\n")},
        {S("\xef\xbc\x92\r\n")},
        {S("2 \r\n")},
        {S("2\t\r\n")},
        {S("0\0\r\n")},
        {S(";a\r\n")},
        {S("g\r\n")},
        {S("@\r\n")},
        {S("`\r\n")},
        /* line ends */
        {S("2\n39\r\n0\r\n\r\n")},
        {S("2\rX")},
        {S("2\r\r\n")},
        {S("2\r;a\r\n")},
        {S("2;a\n")},
        {S("2;a\rb\r\n")},
        {S("2;a=\"x\ry\"\r\n")},
        {S("2\r\n39\n0\r\n\r\n")},
        {S("2\r\n39\rX")},
        {S("2\r\n39\n\r")},
        {S("2\r\n39!!\r\n")},
        {S("2\r\n39\r\n\r\n0\r\n\r\n")},
        {S("5\r\n39\r\n0\r\n\r\n")},
        {S("0\n\r\n")},
        {S("0\r\n\n")},
        {S("0\r\n\rX")},
        {S("0\r\nXX\r\n")},
        /* extensions */
        {S("2;\r\n")},
        {S("2;;a\r\n")},
        {S("2;a=\r\n")},
        {S("2;a=;b\r\n")},
        {S("2;=b\r\n")},
        {S("2;a[=b\r\n")},
        {S("2;a b\r\n")},
        {S("2;a \r\n")},
        {S("2;a=b c\r\n")},
        {S("2;a=b \r\n")},
        {S("2;a=b=c\r\n")},
        {S("2;a\0b\r\n")},
        {S("2;a=b/c\r\n")},
        {S("2;a=\"b\"c\r\n")},
        {S("2;a=\"b\"=\r\n")},
        {S("2;a=\"b\0\"\r\n")},
        {S("2;a=\"b\\\r\n")},
        {S("2;a=\"b\x7f\"\r\n")},
        {S("2 a=b\r\n")},
        /* trailers */
        {S("0\r\n: y\r\n")},
        {S("0\r\n X: y\r\n")},
        {S("0\r\nX: y\r\n z\r\n")},
        {S("0\r\nX Y: a\r\n")},
        {S("0\r\nX : a\r\n")},
        {S("0\r\nX: a\0b\r\n")},
        {S("0\r\nX: a\nY: b\r\n")},
        {S("0\r\nX: a\rb\r\n")},
        {S("0\r\nX\x80: a\r\n")},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct result r = decode(bads[i].text, bads[i].len, BODY_MAX, TRAILER_MAX);
        if (r.result != CHUNKED_ERROR)
            fail_msg("%d: %s", (int)r.result, bads[i].text);
        assert_non_null(r.why);
    }
}

static void test_body_limit(void **state)
{
    (void)state;
    assert_int_equal(decode(S("4\r\n1234\r\n0\r\n\r\n"), 4, 0).result, CHUNKED_DONE);
    assert_int_equal(decode(S("4\r\n1234\r\n0\r\n\r\n"), 3, 0).result, CHUNKED_TOO_LARGE);
    assert_int_equal(decode(S("2\r\n12\r\n2\r\n34\r\n0\r\n\r\n"), 4, 0).result, CHUNKED_DONE);
    assert_int_equal(decode(S("2\r\n12\r\n2\r\n34\r\n0\r\n\r\n"), 3, 0).result, CHUNKED_TOO_LARGE);
    assert_int_equal(decode(S("0\r\n\r\n"), 0, 0).result, CHUNKED_DONE);
    assert_int_equal(decode(S("1\r\n"), 0, 0).result, CHUNKED_TOO_LARGE);
    /* as soon as the size is known to be too large */
    assert_int_equal(decode(S("3e9"), BODY_MAX, 0).result, CHUNKED_TOO_LARGE);
    assert_int_equal(decode(S("3e8"), BODY_MAX, 0).result, CHUNKED_MORE);
}

static void test_size_overflow(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "FFFFFFFFFFFFFFFF", "FFFFFFFFFFFFFFFE\r\n", "FFFFFFFFFFFFFFFF0",     "8000000000000002",
        "100000002\r\n",    "10000000000000002",    "fffffffffffffffff\r\n", "00000010000000000000000000000002"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(decode(sizes[i], strlen(sizes[i]), BODY_MAX, TRAILER_MAX).result, CHUNKED_TOO_LARGE);
    /* with no limit in the way */
    assert_int_equal(decode(S("FFFFFFFFFFFFFFFF\r\n1"), UINT64_MAX, 0).result, CHUNKED_MORE);
    assert_int_equal(decode(S("FFFFFFFFFFFFFFFF0"), UINT64_MAX, 0).result, CHUNKED_TOO_LARGE);
    assert_int_equal(decode(S("10000000000000000"), UINT64_MAX, 0).result, CHUNKED_TOO_LARGE);
    assert_int_equal(decode(S("1\r\n1\r\nFFFFFFFFFFFFFFFE"), UINT64_MAX, 0).result, CHUNKED_MORE);
    assert_int_equal(decode(S("1\r\n1\r\nFFFFFFFFFFFFFFFF"), UINT64_MAX, 0).result, CHUNKED_TOO_LARGE);
}

static void test_overhead_limit(void **state)
{
    (void)state;
    /* extensions, over all chunks: ";a" twice */
    assert_int_equal(decode(S("1;a\r\n1\r\n0;a\r\n\r\n"), BODY_MAX, 4).result, CHUNKED_DONE);
    assert_int_equal(decode(S("1;a\r\n1\r\n0;a\r\n\r\n"), BODY_MAX, 3).result, CHUNKED_ERROR);
    assert_int_equal(decode(S("1 ;a\r\n"), BODY_MAX, 3).result, CHUNKED_MORE);
    assert_int_equal(decode(S("1 ;a\r\n"), BODY_MAX, 2).result, CHUNKED_ERROR);
    /* trailers, with their line ends */
    assert_int_equal(decode(S("0\r\nX: y\r\n\r\n"), BODY_MAX, 6).result, CHUNKED_DONE);
    assert_int_equal(decode(S("0\r\nX: y\r\n\r\n"), BODY_MAX, 5).result, CHUNKED_ERROR);
    assert_int_equal(decode(S("0\r\nX: y\r\nZ:\r\n\r\n"), BODY_MAX, 10).result, CHUNKED_DONE);
    assert_int_equal(decode(S("0\r\nX: y\r\nZ:\r\n\r\n"), BODY_MAX, 9).result, CHUNKED_ERROR);
    /* leading zeros, not digits */
    assert_int_equal(decode(S("3e8\r\n"), BODY_MAX, 0).result, CHUNKED_MORE);
    assert_int_equal(decode(S("0001\r\n"), BODY_MAX, 3).result, CHUNKED_MORE);
    assert_int_equal(decode(S("0001\r\n"), BODY_MAX, 2).result, CHUNKED_ERROR);
}

static void test_failed_stays_failed(void **state)
{
    (void)state;
    struct http_chunked c = {0};
    char out[16];
    size_t used, got = 0;

    assert_int_equal(http_chunked(&c, "x", 1, &used, out, &got, 10, 10), CHUNKED_ERROR);
    assert_int_equal(http_chunked(&c, "1\r\na\r\n", 6, &used, out, &got, 10, 10), CHUNKED_ERROR);
    assert_int_equal(got, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_bad),
        cmocka_unit_test(test_body_limit),     cmocka_unit_test(test_size_overflow),
        cmocka_unit_test(test_overhead_limit), cmocka_unit_test(test_failed_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
