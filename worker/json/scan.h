/*
 * How strings are looked through: 16 octets at a time where the machine can (SSE2 is part of every x86-64), else 8.
 * Inline, because the row writer, the string writer and the reader live on it.
 */
#ifndef VANILLA_WORKER_JSON_SCAN_H
#define VANILLA_WORKER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SCAN_ONES 0x0101010101010101ull
#define SCAN_HIGHS 0x8080808080808080ull
/* High bits of the octets of w that are 0, where w has no octet from 0x80 on (else a few more may be set). */
#define SCAN_HAS_ZERO(w) ((w)-SCAN_ONES)

/* Whether an octet stands in a JSON string as it is and needs no look at its neighbours (RFC 8259 section 7). */
static inline bool scan_octet_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Non-zero when one of 8 octets is not plain.  The octets' order does not matter here; borrows may mark an octet above
 * one that is not plain, never alone. */
static inline uint64_t scan_word(uint64_t w)
{
    uint64_t quote = w ^ (SCAN_ONES * '"'), backslash = w ^ (SCAN_ONES * '\\');

    return ((w - SCAN_ONES * 0x20) | (quote - SCAN_ONES) | (backslash - SCAN_ONES) | w) & SCAN_HIGHS;
}

#ifdef __SSE2__
/* A bit for each of 16 octets that is not plain. */
static inline unsigned scan_mask(__m128i x)
{
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
    __m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));

    /* movemask takes the top bit, which x itself has from 0x80 on */
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(control, quote), _mm_or_si128(backslash, x)));
}
#endif

/* How many octets from p on are plain. */
static inline size_t scan_plain(const char *p, size_t len)
{
    size_t at = 0;

#ifdef __SSE2__
    while (len - at >= 16) {
        unsigned mask = scan_mask(_mm_loadu_si128((const __m128i *)(const void *)(p + at)));

        if (mask != 0)
            return at + (unsigned)__builtin_ctz(mask);
        at += 16;
    }
#endif
    while (len - at >= 8) {
        uint64_t w;

        memcpy(&w, p + at, 8);
        if (scan_word(w) != 0)
            break;
        at += 8;
    }
    while (at < len && scan_octet_is_plain((unsigned char)p[at]))
        at++;
    return at;
}

/* How many octets from p on are ASCII. */
static inline size_t scan_ascii(const char *p, size_t len)
{
    size_t at = 0;

#ifdef __SSE2__
    for (; len - at >= 16; at += 16) {
        int mask = _mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + at)));

        if (mask != 0)
            return at + (unsigned)__builtin_ctz((unsigned)mask);
    }
#endif
    while (at < len && (unsigned char)p[at] < 0x80)
        at++;
    return at;
}

/* Length of the UTF-8 sequence of two to four octets at p, of which len are there; 0 when it is none: overlong, a
 * surrogate, above U+10FFFF, cut off (RFC 3629 section 4, the table). */
static inline unsigned scan_utf8(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;

    if (len < 2 || p[0] < 0xc2 || (p[1] & 0xc0) != 0x80)
        return 0;
    if (p[0] < 0xe0)
        return 2;
    if (len < 3 || (p[2] & 0xc0) != 0x80)
        return 0;
    if (p[0] < 0xf0)
        return (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ? 0 : 3;
    if (len < 4 || (p[3] & 0xc0) != 0x80 || p[0] > 0xf4)
        return 0;
    return (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90) ? 0 : 4;
}

/* How many octets from p on a JSON string takes as they are, UTF-8 sequences included. */
static inline size_t scan_clean(const char *p, size_t len)
{
    size_t at = scan_plain(p, len);

    while (at < len && (unsigned char)p[at] >= 0x80) {
        unsigned n = scan_utf8(p + at, len - at);

        if (n == 0)
            break;
        at += n;
        if (at < len && (unsigned char)p[at] < 0x80)
            at += scan_plain(p + at, len - at);
    }
    return at;
}

#endif
