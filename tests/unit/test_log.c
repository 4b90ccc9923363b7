/* The log: lines that nobody can forge, and that nobody waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>

#include "conf/log.c"

static char line[LOG_LINE_MAX];

static const char *render(const char *message, bool json)
{
    size_t len;

    log_now.log_json = json;
    memset(line, 'Z', sizeof line);
    len = log_render(line, LOG_LEVEL_WARN, 1767225600123, message);
    assert_in_range(len, 1, sizeof line);
    assert_int_equal(line[len - 1], '\n');
    assert_null(memchr(line, '\n', len - 1));
    line[len - 1] = '\0';
    assert_int_equal(strlen(line), len - 1);
    return line;
}

/* What stands after the speaker, or in "msg". */
static const char *message_of(const char *message, bool json)
{
    const char *all = render(message, json), *found = strstr(all, json ? "\"msg\":\"" : "somebody: ");

    assert_non_null(found);
    return found + (json ? 7 : 10);
}

static int setup(void **state)
{
    (void)state;
    log_speaker("somebody");
    return 0;
}

static void test_text_line(void **state)
{
    char want[256];

    (void)state;
    snprintf(want, sizeof want, "2026-01-01T00:00:00.123Z warn  [%ld] somebody: hello", (long)getpid());
    assert_string_equal(render("hello", false), want);
    log_speaker("");
    snprintf(want, sizeof want, "2026-01-01T00:00:00.123Z warn  [%ld] hello", (long)getpid());
    assert_string_equal(render("hello", false), want);
}

static void test_json_line(void **state)
{
    char want[256];

    (void)state;
    snprintf(
        want, sizeof want,
        "{\"time\":\"2026-01-01T00:00:00.123Z\",\"level\":\"warn\",\"pid\":%ld,\"who\":\"somebody\",\"msg\":\"hello\"}",
        (long)getpid());
    assert_string_equal(render("hello", true), want);
}

static void test_dates(void **state)
{
    static const struct {
        int64_t ms;
        const char *want;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1709251199000, "2024-02-29T23:59:59.000Z"},
        {1735689599000, "2024-12-31T23:59:59.000Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
    };
    char out[64];
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(log_time(out, cases[i].ms), 24);
        assert_string_equal(out, cases[i].want);
    }
}

static void test_control_characters_are_escaped(void **state)
{
    (void)state;
    assert_string_equal(message_of("a\nb\r\t\x1b[2J\x7f", false), "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f");
    assert_string_equal(message_of("a\nb\r\t\x1b[2J\x7f", true), "a\\u000ab\\u000d\\u0009\\u001b[2J\\u007f\"}");
}

static void test_json_syntax_is_escaped(void **state)
{
    (void)state;
    assert_string_equal(message_of("\"}\\", true), "\\\"}\\\\\"}");
    assert_string_equal(message_of("\"}\\", false), "\"}\\");
}

static void test_utf8(void **state)
{
    (void)state;
    assert_string_equal(message_of("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", true),
                        "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\"}");
    /* C1 controls, a lone continuation, an overlong slash, a surrogate, past the end, a cut character */
    assert_string_equal(message_of("\xc2\x9b", false), "\\xc2\\x9b");
    assert_string_equal(message_of("\x80", true), "\\ufffd\"}");
    assert_string_equal(message_of("\xc0\xaf", false), "\\xc0\\xaf");
    assert_string_equal(message_of("\xe0\x80\xaf", false), "\\xe0\\x80\\xaf");
    assert_string_equal(message_of("\xed\xa0\x80", false), "\\xed\\xa0\\x80");
    assert_string_equal(message_of("\xf4\x90\x80\x80", false), "\\xf4\\x90\\x80\\x80");
    assert_string_equal(message_of("\xe2\x82", true), "\\ufffd\\ufffd\"}");
}

static void test_long_messages_are_cut(void **state)
{
    char message[4 * LOG_LINE_MAX];
    unsigned json, n;

    (void)state;
    for (json = 0; json < 2; json++) {
        /* All lengths around the limit, of octets that become six, too. */
        for (n = 1; n < sizeof message; n += n < 1900 || n > 2200 ? 97 : 1) {
            const char *got;

            memset(message, n % 2 ? 'x' : '\x01', n);
            message[n] = '\0';
            got = render(message, json);
            assert_in_range(strlen(got), 1, LOG_LINE_MAX - 1);
            if (json)
                assert_string_equal(got + strlen(got) - 2, "\"}");
        }
        memset(message, 'x', sizeof message - 1);
        message[sizeof message - 1] = '\0';
        assert_non_null(strstr(message_of(message, json), json ? "xxx...\"}" : "xxx..."));
    }
}

static void read_back(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, text, size - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
}

