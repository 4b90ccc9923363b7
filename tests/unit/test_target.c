/* Escapes, pairs and UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/http/target.c"

#define SLICE(text) ((struct slice){text, sizeof(text) - 1})

/* In a buffer of exactly that size: a sanitizer sees a look beyond it. */
static struct slice exact(const char *text, size_t len)
{
    char *p = malloc(len != 0 ? len : 1);
    memcpy(p, text, len);
    return (struct slice){p, len};
}

static const char *check(const char *text, size_t len)
{
    struct slice s = exact(text, len);
    const char *why = http_escapes_check(s);
    free((char *)(uintptr_t)s.slice_p);
    return why;
}
#define CHECK(text) check(text, sizeof(text) - 1)

static bool valid(const char *text, size_t len)
{
    struct slice s = exact(text, len);
    bool is = utf8_valid(s.slice_p, len);
    free((char *)(uintptr_t)s.slice_p);
    return is;
}
#define VALID(text) valid(text, sizeof(text) - 1)

static void test_escapes_check(void **state)
{
    (void)state;
    assert_null(http_escapes_check((struct slice){0}));
    assert_null(CHECK(""));
    assert_null(CHECK("plain"));
    assert_null(CHECK("a plain text that is longer than sixteen octets"));
    assert_null(CHECK("%41%7a%2F%2f%25"));
    assert_null(CHECK("J%C3%BCrgen%e2%82%ac%F0%9F%98%80"));
    assert_null(CHECK("half %C3\xbc and half"));
    assert_null(CHECK("J\xc3\xbcrgen"));
    assert_null(CHECK("sixteen octets !%41 and more of them"));

    assert_non_null(CHECK("%"));
    assert_non_null(CHECK("%4"));
    assert_non_null(CHECK("%4g"));
    assert_non_null(CHECK("%g4"));
    assert_non_null(CHECK("%%41"));
    assert_non_null(CHECK("sixteen octets !and more%4"));
    assert_non_null(CHECK("%00"));
    assert_non_null(CHECK("sixteen octets !and more%00"));
    assert_non_null(CHECK("a\0b"));
    assert_non_null(CHECK("%FF"));
    assert_non_null(CHECK("%C3"));
    assert_non_null(CHECK("%C3a"));
    assert_non_null(CHECK("%C0%AF"));
    assert_non_null(CHECK("%ED%A0%80"));
    assert_non_null(CHECK("\xe9"));
    /* three reasons, told apart */
    assert_true(CHECK("%zz") != CHECK("%00") && CHECK("%zz") != CHECK("%80") && CHECK("%00") != CHECK("%80"));
}

static void test_unescape(void **state)
{
    (void)state;
    char to[64];

    assert_int_equal(http_unescape((struct slice){0}, true, to), 0);
    assert_int_equal(http_unescape(SLICE("a+b%20c%2B%2f"), false, to), 7);
    assert_memory_equal(to, "a+b c+/", 7);
    assert_int_equal(http_unescape(SLICE("a+b%20c%2B"), true, to), 6);
    assert_memory_equal(to, "a b c+", 6);
    assert_int_equal(http_unescape(SLICE("%C3%bC"), false, to), 2);
    assert_memory_equal(to, "\xc3\xbc", 2);
}

static void test_unescape_every_octet(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char escape[8];
        const char *p = escape;
        sprintf(escape, c & 1 ? "%%%02X" : "%%%02x", (unsigned)c);
        assert_int_equal(http_unescape_next(&p, true), c);
        assert_ptr_equal(p, escape + 3);
    }
}

static void test_unescaped_eq(void **state)
{
    (void)state;
    assert_true(http_unescaped_eq(SLICE("a%20b"), false, SLICE("a b")));
    assert_true(http_unescaped_eq(SLICE("a+b"), true, SLICE("a b")));
    assert_true(http_unescaped_eq(SLICE("%61bc"), false, SLICE("abc")));
    assert_true(http_unescaped_eq(SLICE(""), false, SLICE("")));
    assert_true(http_unescaped_eq((struct slice){0}, false, SLICE("")));
    assert_false(http_unescaped_eq((struct slice){0}, false, SLICE("a")));
    assert_false(http_unescaped_eq(SLICE("a+b"), false, SLICE("a b")));
    assert_false(http_unescaped_eq(SLICE("abc"), false, SLICE("ab")));
    assert_false(http_unescaped_eq(SLICE("ab"), false, SLICE("abc")));
    assert_false(http_unescaped_eq(SLICE("%61%62"), false, SLICE("abc")));
    assert_false(http_unescaped_eq(SLICE("%61"), false, SLICE("%61")));
    assert_false(http_unescaped_eq(SLICE("a"), false, SLICE("")));
}

