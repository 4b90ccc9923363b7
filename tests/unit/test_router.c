/* The route table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "worker/route/router.c"

static struct conf_route routes[3000];
static struct conf conf = {.magic = CONF_MAGIC, .conf_routes = routes};

static struct router *table(void **state, const char *const *lines)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

    conf.conf_routes_n = 0;
    for (; *lines != NULL; lines++) {
        struct conf_route *r = &routes[conf.conf_routes_n++];
        size_t n = strcspn(*lines, " ");
        *r = (struct conf_route){.route_method = METHODS_ROUTABLE, .route_path = *lines + n + 1};
        for (unsigned m = 0; m < METHODS_ROUTABLE; m++)
            if (strlen(methods[m]) == n && memcmp(methods[m], *lines, n) == 0)
                r->route_method = (enum conf_method)m;
        assert_true(r->route_method < METHODS_ROUTABLE);
    }
    *state = router_new(&conf);
    return *state;
}
#define TABLE(...) table(state, (const char *const[]){__VA_ARGS__, NULL})

static int teardown(void **state)
{
    struct router *r = *state;
    router_free(&r);
    return r == NULL ? 0 : -1;
}

static struct route_match match(const struct router *r, unsigned method, const char *path, size_t len)
{
    struct route_match m;
    char *exact = malloc(len != 0 ? len : 1); /* a sanitizer sees a look beyond */

    if (len != 0)
        memcpy(exact, path, len);
    memset(&m, 0x5a, sizeof m);
    router_match(r, method, (struct slice){exact, len}, &m);
    if (m.match_route >= 0)
        for (unsigned i = 0; i < m.match_args_n; i++) { /* as slices of `path` */
            ptrdiff_t at = m.match_args[i].slice_p - exact;
            assert_true(at > 0 && (size_t)at + m.match_args[i].slice_len <= len);
            m.match_args[i].slice_p = path + at;
        }
    free(exact);
    return m;
}
#define MATCH(r, method, path) match(r, METHOD_##method, path, strlen(path))

static void assert_route(struct route_match m, int route)
{
    assert_null(m.match_bad);
    assert_int_equal(m.match_route, route);
}

static void assert_arg(const struct route_match *m, unsigned i, const char *want)
{
    assert_true(i < m->match_args_n);
    assert_int_equal(m->match_args[i].slice_len, strlen(want));
    assert_memory_equal(m->match_args[i].slice_p, want, strlen(want));
}

#define BIT(method) (1u << METHOD_##method)

static void test_literals(void **state)
{
    struct router *r = TABLE("GET /pipeline", "GET /", "POST /a/b", "GET /a/b/", "GET /a//c", "GET /%zz");

    assert_route(MATCH(r, GET, "/pipeline"), 0);
    assert_int_equal(MATCH(r, GET, "/pipeline").match_args_n, 0);
    assert_route(MATCH(r, GET, "/"), 1);
    assert_route(MATCH(r, POST, "/a/b"), 2);
    assert_route(MATCH(r, GET, "/a/b/"), 3);
    assert_route(MATCH(r, GET, "/a//c"), 4);
    static const char *const others[] = {"/pipelin", "/pipelinex", "/PIPELINE", "/pipeline/", "//pipeline", "//",
                                         "/a",       "/a/",        "/a/b//",    "/a/c",       "/x",         "/a/b/c"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct route_match m = MATCH(r, GET, others[i]);
        assert_route(m, -1);
        assert_int_equal(m.match_allow, 0);
    }
}

static void test_not_a_path(void **state)
{
    struct router *r = TABLE("GET /", "GET /{a}");

    assert_route(match(r, METHOD_GET, "", 0), -1);
    assert_route(MATCH(r, GET, "*"), -1);
    assert_route(MATCH(r, GET, "a"), -1);
    struct route_match m;
    router_match(r, METHOD_CONNECT, (struct slice){0}, &m);
    assert_route(m, -1);
    assert_int_equal(m.match_allow, 0);
}

