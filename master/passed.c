#include "master/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/log.h"

static bool passed_listens(int fd);
static bool passed_matches(int fd, const struct sockaddr *address);

void passed_read(struct passed *p)
{
    const char *n = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
    long count = n != NULL ? strtol(n, NULL, 10) : 0, i;

    p->passed_n = 0;
    if (count > 0 && pid != NULL && strtol(pid, NULL, 10) == (long)getpid()) {
        if (count > PASSED_MAX) {
            log_write(LOG_LEVEL_WARN, "LISTEN_FDS=%ld: only the first %d are looked at", count, PASSED_MAX);
            count = PASSED_MAX;
        }
        for (i = 0; i < count; i++) {
            int fd = PASSED_FIRST + (int)i;

            if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
                continue;
            p->passed_fds[p->passed_n++] = fd;
        }
    }
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
}

int passed_take(struct passed *p, const struct sockaddr *address)
{
    unsigned i;
    int fd, flags;

    for (i = 0; i < p->passed_n; i++) {
        fd = p->passed_fds[i];
        if (fd < 0 || !passed_listens(fd) || !passed_matches(fd, address))
            continue;
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
            return -1;
        p->passed_fds[i] = -1;
        return fd;
    }
    return -1;
}

void passed_close(struct passed *p)
{
    unsigned i;

    for (i = 0; i < p->passed_n; i++) {
        if (p->passed_fds[i] < 0)
            continue;
        log_write(LOG_LEVEL_WARN,
                  "descriptor %d of LISTEN_FDS is not a socket listening on an address of `listen` or "
                  "`admin`: closed",
                  p->passed_fds[i]);
        close(p->passed_fds[i]);
    }
    p->passed_n = 0;
}

static bool passed_listens(int fd)
{
    int value = 0;
    socklen_t len = sizeof value;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) != 0 || value != SOCK_STREAM)
        return false;
    len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value != 0;
}

static bool passed_matches(int fd, const struct sockaddr *address)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
    } bound, want;
    socklen_t len = sizeof bound;
    int only = 0;

    memset(&bound, 0, sizeof bound); /* also ends a path of full length */
    if (getsockname(fd, &bound.sa, &len) != 0)
        return false;
    switch (address->sa_family) {
    case AF_INET:
        memcpy(&want.in, address, sizeof want.in);
        if (bound.sa.sa_family == AF_INET6) {
            len = sizeof only;
            return want.in.sin_addr.s_addr == INADDR_ANY && bound.in6.sin6_port == want.in.sin_port &&
                   IN6_IS_ADDR_UNSPECIFIED(&bound.in6.sin6_addr) &&
                   getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len) == 0 && !only;
        }
        return bound.sa.sa_family == AF_INET && bound.in.sin_port == want.in.sin_port &&
               bound.in.sin_addr.s_addr == want.in.sin_addr.s_addr;
    case AF_INET6:
        memcpy(&want.in6, address, sizeof want.in6);
        return bound.sa.sa_family == AF_INET6 && bound.in6.sin6_port == want.in6.sin6_port &&
               IN6_ARE_ADDR_EQUAL(&bound.in6.sin6_addr, &want.in6.sin6_addr);
    case AF_UNIX:
        memcpy(&want.un, address, sizeof want.un);
        return bound.sa.sa_family == AF_UNIX &&
               strncmp(bound.un.sun_path, want.un.sun_path, sizeof want.un.sun_path) == 0;
    default:
        return false;
    }
}