static void assert_pairs(struct slice s, const char *want)
{
    char got[200] = "";
    size_t at = 0;
    struct slice name, value;

    while (http_pair_next(s, &at, &name, &value)) {
        strncat(got, name.slice_p, name.slice_len);
        strcat(got, "=");
        strncat(got, value.slice_p, value.slice_len);
        strcat(got, "|");
        assert_true(at <= s.slice_len);
    }
    assert_string_equal(got, want);
    assert_false(http_pair_next(s, &at, &name, &value));
}

static void test_pairs(void **state)
{
    (void)state;
    assert_pairs((struct slice){0}, "");
    assert_pairs(SLICE(""), "");
    assert_pairs(SLICE("a"), "a=|");
    assert_pairs(SLICE("a="), "a=|");
    assert_pairs(SLICE("a=1"), "a=1|");
    assert_pairs(SLICE("a=1&b=2&a=3"), "a=1|b=2|a=3|");
    assert_pairs(SLICE("&&a=1&&&b&"), "a=1|b=|");
    assert_pairs(SLICE("&"), "");
    assert_pairs(SLICE("="), "=|");
    assert_pairs(SLICE("=1"), "=1|");
    assert_pairs(SLICE("a=b=c"), "a=b=c|");
    assert_pairs(SLICE("a;b=1"), "a;b=1|");
    assert_pairs(SLICE("a=%26&b=+"), "a=%26|b=+|");
}

static void test_utf8(void **state)
{
    (void)state;
    assert_true(utf8_valid(NULL, 0));
    assert_true(VALID(""));
    assert_true(VALID("ASCII of more than eight octets, with \0 and \x7f"));
    assert_true(VALID("12345678\xc3\xa9"
                      "2345678\xe2\x82\xac"));
    assert_true(VALID("\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
    assert_true(VALID("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    assert_false(VALID("\x80"));
    assert_false(VALID("\xbf"));
    assert_false(VALID("\xc0\x80"));
    assert_false(VALID("\xc1\xbf"));
    assert_false(VALID("\xe0\x9f\xbf"));
    assert_false(VALID("\xed\xa0\x80"));
    assert_false(VALID("\xed\xbf\xbf"));
    assert_false(VALID("\xf0\x8f\xbf\xbf"));
    assert_false(VALID("\xf4\x90\x80\x80"));
    assert_false(VALID("\xf5\x80\x80\x80"));
    assert_false(VALID("\xff"));
    assert_false(VALID("\xc3"));
    assert_false(VALID("\xc3\xc3"));
    assert_false(VALID("\xe2\x82"));
    assert_false(VALID("\xf0\x9f\x98"));
    assert_false(VALID("\xe2\x28\xa1"));
    assert_false(VALID("12345678\xc3 2345678"));
    assert_false(VALID("1234567\xc3"));
}

/* Every code point of one to four octets against the definition. */
static void test_utf8_all(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x120000; c++) {
        char s[4];
        size_t n;
        if (c < 0x80) {
            s[0] = (char)c;
            n = 1;
        } else if (c < 0x800) {
            s[0] = (char)(0xc0 | c >> 6);
            n = 2;
        } else if (c < 0x10000) {
            s[0] = (char)(0xe0 | c >> 12);
            n = 3;
        } else {
            s[0] = (char)(0xf0 | c >> 18);
            n = 4;
        }
        for (size_t i = 1; i < n; i++)
            s[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
        if (utf8_valid(s, n) != (c < 0xd800 || (c > 0xdfff && c < 0x110000)))
            fail_msg("U+%X", c);
        if (n > 1 && utf8_valid(s, n - 1))
            fail_msg("U+%X cut short", c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes_check),
        cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_unescape_every_octet),
        cmocka_unit_test(test_unescaped_eq),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_utf8_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
