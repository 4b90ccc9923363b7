/* Escapes, pairs and UTF-8: the functions agree with each other and with plain, slow ones. */
#include <stdint.h>

#include "worker/http/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* RFC 3629 by decoding, not by ranges. */
static bool slow_utf8(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned n = p[i] < 0x80 ? 1 : p[i] >> 5 == 6 ? 2 : p[i] >> 4 == 14 ? 3 : p[i] >> 3 == 30 ? 4 : 0;
        if (n == 0 || n > len - i)
            return false;
        uint32_t c = n == 1 ? p[i] : p[i] & (0x7fu >> n);
        for (unsigned k = 1; k < n; k++) {
            if (p[i + k] >> 6 != 2)
                return false;
            c = c << 6 | (p[i + k] & 0x3f);
        }
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
            return false;
        i += n;
    }
    return true;
}

static void check_escapes(const char *text, const uint8_t *data, size_t size)
{
    uint8_t *plain = malloc(size + 1);
    char *got = malloc(size + 1);
    size_t n = 0;
    bool good = true;

    AN(plain != NULL && got != NULL);
    for (size_t i = 0; i < size && good; i++) {
        if (data[i] == '%') {
            good = size - i > 2 && hex(data[i + 1]) >= 0 && hex(data[i + 2]) >= 0;
            if (!good)
                break;
            plain[n] = (uint8_t)(hex(data[i + 1]) << 4 | hex(data[i + 2]));
            i += 2;
        } else {
            plain[n] = data[i];
        }
        good = plain[n++] != 0;
    }
    good = good && slow_utf8(plain, n);
    struct slice s = {text, size};
    AN((http_escapes_check(s) == NULL) == good);
    if (good) {
        AN(http_unescape(s, false, got) == n);
        AN(memcmp(got, plain, n) == 0);
        AN(http_unescaped_eq(s, false, (struct slice){got, n}));
        if (n > 0) {
            AZ(http_unescaped_eq(s, false, (struct slice){got, n - 1}));
            got[n - 1] ^= 1;
            AZ(http_unescaped_eq(s, false, (struct slice){got, n}));
        }
        AN(http_unescape(s, true, got) == n);
        for (size_t i = 0; i < n; i++)
            AN(got[i] == (char)plain[i] || (plain[i] == '+' && got[i] == ' '));
    }
    free(plain);
    free(got);
}

static void check_pairs(struct slice s)
{
    size_t at = 0, before = 0;
    struct slice name, value;

    while (http_pair_next(s, &at, &name, &value)) {
        AN(at > before && at <= s.slice_len);
        AN(name.slice_p >= s.slice_p + before && name.slice_p + name.slice_len <= value.slice_p);
        AN(value.slice_p + value.slice_len == s.slice_p + at);
        AN(memchr(name.slice_p, '=', name.slice_len) == NULL && memchr(name.slice_p, '&', name.slice_len) == NULL);
        AN(memchr(value.slice_p, '&', value.slice_len) == NULL);
        AN(at == s.slice_len || s.slice_p[at] == '&');
        for (const char *p = s.slice_p + before; p < name.slice_p; p++)
            AN(*p == '&');
        before = at;
    }
    for (; before < s.slice_len; before++)
        AN(s.slice_p[before] == '&');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size != 0 ? size : 1);

    AN(text != NULL);
    if (size != 0)
        memcpy(text, data, size);
    AN(utf8_valid(text, size) == slow_utf8(data, size));
    check_escapes(text, data, size);
    check_pairs((struct slice){text, size});
    free(text);
    return 0;
}
