/* segment_open: a copy of somebody's file, believed only as far as it was checked. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/counters.h"
#include "shm/layout.h"
#include "shm/segment.h"
#include "shm/version.h"

struct open_why { /* where a refusal goes */
    char *why_text;
    size_t why_len;
};

static enum segment_error open_fd(int fd, struct segment *s, const struct open_why *why);
static enum segment_error open_header(int fd, struct layout_header *h, uint64_t size, const struct open_why *why);
static enum segment_error open_other_layout(const struct layout_header *h, const struct open_why *why);
static enum segment_error open_counts(const struct layout_header *h, struct segment *s, uint64_t size,
                                      const struct open_why *why);
static bool open_same_map(const struct layout_header *h, const struct layout_map *map);
static enum segment_error open_directory(const struct segment *s, const struct open_why *why);
static bool open_read(int fd, void *to, size_t size, off_t at);
static int open_compare_versions(const char *a, const char *b);
static enum segment_error open_refuse(const struct open_why *why, enum segment_error error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct segment *segment_open(const char *path, enum segment_error *error, char *why_text, size_t why_len)
{
    struct open_why why = {why_text, why_len};
    struct segment *s;
    int fd;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        *error = errno == ENOENT || errno == ENOTDIR ? SEGMENT_ABSENT : SEGMENT_SYSTEM;
        open_refuse(&why, *error, "%s: %s", path, strerror(errno));
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        *error = open_refuse(&why, SEGMENT_SYSTEM, "%s: %s", path, strerror(errno));
    } else {
        s->magic = SEGMENT_MAGIC;
        *error = open_fd(fd, s, &why);
        if (*error != SEGMENT_OK)
            segment_close(&s);
    }
    close(fd);
    return s;
}

static enum segment_error open_fd(int fd, struct segment *s, const struct open_why *why)
{
    struct layout_header h;
    enum segment_error error;
    struct stat st;
    uint64_t size;

    if (fstat(fd, &st) != 0)
        return open_refuse(why, SEGMENT_SYSTEM, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return open_refuse(why, SEGMENT_FOREIGN, "not a regular file");
    size = (uint64_t)st.st_size;
    error = open_header(fd, &h, size, why);
    if (error == SEGMENT_OK)
        error = open_counts(&h, s, size, why);
    if (error != SEGMENT_OK)
        return error;
    s->segment_base = malloc(s->segment_map.map_total);
    if (s->segment_base == NULL)
        return open_refuse(why, SEGMENT_SYSTEM, "%s", strerror(errno));
    if (!open_read(fd, s->segment_base, s->segment_map.map_total, 0))
        return open_refuse(why, SEGMENT_TRUNCATED, "the file became shorter while it was read");
    return open_directory(s, why);
}

static enum segment_error open_header(int fd, struct layout_header *h, uint64_t size, const struct open_why *why)
{
    size_t stable = offsetof(struct layout_header, layout_total), got;

    memset(h, 0, sizeof(*h));
    got = size < sizeof(*h) ? size : sizeof(*h);
    if (!open_read(fd, h, got, 0))
        return open_refuse(why, SEGMENT_TRUNCATED, "cut short");
    if (got < sizeof(h->layout_magic) || memcmp(h->layout_magic, LAYOUT_MAGIC, sizeof(h->layout_magic)) != 0)
        return got < sizeof(h->layout_magic) && got > 0 && memcmp(h->layout_magic, LAYOUT_MAGIC, got) == 0
                   ? open_refuse(why, SEGMENT_TRUNCATED, "cut short")
                   : open_refuse(why, SEGMENT_FOREIGN, "not a segment of vanilla");
    if (got < stable)
        return open_refuse(why, SEGMENT_TRUNCATED, "cut short");
    h->layout_server_version[sizeof(h->layout_server_version) - 1] = '\0';
    if (h->layout_version != LAYOUT_VERSION || h->layout_hash != counters_hash())
        return open_other_layout(h, why);
    if (got < sizeof(*h))
        return open_refuse(why, SEGMENT_TRUNCATED, "cut short");
    if (h->layout_header_size != sizeof(*h) || h->layout_stats_worker != STAT_WORKER_N ||
        h->layout_stats_pool != STAT_POOL_N || h->layout_stats_route != STAT_ROUTE_N ||
        h->layout_stats_master != STAT_MASTER_N)
        return open_refuse(why, SEGMENT_FOREIGN, "its header contradicts itself");
    return SEGMENT_OK;
}

/* Of two builds the one with the larger layout version is newer, then the one with the larger version, then, between
 * two builds of one version, the one with more counters: they are added far more often than taken away. */
static enum segment_error open_other_layout(const struct layout_header *h, const struct open_why *why)
{
    uint64_t theirs =
        (uint64_t)h->layout_stats_worker + h->layout_stats_pool + h->layout_stats_route + h->layout_stats_master;
    uint64_t ours = STAT_WORKER_N + STAT_POOL_N + STAT_ROUTE_N + STAT_MASTER_N;
    char version[sizeof(h->layout_server_version)];
    size_t i;
    int order;

