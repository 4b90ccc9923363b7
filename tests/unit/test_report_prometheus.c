/* The exposition, taken by a strict reader of format 0.0.4. */
#include <stdbool.h>
#include <string.h>

#include "shm/report_prometheus.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

#define FAMILIES_MAX 256

static struct sample sample;
static struct sample_text text;

static char families[FAMILIES_MAX][96];
static unsigned families_n;

static int setup(void **state)
{
    unsigned i;

    (void)state;
    sample_new(&sample);
    for (i = 0; i < 2; i++) {
        segment_attach(sample.sample_segment, i, 1, (int)i, 3);
        segment_worker_state(sample.sample_segment, i, WORKER_STATE_READY);
        stat_add(STAT_http_requests, 40 + i);
        stat_set(STAT_http_connections, 6);
        stat_pool_set(0, STAT_pool_up, 4);
        stat_route_add(2, STAT_route_requests, 5);
        histogram_record(&stats.stats_routes[2].route_us, 100 - i);
        histogram_record(&stats.stats_routes[2].route_us, 3000);
        histogram_record(&stats.stats_routes[2].route_us, 60000000);
    }
    segment_master_add(sample.sample_segment, STAT_master_deaths, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sample_free(&sample);
    return 0;
}

static void report(void)
{
    text.text_len = 0;
    report_prometheus(sample.sample_segment, sample_write, &text);
}

static void expect_line(const char *line)
{
    const char *at = text.text_octets;

    while ((at = strstr(at, line)) != NULL) {
        if ((at == text.text_octets || at[-1] == '\n') && at[strlen(line)] == '\n')
            return;
        at++;
    }
    fail_msg("no line %s", line);
}

/* [a-zA-Z_:][a-zA-Z0-9_:]* */
static const char *name_end(const char *p)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";

    assert_non_null(strchr(letters, *p));
    p += strspn(p, letters);
    while (*p >= '0' && *p <= '9') {
        p++;
        p += strspn(p, letters);
    }
    return p;
}

static const char *label_end(const char *p)
{
    p = name_end(p);
    assert_true(strncmp(p, "=\"", 2) == 0);
    for (p += 2; *p != '"'; p++) {
        assert_true(*p != '\0' && *p != '\n');
        if (*p == '\\') {
            p++;
            assert_true(*p == '\\' || *p == '"' || *p == 'n');
        }
    }
    return p + 1;
}

static void number(const char *p)
{
    size_t whole = strspn(p, "0123456789"), part;

    assert_true(whole > 0);
    p += whole;
    if (*p == '.') {
        part = strspn(p + 1, "0123456789");
        assert_true(part > 0);
        p += part + 1;
    }
    assert_int_equal(*p, '\0');
}

/* NAME[{LABEL="VALUE",...}] NUMBER, of the family that is being described. */
static void check_sample(const char *line, bool histogram)
{
    const char *family, *p = name_end(line), *suffix;
    size_t len;

    assert_true(families_n > 0);
    family = families[families_n - 1];
    len = strlen(family);
    assert_true(strncmp(line, family, len) == 0);
    suffix = line + len;
    if (histogram)
        assert_true(strncmp(suffix, "_bucket{", 8) == 0 || strncmp(suffix, "_sum{", 5) == 0 ||
                    strncmp(suffix, "_count{", 7) == 0);
    else
        assert_ptr_equal(suffix, p);
    if (*p == '{') {
        p = label_end(p + 1);
        while (*p == ',')
            p = label_end(p + 1);
        assert_int_equal(*p, '}');
        p++;
    }
    assert_int_equal(*p, ' ');
    number(p + 1);
}

static void begin_family(const char *name, size_t len)
{
    unsigned i;

    assert_true(families_n < FAMILIES_MAX && len < sizeof(families[0]));
    snprintf(families[families_n], sizeof(families[0]), "%.*s", (int)len, name);
    for (i = 0; i < families_n; i++)
        assert_string_not_equal(families[i], families[families_n]);
    families_n++;
}

static void check_text(char *all)
{
    bool histogram = false, typed = false;
    const char *p;
    char *line, *next;

    families_n = 0;
    assert_int_equal(all[strlen(all) - 1], '\n');
    for (line = all; *line != '\0'; line = next) {
        next = strchr(line, '\n');
        assert_non_null(next);
        *next++ = '\0';
        if (strncmp(line, "# HELP ", 7) == 0) {
            p = name_end(line + 7);
            assert_int_equal(*p, ' ');
            assert_true(p[1] != '\0');
            begin_family(line + 7, (size_t)(p - line) - 7);
            typed = false;
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            p = name_end(line + 7);
            assert_false(typed);
            typed = true;
            assert_int_equal(p - line - 7, strlen(families[families_n - 1]));
            assert_true(strncmp(line + 7, families[families_n - 1], (size_t)(p - line) - 7) == 0);
            histogram = strcmp(p, " histogram") == 0;
            assert_true(histogram || strcmp(p, " counter") == 0 || strcmp(p, " gauge") == 0);
        } else {
            assert_true(typed);
            check_sample(line, histogram);
        }
    }
}

