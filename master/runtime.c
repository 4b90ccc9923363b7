#include "master/runtime.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/protocol.h"
#include "master/unixsock.h"
#include "shm/version.h"

static int runtime_refuse(const struct conf *conf, const char *what, const char *reason, char *why, size_t why_len);
static int runtime_parent(const struct conf *conf, char *why, size_t why_len);

int runtime_check(const struct conf *conf, char *why, size_t why_len)
{
    char path[PATH_MAX], reason[256];
    struct stat st;

    if (strlen(conf->conf_runtime_dir) + strlen("/" CONTROL_SOCKET) > UNIXSOCK_PATH_MAX)
        return runtime_refuse(conf, "", "too long for the path of a socket, at most 107 octets with /" CONTROL_SOCKET,
                              why, why_len);
    if (stat(conf->conf_runtime_dir, &st) != 0)
        return errno == ENOENT ? runtime_parent(conf, why, why_len)
                               : runtime_refuse(conf, "", strerror(errno), why, why_len);
    if (!S_ISDIR(st.st_mode))
        return runtime_refuse(conf, "", "not a directory", why, why_len);
    runtime_control_path(conf, path);
    if (unixsock_check(path, reason, sizeof reason) != 0)
        return runtime_refuse(conf, "/" CONTROL_SOCKET, reason, why, why_len);
    if (access(conf->conf_runtime_dir, W_OK | X_OK) != 0)
        return runtime_refuse(conf, "", strerror(errno), why, why_len);
    return 0;
}

int runtime_make(const struct conf *conf, bool *made, char *why, size_t why_len)
{
    *made = false;
    if (mkdir(conf->conf_runtime_dir, 0755) != 0)
        return errno == EEXIST ? 0 : runtime_refuse(conf, "", strerror(errno), why, why_len);
    *made = true;
    /* Not what the umask leaves: other users' vanillactl passes through here. */
    return chmod(conf->conf_runtime_dir, 0755) == 0 ? 0 : runtime_refuse(conf, "", strerror(errno), why, why_len);
}

struct segment *runtime_segment(const struct conf *conf, unsigned workers, gid_t group, char *why, size_t why_len)
{
    unsigned pools = conf->conf_pools_n, routes = conf->conf_routes_n, i;
    const char **names = calloc(pools + 1ul, sizeof *names);
    unsigned *inflight = calloc(pools + 1ul, sizeof *inflight);
    const char **methods = calloc(routes + 1ul, sizeof *methods), **paths = calloc(routes + 1ul, sizeof *paths);
    int *of = calloc(routes + 1ul, sizeof *of), error = ENOMEM;
    struct segment *s = NULL;
    char path[PATH_MAX];

    if (names != NULL && inflight != NULL && methods != NULL && paths != NULL && of != NULL) {
        for (i = 0; i < pools; i++) {
            names[i] = conf->conf_pools[i].pool_name;
            inflight[i] = conf->conf_pools[i].pool_max_inflight;
        }
        for (i = 0; i < routes; i++) {
            methods[i] = conf_method_name(conf->conf_routes[i].route_method);
            paths[i] = conf->conf_routes[i].route_path;
            of[i] = conf->conf_routes[i].route_handler == HANDLER_SQL ? (int)conf->conf_routes[i].route_pool : -1;
        }
        snprintf(path, sizeof path, "%s/%s", conf->conf_runtime_dir, CONTROL_SEGMENT);
        s = segment_create(path, &(struct segment_shape){.shape_workers = workers,
                                                         .shape_pools = pools,
                                                         .shape_routes = routes,
                                                         .shape_pool_names = names,
                                                         .shape_pool_max_inflight = inflight,
                                                         .shape_route_methods = methods,
                                                         .shape_route_paths = paths,
                                                         .shape_route_pools = of,
                                                         .shape_version = VANILLA_VERSION});
        error = errno;
        if (s != NULL && group != (gid_t)-1 && lchown(path, (uid_t)-1, group) != 0) {
            error = errno;
            segment_close(&s);
        }
    }
    free(names);
    free(inflight);
    free(methods);
    free(paths);
    free(of);
    if (s == NULL)
        runtime_refuse(conf, "/" CONTROL_SEGMENT, strerror(error), why, why_len);
    return s;
}

void runtime_control_path(const struct conf *conf, char *path)
{
    snprintf(path, PATH_MAX, "%s/%s", conf->conf_runtime_dir, CONTROL_SOCKET);
}

static int runtime_refuse(const struct conf *conf, const char *what, const char *reason, char *why, size_t why_len)
{
    snprintf(why, why_len, "%s: runtime_dir %s%s: %s", conf->conf_file, conf->conf_runtime_dir, what, reason);
    return -1;
}

static int runtime_parent(const struct conf *conf, char *why, size_t why_len)
{
    char path[PATH_MAX], *slash;
    struct stat st;

    snprintf(path, sizeof path, "%s", conf->conf_runtime_dir);
    for (slash = path + strlen(path); slash > path + 1 && slash[-1] == '/'; slash--)
        slash[-1] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(path, sizeof path, ".");
    else
        slash[slash == path] = '\0';
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return runtime_refuse(conf, "", "neither it nor the directory that it should be in exists", why, why_len);
    if (access(path, W_OK | X_OK) != 0)
        return runtime_refuse(conf, "", strerror(errno), why, why_len);
    return 0;
}
