/* Lines of the access log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "worker/http/access.c"

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static bool valid(const char *text)
{
    struct slice got = access_traceparent((struct slice){text, strlen(text)});

    if (got.slice_p != NULL)
        assert_int_equal(got.slice_len, 55);
    return got.slice_p != NULL;
}

static void test_traceparent(void **state)
{
    (void)state;
    assert_true(valid(TRACE));
    assert_true(valid("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-and more"));
    assert_true(valid("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(valid(TRACE "-more"));
    assert_false(valid(TRACE "x"));
    assert_false(valid("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"));
    assert_false(valid("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(valid("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
    assert_false(valid("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
    assert_false(valid("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(valid("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g"));
    assert_false(valid("00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01"));
    assert_false(valid("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"));
    assert_false(valid(""));
}

static struct slice text(const char *s)
{
    return (struct slice){s, strlen(s)};
}

/* The line without its time. */
static const char *line_of(struct access *a, const struct note *note)
{
    static char line[ACCESS_LINE_MAX + 1];
    char *time;

    a->access_used = 0;
    note_put(a, note);
    assert_true(a->access_used <= ACCESS_LINE_MAX);
    memcpy(line, a->access_octets, a->access_used);
    line[a->access_used] = '\0';
    time = strstr(line, a->access_time);
    assert_non_null(time);
    memmove(time, time + TIME_LEN, strlen(time + TIME_LEN) + 1);
    return line;
}

static void test_lines(void **state)
{
    struct access *json = access_new(true), *plain = access_new(false);
    struct note note = {.note_client = text("192.0.2.1"),
                        .note_method = text("GET"),
                        .note_target = text("/a\"b\\c\x80\n"),
                        .note_route_method = text("GET"),
                        .note_route = text("/{x}"),
                        .note_trace = text(TRACE),
                        .note_status = 200,
                        .note_body = 12,
                        .note_us = 345,
                        .note_minor = 1},
                none = {.note_client = text("::"), .note_status = 503, .note_minor = -1};

    (void)state;
    assert_string_equal(
        line_of(json, &note),
        "{\"time\":\"\",\"client\":\"192.0.2.1\",\"method\":\"GET\",\"target\":\"/a\\\"b\\\\c\\u0080\\u000a\","
        "\"status\":200,\"bytes\":12,\"duration_us\":345,\"route\":\"GET /{x}\",\"traceparent\":\"" TRACE "\"}\n");
    assert_string_equal(line_of(plain, &note), "192.0.2.1 - - [] \"GET /a\\\"b\\\\c\\x80\\x0a HTTP/1.1\" 200 12 345 "
                                               "\"GET /{x}\" " TRACE "\n");
    assert_string_equal(line_of(json, &none),
                        "{\"time\":\"\",\"client\":\"::\",\"status\":503,\"bytes\":0,\"duration_us\":0}\n");
    assert_string_equal(line_of(plain, &none), ":: - - [] \"-\" 503 0 0 \"-\" -\n");
    none.note_status = ACCESS_ABANDONED;
    none.note_abandoned = true;
    assert_string_equal(
        line_of(json, &none),
        "{\"time\":\"\",\"client\":\"::\",\"status\":499,\"abandoned\":true,\"bytes\":0,\"duration_us\":0}\n");
    assert_string_equal(line_of(plain, &none), ":: - - [] \"-\" 499 0 0 \"-\" -\n");
    json->access_used = plain->access_used = 0;
    access_free(&json);
    access_free(&plain);
}

static void test_lines_are_bounded(void **state)
{
    static char huge[100000];
    struct access *json = access_new(true);
    struct note note = {.note_client = text("1111:2222:3333:4444:5555:6666:7777:8888"),
                        .note_method = {huge, sizeof huge},
                        .note_target = {huge, sizeof huge},
                        .note_route_method = text("OPTIONS"),
                        .note_route = {huge, sizeof huge},
                        .note_trace = text(TRACE),
                        .note_status = 599,
                        .note_body = UINT64_MAX,
                        .note_us = UINT64_MAX};

    (void)state;
    memset(huge, 0x01, sizeof huge);
    assert_non_null(strstr(line_of(json, &note), "...\""));
    memset(huge, 'x', sizeof huge);
    assert_non_null(strstr(line_of(json, &note), "...\""));
    json->access_used = 0;
    access_free(&json);
}

/* A pipe that nobody empties: what does not fit is counted, what fits is whole. */
static void test_slow_reader(void **state)
{
    const struct conf_log conf = {.log_level = LOG_LEVEL_ERROR, .log_file = "stderr", .log_access = "/dev/null"};
    struct note note = {.note_client = text("192.0.2.1"), .note_target = text("/"), .note_status = 200};
    struct access *json = access_new(true);
    uint64_t dropped = stats.stats_worker[STAT_log_dropped];
    unsigned lines = 0;
    int pair[2];
    char octets[4096];
    ssize_t n;

    (void)state;
    assert_int_equal(log_open(&conf), 0);
    assert_int_equal(pipe2(pair, O_NONBLOCK), 0);
    assert_true(dup2(pair[1], log_access_fd()) >= 0);
    for (unsigned i = 0; i < 5000; i++)
        note_put(json, &note);
    dropped = stats.stats_worker[STAT_log_dropped] - dropped;
    assert_true(dropped > 0 && dropped < 5000);
    for (;;) {
        access_flush(json);
        n = read(pair[0], octets, sizeof octets);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            lines += octets[i] == '\n';
    }
    assert_int_equal(json->access_used, 0);
    assert_int_equal(lines + dropped, 5000);
    access_free(&json);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traceparent),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_are_bounded),
        cmocka_unit_test(test_slow_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