static void test_well_formed(void **state)
{
    static char copy[sizeof(text.text_octets)];

    (void)state;
    report();
    memcpy(copy, text.text_octets, text.text_len + 1);
    check_text(copy);
    assert_true(families_n > 50);
}

/* Where there is nothing to list, families are still described. */
static void test_no_pools_no_routes(void **state)
{
    struct segment_shape shape = {.shape_workers = 1, .shape_version = "a\"b\\c\nd\xff"};

    (void)state;
    segment_close(&sample.sample_segment);
    sample.sample_segment = segment_create(sample.sample_path, &shape);
    assert_non_null(sample.sample_segment);
    report();
    expect_line("vanilla_build_info{version=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 1");
    check_text(text.text_octets);
}

static void test_samples(void **state)
{
    (void)state;
    report();
    expect_line("vanilla_running 1");
    expect_line("vanilla_generation 3");
    expect_line("vanilla_worker_deaths_total 2");
    expect_line("vanilla_http_requests_total{worker=\"0\"} 40");
    expect_line("vanilla_http_requests_total{worker=\"1\"} 41");
    expect_line("# TYPE vanilla_http_requests_total counter");
    expect_line("# TYPE vanilla_http_connections gauge");
    expect_line("# TYPE vanilla_memory_buffers_peak_bytes gauge");
    expect_line("vanilla_http_responses_total{code=\"5xx\",worker=\"1\"} 0");
    expect_line("vanilla_pool_up{pool=\"read\",worker=\"1\"} 4");
    expect_line("vanilla_pool_shed_total{cause=\"pool_down\",pool=\"write\",worker=\"0\"} 0");
    expect_line("vanilla_pool_max_inflight{pool=\"write\"} 4");
    expect_line("vanilla_route_requests_total{method=\"POST\",route=\"/it\\\"em\\\\s\"} 10");
    expect_line("vanilla_route_errors_total{code=\"4xx\",method=\"GET\",route=\"/pipeline\"} 0");
}

static void test_histogram(void **state)
{
    (void)state;
    report();
#define ROUTE "{method=\"POST\",route=\"/it\\\"em\\\\s\""
    expect_line("# TYPE vanilla_route_duration_seconds histogram");
    expect_line("vanilla_route_duration_seconds_bucket" ROUTE ",le=\"0.00025\"} 2");
    expect_line("vanilla_route_duration_seconds_bucket" ROUTE ",le=\"0.0025\"} 2");
    expect_line("vanilla_route_duration_seconds_bucket" ROUTE ",le=\"0.005\"} 4");
    expect_line("vanilla_route_duration_seconds_bucket" ROUTE ",le=\"10\"} 4");
    expect_line("vanilla_route_duration_seconds_bucket" ROUTE ",le=\"+Inf\"} 6");
    expect_line("vanilla_route_duration_seconds_sum" ROUTE "} 120.006199");
    expect_line("vanilla_route_duration_seconds_count" ROUTE "} 6");
    expect_line("vanilla_route_duration_seconds_bucket{method=\"GET\",route=\"/pipeline\",le=\"+Inf\"} 0");
    expect_line("vanilla_route_duration_seconds_sum{method=\"GET\",route=\"/pipeline\"} 0.000000");
}

static void test_a_dead_worker_s_gauges(void **state)
{
    (void)state;
    segment_worker_state(sample.sample_segment, 1, WORKER_STATE_DEAD);
    report();
    expect_line("vanilla_worker_ready{worker=\"0\"} 1");
    expect_line("vanilla_worker_ready{worker=\"1\"} 0");
    expect_line("vanilla_http_connections{worker=\"0\"} 6");
    expect_line("vanilla_http_connections{worker=\"1\"} 0");
    expect_line("vanilla_http_requests_total{worker=\"1\"} 41");
    expect_line("vanilla_pool_up{pool=\"read\",worker=\"1\"} 0");
}

static void test_stale(void **state)
{
    (void)state;
    segment_mark_stale(sample.sample_segment);
    report();
    expect_line("vanilla_running 0");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_well_formed), TEST(test_no_pools_no_routes),     TEST(test_samples),
        TEST(test_histogram),   TEST(test_a_dead_worker_s_gauges), TEST(test_stale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
