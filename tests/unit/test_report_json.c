/* The document, taken by a strict reader of RFC 8259 that remembers each value by its path. */
#include <stdbool.h>
#include <string.h>

#include "shm/report_json.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sample_segment.h"

static struct sample sample;
static struct sample_text text;

struct value {
    char value_path[128], value_text[64]; /* "pools.0.name"; the text as it stands */
};
static struct value values[2048];
static unsigned values_n;

static const char *parse_value(const char *p, const char *path);

static int setup(void **state)
{
    unsigned i;

    (void)state;
    sample_new(&sample);
    for (i = 0; i < 2; i++) {
        segment_attach(sample.sample_segment, i, 1000 + (int)i, (int)i, 3);
        segment_worker_state(sample.sample_segment, i, WORKER_STATE_READY);
        stat_add(STAT_http_requests, 40 + i);
        stat_add(STAT_alloc_bytes, UINT64_MAX / 4);
        stat_set(STAT_http_connections, 6);
        stat_pool_set(0, STAT_pool_connections, 4);
        stat_pool_set(0, STAT_pool_inflight, 9);
        stat_pool_add(0, STAT_pool_shed_pool_full, 1);
        stat_pool_add(0, STAT_pool_shed_pool_down, 2);
        stat_route_add(2, STAT_route_requests, 5);
        stat_route_add(2, STAT_route_shed, 1);
        histogram_record(&stats.stats_routes[2].route_us, 20);
        histogram_record(&stats.stats_routes[2].route_us, 65);
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

static const char *parse_string(const char *p)
{
    assert_int_equal(*p, '"');
    for (p++; *p != '"'; p++) {
        assert_true((unsigned char)*p >= ' ');
        if (*p == '\\') {
            p++;
            assert_true(*p != '\0' && strchr("\"\\/bfnrtu", *p) != NULL);
            if (*p == 'u') {
                assert_true(strspn(p + 1, "0123456789abcdef") >= 4);
                p += 4;
            }
        }
    }
    return p + 1;
}

static const char *parse_number(const char *p)
{
    size_t n;

    if (*p == '-')
        p++;
    n = strspn(p, "0123456789");
    assert_true(n > 0 && (*p != '0' || n == 1));
    p += n;
    if (*p == '.') {
        n = strspn(p + 1, "0123456789");
        assert_true(n > 0);
        p += n + 1;
    }
    return p;
}

/* Members and elements; path grows by the member's name or the element's index. */
static const char *parse_container(const char *p, const char *path)
{
    bool object = *p == '{';
    const char *name_end = NULL, *name;
    char longer[sizeof(values[0].value_path)];
    unsigned i = 0;

    p++;
    if (*p == (object ? '}' : ']'))
        return p + 1;
    for (;; i++) {
        if (object) {
            name = p + 1;
            p = parse_string(p);
            name_end = p - 1;
            assert_int_equal(*p, ':');
            p++;
            snprintf(longer, sizeof(longer), "%s%s%.*s", path, *path != '\0' ? "/" : "", (int)(name_end - name), name);
        } else {
            snprintf(longer, sizeof(longer), "%s/%u", path, i);
        }
        p = parse_value(p, longer);
        if (*p != ',')
            break;
        p++;
    }
    assert_int_equal(*p, object ? '}' : ']');
    return p + 1;
}

static const char *parse_value(const char *p, const char *path)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *end = NULL;
    unsigned i;

    if (*p == '{' || *p == '[')
        return parse_container(p, path);
    for (i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            end = p + strlen(words[i]);
    if (end == NULL)
        end = *p == '"' ? parse_string(p) : parse_number(p);
    assert_true(values_n < sizeof(values) / sizeof(values[0]));
    snprintf(values[values_n].value_path, sizeof(values[0].value_path), "%s", path);
    snprintf(values[values_n].value_text, sizeof(values[0].value_text), "%.*s", (int)(end - p), p);
    for (i = 0; i < values_n; i++) /* no member twice */
        assert_string_not_equal(values[i].value_path, path);
    values_n++;
    return end;
}

static void report(void)
{
    const char *end;

    text.text_len = 0;
    values_n = 0;
    report_json(sample.sample_segment, sample_write, &text);
    end = parse_value(text.text_octets, "");
    assert_string_equal(end, "\n");
    assert_ptr_equal(strchr(text.text_octets, '\n'), end);
}

static const char *get(const char *path)
{
    unsigned i;

    for (i = 0; i < values_n; i++)
        if (strcmp(values[i].value_path, path) == 0)
            return values[i].value_text;
    fail_msg("no %s", path);
    return ""; /* not reached */
}

static void test_server(void **state)
{
    (void)state;
    report();
    assert_string_equal(get("version"), "\"" VANILLA_VERSION "\"");
    assert_string_equal(get("generation"), "3");
    assert_string_equal(get("stale"), "false");
    assert_true(get("uptime_s")[0] >= '0');
    segment_mark_stale(sample.sample_segment);
    report();
    assert_string_equal(get("stale"), "true");
    assert_true(get("stale_since_s")[0] >= '1');
}

/* Every counter of the table is there under its name. */
static void test_counters(void **state)
{
    char path[128];
    unsigned i, slot;

    (void)state;
    report();
    for (i = 0; i < STAT_WORKER_N; i++) {
        snprintf(path, sizeof(path), "total/%s.%s", counters_worker[i].counter_group, counters_worker[i].counter_name);
        get(path);
        for (slot = 0; slot < 2; slot++) {
            snprintf(path, sizeof(path), "workers/%u/counters/%s.%s", slot, counters_worker[i].counter_group,
                     counters_worker[i].counter_name);
            get(path);
        }
    }
    for (i = 0; i < STAT_POOL_N; i++) {
        snprintf(path, sizeof(path), "pools/1/%s", counters_pool[i].counter_name);
        get(path);
    }
    for (i = 0; i < STAT_ROUTE_N; i++) {
        snprintf(path, sizeof(path), "routes/2/%s", counters_route[i].counter_name);
        get(path);
    }
    assert_string_equal(get("total/http.requests"), "81");
    assert_string_equal(get("total/http.connections"), "12");
    assert_string_equal(get("total/alloc.steady"), "0");
    assert_string_equal(get("total/alloc.bytes"), "9223372036854775806");
    assert_string_equal(get("total/shed.pool_full"), "0");
    assert_string_equal(get("total/master.deaths"), "2");
    assert_string_equal(get("workers/1/counters/http.requests"), "41");
}

static void test_workers(void **state)
{
    (void)state;
    segment_worker_state(sample.sample_segment, 0, WORKER_STATE_DRAINING);
    report();
    assert_string_equal(get("workers/0/slot"), "0");
    assert_string_equal(get("workers/0/pid"), "1000");
    assert_string_equal(get("workers/0/cpu"), "0");
    assert_string_equal(get("workers/0/state"), "\"draining\"");
    assert_string_equal(get("workers/1/state"), "\"ready\"");
    assert_string_equal(get("workers/1/generation"), "3");
}

static void test_pools_and_routes(void **state)
{
    (void)state;
    report();
    assert_string_equal(get("pools/0/name"), "\"read\"");
    assert_string_equal(get("pools/0/connections"), "8");
    assert_string_equal(get("pools/0/max_inflight"), "32");
    assert_string_equal(get("pools/0/inflight"), "18");
    assert_string_equal(get("pools/0/waiting"), "0");
    assert_string_equal(get("pools/0/slots"), "0");
    assert_string_equal(get("pools/0/up"), "0");
    assert_string_equal(get("pools/0/shed"), "6");
    assert_string_equal(get("routes/1/pool"), "null");
    assert_string_equal(get("routes/1/p50_us"), "0.0");
    assert_string_equal(get("routes/2/method"), "\"POST\"");
    assert_string_equal(get("routes/2/path"), "\"/it\\\"em\\\\s\"");
    assert_string_equal(get("routes/2/pool"), "\"write\"");
    assert_string_equal(get("routes/2/requests"), "10");
    assert_string_equal(get("routes/2/shed"), "2");
    assert_string_equal(get("routes/2/p50_us"), "20.0");
    assert_string_equal(get("routes/2/p99_us"), "64.5");
    assert_string_equal(get("routes/2/timed"), "4");
    assert_string_equal(get("routes/2/sum_us"), "170");
}

static void test_nothing_to_list(void **state)
{
    struct segment_shape shape = {.shape_workers = 1, .shape_version = "\"\\\x01\xff"};

    (void)state;
    segment_close(&sample.sample_segment);
    sample.sample_segment = segment_create(sample.sample_path, &shape);
    assert_non_null(sample.sample_segment);
    report();
    assert_string_equal(get("version"), "\"\\\"\\\\\\u0001\xef\xbf\xbd\"");
    assert_string_equal(get("workers/0/cpu"), "-1");
    assert_string_equal(get("workers/0/state"), "\"none\"");
    assert_non_null(strstr(text.text_octets, "\"pools\":[],\"routes\":[]}"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_server),           TEST(test_counters),        TEST(test_workers),
        TEST(test_pools_and_routes), TEST(test_nothing_to_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
