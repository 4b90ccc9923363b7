#include "shm/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_MAGIC 0xcac4e001u
#define CACHE_WAYS 4u /* places for one hash: their index is one line of the processor's cache */
#define CACHE_PAGE 4096u

struct cache_index {
    uint64_t index_sequence; /* odd: the cell is being written */
    uint64_t index_hash;     /* 0: empty; a hint, written last */
};

struct cache_cell {
    uint64_t cell_head[CACHE_HEAD_WORDS];
    uint64_t cell_words[CACHE_WORDS]; /* the key's, then the answer's */
};

struct cache {
    unsigned magic;
    unsigned cache_workers, cache_sets; /* cells of a worker: sets x CACHE_WAYS */
    size_t cache_region;                /* octets */
    size_t cache_index_bytes;           /* in whole pages */
    uint8_t *cache_base;
};

/* One cell and its entry in the index. */
struct place {
    struct cache_index *place_index;
    struct cache_cell *place_cell;
};

static uint64_t cache_hash(const struct cache_key *key);
static struct place cache_place(const struct cache *c, unsigned slot, unsigned cell);
static unsigned cache_victim(const struct cache *c, unsigned slot, unsigned first, uint64_t hash);
static bool place_read(struct place p, const struct cache_key *key, uint64_t since_ns, struct cache_copy *copy,
                       struct cache_answer *answer);
static void place_write(struct place p, const uint64_t head[CACHE_HEAD_WORDS], const struct cache_key *key,
                        const struct cache_answer *answer);
static void words_put(uint64_t *to, const void *octets, size_t n);
static size_t words_of(size_t octets);

/* Orders nothing by itself: for a reader's load to be an acquire and a writer's store a release costs nothing here, and
 * unlike a fence it is understood by ThreadSanitizer.  The release of each word keeps it behind the odd sequence, the
 * acquire keeps the second look at the sequence behind each word. */
static inline uint64_t word_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void word_store(uint64_t *word, uint64_t v)
{
    __atomic_store_n(word, v, __ATOMIC_RELEASE);
}

struct cache *cache_new(unsigned workers, size_t bytes)
{
    struct cache *c = calloc(1, sizeof(*c));

    _Static_assert(sizeof(struct cache_cell) == CACHE_CELL, "a cell is a page");
    if (c == NULL)
        return NULL;
    c->cache_workers = workers;
    c->cache_region = bytes / CACHE_PAGE * CACHE_PAGE;
    c->cache_sets = (unsigned)(c->cache_region / (CACHE_WAYS * (CACHE_CELL + sizeof(struct cache_index))));
    for (;; c->cache_sets--) { /* the index takes whole pages */
        c->cache_index_bytes = ((size_t)c->cache_sets * CACHE_WAYS * sizeof(struct cache_index) + CACHE_PAGE - 1) /
                               CACHE_PAGE * CACHE_PAGE;
        if (c->cache_sets == 0 ||
            c->cache_index_bytes + (size_t)c->cache_sets * CACHE_WAYS * CACHE_CELL <= c->cache_region)
            break;
    }
    if (workers == 0 || c->cache_sets == 0 || c->cache_region > SIZE_MAX / workers) {
        free(c);
        errno = EINVAL;
        return NULL;
    }
    c->cache_base = mmap(NULL, c->cache_region * workers, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->cache_base == MAP_FAILED) {
        free(c);
        errno = ENOMEM;
        return NULL;
    }
    c->magic = CACHE_MAGIC;
    return c;
}

void cache_free(struct cache **cp)
{
    struct cache *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    CHECK_OBJ(c, CACHE_MAGIC);
    AZ(munmap(c->cache_base, c->cache_region * c->cache_workers));
    c->magic = 0;
    free(c);
}

size_t cache_bytes(const struct cache *c)
{
    CHECK_OBJ(c, CACHE_MAGIC);
    return c->cache_region;
}

unsigned cache_cells(const struct cache *c)
{
    CHECK_OBJ(c, CACHE_MAGIC);
    return c->cache_sets * CACHE_WAYS;
}

void cache_attach(struct cache *c, unsigned slot)
{
    static const uint64_t nothing[CACHE_HEAD_WORDS];
    unsigned i;

    CHECK_OBJ(c, CACHE_MAGIC);
    AN(slot < c->cache_workers);
    for (i = 0; i < c->cache_sets * CACHE_WAYS; i++) {
        struct place p = cache_place(c, slot, i);

        if (word_load(&p.place_index->index_sequence) % 2 == 0)
            continue;
        word_store(&p.place_index->index_hash, 0);
        place_write(p, nothing, NULL, NULL); /* a reader may have seen the hash already */
    }
}

bool cache_fits(size_t key_len, size_t answer_len)
{
    return key_len <= CACHE_ROOM && answer_len <= CACHE_ROOM && words_of(key_len) + words_of(answer_len) <= CACHE_WORDS;
}

bool cache_find(const struct cache *c, unsigned slot, const struct cache_key *key, uint64_t since_ns,
                struct cache_copy *copy, struct cache_answer *answer)
{
    uint64_t hash = cache_hash(key);
    unsigned first, w, i;

