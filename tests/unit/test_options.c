#include "conf/options.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static bool is_default(const struct option *o)
{
    return strcmp(o->option_default, "-") != 0 && strcmp(o->option_default, "!") != 0;
}

static void names_are_given_once(void **state)
{
    const struct option *o;

    (void)state;
    for (unsigned i = 0; (o = options_row(i)) != NULL; i++) {
        if (options_find(o->option_group, o->option_name) != o)
            fail_msg("%s stands twice in the %s", o->option_name, options_group_name(o->option_group));
        assert_true(o->option_meaning[0] != '\0');
    }
    assert_null(options_find(OPTION_POOL, "listen"));
    assert_null(options_row(OPTIONS_N));
}

/* What stands in the table as the default would be accepted from a file. */
static void defaults_fit_their_own_rows(void **state)
{
    const struct option *o;

    (void)state;
    for (unsigned i = 0; (o = options_row(i)) != NULL; i++) {
        const char *quote = o->option_kind != KIND_COUNT && o->option_kind != KIND_FLAG ? "\"" : "";
        char text[256];
        config_t tree;

        if (!is_default(o) || o->option_kind == KIND_GROUPS)
            continue;
        config_init(&tree);
        snprintf(text, sizeof text, "v = %s%s%s;", quote, o->option_default, quote);
        assert_int_equal(config_read_string(&tree, text), CONFIG_TRUE);
        if (!fit_option(NULL, o, config_lookup(&tree, "v")))
            fail_msg("%s = %s does not fit", o->option_name, o->option_default);
        config_destroy(&tree);
    }
}

static void places_are_each_setting_s_own(void **state)
{
    const struct option *o;

    (void)state;
    for (unsigned i = 0; (o = options_row(i)) != NULL; i++) {
        const struct option *other;

        if (o->option_place == OPTION_NOWHERE)
            continue;
        for (unsigned j = 0; (other = options_row(j)) != NULL; j++)
            if (other != o && other->option_group == o->option_group && other->option_place == o->option_place)
                fail_msg("%s and %s share a place", o->option_name, other->option_name);
    }
}

static void groups_that_are_left_out_have_their_defaults(void **state)
{
    struct report r = {.report_file = "f"};
    struct memory m = {NULL};
    const struct reader rd = {.reader_report = &r, .reader_memory = &m};
    struct conf_pool pool = {0};
    struct conf_log log = {0};

    (void)state;
    options_read(&rd, OPTION_POOL, NULL, &pool);
    options_read(&rd, OPTION_LOG, NULL, &log);
    assert_int_equal(r.report_errors, 0); /* what must be given is missed in a group that is there */
    assert_null(pool.pool_name);
    assert_int_equal(pool.pool_batch_us, 500);
    assert_int_equal(log.log_level, LOG_LEVEL_INFO);
    assert_true(log.log_json);
    memory_free(&m);
}

static void choices_are_whole_words(void **state)
{
    const struct option *o = options_find(OPTION_LOG, "level");

    (void)state;
    assert_int_equal(fit_choice(o, "error"), LOG_LEVEL_ERROR);
    assert_int_equal(fit_choice(o, "debug"), LOG_LEVEL_DEBUG);
    assert_int_equal(fit_choice(o, "err"), -1);
    assert_int_equal(fit_choice(o, "error|warn"), -1);
    assert_int_equal(fit_choice(o, ""), -1);
    assert_int_equal(fit_choice(options_find(OPTION_ROUTE, "method"), "OPTIONS"), METHOD_OPTIONS);
    assert_int_equal(fit_choice(options_find(OPTION_ROUTE, "method"), "POST"), METHOD_POST);
    assert_int_equal(fit_choice(options_find(OPTION_ROUTE, "result"), "raw"), RESULT_RAW);
    assert_int_equal(fit_choice(options_find(OPTION_POOL, "plan"), "custom"), PLAN_CUSTOM);
}

static void names_that_are_near(void **state)
{
    static const struct {
        enum option_group group;
        const char *name, *near;
    } near[] = {
        {OPTION_TOP, "conections", "\"connections\""},
        {OPTION_TOP, "WORKERS", "\"workers\""},
        {OPTION_TOP, "user_", "\"user\""},
        {OPTION_LIMITS, "header", "\"headers\""},
        {OPTION_POOL, "maxinflight", "\"max_inflight\""},
        {OPTION_ROUTE, "parms", "\"params\""},
        {OPTION_ROUTE, "max_inflight", "\"max_inflight\" of a pool"},
        {OPTION_TOP, "zzz", NULL},
        {OPTION_TOP, "a-name-that-is-much-longer-than-any-setting-could-be-and-goes-on-and-on-and-on", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        char text[512] = "";
        bool found = near_names(near[i].group, near[i].name, text, sizeof text);

        if (found != (near[i].near != NULL) || (found && strstr(text, near[i].near) == NULL))
            fail_msg("%s: %s", near[i].name, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_given_once),          cmocka_unit_test(defaults_fit_their_own_rows),
        cmocka_unit_test(places_are_each_setting_s_own), cmocka_unit_test(groups_that_are_left_out_have_their_defaults),
        cmocka_unit_test(choices_are_whole_words),       cmocka_unit_test(names_that_are_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
