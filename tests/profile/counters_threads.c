/*
 * The protocols of the shared memory.  Here that of the counters, one writer and readers that never wait for it, with
 * threads in the place of processes so that ThreadSanitizer and helgrind can watch: a worker counts in its block of the
 * segment, others read the mapping and take copies of the file.  No figure may go back, and at the end none is lost.
 * The cache's is in cache_threads.c.
 *
 *     counters_threads [TURNS]
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/view.h"
#include "tests/profile/cache_threads.h"
#include "tests/profile/hidden.h"
#include "tests/unit/sample_segment.h"

#define MAPPING_READERS 2
#define LOOKS_LEAST 20u /* of each reader, while the writer writes */

static struct sample sample;
static uint64_t turns = 100000;
static struct {
    uint64_t tell_done;                        /* the writer is through */
    uint64_t tell_looks[MAPPING_READERS + 1u]; /* of each reader so far, while it was not */
} tell;                                        /* atomic words too: a lock would keep threads from meeting */

static void *writer_run(void *unused);
static void *mapping_run(void *number);
static void *copies_run(void *unused);
static bool is_done(unsigned reader);
static uint64_t looks(void);
static bool look(const struct segment *s, uint64_t last[4]);

int main(int argc, char **argv)
{
    pthread_t writer, readers[MAPPING_READERS], copier;
    struct histogram h;
    uint64_t latencies = 0, wanted;
    unsigned numbers[MAPPING_READERS], i;
    bool good, cache_good;

    if (argc > 1)
        turns = strtoull(argv[1], NULL, 10);
    wanted = turns;
    hide_from_helgrind(&tell, sizeof(tell));
    sample_new(&sample);
    hide_from_helgrind(sample.sample_segment->segment_base, sample.sample_segment->segment_map.map_total);
    segment_attach(sample.sample_segment, 0, getpid(), 0, 1);
    segment_worker_state(sample.sample_segment, 0, WORKER_STATE_READY);
    AZ(pthread_create(&writer, NULL, writer_run, NULL));
    for (i = 0; i < MAPPING_READERS; i++) {
        numbers[i] = i;
        AZ(pthread_create(&readers[i], NULL, mapping_run, &numbers[i]));
    }
    AZ(pthread_create(&copier, NULL, copies_run, NULL));
    AZ(pthread_join(writer, NULL));
    for (i = 0; i < MAPPING_READERS; i++)
        AZ(pthread_join(readers[i], NULL));
    AZ(pthread_join(copier, NULL));
    view_route_histogram(sample.sample_segment, 0, &h);
    latencies = histogram_count(h.histogram_cells);
    good = view_total(sample.sample_segment, STAT_http_requests) == turns &&
           view_pool(sample.sample_segment, 1, STAT_pool_queries) == turns && latencies == turns;
    sample_free(&sample);
    printf("%s counters: %llu turns, %llu latencies, %llu looks meanwhile at least\n", good ? "ok  " : "FAIL",
           (unsigned long long)turns, (unsigned long long)latencies, (unsigned long long)looks());
    cache_good = cache_threads_hold(wanted);
    printf("%d passed, %d failed\n", good + cache_good, !good + !cache_good);
    return good && cache_good ? 0 : 1;
}

/* The worker: the only one that writes; at least so many turns, and until it was looked at. */
static void *writer_run(void *unused)
{
    uint64_t n;

    (void)unused;
    for (n = 0; n < turns || n % 1024 != 0 || looks() < LOOKS_LEAST; n++) {
        stat_add(STAT_http_requests, 1);
        stat_set(STAT_http_connections, n % 100);
        stat_pool_add(1, STAT_pool_queries, 1);
        stat_route_add(0, STAT_route_requests, 1);
        histogram_record(&stats.stats_routes[0].route_us, n % 5000);
        if (n % 1024 == 0)
            segment_heartbeat(sample.sample_segment, 0, n + 1);
    }
    turns = n;
    __atomic_store_n(&tell.tell_done, 1, __ATOMIC_RELEASE);
    return unused;
}

/* The master, and whoever has the mapping. */
static void *mapping_run(void *number)
{
    uint64_t last[4] = {0};

    while (!is_done(*(const unsigned *)number))
        AN(look(sample.sample_segment, last));
    return NULL;
}

/* vanillactl. */
static void *copies_run(void *unused)
{
    uint64_t last[4] = {0};
    enum segment_error error;
    char why[256];

    (void)unused;
    while (!is_done(MAPPING_READERS)) {
        struct segment *copy = segment_open(sample.sample_path, &error, why, sizeof why);

        AN(copy != NULL);
        AN(look(copy, last));
        segment_close(&copy);
    }
    return unused;
}

/* Asked before each look. */
static bool is_done(unsigned reader)
{
    if (__atomic_load_n(&tell.tell_done, __ATOMIC_ACQUIRE) != 0)
        return true;
    __atomic_store_n(&tell.tell_looks[reader], tell.tell_looks[reader] + 1, __ATOMIC_RELAXED);
    return false;
}

/* Of the reader that has looked least. */
static uint64_t looks(void)
{
    uint64_t least = UINT64_MAX, one;
    unsigned i;

    for (i = 0; i <= MAPPING_READERS; i++) {
        one = __atomic_load_n(&tell.tell_looks[i], __ATOMIC_RELAXED);
        least = one < least ? one : least;
    }
    return least;
}

/* No figure goes back. */
static bool look(const struct segment *s, uint64_t last[4])
{
    struct histogram h;
    struct view_worker w;
    uint64_t now[4];
    bool good = true;
    unsigned i;

    view_worker(s, 0, &w);
    view_route_histogram(s, 0, &h);
    now[0] = view_total(s, STAT_http_requests);
    now[1] = view_pool(s, 1, STAT_pool_queries);
    now[2] = histogram_count(h.histogram_cells);
    now[3] = w.worker_heartbeat_ns;
    for (i = 0; i < 4; i++) {
        good = good && now[i] >= last[i];
        last[i] = now[i];
    }
    return good && view_total(s, STAT_http_connections) < 100;
}
