/* The head's parser: what it makes of requests, and that cutting them makes no difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/http/parse.c"

static const struct conf_limits limits = {
    .limit_request_line = 8192, .limit_header_bytes = 32768, .limit_headers = 100, .limit_body_bytes = 1 << 20};

struct octets {
    const char *p;
    size_t len;
};
#define S(text)                  \
    {                            \
        (text), sizeof(text) - 1 \
    }
#define REST " HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define HEAD GET "Host: a\r\n"

/* --- all that a parse yields, without addresses ------------------------------------------------------------------- */

struct seen {
    int state;
    struct http_parser parser;
    struct http_request request;
    long at[9]; /* of each slice: its offset; -1: absent; -2: not in the buffer */
};

static struct seen see(const struct http_parser *p, const struct http_request *rq, const char *base, size_t len)
{
    struct seen s = {.state = p->parser_state, .parser = *p, .request = *rq};
    struct slice *slices[] = {&s.request.rq_method_name,  &s.request.rq_target, &s.request.rq_path,
                              &s.request.rq_query,        &s.request.rq_fields, &s.request.rq_host,
                              &s.request.rq_content_type, &s.request.rq_cookie, &s.request.rq_body};
    for (size_t i = 0; i < 9; i++) {
        const char *at = slices[i]->slice_p;
        s.at[i] = at == NULL ? -1 : at >= base && at + slices[i]->slice_len <= base + len ? at - base : -2;
        slices[i]->slice_p = NULL;
    }
    if (s.state == HTTP_PARSE_ERROR) { /* where exactly reading stopped may differ */
        s.parser.parser_line = s.parser.parser_scan = s.parser.parser_fields_at = s.parser.parser_seen = 0;
        s.request = (struct http_request){.rq_method = s.request.rq_method};
        memset(s.at, 0, sizeof s.at);
    }
    return s;
}

static void assert_same(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->parser.parser_status, b->parser.parser_status);
    assert_int_equal(a->parser.parser_error, b->parser.parser_error);
    assert_ptr_equal(a->parser.parser_why, b->parser.parser_why);
    assert_int_equal(a->parser.parser_head, b->parser.parser_head);
    assert_memory_equal(a->at, b->at, sizeof a->at);
    assert_int_equal(a->request.rq_method, b->request.rq_method);
    assert_int_equal(a->request.rq_target.slice_len, b->request.rq_target.slice_len);
    assert_int_equal(a->request.rq_path.slice_len, b->request.rq_path.slice_len);
    assert_int_equal(a->request.rq_query.slice_len, b->request.rq_query.slice_len);
    assert_int_equal(a->request.rq_fields.slice_len, b->request.rq_fields.slice_len);
    assert_int_equal(a->request.rq_host.slice_len, b->request.rq_host.slice_len);
    assert_int_equal(a->request.rq_content_type.slice_len, b->request.rq_content_type.slice_len);
    assert_int_equal(a->request.rq_cookie.slice_len, b->request.rq_cookie.slice_len);
    assert_int_equal(a->request.rq_content_length, b->request.rq_content_length);
    assert_int_equal(a->request.rq_fields_n, b->request.rq_fields_n);
    assert_int_equal(a->request.rq_minor, b->request.rq_minor);
    assert_int_equal(a->request.rq_has_length, b->request.rq_has_length);
    assert_int_equal(a->request.rq_chunked, b->request.rq_chunked);
    assert_int_equal(a->request.rq_keep_alive, b->request.rq_keep_alive);
    assert_int_equal(a->request.rq_expect_continue, b->request.rq_expect_continue);
    assert_int_equal(a->request.rq_cookies_more, b->request.rq_cookies_more);
    assert_int_equal(a->request.rq_length_due, b->request.rq_length_due);
    assert_int_equal(a->request.rq_coded, b->request.rq_coded);
}

/* Goes on in a buffer of its own, exactly as long as what is there: a sanitizer sees a look beyond it. */
static char *feed(struct http_parser *p, struct http_request *rq, char *old, const char *text, size_t len,
                  const struct conf_limits *l)
{
    char *base = malloc(len != 0 ? len : 1);
    memcpy(base, text, len);
    if (old != NULL)
        http_request_rebase(rq, old, base);
    free(old);
    enum http_parse_state state = http_parse(p, rq, base, (uint32_t)len, l);
    assert_int_equal(state, p->parser_state);
    return base;
}

static struct seen parse_in_steps(const char *text, size_t len, size_t first, size_t step, const struct conf_limits *l)
{
    struct http_parser p;
    struct http_request rq;
    char *base = NULL;

    memset(&rq, 0x5a, sizeof rq); /* the parser relies on nothing that was there */
    http_parser_init(&p);
    for (size_t n = first; p.parser_state < HTTP_PARSE_COMPLETE; n += step) {
        base = feed(&p, &rq, base, text, n < len ? n : len, l);
        if (n >= len)
            break;
    }
    struct seen s = see(&p, &rq, base, len);
    free(base);
    return s;
}

static struct seen parse_all_ways(const char *text, size_t len, const struct conf_limits *l)
{
    struct seen whole = parse_in_steps(text, len, len, 1, l);
    size_t far = len < 400 ? 1 : len / 50; /* long ones: not at every octet */

    for (size_t cut = 0; cut < len; cut += far) {
        struct seen cut_once = parse_in_steps(text, len, cut, len - cut, l);
        assert_same(&whole, &cut_once);
    }
    struct seen bits = parse_in_steps(text, len, far, far, l);
    assert_same(&whole, &bits);
    return whole;
}

/* --- requests that are fine --------------------------------------------------------------------------------------- */

struct good {
    struct octets text;
    const char *path, *query, *host, *type, *cookie;
    uint64_t length;
    unsigned method, fields;
    bool old, has_length, chunked, close, expect, more_cookies, due;
};

