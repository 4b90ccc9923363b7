#include "worker/http/target.h"

#include <stdint.h>

#include "worker/http/octet.h"

/* A UTF-8 sequence in progress (RFC 3629 4): continuation octets still due, and what the next may be. */
struct utf8 {
    unsigned due;
    unsigned char low, high;
};

static const char *plain_end(const char *at, const char *end);
static const char *ascii_end(const char *at, const char *end);
static bool utf8_step(struct utf8 *u, unsigned char c);

const char *http_escapes_check(struct slice s)
{
    if (s.slice_len == 0) /* or absent */
        return NULL;
    const char *end = s.slice_p + s.slice_len, *at = plain_end(s.slice_p, end);
    struct utf8 u = {0};

    while (at < end) {
        unsigned char c = (unsigned char)*at++;
        if (c == '%') {
            if (end - at < 2 || !octet_is(at[0], OCTET_HEX) || !octet_is(at[1], OCTET_HEX))
                return "has a '%' that is not followed by two hexadecimal digits";
            c = (unsigned char)(octet_hex(at[0]) << 4 | octet_hex(at[1]));
            at += 2;
        }
        if (c == 0)
            return "holds the octet zero";
        if (!utf8_step(&u, c))
            return "is not UTF-8";
    }
    return u.due == 0 ? NULL : "is not UTF-8";
}

size_t http_unescape(struct slice s, bool plus, char *to)
{
    const char *at = s.slice_p;
    char *begin = to;

    if (s.slice_len == 0)
        return 0;
    for (const char *end = at + s.slice_len; at < end;)
        *to++ = (char)http_unescape_next(&at, plus);
    return (size_t)(to - begin);
}

int http_unescape_next(const char **p, bool plus)
{
    const char *at = *p;

    if (*at == '%') {
        *p = at + 3;
        return (int)(octet_hex(at[1]) << 4 | octet_hex(at[2]));
    }
    *p = at + 1;
    return *at == '+' && plus ? ' ' : (unsigned char)*at;
}

bool http_unescaped_eq(struct slice s, bool plus, struct slice plain)
{
    if (s.slice_len == 0 || plain.slice_len > s.slice_len)
        return s.slice_len == plain.slice_len;
    const char *at = s.slice_p, *end = at + s.slice_len;
    for (size_t i = 0; i < plain.slice_len; i++)
        if (at >= end || http_unescape_next(&at, plus) != (unsigned char)plain.slice_p[i])
            return false;
    return at == end;
}

bool http_pair_next(struct slice s, size_t *at, struct slice *name, struct slice *value)
{
    while (*at < s.slice_len && s.slice_p[*at] == '&')
        ++*at;
    if (*at >= s.slice_len)
        return false;
    const char *pair = s.slice_p + *at, *end = s.slice_p + s.slice_len;
    const char *stop = memchr(pair, '&', (size_t)(end - pair));
    if (stop == NULL)
        stop = end;
    const char *equals = memchr(pair, '=', (size_t)(stop - pair));
    if (equals == NULL)
        equals = stop;
    *name = (struct slice){pair, (size_t)(equals - pair)};
    *value = equals < stop ? (struct slice){equals + 1, (size_t)(stop - equals - 1)} : (struct slice){stop, 0};
    *at = (size_t)(stop - s.slice_p);
    return true;
}

bool utf8_valid(const char *p, size_t len)
{
    if (len == 0)
        return true;
    const char *end = p + len;
    struct utf8 u = {0};

    while ((p = ascii_end(p, end)) < end)
        do {
            if (!utf8_step(&u, (unsigned char)*p++))
                return false;
        } while (p < end && (u.due != 0 || (unsigned char)*p >= 0x80));
    return u.due == 0;
}

/* The first octet that is '%', zero or no ASCII, or end. */
static const char *plain_end(const char *at, const char *end)
{
#if OCTET_SSE2
    for (; end - at >= 16; at += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i stop = _mm_cmpeq_epi8(x, _mm_set1_epi8('%'));
        stop = _mm_or_si128(stop, _mm_cmplt_epi8(x, _mm_set1_epi8(1)));
        unsigned mask = (unsigned)_mm_movemask_epi8(stop);
        if (mask != 0)
            return at + __builtin_ctz(mask);
    }
#endif
    while (at < end && *at != '%' && (signed char)*at > 0)
        at++;
    return at;
}

/* The first octet that is no ASCII, or end. */
static const char *ascii_end(const char *at, const char *end)
{
    for (; end - at >= 8; at += 8)
        if ((octet_load64(at) & UINT64_C(0x8080808080808080)) != 0)
            break;
    while (at < end && (unsigned char)*at < 0x80)
        at++;
    return at;
}

/* Whether c may come next. */
static bool utf8_step(struct utf8 *u, unsigned char c)
{
    if (u->due != 0) {
        if (c < u->low || c > u->high)
            return false;
        u->low = 0x80;
        u->high = 0xbf;
        u->due--;
        return true;
    }
    if (c < 0x80)
        return true;
    if (c < 0xc2 || c > 0xf4)
        return false;
    u->due = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    u->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;  /* overlong forms */
    u->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf; /* surrogates, above U+10FFFF */
    return true;
}
