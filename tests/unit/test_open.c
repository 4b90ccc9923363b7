#include <signal.h>
#include <sys/wait.h>

#include "shm/open.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/report.h"
#include "shm/view.h"
#include "tests/unit/sample_segment.h"

static struct sample sample;
static uint8_t *good; /* a good file */
static size_t good_len;

static void discard(void *arg, const char *p, size_t n)
{
    size_t i, *seen = arg;

    for (i = 0; i < n; i++) /* reads all of it */
        *seen += (unsigned char)p[i];
}

static int setup(void **state)
{
    unsigned i;
    FILE *f;

    (void)state;
    sample_new(&sample);
    for (i = 0; i < 2; i++) {
        segment_attach(sample.sample_segment, i, 1, 0, 1);
        stat_add(STAT_http_requests, 1);
        histogram_record(&stats.stats_routes[2].route_us, 1000);
    }
    stats_private(); /* the file is going to be cut short */
    good_len = sample.sample_segment->segment_map.map_total;
    good = malloc(good_len);
    f = fopen(sample.sample_path, "rb");
    if (good == NULL || f == NULL || fread(good, 1, good_len, f) != good_len)
        return -1;
    return fclose(f);
}

static int teardown(void **state)
{
    (void)state;
    free(good);
    sample_free(&sample);
    return 0;
}

static void put(const void *p, size_t n)
{
    FILE *f = fopen(sample.sample_path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Opens what is there and, if it opens, reads all there is to read. */
static enum segment_error look(char *why, size_t why_len)
{
    enum segment_error error = SEGMENT_SYSTEM;
    struct segment *s;
    size_t seen = 0;

    why[0] = '\0';
    s = segment_open(sample.sample_path, &error, why, why_len);
    assert_true((s != NULL) == (error == SEGMENT_OK));
    assert_true((s != NULL) == (why[0] == '\0'));
    if (s != NULL) {
        report_json(s, discard, &seen);
        report_prometheus(s, discard, &seen);
        assert_true(seen > 0);
        segment_close(&s);
    }
    return error;
}

static void test_good(void **state)
{
    char why[256];

    (void)state;
    put(good, good_len);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_OK);
}

static void test_absent(void **state)
{
    enum segment_error error;
    char why[256];

    (void)state;
    unlink(sample.sample_path);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_ABSENT);
    assert_non_null(strstr(why, sample.sample_path));
    assert_null(segment_open("/dev/null/stats.shm", &error, why, sizeof(why)));
    assert_int_equal(error, SEGMENT_ABSENT);
}

static void test_not_a_file(void **state)
{
    enum segment_error error;
    char why[256];

    (void)state;
    assert_null(segment_open(sample.sample_dir, &error, why, sizeof(why)));
    assert_int_equal(error, SEGMENT_FOREIGN);
    assert_null(segment_open("/dev/zero", &error, why, sizeof(why)));
    assert_int_equal(error, SEGMENT_FOREIGN);
}

static void test_no_room_for_why(void **state)
{
    enum segment_error error;
    char why[4] = "xyz";

    (void)state;
    assert_null(segment_open(sample.sample_dir, &error, why, 0));
    assert_string_equal(why, "xyz");
    assert_null(segment_open(sample.sample_dir, &error, why, sizeof(why)));
    assert_int_equal(strlen(why), 3);
}

static void test_foreign(void **state)
{
    static const char *const texts[] = {"x", "hello, world\n", "vanillb and then some more text that is long enough",
                                        "#!/bin/sh\n"};
    uint8_t *junk = malloc(good_len);
    char why[256];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(texts[i], strlen(texts[i]));
        assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
    }
    assert_non_null(junk);
    for (i = 0; i < good_len; i++)
        junk[i] = (uint8_t)(i * 2654435761u >> 13);
    put(junk, good_len);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
    memset(junk, 0, good_len);
    put(junk, good_len);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
    free(junk);
}

/* Each length in the header and the directory, then some. */
static void test_truncated(void **state)
{
    enum segment_error error;
    char why[256];
    size_t len;

    (void)state;
    for (len = 0; len < good_len; len += len < 1024 ? 1 : 509) {
        put(good, len);
        error = look(why, sizeof(why));
        assert_int_equal(error, len == 0 ? SEGMENT_FOREIGN : SEGMENT_TRUNCATED);
    }
    put(good, good_len - 1);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_TRUNCATED);
}

