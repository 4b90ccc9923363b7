#include <sys/wait.h>

#include "shm/segment.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/view.h"
#include "tests/unit/sample_segment.h"

static int setup(void **state)
{
    static struct sample sample;

    sample_new(&sample);
    *state = &sample;
    return 0;
}

static int teardown(void **state)
{
    sample_free(*state);
    return 0;
}

static struct segment *reopen(const struct sample *sample)
{
    enum segment_error error;
    char why[256];
    struct segment *s = segment_open(sample->sample_path, &error, why, sizeof(why));

    if (s == NULL)
        fail_msg("%s", why);
    return s;
}

static void test_a_reader_sees_what_was_written(void **state)
{
    struct sample *sample = *state;
    struct view_server server;
    struct view_worker worker;
    struct histogram h;
    struct segment *s;

    segment_attach(sample->sample_segment, 1, 4242, 3, 7);
    stat_add(STAT_http_requests, 11);
    stat_set(STAT_http_connections, 2);
    stat_pool_add(1, STAT_pool_queries, 5);
    stat_route_add(2, STAT_route_requests, 6);
    histogram_record(&stats.stats_routes[2].route_us, 30);
    segment_worker_state(sample->sample_segment, 1, WORKER_STATE_READY);
    segment_heartbeat(sample->sample_segment, 1, 99);
    segment_master_add(sample->sample_segment, STAT_master_restarts, 1);
    segment_master_add(sample->sample_segment, STAT_master_restarts, 2);
    segment_set_max_inflight(sample->sample_segment, 1, 8);

    s = reopen(sample);
    view_server(s, &server);
    assert_string_equal(server.server_version, VANILLA_VERSION);
    assert_int_equal(server.server_master_pid, getpid());
    assert_int_equal(server.server_generation, 7);
    assert_false(server.server_stale);
    assert_int_equal(view_workers(s), 2);
    assert_int_equal(view_pools(s), 2);
    assert_int_equal(view_routes(s), 3);
    view_worker(s, 1, &worker);
    assert_int_equal(worker.worker_slot, 1);
    assert_int_equal(worker.worker_pid, 4242);
    assert_int_equal(worker.worker_cpu, 3);
    assert_int_equal(worker.worker_state, WORKER_STATE_READY);
    assert_int_equal(worker.worker_generation, 7);
    assert_true(worker.worker_started_ns > 0);
    assert_true(worker.worker_ready_ns >= worker.worker_started_ns);
    assert_int_equal(worker.worker_heartbeat_ns, 99);
    view_worker(s, 0, &worker);
    assert_int_equal(worker.worker_state, WORKER_STATE_NONE);
    assert_int_equal(worker.worker_cpu, -1);
    assert_int_equal(worker.worker_ready_ns, 0);
    assert_string_equal(view_pool_name(s, 0), "read");
    assert_int_equal(view_pool_max_inflight(s, 0), 32);
    assert_int_equal(view_pool_max_inflight(s, 1), 8);
    assert_string_equal(view_route_method(s, 2), "POST");
    assert_string_equal(view_route_path(s, 0), "/items/{id}");
    assert_int_equal(view_route_pool(s, 1), -1);
    assert_int_equal(view_route_pool(s, 2), 1);
    assert_int_equal(view_worker_counter(s, 1, STAT_http_requests), 11);
    assert_int_equal(view_worker_counter(s, 0, STAT_http_requests), 0);
    assert_int_equal(view_worker_pool(s, 1, 1, STAT_pool_queries), 5);
    assert_int_equal(view_worker_pool(s, 1, 0, STAT_pool_queries), 0);
    assert_int_equal(view_route(s, 2, STAT_route_requests), 6);
    view_route_histogram(s, 2, &h);
    assert_int_equal(h.histogram_sum, 30);
    assert_int_equal(h.histogram_cells[30], 1);
    assert_int_equal(view_master(s, STAT_master_restarts), 3);
    segment_close(&s);
    assert_null(s);
}

