#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/route/exact.c"
#include "worker/route/router.h"

#define GET(path)                                        \
    {                                                    \
        .route_method = METHOD_GET, .route_path = (path) \
    }
#define POST(path)                                        \
    {                                                     \
        .route_method = METHOD_POST, .route_path = (path) \
    }

static struct conf_route routes[] = {
    GET("/"),
    GET("/items"),
    GET("/items/{id}"),
    GET("/items/top"),
    POST("/items/new"),
    GET("/a/{x}/b"),
    GET("/{any}"),
    GET("/a/b/c/{d}"),
    GET("/xy"),
    GET("/items/{id}/tags"),
    GET("/longer/one/than/eight/octets"),
};
static const struct conf conf = {
    .magic = CONF_MAGIC, .conf_routes = routes, .conf_routes_n = sizeof(routes) / sizeof(routes[0])};

/* Whatever it finds is what the router finds, and it finds what it is there for. */
static void it_agrees_with_the_router(void **state)
{
    static const struct {
        const char *path;
        int route; /* -1: the router's business */
        const char *argument;
    } cases[] = {
        {"/", 0, NULL},
        {"/items", 1, NULL},
        {"/items/77", 2, "77"},
        {"/items/top", 3, NULL},
        {"/items/", -1, NULL},
        {"/items/new", 2, "new"},
        {"/a/1/b", -1, NULL},
        {"/other", 6, "other"},
        {"/a/b/c/dd", 7, "dd"},
        {"/a/b/c/", -1, NULL},
        {"/xy", 8, NULL},
        {"/x", 6, "x"},
        {"/items/7/tags", -1, NULL},
        {"/longer/one/than/eight/octets", 10, NULL},
        {"//", -1, NULL},
        {"/a", 6, "a"},
        {"/nothing/here/at/all", -1, NULL},
    };
    struct exact *e = exact_new(&conf);
    struct router *r = router_new(&conf);
    size_t i;

    (void)state;
    assert_non_null(e);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct slice path = {cases[i].path, strlen(cases[i].path)}, argument = {NULL, 0};
        struct route_match m;
        int route = exact_find(e, path, &argument);

        assert_int_equal(route, cases[i].route);
        router_match(r, METHOD_GET, path, &m);
        if (route < 0)
            continue;
        assert_int_equal(m.match_route, route);
        if (cases[i].argument == NULL)
            continue;
        assert_int_equal(m.match_args_n, 1);
        assert_true(slice_eq(argument, (struct slice){cases[i].argument, strlen(cases[i].argument)}));
        assert_true(slice_eq(argument, m.match_args[0]));
    }
    free(e);
    router_free(&r);
}

static void no_routes_at_all(void **state)
{
    static const struct conf none = {.magic = CONF_MAGIC};
    struct exact *e = exact_new(&none);
    struct slice argument;

    (void)state;
    assert_int_equal(exact_find(e, SLICE_LITERAL("/"), &argument), -1);
    assert_int_equal(exact_find(e, SLICE_LITERAL("/items/1"), &argument), -1);
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_the_router),
        cmocka_unit_test(no_routes_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
