/*
 * The protocol of the response cache, with threads in the place of workers: each writes in its own few cells, over and
 * over until enough was found, and now and then dies in the middle of it; others read all of them.  An answer says for
 * which key it is and when it was made, and all the rest of it follows from these two, so that a torn one is seen.
 */
#include "tests/profile/cache_threads.h"

#include <pthread.h>
#include <stdio.h>

#include "shm/cache.c"
#include "tests/profile/hidden.h"

#define WRITERS 3u
#define READERS 3u
#define KEYS 12u
#define DIES_EVERY 97u   /* turns */
#define FOUND_LEAST 300u /* answers, by each reader, while the writers write */
#define BODY_WORDS 40u
#define BODY_MAX 400u /* words */

struct reader {
    unsigned reader_number;
    uint64_t reader_hits, reader_misses, reader_wrong;
};

static struct cache *cells;
static uint64_t writer_turns;
static struct {
    uint64_t tell_stored[WRITERS]; /* answers, of those that are through */
    uint64_t tell_found[READERS];  /* answers, so far */
} tell;                            /* atomic words too: a lock would keep threads from meeting */

static void *writer_run(void *arg);
static void *reader_run(void *arg);
static bool all_done(void);
static uint64_t found_least(void);
static uint32_t body_fill(uint64_t body[BODY_MAX], uint32_t number, uint64_t turn);
static struct cache_key key_make(uint64_t octets[2], uint32_t number);
static void die(unsigned slot, uint64_t turn);
static uint64_t mix(uint64_t v);

bool cache_threads_hold(uint64_t turns)
{
    pthread_t writers[WRITERS], readers[READERS];
    unsigned slots[WRITERS], i;
    struct reader seen[READERS] = {{0}}, all = {0};
    uint64_t stored = 0;
    bool good;

    writer_turns = turns;
    cells = cache_new(WRITERS, 5 * CACHE_PAGE); /* four cells each: less than there are keys */
    AN(cells != NULL);
    hide_from_helgrind(cells->cache_base, cells->cache_region * WRITERS);
    hide_from_helgrind(&tell, sizeof(tell));
    for (i = 0; i < READERS; i++) {
        seen[i].reader_number = i;
        AZ(pthread_create(&readers[i], NULL, reader_run, &seen[i]));
    }
    for (i = 0; i < WRITERS; i++) {
        slots[i] = i;
        AZ(pthread_create(&writers[i], NULL, writer_run, &slots[i]));
    }
    for (i = 0; i < WRITERS; i++) {
        AZ(pthread_join(writers[i], NULL));
        stored += tell.tell_stored[i];
    }
    for (i = 0; i < READERS; i++) {
        AZ(pthread_join(readers[i], NULL));
        all.reader_hits += seen[i].reader_hits;
        all.reader_misses += seen[i].reader_misses;
        all.reader_wrong += seen[i].reader_wrong;
    }
    cache_free(&cells);
    good = all.reader_hits > 0 && all.reader_wrong == 0;
    printf("%s cache: %llu answers stored, %llu found, %llu not, %llu torn or another's\n", good ? "ok  " : "FAIL",
           (unsigned long long)stored, (unsigned long long)all.reader_hits, (unsigned long long)all.reader_misses,
           (unsigned long long)all.reader_wrong);
    return good;
}

static void *writer_run(void *arg)
{
    const unsigned *slot = arg;
    uint64_t body[BODY_MAX], octets[2], turn;

    for (turn = 1; turn <= writer_turns || turn % 256 != 0 || found_least() < FOUND_LEAST; turn++) {
        uint32_t number = (uint32_t)(mix(turn * WRITERS + *slot) % KEYS);
        struct cache_key key = key_make(octets, number);
        struct cache_answer answer = {200, 0, body, turn};

        answer.answer_len = body_fill(body, number, turn);
        cache_store(cells, *slot, &key, &answer);
        if (turn % DIES_EVERY == 0)
            die(*slot, turn);
    }
    __atomic_store_n(&tell.tell_stored[*slot], turn - 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *reader_run(void *arg)
{
    struct reader *seen = arg;
    uint64_t wanted[BODY_MAX], octets[2], n = mix((uintptr_t)arg), since = 0;
    struct cache_copy copy;
    struct cache_answer answer;

    while (!all_done()) {
        uint32_t number = (uint32_t)((n = mix(n)) % KEYS), len;
        struct cache_key key = key_make(octets, number);

        if (!cache_find(cells, (unsigned)(n >> 32) % WRITERS, &key, since, &copy, &answer)) {
            seen->reader_misses++;
            since = 0;
            continue;
        }
        len = body_fill(wanted, number, answer.answer_ns);
        __atomic_store_n(&tell.tell_found[seen->reader_number], ++seen->reader_hits, __ATOMIC_RELAXED);
        seen->reader_wrong += answer.answer_ns < since || answer.answer_len != len || answer.answer_status != 200 ||
                              memcmp(answer.answer_body, wanted, len) != 0;
        since = n % 2 == 0 ? answer.answer_ns : 0;
    }
    return NULL;
}

static bool all_done(void)
{
    unsigned i;

    for (i = 0; i < WRITERS; i++)
        if (__atomic_load_n(&tell.tell_stored[i], __ATOMIC_ACQUIRE) == 0)
            return false;
    return true;
}

/* Of the reader that has found least. */
static uint64_t found_least(void)
{
    uint64_t least = UINT64_MAX, one;
    unsigned i;

    for (i = 0; i < READERS; i++) {
        one = __atomic_load_n(&tell.tell_found[i], __ATOMIC_RELAXED);
        least = one < least ? one : least;
    }
    return least;
}

/* The answer to key `number` of that turn; returns its octets. */
static uint32_t body_fill(uint64_t body[BODY_MAX], uint32_t number, uint64_t turn)
{
    uint64_t v = mix(turn << 8 | number);
    unsigned words = BODY_WORDS + (unsigned)(v % (BODY_MAX - BODY_WORDS)), i;

    for (i = 0; i < words; i++)
        body[i] = v = v * UINT64_C(6364136223846793005) + number;
    return words * 8 - (uint32_t)(turn % 8);
}

/* Two routes, keys of two lengths. */
static struct cache_key key_make(uint64_t octets[2], uint32_t number)
{
    octets[0] = number / 2;
    octets[1] = ~octets[0];
    return (struct cache_key){number % 2, number % 3 == 0 ? 16 : 8, octets};
}

/* Killed while it wrote; the next one begins. */
static void die(unsigned slot, uint64_t turn)
{
    struct place p = cache_place(cells, slot, (unsigned)(turn / DIES_EVERY % CACHE_WAYS));
    unsigned i;

    word_store(&p.place_index->index_sequence, word_load(&p.place_index->index_sequence) | 1);
    for (i = 0; i < BODY_WORDS; i++)
        word_store(&p.place_cell->cell_words[i + 2], mix(turn + i));
    cache_attach(cells, slot);
}

/* splitmix64 */
static uint64_t mix(uint64_t v)
{
    v += UINT64_C(0x9e3779b97f4a7c15);
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    return v ^ v >> 31;
}
