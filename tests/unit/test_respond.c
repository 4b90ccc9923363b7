#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/http/respond.c"

#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"

static void assert_head(const struct respond *respond, const char *expected)
{
    char head[RESPOND_HEAD_MAX];
    size_t len = respond_head(head, respond);

    assert_true(len < sizeof(head));
    head[len] = '\0';
    assert_string_equal(head, expected);
}

static void heads(void **state)
{
    (void)state;
    assert_head(&(struct respond){.respond_status = 200,
                                  .respond_type = SLICE_LITERAL("text/plain"),
                                  .respond_length = 0,
                                  .respond_date = DATE},
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: vanilla\r\nDate: " DATE
                "\r\nContent-Length: 0\r\n");
    assert_head(&(struct respond){.respond_status = 503,
                                  .respond_length = UINT64_MAX,
                                  .respond_retry_after = 1,
                                  .respond_close = true,
                                  .respond_keep_alive = true,
                                  .respond_date = DATE},
                "HTTP/1.1 503 Service Unavailable\r\nServer: vanilla\r\nDate: " DATE
                "\r\nContent-Length: 18446744073709551615\r\nRetry-After: 0\r\nConnection: close\r\n");
    assert_head(&(struct respond){.respond_status = 405,
                                  .respond_length = 7,
                                  .respond_keep_alive = true,
                                  .respond_allow = 1u << METHOD_GET | 1u << METHOD_HEAD | 1u << METHOD_OPTIONS,
                                  .respond_date = DATE},
                "HTTP/1.1 405 Method Not Allowed\r\nServer: vanilla\r\nDate: " DATE
                "\r\nContent-Length: 7\r\nAllow: GET, HEAD, OPTIONS\r\nConnection: keep-alive\r\n");
}

/* RFC 9110 8.6: no Content-Length in 1xx and 204; nor a type for a body that is not there. */
static void bodiless_answers_do_not_speak_of_a_body(void **state)
{
    (void)state;
    assert_head(&(struct respond){.respond_status = 204,
                                  .respond_type = SLICE_LITERAL("text/plain"),
                                  .respond_length = 10,
                                  .respond_date = DATE},
                "HTTP/1.1 204 No Content\r\nServer: vanilla\r\nDate: " DATE "\r\n");
    assert_true(respond_is_bodiless(304));
    assert_false(respond_is_bodiless(200));
}

static void the_template_says_where_the_date_is(void **state)
{
    char head[RESPOND_HEAD_MAX];
    size_t at, len = respond_template(head,
                                      &(struct respond){.respond_status = 200,
                                                        .respond_date = DATE,
                                                        .respond_type = SLICE_LITERAL("application/json")},
                                      &at);

    (void)state;
    assert_memory_equal(head + at, DATE, 29);
    assert_memory_equal(head + len - 16, "Content-Length: ", 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(bodiless_answers_do_not_speak_of_a_body),
        cmocka_unit_test(the_template_says_where_the_date_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
