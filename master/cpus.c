#include "master/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MASK_MAX (1 << 20) /* far above any kernel's NR_CPUS; ends the search for a mask that is large enough */

struct cgroup_mount {
    char mount_root[PATH_MAX];  /* what of the hierarchy is mounted: "/" outside of containers */
    char mount_point[PATH_MAX]; /* where */
};

static bool cgroup_path(const char *root, bool v2, char *path);
static bool cgroup_mounted(const char *root, bool v2, struct cgroup_mount *mount);
static bool cgroup_list_has(const char *list, const char *name);
static void cgroup_unescape(char *s);
static unsigned cgroup_walk(const char *root, bool v2);
static unsigned cgroup_limit(const char *dir, bool v2);
static bool cgroup_line(const char *dir, const char *file, char *line, int size);

int cpus_read(struct cpus *cpus, const char *root)
{
    cpu_set_t *set = NULL;
    size_t size = 0;
    int most = CPU_SETSIZE, i, n;

    memset(cpus, 0, sizeof *cpus);
    /* The kernel answers EINVAL while the mask is smaller than its own. */
    for (;; most *= 2) {
        set = CPU_ALLOC((size_t)most);
        if (set == NULL)
            return -1;
        size = CPU_ALLOC_SIZE((size_t)most);
        CPU_ZERO_S(size, set);
        if (sched_getaffinity(0, size, set) == 0)
            break;
        CPU_FREE(set);
        if (errno != EINVAL || most >= CPUS_MASK_MAX)
            return -1;
    }

    n = CPU_COUNT_S(size, set);
    AN(n > 0);
    cpus->cpus_ids = calloc((size_t)n, sizeof *cpus->cpus_ids);
    if (cpus->cpus_ids == NULL) {
        CPU_FREE(set);
        return -1;
    }
    for (i = 0; i < most; i++)
        if (CPU_ISSET_S((size_t)i, size, set))
            cpus->cpus_ids[cpus->cpus_n++] = i;
    CPU_FREE(set);
    cpus->cpus_quota = cpus_quota(root);
    return 0;
}

void cpus_free(struct cpus *cpus)
{
    free(cpus->cpus_ids);
    memset(cpus, 0, sizeof *cpus);
}

unsigned cpus_usable(const struct cpus *cpus)
{
    return cpus->cpus_quota > 0 && cpus->cpus_quota < cpus->cpus_n ? cpus->cpus_quota : cpus->cpus_n;
}

int cpus_of(const struct cpus *cpus, unsigned slot)
{
    return cpus->cpus_ids[slot % cpus->cpus_n];
}

int cpus_pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    size_t size = CPU_ALLOC_SIZE((size_t)cpu + 1);
    int rc;

    if (set == NULL)
        return -1;
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    rc = sched_setaffinity(0, size, set);
    CPU_FREE(set);
    return rc;
}

unsigned cpus_quota(const char *root)
{
    unsigned v1 = cgroup_walk(root, false), v2 = cgroup_walk(root, true);

    return v1 == 0 || (v2 != 0 && v2 < v1) ? v2 : v1;
}

/* From the process's own group up to the hierarchy's mount point: each may set a quota, the smallest counts. */
static unsigned cgroup_walk(const char *root, bool v2)
{
    struct cgroup_mount mount;
    char path[PATH_MAX], dir[3 * PATH_MAX], *below, *slash;
    unsigned limit, smallest = 0;
    size_t len;

    if (!cgroup_path(root, v2, path) || !cgroup_mounted(root, v2, &mount))
        return 0;
    /* A container often sees a part of the hierarchy mounted as if it were all; a path that is not below that part
     * ("/.." included, from another namespace) leaves the mount point itself. */
    below = path;
    len = strcmp(mount.mount_root, "/") == 0 ? 0 : strlen(mount.mount_root);
    if (strncmp(path, mount.mount_root, len) == 0 && (path[len] == '/' || path[len] == '\0'))
        below += len;
    else
        below = path + strlen(path);
    if (strncmp(below, "/..", 3) == 0)
        below = path + strlen(path);

    snprintf(dir, sizeof dir, "%s%s", root, mount.mount_point);
    len = strlen(dir);
    snprintf(dir + len, sizeof dir - len, "%s", below);
    for (;;) {
        limit = cgroup_limit(dir, v2);
        if (limit > 0 && (smallest == 0 || limit < smallest))
            smallest = limit;
        slash = strrchr(dir + len, '/');
        if (slash == NULL)
            return smallest;
        *slash = '\0';
    }
}