/* While somebody cuts the file and fills it again. */
static void test_shrinks_while_it_is_read(void **state)
{
    enum segment_error error;
    char why[256];
    unsigned i;
    pid_t pid;
    int fd;

    (void)state;
    put(good, good_len);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fd = open(sample.sample_path, O_RDWR);
        for (;;)
            if (fd < 0 || ftruncate(fd, (off_t)good_len / 2) != 0 || ftruncate(fd, 0) != 0 ||
                pwrite(fd, good, good_len, 0) != (ssize_t)good_len)
                _exit(1);
    }
    for (i = 0; i < 500; i++) {
        error = look(why, sizeof(why));
        assert_true(error == SEGMENT_OK || error == SEGMENT_TRUNCATED || error == SEGMENT_FOREIGN);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_too_long(void **state)
{
    uint8_t *longer = calloc(1, good_len + 1);
    char why[256];

    (void)state;
    assert_non_null(longer);
    memcpy(longer, good, good_len);
    put(longer, good_len + 1);
    assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
    free(longer);
}

/* Whether a flipped bit here must be noticed: not in the version's text, nor where the length of the strings ends in
 * the padding behind them. */
static bool checked(size_t at)
{
    return at < offsetof(struct layout_header, layout_server_version) ||
           (at >= offsetof(struct layout_header, layout_total) &&
            at < offsetof(struct layout_header, layout_strings_len)) ||
           at >= offsetof(struct layout_header, layout_off_master);
}

/* Every bit of the header, every octet of the directory: an error or figures, but never a crash. */
static void test_flipped_bits(void **state)
{
    struct layout_map map;
    size_t i, refused = 0, fixed = offsetof(struct layout_header, layout_started_realtime_ns);
    enum segment_error error;
    char why[256];
    unsigned bit;

    (void)state;
    assert_int_equal(layout_map(&map, 2, 2, 3, layout_header(sample.sample_segment)->layout_strings_len), 0);
    for (i = 0; i < map.map_past; i++) {
        for (bit = 0; bit < 8; bit += i < sizeof(struct layout_header) ? 1 : 3) {
            good[i] ^= (uint8_t)(1u << bit);
            put(good, good_len);
            error = look(why, sizeof(why));
            good[i] ^= (uint8_t)(1u << bit);
            refused += error != SEGMENT_OK;
            if (i < fixed && checked(i))
                assert_int_not_equal(error, SEGMENT_OK);
        }
    }
    assert_true(refused > 0);
}

static void with_header(void (*change)(struct layout_header *h), enum segment_error want, char *why, size_t why_len)
{
    struct layout_header *h = (struct layout_header *)(void *)good, kept = *h;
    enum segment_error error;

    change(h);
    put(good, good_len);
    error = look(why, why_len);
    *h = kept;
    assert_int_equal(error, want);
}

static void newer_layout(struct layout_header *h)
{
    h->layout_version = LAYOUT_VERSION + 1;
    h->layout_header_size *= 2;
    snprintf(h->layout_server_version, sizeof(h->layout_server_version), "99.1.0");
}

static void older_layout(struct layout_header *h)
{
    h->layout_version = LAYOUT_VERSION - 1;
    snprintf(h->layout_server_version, sizeof(h->layout_server_version), "0.0.9");
}

static void newer_table(struct layout_header *h)
{
    h->layout_hash ^= 1;
    snprintf(h->layout_server_version, sizeof(h->layout_server_version), "0.10.0");
}

static void older_table(struct layout_header *h)
{
    h->layout_hash ^= 1;
    snprintf(h->layout_server_version, sizeof(h->layout_server_version), "0.0.9");
}

static void more_counters(struct layout_header *h)
{
    h->layout_hash ^= 1;
    h->layout_stats_pool++;
}

static void fewer_counters(struct layout_header *h)
{
    h->layout_hash ^= 1;
    h->layout_stats_worker--;
}

static void other_counters(struct layout_header *h)
{
    h->layout_hash ^= 1;
}

static void escape_sequence(struct layout_header *h)
{
    h->layout_version = LAYOUT_VERSION + 1;
    memset(h->layout_server_version, '\033', sizeof(h->layout_server_version));
}

static void huge_workers(struct layout_header *h)
{
    h->layout_workers = UINT32_MAX;
}

static void huge_pools(struct layout_header *h)
{
    h->layout_pools = LAYOUT_POOLS_MAX;
}

static void huge_routes(struct layout_header *h)
{
    h->layout_routes = UINT32_MAX / 2;
}

static void huge_strings(struct layout_header *h)
{
    h->layout_strings_len = UINT32_MAX;
}

static void no_strings(struct layout_header *h)
{
    h->layout_strings_len = 0;
}

static void no_workers(struct layout_header *h)
{
    h->layout_workers = 0;
}

static void far_blocks(struct layout_header *h)
{
    h->layout_off_blocks = UINT64_MAX - 64;
}

static void far_strings(struct layout_header *h)
{
    h->layout_off_strings = good_len;
}

static void huge_total(struct layout_header *h)
{
    h->layout_total = UINT64_MAX;
}

static void test_older_and_newer(void **state)
{
    char why[256];

    (void)state;
    with_header(newer_layout, SEGMENT_NEWER, why, sizeof(why));
    assert_non_null(strstr(why, "99.1.0"));
    assert_non_null(strstr(why, "which is newer than this"));
    with_header(older_layout, SEGMENT_OLDER, why, sizeof(why));
    assert_non_null(strstr(why, "which is older than this"));
    with_header(newer_table, SEGMENT_NEWER, why, sizeof(why));
    with_header(older_table, SEGMENT_OLDER, why, sizeof(why));
    with_header(more_counters, SEGMENT_NEWER, why, sizeof(why));
    with_header(fewer_counters, SEGMENT_OLDER, why, sizeof(why));
    with_header(other_counters, SEGMENT_FOREIGN, why, sizeof(why));
    with_header(escape_sequence, SEGMENT_NEWER, why, sizeof(why));
    assert_null(strchr(why, '\033'));
}

static void test_impossible_headers(void **state)
{
    static void (*const changes[])(struct layout_header *) = {huge_workers, huge_pools,  huge_routes,
                                                              huge_strings, no_strings,  no_workers,
                                                              far_blocks,   far_strings, huge_total};
    char why[256];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        with_header(changes[i], SEGMENT_FOREIGN, why, sizeof(why));
}

static void test_directory_out_of_range(void **state)
{
    static const uint64_t offsets[] = {UINT64_MAX, 1u << 20, (uint64_t)1 << 63};
    uint64_t *cells = (uint64_t *)(void *)(good + sample.sample_segment->segment_map.map_pools), kept;
    size_t i, j;
    /* name of pool 0; method and path of route 0 stand after two pools of two cells each */
    static const size_t which[] = {0, 4, 5};
    char why[256];

    (void)state;
    for (i = 0; i < 3; i++) {
        for (j = 0; j < sizeof(offsets) / sizeof(offsets[0]); j++) {
            kept = cells[which[i]];
            cells[which[i]] = offsets[j];
            put(good, good_len);
            cells[which[i]] = kept;
            assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
        }
    }
}

static void test_strings_without_end(void **state)
{
    const struct segment *s = sample.sample_segment;
    uint8_t *last = good + s->segment_map.map_strings + s->segment_strings_len - 1;
    char why[256];

    (void)state;
    *last = 'x';
    put(good, good_len);
    *last = '\0';
    assert_int_equal(look(why, sizeof(why)), SEGMENT_FOREIGN);
}

static void test_versions(void **state)
{
    (void)state;
    assert_int_equal(open_compare_versions("0.1.0", "0.1.0"), 0);
    assert_int_equal(open_compare_versions("0.9.1", "0.10.0"), -1);
    assert_int_equal(open_compare_versions("1.0.0", "0.99.9"), 1);
    assert_int_equal(open_compare_versions("1.0", "1.0.1"), -1);
    assert_int_equal(open_compare_versions("1.0.1", "1.0"), 1);
    assert_int_equal(open_compare_versions("", ""), 0);
    assert_int_equal(open_compare_versions("1.0-a", "1.0-b"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_no_room_for_why),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_shrinks_while_it_is_read),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_older_and_newer),
        cmocka_unit_test(test_impossible_headers),
        cmocka_unit_test(test_directory_out_of_range),
        cmocka_unit_test(test_strings_without_end),
        cmocka_unit_test(test_versions),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
