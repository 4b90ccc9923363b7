/* The octets of HTTP and of URIs: what each may stand in, and the two scans of the request path. */
#ifndef VANILLA_WORKER_HTTP_OCTET_H
#define VANILLA_WORKER_HTTP_OCTET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "worker/mem/slice.h"

#if defined(__SSE2__) && !defined(VANILLA_NO_SSE2)
#include <emmintrin.h>
#define OCTET_SSE2 1
#else
#define OCTET_SSE2 0
#endif

enum octet_class {
    OCTET_TOKEN = 1,    /* tchar, RFC 9110 5.6.2 */
    OCTET_PATH = 2,     /* pchar, '/' and '%', RFC 3986 3.3 */
    OCTET_QUERY = 4,    /* query, RFC 3986 3.4, and what browsers leave bare in one: see octet.c */
    OCTET_REG_NAME = 8, /* unreserved and sub-delims, RFC 3986 3.2.2; not '%' */
    OCTET_HEX = 16,
    OCTET_DIGIT = 32
};

extern const uint8_t octet_classes[256];

static inline bool octet_is(char c, unsigned classes)
{
    return (octet_classes[(unsigned char)c] & classes) != 0;
}

/* The value of a hexadecimal digit (OCTET_HEX). */
static inline unsigned octet_hex(char c)
{
    return ((unsigned char)c & 0xf) + ((unsigned char)c >> 6) * 9;
}

static inline uint16_t octet_load16(const char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t octet_load32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t octet_load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A control octet that no field value and no request line may hold (RFC 9110 5.5): all of them but HTAB. */
static inline bool octet_is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* Without the optional white space around it (RFC 9110 5.5). */
static inline struct slice octet_trim(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct slice){at, (size_t)(end - at)};
}

/* Whether s is `lower`, which has no capital letters, in any case. */
static inline bool octet_lower_eq(struct slice s, const char *lower, size_t len)
{
    if (s.slice_len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = s.slice_p[i];
        if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != lower[i])
            return false;
    }
    return true;
}

#if OCTET_SSE2
/* Masks of a block of 16: bit i speaks of octet i. */

static inline __m128i octet_block(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i octet_in(__m128i x, char first, char last) /* ASCII only */
{
    return _mm_and_si128(_mm_cmpgt_epi8(x, _mm_set1_epi8((char)(first - 1))),
                         _mm_cmplt_epi8(x, _mm_set1_epi8((char)(last + 1))));
}

static inline __m128i octet_letters(__m128i x)
{
    return octet_in(_mm_or_si128(x, _mm_set1_epi8(0x20)), 'a', 'z');
}

/* octet_is_control */
static inline unsigned octet_control_mask(__m128i x)
{
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
    __m128i tab = _mm_cmpeq_epi8(x, _mm_set1_epi8('\t'));
    __m128i del = _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7f));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, low), del));
}

/* Letters and '-': all that most field names are made of. */
static inline unsigned octet_name_mask(__m128i x)
{
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(octet_letters(x), _mm_cmpeq_epi8(x, _mm_set1_epi8('-'))));
}

/* Most of what paths and queries are made of: letters, '_', '=' and & ' ( ) * + , - . / 0 to 9 : ; */
static inline unsigned octet_target_mask(__m128i x)
{
    __m128i others = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('_')), _mm_cmpeq_epi8(x, _mm_set1_epi8('=')));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(octet_letters(x), octet_in(x, '&', ';')), others));
}
#endif

/* Bit i: base[at + i] is a control octet; up to 64 octets of base[at..len), nothing outside base[0..len) is read. */
static inline uint64_t octet_controls(const char *base, uint32_t at, uint32_t len)
{
    uint64_t mask = 0;
#if OCTET_SSE2
    unsigned n = 0;
    if (len - at >= 64) {
        uint64_t low = octet_control_mask(octet_block(base + at)),
                 second = octet_control_mask(octet_block(base + at + 16)),
                 third = octet_control_mask(octet_block(base + at + 32)),
                 high = octet_control_mask(octet_block(base + at + 48));
        return low | second << 16 | third << 32 | high << 48;
    }
    for (; len - at - n >= 16; n += 16)
        mask |= (uint64_t)octet_control_mask(octet_block(base + at + n)) << n;
    if (len - at == n)
        return mask;
    if (len >= 16) { /* the last block, from where it is whole */
        unsigned before = 16 - (len - at - n);
        return mask | (uint64_t)(octet_control_mask(octet_block(base + len - 16)) >> before) << n;
    }
#endif
    for (uint32_t i = 0; i < 64 && i < len - at; i++)
        mask |= (uint64_t)octet_is_control(base[at + i]) << i;
    return mask;
}

/* The length of the field name that begins at base[at]: a token with a ':' behind it, else 0.  Behind it, before len,
 * stands an octet that is in no token. */
static inline uint32_t octet_name(const char *base, uint32_t at, uint32_t len)
{
    uint32_t n = 0;
#if OCTET_SSE2
    if (len - at >= 16) {
        n = (unsigned)__builtin_ctz(~octet_name_mask(octet_block(base + at)));
    } else if (len >= 16) { /* the last block, from where it is whole */
        unsigned before = 16 - (len - at);
        n = (unsigned)__builtin_ctz(~(octet_name_mask(octet_block(base + len - 16)) >> before));
    }
    if (__builtin_expect(base[at + n] == ':', 1))
        return n;
#else
    (void)len;
#endif
    while (octet_is(base[at + n], OCTET_TOKEN))
        n++;
    return base[at + n] == ':' ? n : 0;
}

/* How many octets from base[at] on surely may stand in a path or query and are no '%': an inner bound, cheap.  Behind
 * them, before len, stands a SP. */
static inline uint32_t octet_target_run(const char *base, uint32_t at, uint32_t len)
{
    uint32_t n = 0;
#if OCTET_SSE2
    for (; len - at >= 16; at += 16, n += 16) {
        unsigned mask = octet_target_mask(octet_block(base + at));
        if (mask != 0xffff)
            return n + (unsigned)__builtin_ctz(~mask);
    }
#else
    (void)base;
    (void)at;
    (void)len;
#endif
    return n;
}

/* Whether base[at..at + n) is a host name and maybe a port, of the plainest kind; false says nothing. */
static inline bool octet_plain_host(const char *base, uint32_t at, size_t n, uint32_t len)
{
#if OCTET_SSE2
    if (n - 1 > 15 || len < 16) /* n == 0 wraps around */
        return false;
    uint32_t from = len - at >= 16 ? at : len - 16;
    __m128i x = octet_block(base + from);
    unsigned within = (1u << n) - 1;
    __m128i name = _mm_or_si128(octet_letters(x), octet_in(x, '-', '.'));
    unsigned names = (unsigned)_mm_movemask_epi8(name) >> (at - from);
    unsigned digits = (unsigned)_mm_movemask_epi8(octet_in(x, '0', '9')) >> (at - from);
    unsigned rest = within & ~(names | digits);
    if (rest == 0)
        return true;
    /* One ':', not in front, and only digits behind it.  rest - 1: the bits below the lowest of rest. */
    return (rest & (rest - 1)) == 0 && rest != 1 && base[at + (unsigned)__builtin_ctz(rest)] == ':' &&
           (names & within & ~(rest - 1)) == 0;
#else
    (void)base;
    (void)at;
    (void)n;
    (void)len;
    return false;
#endif
}

#endif
