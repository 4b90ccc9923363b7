#include "conf/mediatype.h"

#include <string.h>

bool mediatype_valid(const char *s)
{
    size_t n = strspn(s, MEDIATYPE_TOKEN);

    if (n == 0 || s[n] != '/')
        return false;
    s += n + 1;
    n = strspn(s, MEDIATYPE_TOKEN);
    if (n == 0)
        return false;
    for (s += n; *s != '\0';) {
        s += strspn(s, " \t");
        if (*s++ != ';')
            return false;
        s += strspn(s, " \t");
        n = strspn(s, MEDIATYPE_TOKEN);
        if (n == 0 || s[n] != '=')
            return false;
        s += n + 1;
        if (*s == '"') {
            for (s++; *s != '"'; s++) {
                if (*s == '\\' && s[1] != '\0')
                    s++;
                if (*s == '\0')
                    return false;
            }
            s++;
        } else {
            n = strspn(s, MEDIATYPE_TOKEN);
            if (n == 0)
                return false;
            s += n;
        }
    }
    return true;
}
