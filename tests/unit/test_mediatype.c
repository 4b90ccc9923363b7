#include "conf/mediatype.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void right_types(void **state)
{
    static const char *const right[] = {"text/plain",          "text/html; charset=utf-8",   "text/html;charset=utf-8",
                                        "application/ld+json", "a/b;c=d ;\te=\"f; \\\" g\"", "image/svg+xml",
                                        "a/b; c=\"\""};

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        if (!mediatype_valid(right[i]))
            fail_msg("refused: %s", right[i]);
}

static void wrong_types(void **state)
{
    static const char *const wrong[] = {"",
                                        "text",
                                        "text/",
                                        "/plain",
                                        "text/plain;",
                                        "text /x",
                                        "text/ x",
                                        "text/x; a",
                                        "text/x; a=",
                                        "text/x; a=\"b",
                                        "text/x a",
                                        "text/x; =b",
                                        "text/x, y/z",
                                        "text/x/y",
                                        "text/x; a=\"b\\",
                                        " text/x",
                                        "text/x ",
                                        "text/x; a=\"b\"c",
                                        "text/größe"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (mediatype_valid(wrong[i]))
            fail_msg("accepted: %s", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_types),
        cmocka_unit_test(wrong_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
