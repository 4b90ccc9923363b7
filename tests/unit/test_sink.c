#include "shm/sink.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

static struct sample_text text;
static struct sink k;

static int setup(void **state)
{
    (void)state;
    text.text_len = 0;
    text.text_octets[0] = '\0';
    sink_open(&k, sample_write, &text);
    return 0;
}

static void expect(const char *want)
{
    sink_close(&k);
    assert_string_equal(text.text_octets, want);
}

static void test_numbers(void **state)
{
    (void)state;
    sink_number(&k, 0);
    sink_strings(&k, " ", "", "x ", NULL);
    sink_number(&k, UINT64_MAX);
    sink_string(&k, " ");
    sink_signed(&k, -1);
    sink_string(&k, " ");
    sink_signed(&k, INT64_MIN);
    sink_string(&k, " ");
    sink_signed(&k, 7);
    expect("0 x 18446744073709551615 -1 -9223372036854775808 7");
}

static void test_fixed_point(void **state)
{
    (void)state;
    sink_fixed(&k, 1500, 3);
    sink_string(&k, " ");
    sink_fixed(&k, 1, 6);
    sink_string(&k, " ");
    sink_fixed(&k, 0, 1);
    sink_string(&k, " ");
    sink_fixed(&k, UINT64_MAX, 9);
    expect("1.500 0.000001 0.0 18446744073.709551615");
}

static void test_escapes(void **state)
{
    (void)state;
    sink_json(&k, "a\"b\\c\nd\x01\x1f/");
    sink_string(&k, "|");
    sink_label(&k, "a\"b\\c\nd\t");
    sink_string(&k, "|");
    sink_help(&k, "a\"b\\c\nd");
    expect("a\\\"b\\\\c\\nd\\u0001\\u001f/|a\\\"b\\\\c\\nd\t|a\"b\\\\c\\nd");
}

/* RFC 3629: overlong forms, surrogates, beyond U+10FFFF, cut short, stray continuation. */
static void test_utf8(void **state)
{
    static const char *const good[] = {"\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",     "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\x7f"};
    static const char *const bad[] = {
        "\x80",     "\xc1\xbf",     "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xe2\x82", "\xf0\x90\x80", "\xff",         "\xc3"};
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        setup(state);
        sink_json(&k, good[i]);
        expect(good[i]);
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setup(state);
        sink_json(&k, bad[i]);
        sink_close(&k);
        assert_true(strncmp(text.text_octets, "\xef\xbf\xbd", 3) == 0);
        assert_null(strstr(text.text_octets, bad[i]));
    }
}

/* More than the sink holds, at every alignment to its end. */
static void test_long_text(void **state)
{
    static char octets[5000];
    size_t i, before;

    memset(octets, 'x', sizeof(octets));
    for (before = 0; before < 1100; before += 11) {
        setup(state);
        for (i = 0; i < before; i++)
            sink_octets(&k, "y", 1);
        sink_octets(&k, octets, 1024);
        sink_octets(&k, octets, sizeof(octets));
        sink_string(&k, "z");
        sink_close(&k);
        assert_int_equal(text.text_len, before + 1024 + sizeof(octets) + 1);
        assert_int_equal(strspn(text.text_octets, "y"), before);
        assert_int_equal(strspn(text.text_octets + before, "x"), 1024 + sizeof(octets));
        assert_int_equal(text.text_octets[text.text_len - 1], 'z');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_numbers, setup),   cmocka_unit_test_setup(test_fixed_point, setup),
        cmocka_unit_test_setup(test_escapes, setup),   cmocka_unit_test_setup(test_utf8, setup),
        cmocka_unit_test_setup(test_long_text, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
