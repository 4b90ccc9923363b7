#include "conf/literal.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Scans and parses text that both must take, and puts the literals into the tree. */
static void read_tree(const char *text, config_t *tree)
{
    struct report r = {.report_file = "f"};
    struct literals l = {0};
    char line[4096];

    snprintf(line, sizeof line, "%s\n", text);
    config_init(tree);
    if (literals_scan(&l, line, strlen(line), &r) != 0) {
        report_flush(&r, stdout);
        fail_msg("not scanned: %s", text);
    }
    if (config_read_string(tree, line) != CONFIG_TRUE)
        fail_msg("not parsed: %s: %s", text, config_error_text(tree));
    literals_apply(&l, config_root_setting(tree));
    literals_free(&l);
    report_discard(&r);
}

static void numbers_are_what_they_say(void **state)
{
    static const struct {
        const char *literal;
        long long value;
    } numbers[] = {
        {"0", 0},
        {"-0", 0},
        {"+5", 5},
        {"007", 7},
        {"2147483647", 2147483647},
        {"2147483648", 2147483648},
        {"-2147483649", -2147483649},
        {"4294967296", 4294967296},
        {"4294967297L", 4294967297},
        {"18446744073709551617", LLONG_MAX},
        {"-99999999999999999999LL", LLONG_MIN},
        {"0xff", 255},
        {"0XFFL", 255},
        {"0xffffffff", 4294967295},
        {"0x1FFFFFFFF", 8589934591},
        {"0xffffffffffffffff", LLONG_MAX},
        {"0x10000000000000000L", LLONG_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[128];
        config_t tree;

        snprintf(text, sizeof text, "before = \"1\"; v = %s; after = 3", numbers[i].literal);
        read_tree(text, &tree);
        if (config_setting_get_int64(config_lookup(&tree, "v")) != numbers[i].value)
            fail_msg("%s is %lld", numbers[i].literal, config_setting_get_int64(config_lookup(&tree, "v")));
        assert_int_equal(config_setting_get_int64(config_lookup(&tree, "after")), 3);
        config_destroy(&tree);
    }
}

/* Whatever may stand between values, each keeps its own. */
static void values_and_literals_stay_in_step(void **state)
{
    config_t tree;
    const config_setting_t *a;

    (void)state;
    read_tree("/* 1 \" */ x : { y = [ 1, 2 ]; # 3\n z = ( 4, \"5\" // 6\n, 0x7, 8.5, 1e3, .5, +1., true, FALSE,\n"
              " ( ), { }, { q = 9 } ) }\n s = \"1 \\\" 2 \\\\\" \"3\" /* */\n \"4\" t = 4294967297 u = -1L",
              &tree);
    a = config_lookup(&tree, "x.z");
    assert_int_equal(config_setting_get_int64_elem(config_lookup(&tree, "x.y"), 1), 2);
    assert_int_equal(config_setting_get_int64_elem(a, 0), 4);
    assert_int_equal(config_setting_get_int64_elem(a, 2), 7);
    assert_int_equal(config_setting_get_bool_elem(a, 7), 1);
    assert_int_equal(config_setting_get_bool_elem(a, 8), 0);
    assert_int_equal(config_setting_get_int64(config_lookup(&tree, "x.z.[11].q")), 9);
    assert_string_equal(config_setting_get_string(config_lookup(&tree, "s")), "1 \" 2 \\34");
    assert_int_equal(config_setting_get_int64(config_lookup(&tree, "t")), 4294967297);
    assert_int_equal(config_setting_get_int64(config_lookup(&tree, "u")), -1);
    config_destroy(&tree);
}

static void elements_are_on_their_own_lines(void **state)
{
    config_t tree;
    const config_setting_t *l;

    (void)state;
    read_tree("a = [\n \"x\",\n \"y\"\n\n];\nb = ( 1\n, \"two\nlines\" , 3\n);\nc\n=\n5;", &tree);
    l = config_lookup(&tree, "a");
    assert_int_equal(config_setting_source_line(config_setting_get_elem(l, 0)), 2);
    assert_int_equal(config_setting_source_line(config_setting_get_elem(l, 1)), 3);
    l = config_lookup(&tree, "b");
    assert_int_equal(config_setting_source_line(config_setting_get_elem(l, 0)), 6);
    assert_int_equal(config_setting_source_line(config_setting_get_elem(l, 1)), 7);
    assert_int_equal(config_setting_source_line(config_setting_get_elem(l, 2)), 8);
    assert_int_equal(config_setting_source_line(config_lookup(&tree, "c")), 10);
    config_destroy(&tree);
}

/* Where the pass is content libconfig must be, or say so itself; where both are, their scalars must be the same. */
static void scalars_agree_with_libconfig_on_anything(void **state)
{
    static const char *const pieces[] = {"a",
                                         "b-c",
                                         "=",
                                         ":",
                                         "1",
                                         "-2L",
                                         "0x1f",
                                         "1.5",
                                         "1e3",
                                         ".5",
                                         "\"s\"",
                                         "\"\\\"\\\\\"",
                                         "{",
                                         "}",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         ",",
                                         ";",
                                         " ",
                                         "\n",
                                         "true",
                                         "/* x */",
                                         "# y\n",
                                         "// z\n",
                                         "x1",
                                         "12abc",
                                         "0xg",
                                         "1.2.3",
                                         "1e",
                                         "+",
                                         "\"a\nb\"",
                                         "a = 1;",
                                         "b = ( 1, \"x\" );",
                                         "c = { d = 2 }",
                                         "e = [ 1, 2 ]"};
    unsigned seed = 1, agreed = 0;

    (void)state;
    for (unsigned round = 0; round < 200000; round++) {
        struct report r = {.report_file = "f"};
        struct literals l = {0};
        char text[256] = "";
        config_t tree;

        for (unsigned i = 0; i < 1 + round % 9; i++) {
            seed = seed * 1103515245u + 12345u;
            strcat(text, pieces[(seed >> 16) % (sizeof pieces / sizeof pieces[0])]);
        }
        strcat(text, "\n");
        config_init(&tree);
        if (literals_scan(&l, text, strlen(text), &r) == 0 && config_read_string(&tree, text) == CONFIG_TRUE) {
            if (literals_walk(&l, config_root_setting(&tree), 0, false) != l.literals_n)
                fail_msg("%u literals in: %s", l.literals_n, text);
            agreed += l.literals_n != 0;
        }
        config_destroy(&tree);
        literals_free(&l);
        report_discard(&r);
    }
    assert_true(agreed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_what_they_say),
        cmocka_unit_test(values_and_literals_stay_in_step),
        cmocka_unit_test(elements_are_on_their_own_lines),
        cmocka_unit_test(scalars_agree_with_libconfig_on_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