    CHECK_OBJ(c, CACHE_MAGIC);
    AN(slot < c->cache_workers);
    first = (unsigned)((hash ^ hash >> 32) % c->cache_sets) * CACHE_WAYS;
    for (w = 0; w < c->cache_workers; w++) {
        unsigned whose = slot + w < c->cache_workers ? slot + w : slot + w - c->cache_workers;

        for (i = 0; i < CACHE_WAYS; i++) {
            struct place p = cache_place(c, whose, first + i);

            if (word_load(&p.place_index->index_hash) == hash && place_read(p, key, since_ns, copy, answer))
                return true;
        }
    }
    return false;
}

void cache_store(struct cache *c, unsigned slot, const struct cache_key *key, const struct cache_answer *answer)
{
    uint64_t hash = cache_hash(key);
    const uint64_t head[CACHE_HEAD_WORDS] = {(uint64_t)key->key_route << 32 | answer->answer_status,
                                             (uint64_t)key->key_len << 32 | answer->answer_len, answer->answer_ns};
    struct place p;

    CHECK_OBJ(c, CACHE_MAGIC);
    AN(slot < c->cache_workers);
    AN(cache_fits(key->key_len, answer->answer_len) && answer->answer_status > 0 &&
       answer->answer_status <= UINT16_MAX);
    p = cache_place(c, slot, cache_victim(c, slot, (unsigned)((hash ^ hash >> 32) % c->cache_sets) * CACHE_WAYS, hash));
    place_write(p, head, key, answer);
    word_store(&p.place_index->index_hash, hash);
}

/* FNV-1a; never 0. */
static uint64_t cache_hash(const struct cache_key *key)
{
    const unsigned char *p = key->key_octets;
    uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ key->key_route) * UINT64_C(0x100000001b3);
    uint32_t i;

    for (i = 0; i < key->key_len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

static struct place cache_place(const struct cache *c, unsigned slot, unsigned cell)
{
    uint8_t *region = c->cache_base + slot * c->cache_region;

    return (struct place){(struct cache_index *)(void *)region + cell,
                          (struct cache_cell *)(void *)(region + c->cache_index_bytes) + cell};
}

/* Which of a set's cells gives way; they are our own, so that nobody changes them. */
static unsigned cache_victim(const struct cache *c, unsigned slot, unsigned first, uint64_t hash)
{
    uint64_t oldest = UINT64_MAX;
    unsigned victim = first, i;

    for (i = first; i < first + CACHE_WAYS; i++)
        if (word_load(&cache_place(c, slot, i).place_index->index_hash) == hash)
            return i;
    for (i = first; i < first + CACHE_WAYS; i++) {
        struct place p = cache_place(c, slot, i);
        uint64_t ns = word_load(&p.place_index->index_hash) == 0 ? 0 : word_load(&p.place_cell->cell_head[2]);

        if (ns < oldest) {
            oldest = ns;
            victim = i;
        }
    }
    return victim;
}

/* True: it is the answer to `key`, whole, and not too old. */
static bool place_read(struct place p, const struct cache_key *key, uint64_t since_ns, struct cache_copy *copy,
                       struct cache_answer *answer)
{
    uint64_t sequence = word_load(&p.place_index->index_sequence), head[CACHE_HEAD_WORDS];
    size_t key_len, len, key_words, words, i;

    if (sequence % 2 != 0)
        return false;
    for (i = 0; i < CACHE_HEAD_WORDS; i++)
        head[i] = word_load(&p.place_cell->cell_head[i]);
    key_len = head[1] >> 32;
    len = head[1] & UINT32_MAX;
    if ((head[0] & UINT32_MAX) == 0 || head[0] >> 32 != key->key_route || key_len != key->key_len ||
        head[2] < since_ns || !cache_fits(key_len, len))
        return false;
    key_words = words_of(key_len);
    words = key_words + words_of(len);
    for (i = 0; i < words; i++)
        copy->copy_words[i] = word_load(&p.place_cell->cell_words[i]);
    if (word_load(&p.place_index->index_sequence) != sequence)
        return false; /* written meanwhile: what was copied may be half of this and half of that */
    if (key_len > 0 && memcmp(copy->copy_words, key->key_octets, key_len) != 0)
        return false;
    *answer = (struct cache_answer){.answer_status = (unsigned)(head[0] & UINT32_MAX),
                                    .answer_len = (uint32_t)len,
                                    .answer_body = copy->copy_words + key_words,
                                    .answer_ns = head[2]};
    return true;
}

/* Also over what a predecessor left half written, whose sequence is odd already. */
static void place_write(struct place p, const uint64_t head[CACHE_HEAD_WORDS], const struct cache_key *key,
                        const struct cache_answer *answer)
{
    uint64_t sequence = word_load(&p.place_index->index_sequence) | 1;
    unsigned i;

    word_store(&p.place_index->index_sequence, sequence);
    for (i = 0; i < CACHE_HEAD_WORDS; i++)
        word_store(&p.place_cell->cell_head[i], head[i]);
    if (key != NULL) {
        words_put(p.place_cell->cell_words, key->key_octets, key->key_len);
        words_put(p.place_cell->cell_words + words_of(key->key_len), answer->answer_body, answer->answer_len);
    }
    word_store(&p.place_index->index_sequence, sequence + 1);
}

static void words_put(uint64_t *to, const void *octets, size_t n)
{
    const uint8_t *from = octets;

    for (; n > 0; to++) {
        size_t part = n < sizeof(*to) ? n : sizeof(*to);
        uint64_t word = 0;

        memcpy(&word, from, part);
        word_store(to, word);
        from += part;
        n -= part;
    }
}

static size_t words_of(size_t octets)
{
    return (octets + 7) / 8;
}