static void test_file_level_and_reopen(void **state)
{
    char folder[] = "/tmp/test-log-XXXXXX", path[64], old[64], text[4096];
    struct conf_log conf = {.log_level = LOG_LEVEL_WARN, .log_file = path};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(old, sizeof old, "%s/old", folder);
    assert_int_equal(log_open(&conf), 0);
    assert_true(log_fd() > 2);
    errno = ENOENT;
    log_write(LOG_LEVEL_WARN, "one %d", 1);
    assert_int_equal(errno, ENOENT);
    log_write(LOG_LEVEL_INFO, "two");
    log_write(LOG_LEVEL_ERROR, "three%s", "\nforged");
    assert_int_equal(rename(path, old), 0);
    log_write(LOG_LEVEL_ERROR, "four");
    assert_int_equal(log_reopen(), 0);
    log_write(LOG_LEVEL_ERROR, "five");

    read_back(old, text, sizeof text);
    assert_non_null(strstr(text, "warn  ["));
    assert_non_null(strstr(text, "somebody: one 1\n"));
    assert_null(strstr(text, "two"));
    assert_non_null(strstr(text, "three\\x0aforged\n"));
    assert_non_null(strstr(text, "four\n"));
    assert_null(strstr(text, "five"));
    read_back(path, text, sizeof text);
    assert_non_null(strstr(text, "five\n"));

    /* A path that cannot be opened again: the old file stays. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(old), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(log_reopen(), -1);
    assert_int_equal(errno, ENOENT);
    log_write(LOG_LEVEL_ERROR, "six");
    assert_int_equal(log_dropped(), 0);

    conf.log_file = "/nonexistent/log";
    assert_int_equal(log_open(&conf), -1);
    conf.log_file = "stderr";
    assert_int_equal(log_open(&conf), 0);
    assert_int_equal(log_reopen(), 0);
    conf.log_access = "/nonexistent/log"; /* which of the two */
    assert_int_equal(log_open(&conf), -2);
    assert_int_equal(errno, ENOENT);
    conf.log_file = "/nonexistent/too";
    assert_int_equal(log_open(&conf), -1);
}

/* stderr is a pipe or socket whose reader sleeps: lines are dropped and counted, and the first that gets through again
 * is followed by their number. */
static void slow_reader(bool socket)
{
    struct conf_log conf = {.log_level = LOG_LEVEL_INFO, .log_file = "stderr"};
    int keep = dup(STDERR_FILENO), pair[2], i;
    uint64_t before = log_dropped();
    char text[65536], want[64];
    ssize_t n;

    assert_int_equal(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair), 0);
    assert_true(dup2(pair[1], STDERR_FILENO) >= 0);
    assert_int_equal(log_open(&conf), 0);
    for (i = 0; i < 10000; i++)
        log_write(LOG_LEVEL_INFO, "%01500d", i);
    assert_true(log_dropped() > before);
    assert_true(log_dropped() < before + 10000);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(pair[1], F_GETFL) & O_NONBLOCK, 0); /* stderr itself is as it was */
    while (read(pair[0], text, sizeof text) > 0)
        ;
    log_write(LOG_LEVEL_INFO, "through");
    log_write(LOG_LEVEL_INFO, "again");
    n = read(pair[0], text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    snprintf(want, sizeof want, " %llu log lines before", (unsigned long long)(log_dropped() - before));
    assert_non_null(strstr(text, "through\n"));
    assert_non_null(strstr(text, want));
    assert_non_null(strstr(text, "again\n"));

    /* Its reader is gone: no signal, no line. */
    close(pair[0]);
    before = log_dropped();
    log_write(LOG_LEVEL_INFO, "nobody");
    assert_int_equal(log_dropped(), before + 1);
    assert_true(dup2(keep, STDERR_FILENO) >= 0);
    close(keep);
    close(pair[1]);
    assert_int_equal(log_open(&conf), 0);
    log_now.log_drops_told = log_now.log_drops;
}

static void test_slow_pipe(void **state)
{
    (void)state;
    slow_reader(false);
}

static void test_slow_socket(void **state)
{
    (void)state;
    slow_reader(true);
}

/* Where the pipe cannot be opened anew, the descriptor that blocks is asked before each write. */
static void test_shared_description(void **state)
{
    int pair[2], i;
    uint64_t before = log_dropped();

    (void)state;
    assert_int_equal(pipe(pair), 0);
    log_now.log_main.sink_fd = pair[1];
    log_now.log_main.sink_sort = LOG_ASK;
    for (i = 0; i < 1000; i++)
        log_write(LOG_LEVEL_ERROR, "%01500d", i); /* would wait for ever */
    assert_true(log_dropped() > before);
    close(pair[0]);
    close(pair[1]);
    log_now.log_main.sink_fd = STDERR_FILENO;
    log_now.log_drops_told = log_now.log_drops;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_text_line, setup),
        cmocka_unit_test_setup(test_json_line, setup),
        cmocka_unit_test(test_dates),
        cmocka_unit_test_setup(test_control_characters_are_escaped, setup),
        cmocka_unit_test_setup(test_json_syntax_is_escaped, setup),
        cmocka_unit_test_setup(test_utf8, setup),
        cmocka_unit_test_setup(test_long_messages_are_cut, setup),
        cmocka_unit_test_setup(test_file_level_and_reopen, setup),
        cmocka_unit_test_setup(test_slow_pipe, setup),
        cmocka_unit_test_setup(test_slow_socket, setup),
        cmocka_unit_test_setup(test_shared_description, setup),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
