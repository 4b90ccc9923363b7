#include "worker/json/names.h"

#include <string.h>
#include <sys/random.h>

#include "worker/json/read.h"

static bool name_eq(const struct json_name *a, const struct json_name *b);
static uint64_t hash(const char *p, size_t len, bool has_escape);

static const char why_twice[] = "has a name twice in its object";
static const char why_many[] = "is not accepted: more than 1024 names in its object";

void json_names_init(struct json_names *all)
{
    all->names_n = 0;
}

/* Hashes are keyed with a secret of the process, and names are compared when hashes are equal: nobody can choose names
 * that collide, and a collision is no more than a comparison. */
const char *json_names_add(struct json_names *all, const char *p, size_t len, bool has_escape)
{
    struct json_name *n;
    unsigned i, at;

    if (all->names_n == JSON_NAMES_MAX)
        return why_many;
    n = &all->names_list[all->names_n];
    n->name_p = p;
    n->name_len = (uint32_t)len;
    n->name_has_escape = has_escape;
    if (all->names_n < JSON_NAMES_FEW) {
        for (i = 0; i < all->names_n; i++)
            if (name_eq(&all->names_list[i], n))
                return why_twice;
        all->names_n++;
        return NULL;
    }
    if (all->names_n == JSON_NAMES_FEW) {
        memset(all->names_slots, 0, sizeof(all->names_slots));
        for (i = 0; i < JSON_NAMES_FEW; i++) {
            struct json_name *few = &all->names_list[i];

            few->name_hash = hash(few->name_p, few->name_len, few->name_has_escape);
            at = (unsigned)few->name_hash % JSON_NAMES_SLOTS;
            while (all->names_slots[at] != 0)
                at = (at + 1) % JSON_NAMES_SLOTS;
            all->names_slots[at] = (uint16_t)(i + 1);
        }
    }
    n->name_hash = hash(p, len, has_escape);
    at = (unsigned)n->name_hash % JSON_NAMES_SLOTS;
    for (; all->names_slots[at] != 0; at = (at + 1) % JSON_NAMES_SLOTS) {
        const struct json_name *other = &all->names_list[all->names_slots[at] - 1];

        if (other->name_hash == n->name_hash && name_eq(other, n))
            return why_twice;
    }
    all->names_slots[at] = (uint16_t)++all->names_n;
    return NULL;
}

bool json_name_eq(const char *p, size_t len, bool has_escape, const char *plain, size_t plain_len)
{
    const char *end = p + len;
    char scratch[4];
    struct slice run;

    if (!has_escape)
        return len == plain_len && memcmp(p, plain, len) == 0;
    for (;;) {
        run = json_string_next(&p, end, scratch);
        if (run.slice_len == 0)
            return plain_len == 0;
        if (run.slice_len > plain_len || memcmp(run.slice_p, plain, run.slice_len) != 0)
            return false;
        plain += run.slice_len;
        plain_len -= run.slice_len;
    }
}

static bool name_eq(const struct json_name *a, const struct json_name *b)
{
    const char *p = a->name_p, *q = b->name_p;
    struct slice s = {NULL, 0}, t = {NULL, 0};
    char scratch_s[4], scratch_t[4];

    if (!a->name_has_escape && !b->name_has_escape)
        return a->name_len == b->name_len && (a->name_len == 0 || (*p == *q && memcmp(p, q, a->name_len) == 0));
    if (!a->name_has_escape)
        return json_name_eq(b->name_p, b->name_len, b->name_has_escape, a->name_p, a->name_len);
    for (;;) { /* both run by run */
        size_t n;

        if (s.slice_len == 0)
            s = json_string_next(&p, a->name_p + a->name_len, scratch_s);
        if (t.slice_len == 0)
            t = json_string_next(&q, b->name_p + b->name_len, scratch_t);
        if (s.slice_len == 0 || t.slice_len == 0)
            return s.slice_len == t.slice_len;
        n = s.slice_len < t.slice_len ? s.slice_len : t.slice_len;
        if (memcmp(s.slice_p, t.slice_p, n) != 0)
            return false;
        s.slice_p += n;
        s.slice_len -= n;
        t.slice_p += n;
        t.slice_len -= n;
    }
}

static inline uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of the unescaped octets. */
static uint64_t hash(const char *p, size_t len, bool has_escape)
{
    static uint64_t key[2]; /* made at the first use; key[1] is never 0 then */
    const char *end = p + len;
    uint64_t v[4], word = 0;
    size_t total = 0, i;
    char scratch[4];
    struct slice run = {p, len};

    if (__builtin_expect(key[1] == 0, 0)) {
        /* Where the kernel has no random octets yet, an address must do: names are few enough to live with it. */
        if (getrandom(key, sizeof(key), GRND_NONBLOCK) != (ssize_t)sizeof(key))
            key[0] = (uintptr_t)p;
        key[1] |= 1;
    }
    v[0] = key[0] ^ 0x736f6d6570736575ull;
    v[1] = key[1] ^ 0x646f72616e646f6dull;
    v[2] = key[0] ^ 0x6c7967656e657261ull;
    v[3] = key[1] ^ 0x7465646279746573ull;
    do {
        if (has_escape)
            run = json_string_next(&p, end, scratch);
        for (i = 0; i < run.slice_len; i++) {
            word |= (uint64_t)(unsigned char)run.slice_p[i] << (total % 8 * 8);
            if (++total % 8 == 0) {
                v[3] ^= word;
                sip_round(v);
                v[0] ^= word;
                word = 0;
            }
        }
    } while (has_escape && run.slice_len > 0);
    word |= (uint64_t)total << 56;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