static void test_parameters(void **state)
{
    struct router *r = TABLE("GET /items/{id}", "GET /items/{id}/tags/{tag}", "GET /{a}/{b}/{c}");
    struct route_match m = MATCH(r, GET, "/items/42");

    assert_route(m, 0);
    assert_int_equal(m.match_args_n, 1);
    assert_arg(&m, 0, "42");
    m = MATCH(r, GET, "/items/a%2Fb/tags/x%20y");
    assert_route(m, 1);
    assert_int_equal(m.match_args_n, 2);
    assert_arg(&m, 0, "a%2Fb");
    assert_arg(&m, 1, "x%20y");
    m = MATCH(r, GET, "/items/2/3");
    assert_route(m, 2);
    assert_arg(&m, 0, "items");
    assert_arg(&m, 1, "2");
    assert_arg(&m, 2, "3");
}

/* An empty segment is no value. */
static void test_parameter_not_empty(void **state)
{
    struct router *r = TABLE("DELETE /items/{id}", "GET /{a}/x");

    assert_route(MATCH(r, DELETE, "/items/"), -1);
    assert_int_equal(MATCH(r, DELETE, "/items/").match_allow, 0);
    assert_route(MATCH(r, GET, "//x"), -1);
    assert_route(MATCH(r, DELETE, "/items"), -1);
}

static void test_literal_wins(void **state)
{
    struct router *r = TABLE("GET /items/{id}", "GET /items/new", "GET /{x}/new/{y}", "GET /items/new/old");
    struct route_match m = MATCH(r, GET, "/items/new");

    assert_route(m, 1);
    assert_int_equal(m.match_args_n, 0);
    assert_route(MATCH(r, GET, "/items/news"), 0);
    assert_route(MATCH(r, GET, "/items/new/old"), 3);
    m = MATCH(r, GET, "/items/new/older"); /* back from /items/new/ to {x} */
    assert_route(m, 2);
    assert_int_equal(m.match_args_n, 2);
    assert_arg(&m, 0, "items");
    assert_arg(&m, 1, "older");
}

static void test_backtracking_restores_arguments(void **state)
{
    struct router *r = TABLE("GET /a/{b}/c/{d}/e", "GET /{a}/{b}/{c}/{d}/{e}");
    struct route_match m = MATCH(r, GET, "/a/2/c/4/5");

    assert_route(m, 1);
    assert_int_equal(m.match_args_n, 5);
    assert_arg(&m, 0, "a");
    assert_arg(&m, 1, "2");
    assert_arg(&m, 2, "c");
    assert_arg(&m, 3, "4");
    assert_arg(&m, 4, "5");
}

static void test_methods(void **state)
{
    struct router *r = TABLE("GET /a", "POST /a", "HEAD /b", "GET /b", "PUT /c", "OPTIONS /d", "PATCH /d");

    assert_route(MATCH(r, GET, "/a"), 0);
    assert_route(MATCH(r, HEAD, "/a"), 0);
    assert_route(MATCH(r, POST, "/a"), 1);
    assert_route(MATCH(r, HEAD, "/b"), 2);
    assert_route(MATCH(r, GET, "/b"), 3);
    assert_route(MATCH(r, HEAD, "/c"), -1);
    assert_route(MATCH(r, OPTIONS, "/d"), 5);
    struct route_match m = MATCH(r, DELETE, "/a");
    assert_route(m, -1);
    assert_int_equal(m.match_allow, BIT(GET) | BIT(HEAD) | BIT(POST) | BIT(OPTIONS));
    m = MATCH(r, OPTIONS, "/a");
    assert_route(m, -1);
    assert_int_equal(m.match_allow, BIT(GET) | BIT(HEAD) | BIT(POST) | BIT(OPTIONS));
    assert_int_equal(MATCH(r, GET, "/c").match_allow, BIT(PUT) | BIT(OPTIONS));
    assert_int_equal(MATCH(r, GET, "/d").match_allow, BIT(PATCH) | BIT(OPTIONS));
    /* methods that no route can have */
    m = match(r, METHOD_TRACE, "/a", 2);
    assert_route(m, -1);
    assert_int_equal(m.match_allow, BIT(GET) | BIT(HEAD) | BIT(POST) | BIT(OPTIONS));
    assert_int_equal(match(r, METHOD_UNKNOWN, "/x", 2).match_allow, 0);
}

