/* Who leads, who follows, and who takes over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/handler/share.c"

static struct share *share;
static struct request *requests[600];

static struct request *asking(const char *first, const char *second)
{
    struct request *r = calloc(1, sizeof *r + 2 * sizeof r->req_values[0]);
    unsigned i;

    assert_non_null(r);
    r->magic = REQUEST_MAGIC;
    (void)request_query(r);
    r->req_values[0] = (struct param_value){.value_p = first, .value_len = (uint32_t)strlen(first)};
    r->req_values[1] = (struct param_value){.value_p = second, .value_len = (uint32_t)strlen(second)};
    for (i = 0; requests[i] != NULL; i++)
        ;
    return requests[i] = r;
}

static int setup(void **state)
{
    (void)state;
    share = share_new(2);
    assert_non_null(share);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    share_free(&share);
    assert_null(share);
    for (unsigned i = 0; requests[i] != NULL; i++) {
        free(requests[i]);
        requests[i] = NULL;
    }
    return 0;
}

static void equal_ones_follow_in_order(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x");

    (void)state;
    assert_false(share_join(share, a));
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    share_close(a);
    assert_ptr_equal(share_next(a), b);
    assert_ptr_equal(share_next(a), c);
    assert_null(share_next(a));
}

static void others_do_not(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "y"), *c = asking("1x", ""), *d = asking("1", "x");

    (void)state;
    share_lead(share, a);
    assert_false(share_join(share, b));
    assert_false(share_join(share, c));
    d->req_values[0].value_form = PARAM_PERCENT; /* the same octets, another value */
    assert_false(share_join(share, d));
    d->req_values[0].value_form = 0;
    d->req_values[1].value_is_default = 1;
    assert_false(share_join(share, d));
}

static void nobody_follows_what_is_over(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x");

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    share_close(a);
    assert_false(share_join(share, c)); /* the next question, asked while the answer is handed out */
    share_lead(share, c);
    assert_ptr_equal(share_next(a), b);
    assert_null(share_next(a));
    assert_true(share_join(share, b));
    share_close(c);
    assert_ptr_equal(share_next(c), b);
    assert_null(share_next(c));
}

static void a_follower_leaves(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    assert_true(share_leave(share, b, &heir));
    assert_null(heir);
    share_close(a);
    assert_ptr_equal(share_next(a), c);
    assert_null(share_next(a));
}

static void the_leader_leaves(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x"), *d = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    assert_false(share_leave(share, a, &heir));
    assert_ptr_equal(heir, b);
    assert_int_equal(a->req_role, SHARE_ALONE); /* its answer, which comes late, is nobody's */
    assert_false(share_join(share, d));         /* nobody asks yet */
    share_lead(share, b);
    assert_true(share_join(share, d));
    share_close(b);
    assert_ptr_equal(share_next(b), c);
    assert_ptr_equal(share_next(b), d);
    assert_null(share_next(b));
}

static void an_heir_is_refused(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    assert_false(share_leave(share, a, &heir));
    assert_ptr_equal(heir, b);
    share_close(b);
    assert_ptr_equal(share_next(b), c);
    assert_null(share_next(b));
}

static void an_heir_leaves_too(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    assert_false(share_leave(share, a, &heir));
    assert_true(share_leave(share, b, &heir));
    assert_ptr_equal(heir, c);
    assert_true(share_leave(share, c, &heir));
    assert_null(heir);
    share_lead(share, b);
    assert_true(share_join(share, a));
}

static void who_is_answered_may_leave(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *c = asking("1", "x"), *d = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_true(share_join(share, b));
    assert_true(share_join(share, c));
    assert_true(share_join(share, d));
    share_close(a);
    share_answered(share, share_next(a));
    share_answered(share, share_next(a));
    share_answered(share, share_next(a));
    assert_null(share_next(a));
    assert_false(share_leave(share, a, &heir)); /* while others are still to be finished */
    assert_null(heir);
    assert_ptr_equal(share_take(share), b);
    assert_true(share_leave(share, c, &heir));
    assert_null(heir);
    assert_ptr_equal(share_take(share), d);
    assert_null(share_take(share));
}

static void as_many_questions_as_there_are(void **state)
{
    static char text[250][4];
    struct request *leaders[250];
    unsigned i;

    (void)state;
    for (i = 0; i < 250; i++) {
        (void)snprintf(text[i], sizeof text[i], "%u", i);
        leaders[i] = asking(text[i], "x");
        assert_false(share_join(share, leaders[i]));
        share_lead(share, leaders[i]);
    }
    for (i = 0; i < 250; i++) {
        struct request *follower = asking(text[i], "x");

        assert_true(share_join(share, follower));
        share_close(leaders[i]);
        assert_ptr_equal(share_next(leaders[i]), follower);
        assert_null(share_next(leaders[i]));
    }
}

static void the_only_one_leaves(void **state)
{
    struct request *a = asking("1", "x"), *b = asking("1", "x"), *heir;

    (void)state;
    share_lead(share, a);
    assert_false(share_leave(share, a, &heir));
    assert_null(heir);
    assert_false(share_join(share, b));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(equal_ones_follow_in_order),  TEST(others_do_not),
        TEST(nobody_follows_what_is_over), TEST(a_follower_leaves),
        TEST(the_leader_leaves),           TEST(the_only_one_leaves),
        TEST(an_heir_is_refused),          TEST(an_heir_leaves_too),
        TEST(who_is_answered_may_leave),   TEST(as_many_questions_as_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
