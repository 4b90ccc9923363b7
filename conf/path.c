#include "conf/path.h"

#include <stdio.h>
#include <string.h>

#define PATH_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

static bool path_check_segment(const char *path, const char *p, size_t n, char *why, size_t size);
static bool path_segment_is_param(const char *p, size_t n);

bool path_check(const char *path, char *why, size_t size)
{
    unsigned segments = 0;

    if (*path != '/') {
        snprintf(why, size, "does not begin with /");
        return false;
    }
    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(++p, "/");

        if (!path_check_segment(path, p, n, why, size))
            return false;
        if (++segments > PATH_SEGMENTS_MAX) {
            snprintf(why, size, "has more than %u segments", PATH_SEGMENTS_MAX);
            return false;
        }
        p += n;
    }
    return true;
}

int path_param(const char *path, const char *name)
{
    size_t len = strlen(name);
    int i = 0;

    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(++p, "/");

        if (path_segment_is_param(p, n)) {
            if (n - 2 == len && memcmp(p + 1, name, len) == 0)
                return i;
            i++;
        }
        p += n;
    }
    return -1;
}

bool path_same(const char *a, const char *b)
{
    while (*a == '/' && *b == '/') {
        size_t m = strcspn(++a, "/"), n = strcspn(++b, "/");

        if (path_segment_is_param(a, m) != path_segment_is_param(b, n))
            return false;
        if (!path_segment_is_param(a, m) && (m != n || memcmp(a, b, n) != 0))
            return false;
        a += m;
        b += n;
    }
    return *a == *b;
}

/* p: n octets of path. */
static bool path_check_segment(const char *path, const char *p, size_t n, char *why, size_t size)
{
    char name[64];

    if (!path_segment_is_param(p, n)) {
        for (size_t i = 0; i < n; i++) {
            if (strchr("%?# ", p[i]) != NULL) {
                snprintf(why, size, "has '%c' in it; allowed: plain text, not percent-encoded", p[i]);
                return false;
            }
            if (p[i] == '{' || p[i] == '}') {
                snprintf(why, size, "has a %c inside a segment; allowed: {name} as one whole segment", p[i]);
                return false;
            }
        }
        return true;
    }
    if (n - 2 == 0 || n - 2 >= sizeof name || strspn(p + 1, PATH_NAME_CHARS) != n - 2) {
        snprintf(why, size, "has the parameter %.*s; allowed as a name: 1..63 letters, digits, _ . and -",
                 n < 80 ? (int)n : 80, p);
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)(n - 2), p + 1);
    for (const char *q = path; q + 1 < p;) {
        size_t m = strcspn(++q, "/");

        if (q != p && m == n && memcmp(q, p, n) == 0) {
            snprintf(why, size, "has {%s} twice; allowed: each name once", name);
            return false;
        }
        q += m;
    }
    return true;
}

/* "{...}", whatever is between. */
static bool path_segment_is_param(const char *p, size_t n)
{
    return n >= 2 && p[0] == '{' && p[n - 1] == '}';
}