/* A literal path without the method does not hide a parameter's route with it, and Allow names both. */
static void test_methods_over_routes(void **state)
{
    struct router *r = TABLE("GET /items/new", "PUT /items/{id}", "POST /{x}/{y}");
    struct route_match m = MATCH(r, PUT, "/items/new");

    assert_route(m, 1);
    assert_arg(&m, 0, "new");
    assert_route(MATCH(r, POST, "/items/new"), 2);
    m = MATCH(r, DELETE, "/items/new");
    assert_route(m, -1);
    assert_int_equal(m.match_allow, BIT(GET) | BIT(HEAD) | BIT(PUT) | BIT(POST) | BIT(OPTIONS));
    /* HEAD is the literal's GET before it is anybody's HEAD */
    r = (teardown(state), TABLE("GET /items/new", "HEAD /items/{id}"));
    assert_route(MATCH(r, HEAD, "/items/new"), 0);
    assert_route(MATCH(r, HEAD, "/items/1"), 1);
}

static void test_escapes(void **state)
{
    struct router *r =
        TABLE("GET /a b/c", "GET /J\xc3\xbcrgen", "GET /x/{y}", "GET /a/b", "GET /pipeline", "GET /x/ z");

    assert_route(MATCH(r, GET, "/a%20b/c"), 0);
    assert_route(MATCH(r, GET, "/%61%20%62/%63"), 0);
    assert_route(MATCH(r, GET, "/J%C3%BCrgen"), 1);
    assert_route(MATCH(r, GET, "/J%c3%bcrgen"), 1);
    assert_route(MATCH(r, GET, "/J\xc3\xbcrgen"), 1);
    assert_route(MATCH(r, GET, "/%70ipeline"), 4);
    assert_route(MATCH(r, GET, "/x/%20z"), 5);
    assert_route(MATCH(r, GET, "/x/%20"), 2);
    /* an escaped slash is no separator, a plus no space */
    assert_route(MATCH(r, GET, "/a%2Fb"), -1);
    assert_route(MATCH(r, GET, "/a+b/c"), -1);
    assert_route(MATCH(r, GET, "/%2e%2e/pipeline"), -1);
}

static void test_bad_paths(void **state)
{
    struct router *r = TABLE("GET /x/{y}", "GET /{a}");
    static const char *const bads[] = {"/x/%",       "/x/%4",   "/x/%zz",
                                       "/x/%00",     "/x/%ff",  "/nowhere/at/all/%zz",
                                       "/x/%C3/%BC", "/x/\xff", "/a-long-enough-path/%zz"};

    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct route_match m = MATCH(r, GET, bads[i]);
        assert_non_null(m.match_bad);
        assert_int_equal(m.match_route, -1);
        assert_int_equal(m.match_allow, 0);
    }
    assert_non_null(match(r, METHOD_GET, "/x/a\0b", 6).match_bad);
}

static void test_depth(void **state)
{
    char path[2 * (ROUTER_SEGMENTS_MAX + 1) + 1] = "", route[4 * ROUTER_SEGMENTS_MAX + 8] = "GET ";

    for (unsigned i = 0; i < ROUTER_SEGMENTS_MAX; i++) {
        strcat(path, "/a");
        strcat(route, "/{p}");
    }
    struct router *r = TABLE(route);
    struct route_match m = MATCH(r, GET, path);
    assert_route(m, 0);
    assert_int_equal(m.match_args_n, ROUTER_SEGMENTS_MAX);
    strcat(path, "/a");
    assert_route(MATCH(r, GET, path), -1);
}

