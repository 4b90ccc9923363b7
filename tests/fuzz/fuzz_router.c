/*
 * The route table against a plain, slow matcher.  Input: lines.  The first is the method's digit and the path that is
 * asked for, each further one the method's digit and the path of a route.
 */
#include <stdint.h>
#include <string.h>

#include "worker/http/target.h"
#include "worker/route/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROUTES_MAX 32

/* Whether a route's path matches, and how good: for each segment a literal (0) or a parameter (1), the leftmost first.
 */
static bool fits(const char *route, struct slice path, char *rank)
{
    const char *at = path.slice_p + 1, *end = path.slice_p + path.slice_len;

    for (route++;; rank++) {
        const char *stop = at <= end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        struct slice segment = {at, (size_t)((stop != NULL ? stop : end) - at)};
        struct slice want = {route, strcspn(route, "/")};
        if (want.slice_len >= 2 && route[0] == '{' && route[want.slice_len - 1] == '}') {
            *rank = '1';
            if (segment.slice_len == 0)
                return false;
        } else {
            *rank = '0';
            if (!http_unescaped_eq(segment, false, want))
                return false;
        }
        route += want.slice_len;
        if ((*route == '/') != (stop != NULL))
            return false;
        if (stop == NULL)
            break;
        at = stop + 1;
        route++;
    }
    rank[1] = '\0';
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct conf_route routes[ROUTES_MAX];
    struct conf conf = {.magic = CONF_MAGIC, .conf_routes = routes};

    if (size > 2000)
        return 0;
    char *text = malloc(size + 1), *save = NULL;
    AN(text != NULL);
    if (size != 0)
        memcpy(text, data, size);
    text[size] = '\0';
    char *first = strtok_r(text, "\n", &save), *line;
    while (first != NULL && (line = strtok_r(NULL, "\n", &save)) != NULL && conf.conf_routes_n < ROUTES_MAX) {
        unsigned method = (unsigned char)line[0] % METHODS_ROUTABLE;
        unsigned slashes = 0, same = 0;
        for (const char *p = line; *p != '\0'; p++)
            slashes += *p == '/';
        if (line[1] != '/' || slashes > ROUTER_SEGMENTS_MAX)
            continue;
        /* what conf_read refuses: twice the same, parameters being equal */
        for (unsigned i = 0; i < conf.conf_routes_n; i++) {
            const char *a = routes[i].route_path, *b = line + 1;
            while (*a != '\0' && *a == *b) {
                a++, b++;
            }
            same += *a == *b && routes[i].route_method == (enum conf_method)method;
        }
        if (same == 0)
            routes[conf.conf_routes_n++] =
                (struct conf_route){.route_method = (enum conf_method)method, .route_path = line + 1};
    }
    if (first != NULL) {
        unsigned method = (unsigned char)first[0] % (METHODS_ROUTABLE + 1);
        size_t len = strlen(first + 1);
        char *path = malloc(len != 0 ? len : 1);
        AN(path != NULL);
        memcpy(path, first + 1, len);
        struct slice s = {path, len};
        struct router *r = router_new(&conf);
        struct route_match m;
        router_match(r, method, s, &m);

        unsigned slashes = 0;
        for (size_t i = 0; i < len; i++)
            slashes += path[i] == '/';
        bool asked = len != 0 && path[0] == '/';
        AN((m.match_bad != NULL) == (asked && http_escapes_check(s) != NULL));
        unsigned allow = 0;
        char best[ROUTER_SEGMENTS_MAX + 2] = "2", rank[ROUTER_SEGMENTS_MAX + 2];
        bool found = false;
        if (asked && m.match_bad == NULL && slashes <= ROUTER_SEGMENTS_MAX)
            for (unsigned i = 0; i < conf.conf_routes_n; i++) {
                if (!fits(routes[i].route_path, s, rank))
                    continue;
                allow |= 1u << routes[i].route_method | 1u << METHOD_OPTIONS;
                if (routes[i].route_method == METHOD_GET)
                    allow |= 1u << METHOD_HEAD;
                if (routes[i].route_method == (enum conf_method)method ||
                    (method == METHOD_HEAD && routes[i].route_method == METHOD_GET)) {
                    found = true;
                    if (strcmp(rank, best) < 0)
                        strcpy(best, rank);
                }
            }
        AN((m.match_route >= 0) == found);
        if (found) {
            const struct conf_route *got = &routes[m.match_route];
            AN(fits(got->route_path, s, rank));
            AN(strcmp(rank, best) == 0);
            AN(got->route_method == (enum conf_method)method ||
               (method == METHOD_HEAD && got->route_method == METHOD_GET));
            AZ(m.match_allow & ~allow);
            AN(m.match_allow >> method & 1);
            unsigned args = 0;
            for (const char *p = rank; *p != '\0'; p++)
                args += *p == '1';
            AN(m.match_args_n == args);
            const char *before = path;
            for (unsigned i = 0; i < args; i++) {
                AN(m.match_args[i].slice_p > before && m.match_args[i].slice_len != 0);
                before = m.match_args[i].slice_p + m.match_args[i].slice_len;
                AN(before <= path + len && m.match_args[i].slice_p[-1] == '/' &&
                   (before == path + len || *before == '/'));
            }
        } else {
            AN(m.match_route == -1 && m.match_allow == allow);
        }
        router_free(&r);
        free(path);
    }
    free(text);
    return 0;
}
