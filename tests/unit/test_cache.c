/* Cells of the response cache: what is found, what is not, what a killed writer leaves. */
#include "shm/cache.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define WORKERS 3u

static struct cache_copy copy;

static int setup(void **state)
{
    *state = cache_new(WORKERS, 1 << 20);
    return *state == NULL;
}

static int teardown(void **state)
{
    struct cache *c = *state;

    cache_free(&c);
    return c != NULL;
}

static struct cache_key key_of(uint32_t route, const char *text)
{
    return (struct cache_key){route, (uint32_t)strlen(text), text};
}

static void put(struct cache *c, unsigned slot, uint32_t route, const char *key_text, const char *body, uint64_t ns)
{
    struct cache_key key = key_of(route, key_text);
    struct cache_answer answer = {200, (uint32_t)strlen(body), body, ns};

    cache_store(c, slot, &key, &answer);
}

/* What worker `slot` finds: the body, or NULL. */
static const char *get(struct cache *c, unsigned slot, uint32_t route, const char *key_text, uint64_t since_ns)
{
    static char text[CACHE_ROOM + 1];
    struct cache_key key = key_of(route, key_text);
    struct cache_answer answer;

    if (!cache_find(c, slot, &key, since_ns, &copy, &answer))
        return NULL;
    memcpy(text, answer.answer_body, answer.answer_len);
    text[answer.answer_len] = '\0';
    return text;
}

static void a_new_one_is_empty(void **state)
{
    assert_null(get(*state, 0, 0, "", 0));
    assert_int_equal(cache_bytes(*state), 1 << 20);
    assert_int_equal(cache_cells(*state), 252); /* 255 pages, one of them the index, in sets of four */
}

static void all_find_what_one_stored(void **state)
{
    unsigned slot;

    put(*state, 1, 7, "key", "an answer", 100);
    for (slot = 0; slot < WORKERS; slot++)
        assert_string_equal(get(*state, slot, 7, "key", 100), "an answer");
    assert_null(get(*state, 1, 8, "key", 0)); /* another route's */
    assert_null(get(*state, 1, 7, "kez", 0));
    assert_null(get(*state, 1, 7, "ke", 0));
    assert_null(get(*state, 1, 7, "", 0));
}

static void no_answer_is_older_than_asked_for(void **state)
{
    put(*state, 0, 1, "k", "old", 100);
    assert_string_equal(get(*state, 0, 1, "k", 100), "old");
    assert_null(get(*state, 0, 1, "k", 101));
    put(*state, 2, 1, "k", "new", 200); /* another worker has a fresh one */
    assert_string_equal(get(*state, 0, 1, "k", 101), "new");
}

static void the_same_key_has_one_cell(void **state)
{
    struct cache *c = *state;
    unsigned i, taken = 0;

    for (i = 0; i < 10; i++)
        put(c, 0, 1, "k", i == 9 ? "last" : "earlier", i);
    for (i = 0; i < cache_cells(c); i++)
        taken += cache_place(c, 0, i).place_index->index_hash != 0;
    assert_int_equal(taken, 1);
    assert_string_equal(get(c, 0, 1, "k", 0), "last");
}

/* The same hash, as an attacker might make it, is another key all the same. */
static void the_hash_alone_is_not_believed(void **state)
{
    struct cache *c = *state;
    struct cache_key key = key_of(1, "one"), other = key_of(1, "two");
    unsigned first = (unsigned)((cache_hash(&other) ^ cache_hash(&other) >> 32) % c->cache_sets) * CACHE_WAYS;
    struct place p = cache_place(c, 0, first);
    const uint64_t head[CACHE_HEAD_WORDS] = {UINT64_C(1) << 32 | 200, UINT64_C(3) << 32 | 4, 1};

    place_write(p, head, &key, &(struct cache_answer){200, 4, "ones", 1});
    p.place_index->index_hash = cache_hash(&other);
    assert_null(get(c, 0, 1, "two", 0));
}

static void the_oldest_gives_way(void **state)
{
    struct cache *c = *state;
    char name[16];
    unsigned i, found = 0;

    for (i = 0; i < 10 * cache_cells(c); i++) {
        snprintf(name, sizeof(name), "%u", i);
        put(c, 0, 1, name, name, i + 1);
        assert_string_equal(get(c, 0, 1, name, 0), name); /* the latest always has its place */
    }
    for (i = 0; i < 10 * cache_cells(c); i++) {
        const char *body;

        snprintf(name, sizeof(name), "%u", i);
        body = get(c, 0, 1, name, 0);
        if (body != NULL)
            assert_string_equal(body, name);
        found += body != NULL;
    }
    assert_true(found <= cache_cells(c) && found > cache_cells(c) / 2);
}

