#include "ctl/table.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char *text;
static size_t text_len;

static void print(struct table *t)
{
    FILE *to;

    free(text);
    text = NULL;
    to = open_memstream(&text, &text_len);
    assert_non_null(to);
    table_print(&t, to);
    assert_null(t);
    assert_int_equal(fclose(to), 0);
}

static const char *const headings[] = {"NAME", ">N", "LAST", NULL};

static void test_aligned(void **state)
{
    struct table *t = table_new(headings);

    (void)state;
    table_text(t, "a");
    table_number(t, 12345);
    table_text(t, "x");
    table_text(t, "longer name");
    table_number(t, 7);
    table_text(t, "%s", "");
    print(t);
    assert_string_equal(text, "NAME             N  LAST\n"
                              "a            12345  x\n"
                              "longer name      7  \n");
}

static void test_no_rows(void **state)
{
    (void)state;
    print(table_new(headings));
    assert_string_equal(text, "NAME  N  LAST\n");
}

/* Width is in characters; what could move a cursor is not printed. */
static void test_utf8_and_controls(void **state)
{
    struct table *t = table_new(headings);

    (void)state;
    table_text(t, "\xc3\xa9t\xc3\xa9");
    table_number(t, 1);
    table_text(t, "a\033[2J\nb\x7f");
    print(t);
    assert_string_equal(text, "NAME  N  LAST\n"
                              "\xc3\xa9t\xc3\xa9   1  a?[2J?b?\n");
}

static void test_columns_added(void **state)
{
    struct table *t = table_new(headings);
    unsigned i;

    (void)state;
    table_column(t, ">MORE");
    for (i = 0; i < 400; i++)
        table_number(t, i);
    print(t);
    assert_non_null(strstr(text, "\n396   397  398    399\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_utf8_and_controls),
        cmocka_unit_test(test_columns_added),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    free(text);
    return rc;
}
