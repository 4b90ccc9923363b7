/* The whole program, in a child process: what it prints where, and how it ends. */
int vanillactl_main(int argc, char **argv);
#define main vanillactl_main
#include "ctl/vanillactl.c"
#undef main

#include <fcntl.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/stats.h"
#include "tests/unit/sample_segment.h"

static struct sample sample;
static char out[1 << 16], err[4096];

static int setup(void **state)
{
    unsigned i;

    (void)state;
    sample_new(&sample);
    for (i = 0; i < 2; i++) {
        segment_attach(sample.sample_segment, i, 4000 + (int)i, (int)i, 3);
        segment_worker_state(sample.sample_segment, i, WORKER_STATE_READY);
        stat_add(STAT_http_requests, 40 + i);
        stat_add(STAT_alloc_connect, 81);
        stat_set(STAT_memory_connections, 4 << 20);
        stat_set(STAT_memory_connection, 512);
        stat_set(STAT_memory_requests, 64 << 10);
        stat_set(STAT_memory_request, 320);
        stat_set(STAT_memory_buffers_total, 60 << 20);
        stat_pool_set(0, STAT_pool_connections, 4);
        stat_pool_set(0, STAT_pool_inflight, 6 + i);
        stat_pool_add(0, STAT_pool_syncs, 7);
        stat_pool_add(1, STAT_pool_shed_queue_timeout, 1);
        stat_route_add(2, STAT_route_requests, 5);
        histogram_record(&stats.stats_routes[2].route_us, 3000);
    }
    stats_private(); /* this test's own allocations are not the server's */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sample_free(&sample);
    return 0;
}

static void read_all(int fd, char *to, size_t room)
{
    size_t len = 0;
    ssize_t n;

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    while ((n = read(fd, to + len, room - 1 - len)) > 0)
        len += (size_t)n;
    to[len] = '\0';
    close(fd);
}

/* Runs `vanillactl -r DIR` with the words of `line`; stdout is `out_fd`.  Returns the exit status. */
static int run_to(int out_fd, const char *line)
{
    char words[512], *argv[16], *save = NULL, *word;
    int argc = 0, status, err_fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    pid_t pid;

    assert_true(err_fd >= 0);
    snprintf(words, sizeof(words), "vanillactl\t-r\t%s", sample.sample_dir);
    if (*line != '\0')
        snprintf(words + strlen(words), sizeof(words) - strlen(words), "\t%s", line);
    for (word = strtok_r(words, "\t", &save); word != NULL; word = strtok_r(NULL, "\t", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(out_fd, STDOUT_FILENO);
        dup2(err_fd, STDERR_FILENO);
        setenv("COLUMNS", "100", 1);
        _exit(vanillactl_main(argc, argv));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    read_all(err_fd, err, sizeof(err));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run(const char *line)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600), rc;

    assert_true(fd >= 0);
    rc = run_to(fd, line);
    read_all(fd, out, sizeof(out));
    return rc;
}

static void prints(const char *text)
{
    if (strstr(out, text) == NULL)
        fail_msg("not printed: %s", text);
}

static void test_stats(void **state)
{
    (void)state;
    assert_int_equal(run("stats"), 0);
    assert_string_equal(err, "");
    prints("workers ready 2 of 2\n");
    prints("COUNTER             TOTAL  WORKER 0  WORKER 1  UNIT\n");
    prints("http.requests          81        40        41  requests\n");
    prints("master.deaths");
    prints("\nPOOL ");
    prints("\nMETHOD ");
    prints("POOL   COUNTER                  TOTAL  UNIT\n");
    prints("read   pool.syncs                  14  messages\n");
    prints("write  pool.shed_queue_timeout      2  requests\n");
    assert_null(strstr(out, "pool.shed_pool_full")); /* zero */
    assert_null(strstr(out, "pool.inflight"));       /* a column */
    assert_null(strstr(out, "HITS"));
    assert_int_equal(run("stats\t--json"), 0);
    prints("\"http.requests\":81");
    assert_int_equal(run("--prometheus\tstats"), 0);
    prints("vanilla_http_requests_total{worker=\"1\"} 41\n");
}

static void test_the_cache_has_a_column(void **state)
{
    (void)state;
    segment_attach(sample.sample_segment, 0, 4000, 0, 3);
    stat_set(STAT_memory_cache, 1 << 20);
    stat_route_add(2, STAT_route_cache_hits, 123);
    stats_private();
    assert_int_equal(run("routes"), 0);
    prints("STATE  HITS\n");
    prints("ok      123\n");
}

static void test_left_or_dead(void **state)
{
    (void)state;
    segment_worker_state(sample.sample_segment, 0, WORKER_STATE_LEFT);
    segment_worker_state(sample.sample_segment, 1, WORKER_STATE_DEAD);
    assert_int_equal(run("workers"), 0);
    prints("     0  4000    0  left ");
    prints("     1  4001    1  dead ");
    prints("     1  read    0      0         0        0\n");
}

static void test_tables(void **state)
{
    (void)state;
    assert_int_equal(run("workers"), 0);
    prints("     1  4001    1  ready           3");
    prints("WORKER  POOL   UP  SLOTS  INFLIGHT  WAITING\n");
    prints("     1  read    0      0         7        0\n");
    assert_int_equal(run("pools"), 0);
    prints("read             8   0            32");
    assert_int_equal(run("routes"), 0);
    prints("POST    /it\"em\\s     write        10     0    0    0  2.");
    assert_int_equal(run("top"), 0);
    prints("allocations per request 0.000");
}

static void test_budget(void **state)
{
    (void)state;
    assert_int_equal(run("budget"), 0);
    prints("server      8.0 MiB  128.0 KiB  120.0 MiB    0 B  128.1 MiB");
    prints("connections: 512 octets each; with room for heads that are slow in coming and the table of client 8.0 MiB "
           "in all "
           "workers\n");
    prints("requests: 409 of 320 octets each, 128.0 KiB in all workers\n");
    prints(
        "raising max_inflight of pool read by one (now 32) costs 640 octets per connection: 8 connections, 5.0 KiB\n");
}

static void test_allocs(void **state)
{
    (void)state;
    assert_int_equal(run("allocs"), 0);
    prints("connect    162        2.000");
    prints("steady       0        0.000");
    segment_attach(sample.sample_segment, 1, 4001, 1, 3);
    stat_add(STAT_alloc_steady, 1);
    stats_private();
    assert_int_equal(run("allocs"), 0);
    prints("steady       1        0.012");
}

static void test_watch_ends_with_the_server(void **state)
{
    (void)state;
    segment_mark_stale(sample.sample_segment);
    assert_int_equal(run("stats\t--watch\t0.1\t--json"), 3);
    prints("\"stale\":true");
}

static void test_stale(void **state)
{
    static const char *const commands_with_figures[] = {"stats",  "top",    "workers", "pools",
                                                        "routes", "budget", "allocs"};
    size_t i;

    (void)state;
    segment_mark_stale(sample.sample_segment);
    for (i = 0; i < sizeof(commands_with_figures) / sizeof(commands_with_figures[0]); i++) {
        assert_int_equal(run(commands_with_figures[i]), 3);
        assert_true(out[0] != '\0');
        assert_non_null(strstr(err, "the server is not running; these are its last figures, of 2"));
    }
}

static void test_not_running(void **state)
{
    static const char *const all[] = {"stats",  "top",  "workers", "pools", "routes",      "budget",
                                      "allocs", "ping", "reload",  "drain", "stop\t--now", "set\tx.max_inflight=1"};
    size_t i;

    (void)state;
    unlink(sample.sample_path);
    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(run(all[i]), 3);
        assert_string_equal(out, "");
        assert_non_null(strstr(err, "the server is not running"));
    }
    assert_int_equal(run("version"), 0);
    assert_string_equal(out, "vanillactl " VANILLA_VERSION "\nserver not running\n");
}