static const struct good goods[] = {
    {S("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), .path = "/", .host = "a", .fields = 1},
    {S("GET /items/1 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"),
     .path = "/items/1", .host = "localhost:8080", .fields = 3},
    {S("\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n"), .path = "/a", .host = "a", .fields = 1},
    {S("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\n"), .path = "/", .host = "a", .fields = 1},
    /* versions */
    {S("GET / HTTP/1.0\r\n\r\n"), .path = "/", .old = true, .close = true},
    {S("GET / HTTP/1.0\r\nConnection: foo, keep-alive\r\n\r\n"), .path = "/", .old = true, .fields = 1},
    {S("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"), .path = "/", .old = true,
     .close = true, .fields = 2},
    {S("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), .path = "/", .host = "a", .fields = 1},
    {S("GET / HTTP/1.9\r\nHost: a\r\n\r\n"), .path = "/", .host = "a", .fields = 1},
    /* methods */
    {S("HEAD /" REST), .method = METHOD_HEAD, .path = "/", .host = "a", .fields = 1},
    {S("POST /" REST), .method = METHOD_POST, .path = "/", .host = "a", .fields = 1, .due = true},
    {S("PUT /" REST), .method = METHOD_PUT, .path = "/", .host = "a", .fields = 1, .due = true},
    {S("PATCH /" REST), .method = METHOD_PATCH, .path = "/", .host = "a", .fields = 1, .due = true},
    {S("DELETE /" REST), .method = METHOD_DELETE, .path = "/", .host = "a", .fields = 1},
    {S("OPTIONS /" REST), .method = METHOD_OPTIONS, .path = "/", .host = "a", .fields = 1},
    {S("TRACE /" REST), .method = METHOD_TRACE, .path = "/", .host = "a", .fields = 1},
    {S("CONNECT a:80" REST), .method = METHOD_CONNECT, .host = "a", .fields = 1, .close = true},
    {S("get /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    {S("GE /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    {S("GETS /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    {S("X /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    {S("M-SEARCH /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    {S("!#$%&'*+-.^_`|~09azAZ /" REST), .method = METHOD_UNKNOWN, .path = "/", .host = "a", .fields = 1},
    /* targets */
    {S("GET /a/b%2Fc/ HTTP/1.1\r\nHost: a\r\n\r\n"), .path = "/a/b%2Fc/", .host = "a", .fields = 1},
    {S("GET //x" REST), .path = "//x", .host = "a", .fields = 1},
    {S("GET /?" REST), .path = "/", .query = "", .host = "a", .fields = 1},
    {S("GET /-._~!$&'()*+,;=:@%20aZ09?/?:@-._~!$&'()*+,;=%41[]{}|^`\\" REST), .path = "/-._~!$&'()*+,;=:@%20aZ09",
     .query = "/?:@-._~!$&'()*+,;=%41[]{}|^`\\", .host = "a", .fields = 1},
    {S("GET /a_long_path_with_more_than_sixteen_octets/and-then-some?and=a&long=query&with=more&than=sixteen" REST),
     .path = "/a_long_path_with_more_than_sixteen_octets/and-then-some",
     .query = "and=a&long=query&with=more&than=sixteen", .host = "a", .fields = 1},
    {S("GET http://b:80/x?y" REST), .path = "/x", .query = "y", .host = "b:80", .fields = 1},
    {S("GET HTTP://B" REST), .path = "/", .host = "B", .fields = 1},
    {S("GET http://b?y" REST), .path = "/", .query = "y", .host = "b", .fields = 1},
    {S("OPTIONS *" REST), .method = METHOD_OPTIONS, .path = "*", .host = "a", .fields = 1},
    {S("OPTIONS http://b" REST), .method = METHOD_OPTIONS, .path = "*", .host = "b", .fields = 1},
    {S("OPTIONS http://b/" REST), .method = METHOD_OPTIONS, .path = "/", .host = "b", .fields = 1},
    {S("OPTIONS http://b?" REST), .method = METHOD_OPTIONS, .path = "/", .query = "", .host = "b", .fields = 1},
    /* Host */
    {S(GET "hOsT:\t a \t\r\n\r\n"), .path = "/", .host = "a", .fields = 1},
    {S(GET "Host:\r\n\r\n"), .path = "/", .host = "", .fields = 1},
    {S(GET "Host: a!$&'()*+,;=%20b~_.-9:\r\n\r\n"), .path = "/", .host = "a!$&'()*+,;=%20b~_.-9:", .fields = 1},
    {S(GET "Host: sixteen-octets.a\r\n\r\n"), .path = "/", .host = "sixteen-octets.a", .fields = 1},
    {S(GET "Host: sixteen-octets.ab\r\n\r\n"), .path = "/", .host = "sixteen-octets.ab", .fields = 1},
    {S(GET "Host: [::1]:8080\r\n\r\n"), .path = "/", .host = "[::1]:8080", .fields = 1},
    {S(GET "Host: [2001:db8::192.0.2.1]\r\n\r\n"), .path = "/", .host = "[2001:db8::192.0.2.1]", .fields = 1},
    {S(GET "Host: [v1.a:b]\r\n\r\n"), .path = "/", .host = "[v1.a:b]", .fields = 1},
    {S(GET "X-A: 1\r\nHost: a\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    /* fields */
    {S(HEAD "!#$%&'*+-.^_`|~09azAZ: v\r\n1st:v\r\nEmpty:\r\nTabs:\ta\tb\t\r\nHigh: \x80\xff\r\n\r\n"), .path = "/",
     .host = "a", .fields = 6},
    {S(HEAD "A-Name-Of-More-Than-Sixteen-Letters: v\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    {S(HEAD "Content-Type: text/a; b=\"c\" \r\nCookie: a=b\r\n\r\n"), .path = "/", .host = "a",
     .type = "text/a; b=\"c\"", .cookie = "a=b", .fields = 3},
    {S(HEAD "Cookie:\r\ncookie: c=d\r\n\r\n"), .path = "/", .host = "a", .cookie = "", .more_cookies = true,
     .fields = 3},
    /* names that are almost known */
    {S(HEAD "Hosx: 1\r\nCookiE2: 1\r\nExpecs: 1\r\nConnectioo: close\r\nContent-Typf: 1\r\nContent_Length: 1\r\n"
            "Content-Lengti: 1\r\nTransfer_Encoding: x\r\nTransfer-Encodinh: x\r\n\r\n"),
     .path = "/", .host = "a", .fields = 10},
    /* bodies */
    {S("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), .method = METHOD_POST, .path = "/", .host = "a",
     .has_length = true, .fields = 2},
    {S("POST / HTTP/1.1\r\nHost: a\r\ncontent-length:\t0012 \r\n\r\n"), .method = METHOD_POST, .path = "/", .host = "a",
     .has_length = true, .length = 12, .fields = 2},
    {S(HEAD "Content-Length: 18446744073709551614\r\n\r\n"), .path = "/", .host = "a", .has_length = true,
     .length = UINT64_MAX - 1, .fields = 2},
    {S(HEAD "Content-Length: 18446744073709551615\r\n\r\n"), .path = "/", .host = "a", .has_length = true,
     .length = UINT64_MAX, .fields = 2},
    {S(HEAD "Content-Length: 18446744073709551616\r\n\r\n"), .path = "/", .host = "a", .has_length = true,
     .length = UINT64_MAX, .fields = 2},
    {S(HEAD "Content-Length: 184467440737095516150000000000\r\n\r\n"), .path = "/", .host = "a", .has_length = true,
     .length = UINT64_MAX, .fields = 2},
    {S("PUT / HTTP/1.1\r\nHost: a\r\ntRANSFER-eNCODING:\tcHuNkEd\t\r\n\r\n"), .method = METHOD_PUT, .path = "/",
     .host = "a", .chunked = true, .fields = 2},
    /* Connection */
    {S(HEAD "Connection: close\r\n\r\n"), .path = "/", .host = "a", .fields = 2, .close = true},
    {S(HEAD "cOnNeCtIoN:CLOSE\r\n\r\n"), .path = "/", .host = "a", .fields = 2, .close = true},
    {S(HEAD "Connection: keep-alive , , close,x\r\n\r\n"), .path = "/", .host = "a", .fields = 2, .close = true},
    {S(HEAD "Connection: close\r\nConnection: keep-alive\r\n\r\n"), .path = "/", .host = "a", .fields = 3,
     .close = true},
    {S(HEAD "Connection: closed, clos, x-close\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    {S(HEAD "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), .path = "/", .host = "a", .fields = 3},
    {S(HEAD "Connection: Keep-Alive\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    {S(HEAD "Connection:\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    /* Expect */
    {S(HEAD "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n"), .path = "/", .host = "a", .fields = 3,
     .has_length = true, .length = 1, .expect = true},
    {S(HEAD "Expect: , 100-continue,\r\nTransfer-Encoding: chunked\r\n\r\n"), .path = "/", .host = "a", .fields = 3,
     .chunked = true, .expect = true},
    {S(HEAD "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"), .path = "/", .host = "a", .fields = 3,
     .has_length = true},
    {S(HEAD "Expect: 100-continue\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    {S(HEAD "Expect:\r\n\r\n"), .path = "/", .host = "a", .fields = 2},
    {S("GET / HTTP/1.0\r\nExpect: 100-continue, x\r\nContent-Length: 1\r\n\r\n"), .path = "/", .fields = 2, .old = true,
     .close = true, .has_length = true, .length = 1},
};

static void assert_slice(struct slice s, const char *want)
{
    if (want == NULL) {
        assert_null(s.slice_p);
        return;
    }
    assert_non_null(s.slice_p);
    assert_int_equal(s.slice_len, strlen(want));
    assert_memory_equal(s.slice_p, want, s.slice_len);
}

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
        const struct good *g = &goods[i];
        struct http_parser p;
        struct http_request rq;

        http_parser_init(&p);
        if (http_parse(&p, &rq, g->text.p, (uint32_t)g->text.len, &limits) != HTTP_PARSE_COMPLETE)
            fail_msg("not accepted (%s): %s", p.parser_why, g->text.p);
        assert_int_equal(rq.rq_method, g->method);
        assert_slice(rq.rq_path, g->path);
        assert_slice(rq.rq_query, g->query);
        assert_slice(rq.rq_host, g->host);
        assert_slice(rq.rq_content_type, g->type);
        assert_slice(rq.rq_cookie, g->cookie);
        assert_null(rq.rq_body.slice_p);
        assert_int_equal(rq.rq_minor, !g->old);
        assert_int_equal(rq.rq_has_length, g->has_length);
        assert_true(rq.rq_content_length == g->length);
        assert_int_equal(rq.rq_chunked, g->chunked);
        assert_int_equal(rq.rq_keep_alive, !g->close);
        assert_int_equal(rq.rq_expect_continue, g->expect);
        assert_int_equal(rq.rq_cookies_more, g->more_cookies);
        assert_int_equal(rq.rq_length_due, g->due);
        assert_int_equal(rq.rq_fields_n, g->fields);
        const char *head_end = strstr(g->text.p + (g->text.p[0] == '\r' ? 4 : 0), "\r\n\r\n") + 4;
        assert_int_equal(p.parser_head, head_end - g->text.p);
        assert_memory_equal(g->text.p + p.parser_head - 2, "\r\n", 2);
        assert_ptr_equal(rq.rq_fields.slice_p + rq.rq_fields.slice_len, g->text.p + p.parser_head - 2);

        uint32_t at = 0;
        unsigned n = 0;
        struct slice name, value;
        while (http_field_next(&rq, &at, &name, &value))
            n++;
        assert_int_equal(n, g->fields);
        /* Asked again, it says the same. */
        assert_int_equal(http_parse(&p, &rq, g->text.p, (uint32_t)g->text.len, &limits), HTTP_PARSE_COMPLETE);
        (void)parse_all_ways(g->text.p, g->text.len, &limits);
    }
}

/* --- requests that are not ---------------------------------------------------------------------------------------- */

struct bad {
    unsigned status;
    struct octets text;
};

static const struct bad bads[] = {
    /* the request line */
    {400, S("\nGET /" REST)},
    {400, S("\r\rGET /" REST)},
    {400, S(" GET /" REST)},
    {400, S("   \r\n\r\n")},
    {400, S("GET\r\n")},
    {400, S("GET /\r\n")},
    {400, S("GET / HTTP/1.1\nHost: a\r\n\r\n")},
    {400, S("GET / HTTP/1.1\rHost: a\r\n\r\n")},
    {400, S("GET  / HTTP/1.1\r\n")},
    {400, S("GET /  HTTP/1.1\r\n")},
    {400, S("GET / HTTP/1.1 \r\n")},
    {400, S("GET\t/ HTTP/1.1\r\n")},
    {400, S("GET /\tHTTP/1.1\r\n")},
    {400, S("GET\f/ HTTP/1.1\r\n")},
    {400, S("GET /a b HTTP/1.1\r\n")},
    {400, S("GET HTTP/1.1\r\n")},
    {400, S("/index HTTP/1.1\r\n")},
    {400, S(":GET / HTTP/1.1\r\n")},
    {400, S("G@T / HTTP/1.1\r\n")},
    {400, S("G\0T / HTTP/1.1\r\n")},
    {400, S("G\xc9T / HTTP/1.1\r\n")},
    {400, S("\x16\x03\x01\x02")},
    {400, S("GET / HTTP/1.1\0\r\n")},
    /* versions */
    {505, S("GET / HTTP/2.0\r\n")},
    {505, S("PRI * HTTP/2.0\r\n")},
    {505, S("GET / HTTP/0.9\r\n")},
    {505, S("GET / HTTP/9.9\r\n")},
    {400, S("GET / http/1.1\r\n")},
    {400, S("GET / HtTP/1.1\r\n")},
    {400, S("GET / HTTP/1.\r\n")},
    {400, S("GET / HTTP/.1\r\n")},
    {400, S("GET / HTTP/11\r\n")},
    {400, S("GET / HTTP/1,1\r\n")},
    {400, S("GET / HTTP/1.10\r\n")},
    {400, S("GET / HTTP/1.1.1\r\n")},
    {400, S("GET / HTTP/01.1\r\n")},
    {400, S("GET / HTTP/1.x\r\n")},
    {400, S("GET / HTTP/x.1\r\n")},
    {400, S("GET / HTTP/4294967297.1\r\n")},
    {400, S("GET / XTTP/1.1\r\n")},
    {400, S("GET /HTTP/1.1\r\n")},
    {400, S("GET /xHTTP/2.0\r\n")},
    /* targets */
    {400, S("GET x" REST)},
    {400, S("GET a:80" REST)},
    {400, S("GET *" REST)},
    {400, S("POST *" REST)},
    {400, S("FOO *" REST)},
    {400, S("OPTIONS */x" REST)},
    {400, S("OPTIONS **" REST)},
    {400, S("GET /#x" REST)},
    {400, S("GET /?a#x" REST)},
    {400, S("GET /\"" REST)},
    {400, S("GET /<" REST)},
    {400, S("GET /\\" REST)},
    {400, S("GET /^" REST)},
    {400, S("GET /`" REST)},
    {400, S("GET /{a}" REST)},
    {400, S("GET /a|b" REST)},
    {400, S("GET /[" REST)},
    {400, S("GET /\x7f" REST)},
    {400, S("GET /\x80" REST)},
    {400, S("GET /\xc3\xa9" REST)},
    {400, S("GET /?\"" REST)},
    {400, S("GET /?<" REST)},
    {400, S("GET /?\xe9" REST)},
    {400, S("GET /\0" REST)},
    {400, S("GET /?a\0b" REST)},
    {400, S("GET /%" REST)},
    {400, S("GET /%2" REST)},
    {400, S("GET /%zz" REST)},
    {400, S("GET /a%41%4?x" REST)},
    {400, S("GET /?%g0" REST)},
    {400, S("GET /?a=%2" REST)},
    {400, S("GET http://" REST)},
    {400, S("GET http:///x" REST)},
    {400, S("GET http://?x" REST)},
    {400, S("GET http://:80/" REST)},
    {400, S("GET http://u@b/" REST)},
    {400, S("GET http://u:p@b/" REST)},
    {400, S("GET http://b:x/" REST)},
    {400, S("GET http://b:1:2/" REST)},
    {400, S("GET http://b#x" REST)},
    {400, S("GET http://b/#x" REST)},
    {400, S("GET http://[::1/" REST)},
    {400, S("GET http:/b/" REST)},
    {400, S("GET ftp://b/" REST)},
    {421, S("GET https://b/" REST)},
    {421, S("GET hTTpS://b/" REST)},
    {400, S("GET http://b/ HTTP/1.1\r\n\r\n")},
    {400, S("CONNECT /" REST)},
    {400, S("CONNECT a" REST)},
    {400, S("CONNECT a:" REST)},
    {400, S("CONNECT a:x" REST)},
    {400, S("CONNECT :80" REST)},
    {400, S("CONNECT http://a:80" REST)},
    /* Host */
    {400, S(GET "\r\n")},
    {400, S(GET "Hos: a\r\nHostt: a\r\nX-Host: a\r\n\r\n")},
    {400, S(HEAD "Host: a\r\n\r\n")},
    {400, S(HEAD "X: y\r\nHOST:\r\n\r\n")},
    {400, S(GET "Host:\r\nHost:\r\n\r\n")},
    {400, S("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n")},
    {400, S("GET http://b/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")},
    {400, S("GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n")},
    {400, S(GET "Host: a b\r\n\r\n")},
    {400, S(GET "Host: a, b\r\n\r\n")},
    {400, S(GET "Host: a\tb\r\n\r\n")},
    {400, S(GET "Host: a/b\r\n\r\n")},
    {400, S(GET "Host: a?b\r\n\r\n")},
    {400, S(GET "Host: a#b\r\n\r\n")},
    {400, S(GET "Host: a@b\r\n\r\n")},
    {400, S(GET "Host: http://a\r\n\r\n")},
    {400, S(GET "Host: a\\b\r\n\r\n")},
    {400, S(GET "Host: :80\r\n\r\n")},
    {400, S(GET "Host: :\r\n\r\n")},
    {400, S(GET "Host: a:b\r\n\r\n")},
    {400, S(GET "Host: a:8.0\r\n\r\n")},
    {400, S(GET "Host: a:8-\r\n\r\n")},
    {400, S(GET "Host: a:80:80\r\n\r\n")},
    {400, S(GET "Host: a_b:8x\r\n\r\n")},
    {400, S(GET "Host: ex%zzmple\r\n\r\n")},
    {400, S(GET "Host: a%4\r\n\r\n")},
    {400, S(GET "Host: l\xf6"
                "calhost\r\n\r\n")},
    {400, S(GET "Host: [::1\r\n\r\n")},
    {400, S(GET "Host: [::1]x\r\n\r\n")},
    {400, S(GET "Host: []\r\n\r\n")},
    {400, S(GET "Host: [::g]\r\n\r\n")},
    {400, S(GET "Host: [1.2.3.4]\r\n\r\n")},
    {400, S(GET "Host: [fe80::1%25eth0]\r\n\r\n")},
    {400, S(GET "Host: [0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]\r\n\r\n")},
    {400, S(GET "Host: [v1.]\r\n\r\n")},
    {400, S(GET "Host: [v1a]\r\n\r\n")},
    {400, S(GET "Host: [vg.a]\r\n\r\n")},
    {400, S(GET "Host: [v1.a/b]\r\n\r\n")},
    {400, S(GET "Host : a\r\n\r\n")},
    /* fields */
    {400, S(HEAD "X : v\r\n\r\n")},
    {400, S(HEAD "X\t: v\r\n\r\n")},
    {400, S(HEAD "X: a\r\n b\r\n\r\n")},
    {400, S(HEAD "X: a\r\n\tb: c\r\n\r\n")},
    {400, S(GET " \r\nHost: a\r\n\r\n")},
    {400, S(GET " Host: a\r\n\r\n")},
    {400, S(HEAD ":\r\n\r\n")},
    {400, S(HEAD ": v\r\n\r\n")},
    {400, S(HEAD "X\r\n\r\n")},
    {400, S(HEAD "X\r\n: v\r\n\r\n")},
    {400, S(HEAD "X-A[B: v\r\n\r\n")},
    {400, S(HEAD "X/A: v\r\n\r\n")},
    {400, S(HEAD "\"X\": v\r\n\r\n")},
    {400, S(HEAD "X(A): v\r\n\r\n")},
    {400, S(HEAD "X\xa0: v\r\n\r\n")},
    {400, S(HEAD "X\0A: v\r\n\r\n")},
    {400, S(HEAD "X\x0b: v\r\n\r\n")},
    {400, S(HEAD "X: a\0b\r\n\r\n")},
    {400, S(HEAD "X: a\rb\r\n\r\n")},
    {400, S(HEAD "X: a\nY: b\r\n\r\n")},
    {400, S(HEAD "X: a\x07\r\n\r\n")},
    {400, S(HEAD "X: a\x7f\r\n\r\n")},
    {400, S(HEAD "X: a\r\r\n\r\n")},
    {400, S(HEAD "\n")},
    {400, S(HEAD "\r\rX: y\r\n\r\n")},
    {400, S(HEAD "\r39")},
    {400, S(HEAD "Content-Type: a/b\r\ncontent-type: a/b\r\n\r\n")},
    /* bodies */
    {400, S(HEAD "Content-Length:\r\n\r\n")},
    {400, S(HEAD "Content-Length: +2\r\n\r\n")},
    {400, S(HEAD "Content-Length: -2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 0x2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2.0\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2x\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2 2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2,2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2,\r\n\r\n")},
    {400, S(HEAD "Content-Length: \"2\"\r\n\r\n")},
    {400, S(HEAD "Content-Length: \xa0"
                 "2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 99999999999999999999x\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\n")},
    {400, S(HEAD "Content-Length 2\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding:\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: x\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: gzip\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: identity\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunkedx\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunke\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: \"chunked\"\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked;q=1\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked, gzip\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked, chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked,\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: ,chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: gzip chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: gzip;chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: \xa0"
                 "chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n")},
    {501, S(HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n")},
    {501, S(HEAD "Transfer-Encoding: x;y=z , chunked\r\n\r\n")},
    {400, S(HEAD "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n")},
    {400, S(HEAD "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n")},
    {400, S("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n")},
    {400, S("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n")},
    /* Expect */
    {417, S(HEAD "Expect: x\r\n\r\n")},
    {417, S(HEAD "Expect: 100-continue, x\r\n\r\n")},
    {417, S(HEAD "Expect: 100-continue\r\nExpect: 200-ok\r\n\r\n")},
    {400, S(GET "Expect: x\r\n\r\n")}, /* no Host: that is worse */
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const struct octets *t = &bads[i].text;
        struct seen s = parse_all_ways(t->p, t->len, &limits);
        if (s.state != HTTP_PARSE_ERROR || s.parser.parser_status != bads[i].status)
            fail_msg("state %d, status %u instead of %u: %s", s.state, s.parser.parser_status, bads[i].status, t->p);
        assert_int_equal(s.parser.parser_error, HTTP_BAD_REQUEST);
        assert_non_null(s.parser.parser_why);
    }
}

static void test_error_stays(void **state)
{
    (void)state;
    struct http_parser p;
    struct http_request rq;
    const char text[] = "GET / HTTP/3.0\r\nHost: a\r\n\r\n";

    http_parser_init(&p);
    assert_int_equal(http_parse(&p, &rq, text, sizeof text - 1, &limits), HTTP_PARSE_ERROR);
    assert_int_equal(http_parse(&p, &rq, text, sizeof text - 1, &limits), HTTP_PARSE_ERROR);
    assert_int_equal(p.parser_status, 505);
    assert_int_equal(rq.rq_method, METHOD_UNKNOWN);
}

/* A refused HEAD is known as one: its answer has no body. */
static void test_error_keeps_method(void **state)
{
    (void)state;
    struct http_parser p;
    struct http_request rq;
    const char text[] = "HEAD / HTTP/1.1\r\nX Y: z\r\n";

    http_parser_init(&p);
    assert_int_equal(http_parse(&p, &rq, text, sizeof text - 1, &limits), HTTP_PARSE_ERROR);
    assert_int_equal(rq.rq_method, METHOD_HEAD);
}

static void test_content_coding(void **state)
{
    static const struct {
        struct octets text;
        bool coded;
    } cases[] = {
        {S(HEAD "\r\n"), false},
        {S(HEAD "Content-Encoding: gzip\r\n\r\n"), true},
        {S(HEAD "content-ENCODING:gzip, identity\r\n\r\n"), true},
        {S(HEAD "Content-Encoding: identity\r\nContent-Encoding: br\r\n\r\n"), true},
        {S(HEAD "Content-Encoding: br\r\nContent-Encoding: identity\r\n\r\n"), true},
        {S(HEAD "Content-Encoding: Identity\r\n\r\n"), false},
        {S(HEAD "Content-Encoding: , identity,\r\n\r\n"), false},
        {S(HEAD "Content-Encoding:\r\n\r\n"), false},
        {S(HEAD "Content-Encodinh: gzip\r\n\r\n"), false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned again = 0; again < 3; again++) { /* whatever the memo has learnt */
            struct seen s = parse_all_ways(cases[i].text.p, cases[i].text.len, &limits);
            assert_int_equal(s.state, HTTP_PARSE_COMPLETE);
            assert_int_equal(s.request.rq_coded, cases[i].coded);
        }
}

/* What stood before the refusal, or before the octets ended, however they came. */
static void test_fields_before_the_end(void **state)
{
    static const struct {
        struct octets text, fields;
    } cases[] = {
        {S(HEAD "Origin: b\r\nX Y: z\r\nC: d\r\n\r\n"), S("Host: a\r\nOrigin: b\r\n")},
        {S(HEAD "A: b\rC: d\r\n\r\n"), S("Host: a\r\n")},
        {S(HEAD "A: b\r\n c\r\n\r\n"), S("Host: a\r\nA: b\r\n")},
        {S(HEAD "Host: b\r\nA: b\r\n\r\n"), S("Host: a\r\n")},
        {S(HEAD "A: b\r\nContent-Le"), S("Host: a\r\nA: b\r\n")},
        {S(GET "A: b\r\n\r\n"), S("A: b\r\n")}, /* all of them, and no Host */
        {S(HEAD "Expect: x\r\n\r\n"), S("Host: a\r\nExpect: x\r\n")},
        {S(GET "\r\n"), S("")},
        {S("GET / HTTP/3.0\r\nOrigin: b\r\n"), {NULL, 0}},
        {S("GET /\" HTTP/1.1\r\nOrigin: b\r\n"), {NULL, 0}},
        {S("GET / HT"), {NULL, 0}},
        {S("\r\n\r\n"), {NULL, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= cases[i].text.len; step++) {
            struct http_parser p;
            struct http_request rq;

            http_parser_init(&p);
            for (size_t n = step;; n += step) {
                enum http_parse_state s = http_parse(
                    &p, &rq, cases[i].text.p, (uint32_t)(n < cases[i].text.len ? n : cases[i].text.len), &limits);
                assert_int_not_equal(s, HTTP_PARSE_COMPLETE);
                if (s == HTTP_PARSE_ERROR || n >= cases[i].text.len)
                    break;
            }
            struct slice fields = http_parser_fields(&p, cases[i].text.p);
            assert_int_equal(fields.slice_p == NULL, cases[i].fields.p == NULL);
            assert_int_equal(fields.slice_len, cases[i].fields.len);
            if (fields.slice_len != 0)
                assert_memory_equal(fields.slice_p, cases[i].fields.p, fields.slice_len);
        }
}

static void test_incomplete(void **state)
{
    (void)state;
    static const struct {
        int state;
        struct octets text;
    } parts[] = {
        {HTTP_PARSE_REQUEST_LINE, S("")},
        {HTTP_PARSE_REQUEST_LINE, S("\r")},
        {HTTP_PARSE_REQUEST_LINE, S("\r\n")},
        {HTTP_PARSE_REQUEST_LINE, S("\r\n\r")},
        {HTTP_PARSE_REQUEST_LINE, S("GET / H")},
        {HTTP_PARSE_REQUEST_LINE, S("GET / HTTP/1.1\r")},
        {HTTP_PARSE_FIELDS, S(GET)},
        {HTTP_PARSE_FIELDS, S(GET "H")},
        {HTTP_PARSE_FIELDS, S(GET "Host: a\r")},
        {HTTP_PARSE_FIELDS, S(HEAD)},
        {HTTP_PARSE_FIELDS, S(HEAD "\r")},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct seen s = parse_all_ways(parts[i].text.p, parts[i].text.len, &limits);
        assert_int_equal(s.state, parts[i].state);
    }
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *text, size_t len, const struct conf_limits *l, unsigned status, unsigned error)
{
    struct seen s = parse_all_ways(text, len, l);
    assert_int_equal(s.state, HTTP_PARSE_ERROR);
    assert_int_equal(s.parser.parser_status, status);
    assert_int_equal(s.parser.parser_error, error);
}

static void test_limit_request_line(void **state)
{
    (void)state;
    const char exact[] = "GET /123 HTTP/1.1\r\nHost: a\r\n\r\n"; /* 17 octets */
    const char empty[] = "\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct conf_limits l = limits;

    l.limit_request_line = 17;
    assert_int_equal(parse_all_ways(exact, sizeof exact - 1, &l).state, HTTP_PARSE_COMPLETE);
    assert_int_equal(parse_all_ways(empty, sizeof empty - 1, &l).state, HTTP_PARSE_COMPLETE);
    l.limit_request_line = 16;
    assert_refused(exact, sizeof exact - 1, &l, 414, HTTP_BAD_REQUEST_LINE_LIMIT);
    assert_refused(empty, sizeof empty - 1, &l, 414, HTTP_BAD_REQUEST_LINE_LIMIT);
    /* at once: no line end in sight */
    assert_int_equal(parse_all_ways(exact, 16, &l).state, HTTP_PARSE_REQUEST_LINE);
    assert_refused(exact, 17, &l, 414, HTTP_BAD_REQUEST_LINE_LIMIT);
    /* the limit comes before what is wrong behind it */
    assert_refused("GET /12345678901 \001", 18, &l, 414, HTTP_BAD_REQUEST_LINE_LIMIT);
    assert_refused("GET /\0011234567890 ", 17, &l, 400, HTTP_BAD_REQUEST);
    /* empty lines only */
    assert_int_equal(parse_all_ways("\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r", 17, &l).state, HTTP_PARSE_REQUEST_LINE);
    assert_refused("\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 18, &l, 414, HTTP_BAD_REQUEST_LINE_LIMIT);
}

static void test_limit_header_bytes(void **state)
{
    (void)state;
    const char exact[] = GET "Host: a\r\nX: 12345\r\n\r\n"; /* 9 + 10 octets of fields */
    struct conf_limits l = limits;

    l.limit_header_bytes = 19;
    assert_int_equal(parse_all_ways(exact, sizeof exact - 1, &l).state, HTTP_PARSE_COMPLETE);
    l.limit_header_bytes = 18;
    assert_refused(exact, sizeof exact - 1, &l, 431, HTTP_BAD_HEADER_BYTES);
    /* at once: "X: 1234" and a CRLF to come fit, one octet more does not */
    size_t fits = sizeof GET - 1 + 9 + 7;
    assert_int_equal(parse_all_ways(exact, fits, &l).state, HTTP_PARSE_FIELDS);
    assert_refused(exact, fits + 1, &l, 431, HTTP_BAD_HEADER_BYTES);
    l.limit_header_bytes = 9;
    assert_int_equal(parse_all_ways(HEAD "\r\n", sizeof HEAD + 1, &l).state, HTTP_PARSE_COMPLETE);
    assert_refused(HEAD "X", sizeof HEAD, &l, 431, HTTP_BAD_HEADER_BYTES);
    /* the limit comes before what is wrong behind it */
    l.limit_header_bytes = 18;
    assert_refused(HEAD "X: 12345\001", sizeof HEAD - 1 + 9, &l, 431, HTTP_BAD_HEADER_BYTES);
    assert_refused(HEAD "X: 12\00145", sizeof HEAD - 1 + 8, &l, 400, HTTP_BAD_REQUEST);
    assert_refused(HEAD "X: 1234\n", sizeof HEAD - 1 + 8, &l, 400, HTTP_BAD_REQUEST);
}

static void test_limit_headers(void **state)
{
    (void)state;
    const char three[] = GET "Host: a\r\nX: 1\r\nX: 2\r\n\r\n";
    struct conf_limits l = limits;

    l.limit_headers = 3;
    struct seen s = parse_all_ways(three, sizeof three - 1, &l);
    assert_int_equal(s.state, HTTP_PARSE_COMPLETE);
    assert_int_equal(s.request.rq_fields_n, 3);
    l.limit_headers = 2;
    assert_refused(three, sizeof three - 1, &l, 431, HTTP_BAD_HEADERS);
    size_t two = sizeof GET - 1 + 9 + 6;
    assert_int_equal(parse_all_ways(three, two, &l).state, HTTP_PARSE_FIELDS);
    assert_refused(three, two + 1, &l, 431, HTTP_BAD_HEADERS);
    /* both limits passed by one octet: always the same answer */
    l.limit_header_bytes = 17;
    assert_refused(three, two + 1, &l, 431, HTTP_BAD_HEADERS);
    assert_refused(three, sizeof three - 1, &l, 431, HTTP_BAD_HEADERS);
    /* the empty line is no field */
    const char end[] = GET "Host: a\r\nX: 1\r\n\r\n";
    assert_int_equal(parse_all_ways(end, sizeof end - 1, &l).state, HTTP_PARSE_COMPLETE);
}

static void test_limit_headers_above_counter(void **state)
{
    (void)state;
    struct conf_limits l = {.limit_request_line = 100, .limit_header_bytes = 1 << 20, .limit_headers = 1000000};
    size_t n = sizeof HEAD - 1;
    char *text = malloc(n + 65536 * 4 + 2);

    memcpy(text, HEAD, n);
    for (unsigned i = 0; i < 65536; i++, n += 4)
        memcpy(text + n, "X:\r\n", 4);
    memcpy(text + n, "\r\n", 2);
    struct http_parser p;
    struct http_request rq;
    http_parser_init(&p);
    assert_int_equal(http_parse(&p, &rq, text, (uint32_t)n + 2, &l), HTTP_PARSE_ERROR);
    assert_int_equal(p.parser_error, HTTP_BAD_HEADERS);
    http_parser_init(&p);
    memcpy(text + n - 8, "\r\n", 2);
    assert_int_equal(http_parse(&p, &rq, text, (uint32_t)n - 6, &l), HTTP_PARSE_COMPLETE);
    assert_int_equal(rq.rq_fields_n, UINT16_MAX);
    free(text);
}

/* --- every octet, everywhere -------------------------------------------------------------------------------------- */

static int state_with(const char *format_before, int octet, const char *after)
{
    char text[200];
    size_t n = strlen(format_before);
    struct http_parser p;
    struct http_request rq;

    memcpy(text, format_before, n);
    text[n++] = (char)octet;
    memcpy(text + n, after, strlen(after));
    n += strlen(after);
    char *base = malloc(n);
    memcpy(base, text, n);
    http_parser_init(&p);
    int state = (int)http_parse(&p, &rq, base, (uint32_t)n, &limits);
    free(base);
    return state;
}

static void test_every_octet(void **state)
{
    (void)state;
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char unreserved[] = "-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (int c = 1; c < 256; c++) {
        bool in_token = strchr(token, c) != NULL;
        bool host = strchr(unreserved, c) != NULL || strchr("!$&'()*+,;=", c) != NULL;
        bool path = host || strchr("/:@", c) != NULL;
        bool query = path || strchr("?[]{}|^`\\", c) != NULL;
        bool value = (c >= 0x20 && c != 0x7f) || c == '\t';
        int good = HTTP_PARSE_COMPLETE, bad = HTTP_PARSE_ERROR;

        assert_int_equal(state_with("G", c, "T / HTTP/1.1\r\nHost: a\r\n\r\n"), in_token ? good : bad);
        assert_int_equal(state_with("GET /", c, "a HTTP/1.1\r\nHost: a\r\n\r\n"), path || c == '?' ? good : bad);
        assert_int_equal(state_with("GET /?", c, "a HTTP/1.1\r\nHost: a\r\n\r\n"), query ? good : bad);
        assert_int_equal(state_with(HEAD "A", c, "-B: c\r\n\r\n"), in_token || c == ':' ? good : bad);
        assert_int_equal(state_with(HEAD "Twelve-Letters-", c, "-And-So-On: c\r\n\r\n"),
                         in_token || c == ':' ? good : bad);
        assert_int_equal(state_with(HEAD "A: b", c, "c\r\n\r\n"), value ? good : bad);
        assert_int_equal(state_with(HEAD "A: a value of more than sixteen octets", c, "c\r\n\r\n"), value ? good : bad);
        assert_int_equal(state_with(GET "Host: a", c, "1\r\n\r\n"), host || c == ':' ? good : bad);
        assert_int_equal(state_with(GET "Host: a-host-of-more-than-16-octets", c, "1\r\n\r\n"),
                         host || c == ':' ? good : bad);
        assert_int_equal(state_with(GET "Host: a:", c, "\r\n\r\n"),
                         (c >= '0' && c <= '9') || c == ' ' || c == '\t' ? good : bad);
    }
    assert_int_equal(state_with(HEAD "A: b", 0, "c\r\n\r\n"), HTTP_PARSE_ERROR);
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

static void test_fields(void **state)
{
    (void)state;
    const char text[] = HEAD "Accept: x\r\nX-Two: 1\r\nAccept:\t y z \r\nEmpty:\r\nX-two:2\r\n\r\nAccept: body\r\n";
    struct http_parser p;
    struct http_request rq;
    struct slice name, value;
    uint32_t at = 0;

    http_parser_init(&p);
    assert_int_equal(http_parse(&p, &rq, text, sizeof text - 1, &limits), HTTP_PARSE_COMPLETE);
    assert_true(http_field_next(&rq, &at, &name, &value));
    assert_slice(name, "Host");
    assert_slice(value, "a");
    assert_true(http_field_next(&rq, &at, &name, &value));
    assert_slice(name, "Accept");
    assert_slice(value, "x");

    assert_true(http_field_find(&rq, "accept", 6, NULL, &value));
    assert_slice(value, "x");
    at = 0;
    assert_true(http_field_find(&rq, "accept", 6, &at, &value));
    assert_true(http_field_find(&rq, "accept", 6, &at, &value));
    assert_slice(value, "y z");
    assert_false(http_field_find(&rq, "accept", 6, &at, &value));
    at = 0;
    assert_true(http_field_find(&rq, "x-two", 5, &at, &value));
    assert_slice(value, "1");
    assert_true(http_field_find(&rq, "x-two", 5, &at, &value));
    assert_slice(value, "2");
    assert_true(http_field_find(&rq, "empty", 5, NULL, &value));
    assert_slice(value, "");
    assert_false(http_field_find(&rq, "acc", 3, NULL, &value));
    assert_false(http_field_find(&rq, "accept-x", 8, NULL, &value));
    assert_false(http_field_find(&rq, "body", 4, NULL, &value));
}

static void test_fields_none(void **state)
{
    (void)state;
    const char text[] = "GET / HTTP/1.0\r\n\r\n";
    struct http_parser p;
    struct http_request rq;
    struct slice name, value;
    uint32_t at = 0;

    http_parser_init(&p);
    assert_int_equal(http_parse(&p, &rq, text, sizeof text - 1, &limits), HTTP_PARSE_COMPLETE);
    assert_non_null(rq.rq_fields.slice_p);
    assert_int_equal(rq.rq_fields.slice_len, 0);
    assert_false(http_field_next(&rq, &at, &name, &value));
    assert_false(http_field_find(&rq, "host", 4, NULL, &value));
}

/* A request behind another in the buffer, and of an odd length: nothing depends on alignment or on what is around. */
static void test_offsets(void **state)
{
    (void)state;
    const char text[] = "GET /items/12345?a=b HTTP/1.1\r\nHost: localhost:80\r\nAccept: a/b\r\nX: y\r\n\r\n";
    for (size_t before = 0; before < 40; before++)
        for (size_t after = 0; after < 20; after++) {
            size_t n = sizeof text - 1;
            char *base = malloc(before + n + after);
            struct http_parser p;
            struct http_request rq;
            memset(base, 'x', before + n + after);
            memcpy(base + before, text, n);
            http_parser_init(&p);
            assert_int_equal(http_parse(&p, &rq, base + before, (uint32_t)(n + after), &limits), HTTP_PARSE_COMPLETE);
            assert_int_equal(p.parser_head, n);
            assert_slice(rq.rq_path, "/items/12345");
            assert_slice(rq.rq_query, "a=b");
            assert_slice(rq.rq_host, "localhost:80");
            assert_int_equal(rq.rq_fields_n, 3);
            free(base);
        }
}

/* Line ends at every place of the 64 octets that are looked at together. */
static void test_line_ends_everywhere(void **state)
{
    (void)state;
    for (unsigned pad = 0; pad < 140; pad++) {
        char text[400];
        int n = sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\nX: %.*s\r\nY: z\r\n\r\nGET", (int)pad,
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                        "aaaaaaaaaaaaaaaaaaa"
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        struct seen s = parse_all_ways(text, (size_t)n, &limits);
        assert_int_equal(s.state, HTTP_PARSE_COMPLETE);
        assert_int_equal(s.parser.parser_head, n - 3);
        assert_int_equal(s.request.rq_fields_n, 3);
        char *cr = strstr(text, "\r\nY");
        cr[0] = ' '; /* a lone LF */
        s = parse_all_ways(text, (size_t)n, &limits);
        assert_int_equal(s.state, HTTP_PARSE_ERROR);
        cr[0] = '\r';
        cr[1] = ' '; /* a lone CR */
        s = parse_all_ways(text, (size_t)n, &limits);
        assert_int_equal(s.state, HTTP_PARSE_ERROR);
    }
}

/* --- field blocks known again ------------------------------------------------------------------------------------- */

static struct seen parse_with(struct http_memo *memo, const char *text, size_t len)
{
    struct http_parser p;
    struct http_request rq;
    char *base = malloc(len);

    memcpy(base, text, len);
    memset(&rq, 0x5a, sizeof rq);
    http_parser_init(&p);
    p.parser_memo = memo;
    enum http_parse_state state = http_parse(&p, &rq, base, (uint32_t)len, &limits);
    assert_int_equal(state, p.parser_state);
    struct seen s = see(&p, &rq, base, len);
    free(base);
    return s;
}

/* Whatever it remembers, the outcome is what it would be without. */
static void test_memo_changes_nothing(void **state)
{
    (void)state;
    struct http_memo *memo = calloc(1, sizeof *memo);

    for (unsigned round = 0; round < 4 * MEMO_PATIENCE; round++) {
        for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
            struct seen without = parse_with(NULL, goods[i].text.p, goods[i].text.len);
            struct seen with = parse_with(memo, goods[i].text.p, goods[i].text.len);
            assert_same(&without, &with);
            if (round % 8 == 0) { /* learnt at once, and met again */
                struct http_memo *fresh = calloc(1, sizeof *fresh);
                with = parse_with(fresh, goods[i].text.p, goods[i].text.len);
                assert_same(&without, &with);
                with = parse_with(fresh, goods[i].text.p, goods[i].text.len);
                assert_same(&without, &with);
                free(fresh);
            }
        }
        for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
            struct seen without = parse_with(NULL, bads[i].text.p, bads[i].text.len);
            struct seen with = parse_with(memo, bads[i].text.p, bads[i].text.len);
            assert_same(&without, &with);
        }
    }
    free(memo);
}

static void test_memo_is_used(void **state)
{
    (void)state;
    static struct http_memo memo;
    const char first[] = GET "Host: a\r\nCookie: b\r\nContent-Type: c\r\nCookie: d\r\n\r\n";
    const char other[] = "POST /x HTTP/1.1\r\nHost: a\r\nCookie: b\r\nContent-Type: c\r\nCookie: d\r\n\r\nX";

    (void)parse_with(&memo, first, sizeof first - 1);
    assert_int_equal(memo.memo_misses, 1);
    struct seen with = parse_with(&memo, other, sizeof other - 1), without = parse_with(NULL, other, sizeof other - 1);
    assert_int_equal(memo.memo_misses, 1); /* a hit */
    assert_same(&without, &with);
    assert_int_equal(with.request.rq_method, METHOD_POST);
    assert_true(with.request.rq_length_due);
    assert_true(with.request.rq_cookies_more);
    /* one octet different, or missing */
    (void)parse_with(&memo, first, sizeof first - 2);
    assert_int_equal(memo.memo_misses, 1);
    with = parse_with(&memo, GET "Host: a\r\nCookie: b\r\nContent-Type: c\r\nCookie: e\r\n\r\n", sizeof first - 1);
    assert_int_equal(with.state, HTTP_PARSE_COMPLETE);
    assert_int_equal(memo.memo_misses, 2);
}

/* What says more than host, type and cookies is not remembered. */
static void test_memo_forgets(void **state)
{
    (void)state;
    static struct http_memo memo;
    static const struct octets others[] = {
        S(HEAD "Connection: close\r\n\r\n"),
        S(HEAD "Content-Length: 1\r\n\r\n"),
        S(HEAD "Transfer-Encoding: chunked\r\n\r\n"),
        S(HEAD "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
        S("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        S("GET / HTTP/1.0\r\nHost: a\r\n\r\n"),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(parse_with(&memo, others[i].p, others[i].len).state, HTTP_PARSE_COMPLETE);
        assert_int_equal(memo.memo_misses, 0);
    }
    char text[MEMO_BLOCK_MAX + 100];
    int n = sprintf(text, HEAD "X: %0*d\r\n\r\n", (int)MEMO_BLOCK_MAX, 0);
    assert_int_equal(parse_with(&memo, text, (size_t)n).state, HTTP_PARSE_COMPLETE);
    for (unsigned i = 0; i < MEMO_ENTRIES; i++)
        assert_int_equal(memo.memo_entries[i].entry_len, 0);
    /* A block that was learnt does not stand in where the target has its own host, or for an HTTP/1.0 client. */
    (void)parse_with(&memo, HEAD "\r\n", sizeof HEAD + 1);
    assert_int_equal(memo.memo_misses, 1);
    struct seen s = parse_with(&memo, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 35);
    assert_int_equal(s.at[5], 11);
    assert_false(parse_with(&memo, "GET / HTTP/1.0\r\nHost: a\r\n\r\n", 27).request.rq_keep_alive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_error_stays),
        cmocka_unit_test(test_error_keeps_method),
        cmocka_unit_test(test_content_coding),
        cmocka_unit_test(test_fields_before_the_end),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_limit_request_line),
        cmocka_unit_test(test_limit_header_bytes),
        cmocka_unit_test(test_limit_headers),
        cmocka_unit_test(test_limit_headers_above_counter),
        cmocka_unit_test(test_every_octet),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_fields_none),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_line_ends_everywhere),
        cmocka_unit_test(test_memo_changes_nothing),
        cmocka_unit_test(test_memo_is_used),
        cmocka_unit_test(test_memo_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