/* The group of this process: of "0::/path" (v2), or of the line whose controllers name "cpu" (v1). */
static bool cgroup_path(const char *root, bool v2, char *path)
{
    char line[PATH_MAX + 256], file[PATH_MAX], *controllers, *at;
    bool found = false;
    FILE *f;

    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    f = fopen(file, "re");
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        controllers = strchr(line, ':');
        at = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (at == NULL || at[1] != '/')
            continue;
        *at++ = '\0';
        controllers++;
        if (v2 ? *controllers != '\0' : !cgroup_list_has(controllers, "cpu"))
            continue;
        snprintf(path, PATH_MAX, "%s", strcmp(at, "/") == 0 ? "" : at);
        found = true;
    }
    fclose(f);
    return found;
}

/* proc(5), mountinfo: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER-OPTIONS". */
static bool cgroup_mounted(const char *root, bool v2, struct cgroup_mount *mount)
{
    char file[PATH_MAX], *line = NULL, *tail, type[32], super[512];
    size_t size = 0;
    bool found = false;
    FILE *f;

    snprintf(file, sizeof file, "%s/proc/self/mountinfo", root);
    f = fopen(file, "re");
    if (f == NULL)
        return false;
    while (!found && getline(&line, &size, f) > 0) {
        tail = strstr(line, " - ");
        if (tail == NULL || sscanf(tail, " - %31s %*s %511s", type, super) != 2)
            continue;
        if (v2 ? strcmp(type, "cgroup2") != 0 : strcmp(type, "cgroup") != 0 || !cgroup_list_has(super, "cpu"))
            continue;
        _Static_assert(PATH_MAX == 4096, "the widths below");
        found = sscanf(line, "%*s %*s %*s %4095s %4095s", mount->mount_root, mount->mount_point) == 2;
    }
    free(line);
    fclose(f);
    if (found) {
        cgroup_unescape(mount->mount_root);
        cgroup_unescape(mount->mount_point);
    }
    return found;
}

/* Is `name` one of a list "cpu,cpuacct"? */
static bool cgroup_list_has(const char *list, const char *name)
{
    size_t len = strlen(name), n;

    for (;; list += n + 1) {
        n = strcspn(list, ",");
        if (n == len && memcmp(list, name, len) == 0)
            return true;
        if (list[n] == '\0')
            return false;
    }
}

/* Blanks, tabs, line ends and backslashes stand as \040 and so on. */
static void cgroup_unescape(char *s)
{
    char *out = s;

    for (; *s != '\0'; out++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *out = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 4;
        } else {
            *out = *s++;
        }
    }
    *out = '\0';
}

/* One group's own quota in whole CPUs, rounded up; 0: none. */
static unsigned cgroup_limit(const char *dir, bool v2)
{
    char line[64], *rest;
    long long quota, period, cpus;

    if (v2) {
        if (!cgroup_line(dir, "cpu.max", line, sizeof line))
            return 0;
        quota = strtoll(line, &rest, 10); /* 0 of "max 100000" */
        period = strtoll(rest, NULL, 10);
    } else {
        if (!cgroup_line(dir, "cpu.cfs_quota_us", line, sizeof line))
            return 0;
        quota = strtoll(line, NULL, 10);
        if (!cgroup_line(dir, "cpu.cfs_period_us", line, sizeof line))
            return 0;
        period = strtoll(line, NULL, 10);
    }
    if (quota <= 0 || period <= 0)
        return 0; /* v1 says -1 for none */
    cpus = quota / period + (quota % period != 0);
    return cpus > INT_MAX ? 0 : (unsigned)cpus;
}

static bool cgroup_line(const char *dir, const char *file, char *line, int size)
{
    char path[3 * PATH_MAX + 32];
    bool read;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    read = fgets(line, size, f) != NULL;
    fclose(f);
    return read;
}