static void test_damaged(void **state)
{
    (void)state;
    assert_int_equal(truncate(sample.sample_path, 5000), 0);
    assert_int_equal(run("stats"), 1);
    assert_string_equal(out, "");
    assert_non_null(strstr(err, "cut short"));
}

static void test_usage(void **state)
{
    static const char *const wrong[] = {"",
                                        "frob",
                                        "stats\textra",
                                        "stats\t--json\t--prometheus",
                                        "stats\t--watch\t0",
                                        "stats\t--watch\tinf",
                                        "stats\t--watch\t1x",
                                        "stats\t--watch",
                                        "stats\t--now",
                                        "ping\t--json",
                                        "set",
                                        "set\tread",
                                        "set\tread.max_inflight=1\tx",
                                        "--frob",
                                        "-x\tstats"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(run(wrong[i]), 2);
        assert_string_equal(out, "");
        assert_non_null(strstr(err, "vanillactl: "));
    }
}

static void test_help_and_version(void **state)
{
    (void)state;
    assert_int_equal(run("-h"), 0);
    prints("set POOL.max_inflight=N");
    assert_int_equal(run("stats\t--help"), 0);
    assert_int_equal(run("-V"), 0);
    assert_string_equal(out, "vanillactl " VANILLA_VERSION "\n");
}

/* Nobody reads: no signal, and exit status 1 without a word; a full disk is said. */
static void test_output_that_fails(void **state)
{
    int fds[2], full = open("/dev/full", O_WRONLY);

    (void)state;
    assert_true(full >= 0);
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(run_to(fds[1], "stats"), 1);
    assert_string_equal(err, "");
    assert_int_equal(run_to(fds[1], "stats\t--watch\t0.1\t--prometheus"), 1);
    assert_string_equal(err, "");
    assert_int_equal(run_to(fds[1], "-h"), 1);
    assert_int_equal(run_to(full, "stats\t--json"), 1);
    assert_non_null(strstr(err, "cannot write: No space left on device"));
    close(fds[1]);
    close(full);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_stats),
        TEST(test_tables),
        TEST(test_the_cache_has_a_column),
        TEST(test_left_or_dead),
        TEST(test_budget),
        TEST(test_allocs),
        TEST(test_watch_ends_with_the_server),
        TEST(test_stale),
        TEST(test_not_running),
        TEST(test_damaged),
        TEST(test_usage),
        TEST(test_help_and_version),
        TEST(test_output_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
