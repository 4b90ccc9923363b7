#include "conf/utf8.h"

#include <string.h>

bool conf_utf8_valid(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s, *end = p + n;

    while (p < end) {
        unsigned c = *p++, more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        unsigned low = 0x80, high = 0xbf; /* of the second octet: RFC 3629 section 4 */

        if (more == 0)
            continue;
        if (c < 0xc2 || c > 0xf4 || (size_t)(end - p) < more)
            return false;
        if (c == 0xe0)
            low = 0xa0;
        else if (c == 0xed)
            high = 0x9f;
        else if (c == 0xf0)
            low = 0x90;
        else if (c == 0xf4)
            high = 0x8f;
        if (*p < low || *p > high)
            return false;
        for (p++; --more > 0; p++)
            if ((*p & 0xc0) != 0x80)
                return false;
    }
    return true;
}

bool conf_utf8_has_control(const char *s, const char *but)
{
    for (; *s != '\0'; s++)
        if (((unsigned char)*s < 0x20 || *s == 0x7f) && strchr(but, *s) == NULL)
            return true;
    return false;
}