static void test_a_successor_goes_on(void **state)
{
    struct sample *sample = *state;

    segment_attach(sample->sample_segment, 0, 100, 0, 1);
    segment_worker_state(sample->sample_segment, 0, WORKER_STATE_READY);
    stat_add(STAT_http_requests, 10);
    stat_set(STAT_http_connections, 3);
    stat_set(STAT_memory_buffers_peak, 777);
    stat_set(STAT_memory_request, 320);
    stat_pool_add(0, STAT_pool_queries, 4);
    stat_pool_set(0, STAT_pool_inflight, 2);
    stat_route_add(0, STAT_route_requests, 9);
    stat_route_set(0, STAT_route_broken, 1);
    histogram_record(&stats.stats_routes[0].route_us, 5);
    stats_private();

    segment_attach(sample->sample_segment, 0, 101, 0, 1);
    assert_int_equal(stats.stats_worker[STAT_http_requests], 10);
    stat_add(STAT_http_requests, 1);
    assert_int_equal(view_worker_counter(sample->sample_segment, 0, STAT_http_requests), 11);
    assert_int_equal(view_worker_counter(sample->sample_segment, 0, STAT_http_connections), 0);
    assert_int_equal(view_worker_counter(sample->sample_segment, 0, STAT_memory_buffers_peak), 777);
    assert_int_equal(view_worker_counter(sample->sample_segment, 0, STAT_memory_request), 0);
    assert_int_equal(view_worker_pool(sample->sample_segment, 0, 0, STAT_pool_queries), 4);
    assert_int_equal(view_worker_pool(sample->sample_segment, 0, 0, STAT_pool_inflight), 0);
    assert_int_equal(view_route(sample->sample_segment, 0, STAT_route_requests), 9);
    assert_int_equal(view_route(sample->sample_segment, 0, STAT_route_broken), 0);
    assert_int_equal(stats.stats_routes[0].route_us.histogram_cells[5], 1);
}

static void test_a_successor_is_not_ready_yet(void **state)
{
    struct sample *sample = *state;
    struct view_worker worker;

    segment_attach(sample->sample_segment, 0, 100, 0, 1);
    segment_worker_state(sample->sample_segment, 0, WORKER_STATE_READY);
    segment_attach(sample->sample_segment, 0, 101, -1, 2);
    view_worker(sample->sample_segment, 0, &worker);
    assert_int_equal(worker.worker_state, WORKER_STATE_STARTING);
    assert_int_equal(worker.worker_pid, 101);
    assert_int_equal(worker.worker_cpu, -1);
    assert_int_equal(worker.worker_generation, 2);
    assert_int_equal(worker.worker_ready_ns, 0);
}

static void test_blocks_do_not_touch(void **state)
{
    struct segment *s = ((struct sample *)*state)->sample_segment;
    uint64_t before = view_total(s, STAT_http_requests);
    unsigned slot;

    for (slot = 0; slot < 2; slot++) {
        segment_attach(s, slot, 1, 0, 1);
        assert_int_equal((uintptr_t)layout_worker(s, slot) % LAYOUT_PAGE, 0);
        assert_int_equal((uintptr_t)stats.stats_worker % LAYOUT_LINE, 0);
        memset(stats.stats_worker, 0xff, sizeof(uint64_t[STAT_WORKER_N]));
        memset(stats.stats_pools, 0xff, 2 * sizeof(struct stats_pool));
        memset(stats.stats_routes, 0xff, 3 * sizeof(struct stats_route));
        if (slot == 0) /* not one octet of it in the other's */
            assert_int_equal(view_worker_counter(s, 1, STAT_http_requests), 0);
    }
    assert_int_equal(before, 0);
    assert_int_equal(layout_worker(s, 1)->worker_slot, 1);
    assert_string_equal(view_pool_name(s, 0), "read");
}

/* What another process writes is seen, and is never older than what was seen before. */
static void test_writer_and_reader_processes(void **state)
{
    struct sample *sample = *state;
    uint64_t now, last = 0;
    struct segment *s;
    unsigned i;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        segment_attach(sample->sample_segment, 1, (int)getpid(), 0, 1);
        for (i = 0; i < 1000000; i++) {
            stat_add(STAT_http_requests, 1);
            histogram_record(&stats.stats_routes[0].route_us, i);
        }
        _exit(0);
    }
    for (i = 0; i < 100; i++) {
        s = reopen(sample);
        now = view_total(s, STAT_http_requests);
        assert_true(now >= last);
        last = now;
        segment_close(&s);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    s = reopen(sample);
    assert_int_equal(view_total(s, STAT_http_requests), 1000000);
    segment_close(&s);
}

static void test_marked_stale(void **state)
{
    struct sample *sample = *state;
    struct view_server server;
    struct segment *s;

    segment_mark_stale(sample->sample_segment);
    s = reopen(sample);
    view_server(s, &server);
    assert_true(server.server_stale);
    assert_true(server.server_stale_ns >= server.server_started_ns);
    segment_close(&s);
}

