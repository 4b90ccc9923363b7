/* Any file is either taken, or refused with lines that name it: printable, bounded, one for each problem. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_said(const char *said, size_t n, const char *file, bool taken)
{
    const char *line = said;

    AN(n < 1 << 20);
    AN(taken || n > 0);
    while (line < said + n) {
        const char *end = memchr(line, '\n', (size_t)(said + n - line));

        AN(end != NULL);
        AN(strncmp(line, file, strlen(file)) == 0);
        AN(line[strlen(file)] == ':');
        for (const char *p = line; p < end; p++)
            AN((unsigned char)*p >= 0x20 && *p != 0x7f);
        if (taken)
            AN(memmem(line, (size_t)(end - line), "warning", 7) != NULL);
        line = end + 1;
    }
}

static void check_conf(const struct conf *conf)
{
    AN(conf->conf_listen_n > 0 && conf->conf_connections > 0 && conf->conf_memory.memory_buffers_mb > 0);
    for (unsigned i = 0; i < conf->conf_listen_n; i++)
        AN(conf->conf_listen[i].listen_sockaddr_len > 0);
    for (unsigned i = 0; i < conf->conf_pools_n; i++)
        AN(conf->conf_pools[i].pool_name != NULL && conf->conf_pools[i].pool_connections > 0);
    for (unsigned i = 0; i < conf->conf_routes_n; i++) {
        const struct conf_route *route = &conf->conf_routes[i];

        AN(route->route_path != NULL && route->route_path[0] == '/' && route->route_content_type != NULL);
        AN(route->route_status >= 200 && route->route_status < 300);
        AN(route->route_handler == HANDLER_TEXT ? route->route_text != NULL
                                                : route->route_sql != NULL && route->route_pool < conf->conf_pools_n);
        if (route->route_cors != NULL)
            AN((route->route_cors->cors_any && !route->route_cors->cors_credentials) ||
               route->route_cors->cors_origins_n > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("vanilla.conf", MFD_CLOEXEC);
    char file[64], *said = NULL;
    size_t n = 0;
    FILE *err = open_memstream(&said, &n);
    struct conf *conf;

    AN(fd >= 0 && err != NULL);
    AN(size == 0 || write(fd, data, size) == (ssize_t)size);
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    conf = conf_read(file, NULL, 0, err);
    fclose(err);
    check_said(said, n, file, conf != NULL);
    if (conf != NULL) {
        check_conf(conf);
        conf_free(&conf);
    }
    free(said);
    close(fd);
    return 0;
}