    memcpy(version, h->layout_server_version, sizeof(version));
    for (i = 0; version[i] != '\0'; i++) /* it goes to a terminal */
        if (version[i] <= ' ' || version[i] > '~')
            version[i] = '?';
    order = h->layout_version < LAYOUT_VERSION ? -1 : h->layout_version > LAYOUT_VERSION;
    if (order == 0)
        order = open_compare_versions(version, VANILLA_VERSION);
    if (order == 0)
        order = theirs < ours ? -1 : theirs > ours;
    if (order == 0)
        return open_refuse(why, SEGMENT_FOREIGN, "written by another build of vanilla %s, with other counters",
                           version);
    return open_refuse(why, order < 0 ? SEGMENT_OLDER : SEGMENT_NEWER,
                       "written by vanilla %s (layout %u), which is %s than this program (%s, layout %u)", version,
                       h->layout_version, order < 0 ? "older" : "newer", VANILLA_VERSION, LAYOUT_VERSION);
}

/* Fills in s from counts that were found possible, and checks that every offset is where they put it. */
static enum segment_error open_counts(const struct layout_header *h, struct segment *s, uint64_t size,
                                      const struct open_why *why)
{
    if (layout_map(&s->segment_map, h->layout_workers, h->layout_pools, h->layout_routes, h->layout_strings_len) != 0)
        return open_refuse(why, SEGMENT_FOREIGN, "its header claims more than a segment holds");
    if (h->layout_strings_len == 0 || !open_same_map(h, &s->segment_map))
        return open_refuse(why, SEGMENT_FOREIGN, "its header contradicts itself");
    if (size < s->segment_map.map_total)
        return open_refuse(why, SEGMENT_TRUNCATED, "cut short: %llu octets of %llu", (unsigned long long)size,
                           (unsigned long long)s->segment_map.map_total);
    if (size > s->segment_map.map_total)
        return open_refuse(why, SEGMENT_FOREIGN, "longer than its header says");
    s->segment_workers = h->layout_workers;
    s->segment_pools = h->layout_pools;
    s->segment_routes = h->layout_routes;
    s->segment_strings_len = h->layout_strings_len;
    return SEGMENT_OK;
}

static bool open_same_map(const struct layout_header *h, const struct layout_map *map)
{
    return h->layout_total == map->map_total && h->layout_off_master == map->map_master &&
           h->layout_off_pools == map->map_pools && h->layout_off_routes == map->map_routes &&
           h->layout_off_strings == map->map_strings && h->layout_off_past == map->map_past &&
           h->layout_off_blocks == map->map_blocks && h->layout_block_size == map->map_block_size;
}

/* Each string begins inside the strings, whose last octet is a NUL. */
static enum segment_error open_directory(const struct segment *s, const struct open_why *why)
{
    const struct layout_pool *pools = layout_pools(s);
    const struct layout_route *routes = layout_routes(s);
    bool good = layout_strings(s)[s->segment_strings_len - 1] == '\0';
    unsigned i;

    for (i = 0; i < s->segment_pools; i++)
        good &= pools[i].pool_name < s->segment_strings_len;
    for (i = 0; i < s->segment_routes; i++)
        good &= routes[i].route_method < s->segment_strings_len && routes[i].route_path < s->segment_strings_len;
    if (!good)
        return open_refuse(why, SEGMENT_FOREIGN, "its directory of pools and routes is damaged");
    return SEGMENT_OK;
}

static bool open_read(int fd, void *to, size_t size, off_t at)
{
    char *p = to;
    ssize_t n;

    while (size > 0) {
        n = pread(fd, p, size, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* As strcmp, but runs of digits by their value: "0.10.0" is newer than "0.9.1". */
static int open_compare_versions(const char *a, const char *b)
{
    unsigned long long x, y;
    char *a_end, *b_end;

    while (*a != '\0' && *b != '\0') {
        if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
            x = strtoull(a, &a_end, 10);
            y = strtoull(b, &b_end, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = a_end;
            b = b_end;
            continue;
        }
        if (*a != *b)
            break;
        a++;
        b++;
    }
    return *a == *b ? 0 : (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

static enum segment_error open_refuse(const struct open_why *why, enum segment_error error, const char *fmt, ...)
{
    va_list ap;

    if (why->why_len > 0) {
        va_start(ap, fmt);
        vsnprintf(why->why_text, why->why_len, fmt, ap);
        va_end(ap);
    }
    return error;
}