static void test_a_master_that_is_gone(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    struct view_server server;
    struct segment *s;
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) { /* a master that dies without a word */
        s = segment_create(sample->sample_path, &shape);
        if (s == NULL)
            _exit(1);
        segment_heartbeat(s, 0, layout_header(s)->layout_started_monotonic_ns + 5000000000u);
        segment_close(&s);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    s = reopen(sample);
    view_server(s, &server);
    assert_int_equal(server.server_master_pid, pid);
    assert_true(server.server_stale);
    assert_int_equal(server.server_stale_ns, server.server_started_ns + 5000000000u);
    assert_int_equal(server.server_uptime_ns, 5000000000u);
    segment_close(&s);
}

static void test_a_master_s_pid_used_again(void **state)
{
    struct sample *sample = *state;
    struct view_server server;
    struct segment *s;

    layout_header(sample->sample_segment)->layout_master_ticks += 1;
    s = reopen(sample);
    view_server(s, &server);
    assert_true(server.server_stale);
    segment_close(&s);
}

/* A file that is there is replaced, not written over: who has it mapped keeps it. */
static void test_create_replaces(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    struct segment *old = sample->sample_segment, *s;
    struct stat st;
    mode_t mask = umask(0077);

    segment_attach(old, 0, 1, 0, 1);
    stat_add(STAT_http_requests, 1);
    sample->sample_segment = segment_create(sample->sample_path, &shape);
    umask(mask);
    assert_non_null(sample->sample_segment);
    assert_int_equal(view_total(old, STAT_http_requests), 1);
    s = reopen(sample);
    assert_int_equal(view_total(s, STAT_http_requests), 0);
    segment_close(&s);
    segment_close(&old);
    assert_int_equal(stat(sample->sample_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_blocks * 512 >= st.st_size, 1); /* nothing that a full file system could refuse later */
}

/* A process that was attached counts in private memory again, but not for another segment's sake. */
static void test_close_detaches(void **state)
{
    struct sample *sample = *state;
    struct segment *s = reopen(sample);
    uint64_t *own;

    segment_attach(sample->sample_segment, 1, 1, 0, 1);
    own = stats.stats_worker;
    segment_close(&s);
    assert_ptr_equal(stats.stats_worker, own);
    segment_close(&sample->sample_segment);
    assert_ptr_not_equal(stats.stats_worker, own);
    stat_add(STAT_http_requests, 1);
    stat_pool_add(STATS_PRIVATE_MAX - 1, STAT_pool_queries, 1);
    stat_route_add(STATS_PRIVATE_MAX - 1, STAT_route_requests, 1);
}

static void test_create_that_fails(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = sample_shape();
    char path[PATH_MAX + 8];

    assert_null(segment_create("/nonexistent/stats.shm", &shape));
    assert_int_equal(errno, ENOENT);
    assert_null(segment_create(sample->sample_dir, &shape)); /* a directory: the rename is refused */
    assert_int_equal(errno, EISDIR);
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_null(segment_create(path, &shape));
    assert_int_equal(errno, ENAMETOOLONG);
    shape.shape_workers = LAYOUT_WORKERS_MAX + 1;
    assert_null(segment_create(sample->sample_path, &shape));
    assert_int_equal(errno, EINVAL);
    /* no temporary file is left: the teardown's rmdir would say so */
}

static void test_nothing_to_show(void **state)
{
    struct sample *sample = *state;
    struct segment_shape shape = {.shape_workers = 1, .shape_version = "a version that is far longer than its field"};
    struct view_server server;
    struct segment *s;

    segment_close(&sample->sample_segment);
    sample->sample_segment = segment_create(sample->sample_path, &shape);
    assert_non_null(sample->sample_segment);
    s = reopen(sample);
    view_server(s, &server);
    assert_string_equal(server.server_version, "a version that is far longer th");
    assert_int_equal(view_pools(s), 0);
    assert_int_equal(view_routes(s), 0);
    segment_close(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_reader_sees_what_was_written),
        TEST(test_a_successor_goes_on),
        TEST(test_a_successor_is_not_ready_yet),
        TEST(test_blocks_do_not_touch),
        TEST(test_writer_and_reader_processes),
        TEST(test_marked_stale),
        TEST(test_a_master_that_is_gone),
        TEST(test_a_master_s_pid_used_again),
        TEST(test_create_replaces),
        TEST(test_close_detaches),
        TEST(test_create_that_fails),
        TEST(test_nothing_to_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