static void lengths_up_to_the_cell(void **state)
{
    static char body[CACHE_ROOM + 1];
    unsigned len;

    memset(body, 'x', CACHE_ROOM);
    for (len = CACHE_ROOM - 8; len > CACHE_ROOM - 40; len--) {
        body[len] = '\0';
        assert_true(cache_fits(1, len));
        put(*state, 0, 1, "k", body, len);
        assert_string_equal(get(*state, 0, 1, "k", len), body);
    }
    assert_true(cache_fits(0, CACHE_ROOM) && cache_fits(CACHE_ROOM, 0));
    assert_false(cache_fits(1, CACHE_ROOM - 7));
    assert_false(cache_fits(0, CACHE_ROOM + 1));
    assert_false(cache_fits(SIZE_MAX, 1));
    put(*state, 0, 1, "", "no parameters", 1);
    assert_string_equal(get(*state, 0, 1, "", 0), "no parameters");
    put(*state, 0, 1, "none", "", 1);
    assert_string_equal(get(*state, 0, 1, "none", 0), "");
}

/* Killed after n of the steps of a write: the others find nothing there, its successor empties the cell and goes on. */
static void a_writer_dies(void **state)
{
    struct cache *c = *state;
    struct cache_key key = key_of(1, "key");
    struct place p;
    unsigned i;

    put(c, 1, 1, "key", "before", 1);
    put(c, 1, 2, "other", "stays", 1);
    i = cache_victim(c, 1, (unsigned)((cache_hash(&key) ^ cache_hash(&key) >> 32) % c->cache_sets) * CACHE_WAYS,
                     cache_hash(&key));
    p = cache_place(c, 1, i);
    p.place_index->index_sequence++;
    p.place_cell->cell_words[1] ^= 0xff00; /* half an answer, under the old key */
    assert_null(get(c, 0, 1, "key", 0));
    assert_null(get(c, 1, 1, "key", 0));
    cache_attach(c, 0); /* another's region is none of its business */
    assert_int_equal(p.place_index->index_sequence % 2, 1);
    cache_attach(c, 1);
    assert_int_equal(p.place_index->index_sequence % 2, 0);
    assert_null(get(c, 1, 1, "key", 0));
    assert_int_equal(p.place_cell->cell_head[0], 0); /* nor for one that has seen the hash before */
    assert_string_equal(get(c, 0, 2, "other", 0), "stays");
    put(c, 1, 1, "key", "after", 2);
    assert_string_equal(get(c, 0, 1, "key", 0), "after");
}

/* It may be written over before anybody puts it right. */
static void a_broken_cell_is_written_over(void **state)
{
    struct cache *c = *state;
    unsigned i;

    for (i = 0; i < cache_cells(c); i++)
        cache_place(c, 0, i).place_index->index_sequence = 5;
    put(c, 0, 1, "k", "whole", 1);
    assert_string_equal(get(c, 2, 1, "k", 0), "whole");
}

/* No number in a cell makes a reader go astray. */
static void nonsense_is_a_miss(void **state)
{
    static const uint64_t heads[][2] = {{0, UINT64_C(1) << 32}, /* no status */
                                        {UINT64_C(1) << 32 | 200, UINT64_C(1) << 32 | UINT32_MAX},
                                        {UINT64_C(1) << 32 | 200, UINT64_MAX},
                                        {UINT64_C(1) << 32 | 200, UINT64_C(1) << 32 | (CACHE_ROOM - 7)}};
    struct cache *c = *state;
    struct cache_key key = key_of(1, "k");
    unsigned i, first;

    put(c, 0, 1, "k", "body", 1);
    first = (unsigned)((cache_hash(&key) ^ cache_hash(&key) >> 32) % c->cache_sets) * CACHE_WAYS;
    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        memcpy(cache_place(c, 0, first).place_cell->cell_head, heads[i], sizeof(heads[i]));
        assert_null(get(c, 0, 1, "k", 0));
    }
}

static void sizes(void **state)
{
    struct cache *c;

    (void)state;
    assert_null(cache_new(1, 4096));
    assert_null(cache_new(0, 1 << 20));
    assert_null(cache_new(1024, SIZE_MAX / 1000));
    c = cache_new(1, 5 * 4096);
    assert_non_null(c);
    assert_int_equal(cache_cells(c), 4);
    cache_free(&c);
    cache_free(&c);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_new_one_is_empty),
        TEST(all_find_what_one_stored),
        TEST(no_answer_is_older_than_asked_for),
        TEST(the_same_key_has_one_cell),
        TEST(the_hash_alone_is_not_believed),
        TEST(the_oldest_gives_way),
        TEST(lengths_up_to_the_cell),
        TEST(a_writer_dies),
        TEST(a_broken_cell_is_written_over),
        TEST(nonsense_is_a_miss),
        cmocka_unit_test(sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
