#include "shm/sink.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "shm/assert.h"

enum sink_escape { ESCAPE_JSON, ESCAPE_LABEL, ESCAPE_HELP };

static void sink_escaped(struct sink *k, const char *s, enum sink_escape escape);
static void sink_escaped_octet(struct sink *k, unsigned char c, enum sink_escape escape);
static unsigned sink_utf8(const unsigned char *p);

void sink_open(struct sink *k, void (*write)(void *arg, const char *p, size_t n), void *arg)
{
    k->sink_write = write;
    k->sink_arg = arg;
    k->sink_len = 0;
}

void sink_close(struct sink *k)
{
    if (k->sink_len > 0)
        k->sink_write(k->sink_arg, k->sink_text, k->sink_len);
    k->sink_len = 0;
}

void sink_octets(struct sink *k, const char *p, size_t n)
{
    if (n > sizeof(k->sink_text) - k->sink_len)
        sink_close(k);
    if (n > sizeof(k->sink_text)) {
        k->sink_write(k->sink_arg, p, n);
        return;
    }
    memcpy(k->sink_text + k->sink_len, p, n);
    k->sink_len += n;
}

void sink_string(struct sink *k, const char *s)
{
    sink_octets(k, s, strlen(s));
}

void sink_strings(struct sink *k, ...)
{
    const char *s;
    va_list ap;

    va_start(ap, k);
    while ((s = va_arg(ap, const char *)) != NULL)
        sink_string(k, s);
    va_end(ap);
}

void sink_number(struct sink *k, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    sink_octets(k, digits + at, sizeof(digits) - at);
}

void sink_signed(struct sink *k, int64_t v)
{
    if (v < 0)
        sink_string(k, "-");
    sink_number(k, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void sink_fixed(struct sink *k, uint64_t v, unsigned decimals)
{
    char digits[10];
    uint64_t one = 1, rest;
    unsigned i;

    AN(decimals >= 1 && decimals <= 9);
    for (i = 0; i < decimals; i++)
        one *= 10;
    sink_number(k, v / one);
    rest = v % one;
    for (i = decimals; i > 0; i--) {
        digits[i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    digits[0] = '.';
    sink_octets(k, digits, decimals + 1);
}

void sink_json(struct sink *k, const char *s)
{
    sink_escaped(k, s, ESCAPE_JSON);
}

void sink_label(struct sink *k, const char *s)
{
    sink_escaped(k, s, ESCAPE_LABEL);
}

void sink_help(struct sink *k, const char *s)
{
    sink_escaped(k, s, ESCAPE_HELP);
}

static void sink_escaped(struct sink *k, const char *s, enum sink_escape escape)
{
    unsigned n;

    while (*s != '\0') {
        n = sink_utf8((const unsigned char *)s);
        if (n == 1)
            sink_escaped_octet(k, (unsigned char)*s, escape);
        else if (n == 0)
            sink_string(k, "\xef\xbf\xbd");
        else
            sink_octets(k, s, n);
        s += n > 0 ? n : 1;
    }
}

static void sink_escaped_octet(struct sink *k, unsigned char c, enum sink_escape escape)
{
    static const char hex[] = "0123456789abcdef";
    char unicode[] = "\\u00..";
    const char octet = (char)c;

    if (c == '\\')
        sink_string(k, "\\\\");
    else if (c == '\n')
        sink_string(k, "\\n");
    else if (c == '"' && escape != ESCAPE_HELP)
        sink_string(k, "\\\"");
    else if (c < ' ' && escape == ESCAPE_JSON) {
        unicode[4] = hex[c >> 4];
        unicode[5] = hex[c & 15];
        sink_string(k, unicode);
    } else {
        sink_octets(k, &octet, 1);
    }
}

/* The octets of the character at p (RFC 3629, section 4), or 0 when it is none. */
static unsigned sink_utf8(const unsigned char *p)
{
    unsigned char low = 0x80, high = 0xbf;
    unsigned n, i;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    for (i = 1; i < n; i++) { /* the string's NUL is below `low`, so this does not run past it */
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return n;
}