/* Many literals side by side: each is found, and their neighbours are not. */
static void test_many(void **state)
{
    static char names[2000][32];

    for (unsigned i = 0; i < 2000; i++) {
        sprintf(names[i], i % 2 ? "/v1/%u" : "/v1/resource-%u/x", i);
        routes[i] = (struct conf_route){.route_method = METHOD_GET, .route_path = names[i]};
    }
    conf.conf_routes_n = 2000;
    struct router *r = *state = router_new(&conf);
    for (unsigned i = 0; i < 2000; i++)
        assert_route(MATCH(r, GET, names[i]), (int)i);
    assert_route(MATCH(r, GET, "/v1/2"), -1);
    assert_route(MATCH(r, GET, "/v1/resource-1/x"), -1);
    assert_route(MATCH(r, GET, "/v1/2001"), -1);
}

/* All lengths, for the comparison in pieces. */
static void test_lengths(void **state)
{
    static char names[40][48];

    for (unsigned i = 0; i < 40; i++) {
        memset(names[i], 'x', i + 1);
        names[i][0] = '/';
        routes[i] = (struct conf_route){.route_method = METHOD_GET, .route_path = names[i]};
    }
    conf.conf_routes_n = 40;
    struct router *r = *state = router_new(&conf);
    for (unsigned i = 0; i < 40; i++) {
        assert_route(MATCH(r, GET, names[i]), (int)i);
        for (unsigned at = 1; at <= i; at++) {
            char other[48];
            strcpy(other, names[i]);
            other[at] = 'y';
            assert_route(MATCH(r, GET, other), -1);
        }
    }
}

/* The table that makes naive matchers explode: at each of 12 levels both a literal and a parameter fit. The work is
 * bounded by the number of nodes: counted, not timed. */
static void test_hostile(void **state)
{
    static char names[2048][64];

    for (unsigned i = 0; i < 2048; i++) {
        names[i][0] = '\0';
        for (unsigned bit = 0; bit < 11; bit++)
            strcat(names[i], i >> bit & 1 ? "/{p}" : "/a");
        strcat(names[i], "/end");
        routes[i] = (struct conf_route){.route_method = METHOD_GET, .route_path = names[i]};
    }
    conf.conf_routes_n = 2048;
    struct router *r = *state = router_new(&conf);
    assert_int_equal(r->router_nodes_n, 1 + 4094 + 2048);
    assert_route(MATCH(r, GET, "/a/a/a/a/a/a/a/a/a/a/a/end"), 0);
    assert_route(MATCH(r, GET, "/a/a/a/a/a/a/a/a/a/a/a/no"), -1);
    assert_route(MATCH(r, GET, "/b/b/b/b/b/b/b/b/b/b/b/end"), 2047);
    char deep[4 * ROUTER_SEGMENTS_MAX] = "";
    for (unsigned i = 0; i < ROUTER_SEGMENTS_MAX; i++)
        strcat(deep, "/a");
    assert_route(MATCH(r, GET, deep), -1);
}

static void test_empty_table(void **state)
{
    conf.conf_routes_n = 0;
    struct router *r = *state = router_new(&conf);
    assert_route(MATCH(r, GET, "/"), -1);
    assert_int_equal(MATCH(r, GET, "/").match_allow, 0);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_literals),     TEST(test_not_a_path),
        TEST(test_parameters),   TEST(test_parameter_not_empty),
        TEST(test_literal_wins), TEST(test_backtracking_restores_arguments),
        TEST(test_methods),      TEST(test_methods_over_routes),
        TEST(test_escapes),      TEST(test_bad_paths),
        TEST(test_depth),        TEST(test_many),
        TEST(test_lengths),      TEST(test_hostile),
        TEST(test_empty_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
