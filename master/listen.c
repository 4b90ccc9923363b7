#include "master/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct listeners *listeners_new(const struct conf *conf, unsigned workers);
static const struct conf_listen *listen_of(const struct listeners *l, unsigned i);
static int listen_check(const struct listeners *l, unsigned i, char *why, size_t why_len);
static int listen_make(struct listeners *l, unsigned i, int passed, char *why, size_t why_len);
static int listen_shared(struct listeners *l, unsigned i, int fd);
static int listen_each(struct listeners *l, unsigned i);
static int listen_tcp(const struct sockaddr_storage *address, socklen_t len, bool share);
static int listen_backlog(void);
static int listen_port(const struct sockaddr_storage *address);
static const char *listen_path(const struct conf_listen *c);
static void listen_why(const struct listeners *l, unsigned i, const char *reason, char *why, size_t why_len);
static const char *listen_reason(int error);

struct listeners *listeners_open(const struct conf *conf, unsigned workers, struct passed *passed, char *why,
                                 size_t why_len)
{
    struct listeners *l = listeners_new(conf, workers);
    int *taken = l != NULL ? calloc(l->listeners_n, sizeof *taken) : NULL;
    bool failed = false;
    unsigned i;

    if (taken == NULL) {
        if (l != NULL)
            listeners_close(&l);
        snprintf(why, why_len, "%s", strerror(ENOMEM));
        return NULL;
    }
    for (i = 0; i < l->listeners_n; i++)
        taken[i] = passed_take(passed, (const struct sockaddr *)&listen_of(l, i)->listen_sockaddr);
    for (i = 0; i < l->listeners_n && !failed; i++)
        failed = taken[i] < 0 && listen_check(l, i, why, why_len) != 0;
    for (i = 0; i < l->listeners_n && !failed; i++) {
        failed = listen_make(l, i, taken[i], why, why_len) != 0;
        taken[i] = -1;
    }
    for (i = 0; i < l->listeners_n; i++)
        if (taken[i] >= 0)
            close(taken[i]);
    free(taken);
    if (failed)
        listeners_close(&l);
    return l;
}

static struct listeners *listeners_new(const struct conf *conf, unsigned workers)
{
    struct listeners *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->magic = LISTENERS_MAGIC;
    l->listeners_conf = conf;
    l->listeners_workers = workers;
    l->listeners_n = conf->conf_listen_n + (conf->conf_admin.listen_address != NULL);
    AN(workers > 0 && l->listeners_n > 0);
    l->listeners_fds = malloc((size_t)workers * l->listeners_n * sizeof *l->listeners_fds);
    l->listeners_paths = calloc(l->listeners_n, sizeof *l->listeners_paths);
    if (l->listeners_fds == NULL || l->listeners_paths == NULL) {
        free(l->listeners_fds);
        free(l->listeners_paths);
        free(l);
        return NULL;
    }
    memset(l->listeners_fds, 0xff, (size_t)workers * l->listeners_n * sizeof *l->listeners_fds);
    return l;
}

void listeners_close(struct listeners **lp)
{
    struct listeners *l = *lp;
    unsigned i;

    CHECK_OBJ(l, LISTENERS_MAGIC);
    *lp = NULL;
    for (i = 0; i < l->listeners_n; i++)
        if (l->listeners_paths[i].path_name != NULL)
            unixsock_remove(l->listeners_paths[i].path_name, &l->listeners_paths[i].path_id);
    for (i = 0; i < l->listeners_workers; i++)
        listeners_close_slot(l, i);
    free(l->listeners_fds);
    free(l->listeners_paths);
    l->magic = 0;
    free(l);
}

void listeners_close_slot(struct listeners *l, unsigned slot)
{
    unsigned i;
    int *fd;

    CHECK_OBJ(l, LISTENERS_MAGIC);
    AN(slot < l->listeners_workers);
    for (i = 0; i < l->listeners_n; i++) {
        fd = &l->listeners_fds[(size_t)slot * l->listeners_n + i];
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
}

const int *listeners_slot(const struct listeners *l, unsigned slot)
{
    CHECK_OBJ(l, LISTENERS_MAGIC);
    AN(slot < l->listeners_workers);
    return &l->listeners_fds[(size_t)slot * l->listeners_n];
}

int listeners_admin(const struct listeners *l, unsigned slot)
{
    unsigned n = l->listeners_conf->conf_listen_n;

    return n < l->listeners_n ? listeners_slot(l, slot)[n] : -1;
}

void listeners_describe(const struct listeners *l, char *text, size_t text_len)
{
    size_t at = 0;
    unsigned i;

    CHECK_OBJ(l, LISTENERS_MAGIC);
    AN(text_len > 0);
    *text = '\0';
    for (i = 0; i < l->listeners_n && at < text_len; i++) {
        const struct conf_listen *c = listen_of(l, i);
        struct sockaddr_storage copy = c->listen_sockaddr;
        socklen_t len = sizeof copy;
        int host = (int)strlen(c->listen_address);

        at += (size_t)snprintf(text + at, text_len - at, "%s%s", i > 0 ? ", " : "",
                               i == l->listeners_conf->conf_listen_n ? "admin " : "");
        if (at >= text_len)
            return;
        if (listen_port(&copy) != 0 || getsockname(l->listeners_fds[i], (struct sockaddr *)&copy, &len) != 0) {
            at += (size_t)snprintf(text + at, text_len - at, "%s", c->listen_address);
            continue;
        }
        while (host > 0 && c->listen_address[host - 1] != ':')
            host--;
        at +=
            (size_t)snprintf(text + at, text_len - at, "%.*s%u", host, c->listen_address, (unsigned)listen_port(&copy));
    }
}

static const struct conf_listen *listen_of(const struct listeners *l, unsigned i)
{
    return i < l->listeners_conf->conf_listen_n ? &l->listeners_conf->conf_listen[i] : &l->listeners_conf->conf_admin;
}

/* May we have this address?  A bind without SO_REUSEPORT says so for TCP, and leaves nothing behind. */
static int listen_check(const struct listeners *l, unsigned i, char *why, size_t why_len)
{
    const struct conf_listen *c = listen_of(l, i);
    char reason[256];
    unsigned j;
    int fd;

    for (j = 0; j < i; j++)
        if (listen_of(l, j)->listen_sockaddr_len == c->listen_sockaddr_len && listen_port(&c->listen_sockaddr) != 0 &&
            memcmp(&listen_of(l, j)->listen_sockaddr, &c->listen_sockaddr, c->listen_sockaddr_len) == 0) {
            listen_why(l, i, "the same address stands there twice", why, why_len);
            return -1;
        }
    if (listen_path(c) != NULL) {
        if (unixsock_check(listen_path(c), reason, sizeof reason) == 0)
            return 0;
        listen_why(l, i, reason, why, why_len);
        return -1;
    }
    fd = listen_tcp(&c->listen_sockaddr, c->listen_sockaddr_len, false);
    if (fd < 0) {
        listen_why(l, i, listen_reason(errno), why, why_len);
        return -1;
    }
    close(fd);
    return 0;
}

/* Fills column `i` for every worker; `passed` is ours now. */
static int listen_make(struct listeners *l, unsigned i, int passed, char *why, size_t why_len)
{
    const struct conf_listen *c = listen_of(l, i);
    char reason[256];
    int rc;

    if (passed < 0 && listen_path(c) != NULL) {
        passed = unixsock_listen(listen_path(c), 0666, (gid_t)-1, listen_backlog(), &l->listeners_paths[i].path_id,
                                 reason, sizeof reason);
        if (passed < 0) {
            listen_why(l, i, reason, why, why_len);
            return -1;
        }
        l->listeners_paths[i].path_name = listen_path(c);
    }
    rc = passed >= 0 ? listen_shared(l, i, passed) : listen_each(l, i);
    if (rc != 0)
        listen_why(l, i, listen_reason(errno), why, why_len);
    return rc;
}

/* One socket for all workers. */
static int listen_shared(struct listeners *l, unsigned i, int fd)
{
    unsigned w;

    for (w = 0; w < l->listeners_workers; w++) {
        if (w > 0)
            fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return -1;
        l->listeners_fds[(size_t)w * l->listeners_n + i] = fd;
    }
    return 0;
}

/* A socket for each worker.  Port 0: the kernel chooses for the first, the others take the same. */
static int listen_each(struct listeners *l, unsigned i)
{
    const struct conf_listen *c = listen_of(l, i);
    struct sockaddr_storage address = c->listen_sockaddr;
    socklen_t len;
    int *fd, backlog = listen_backlog();
    unsigned w;

    for (w = 0; w < l->listeners_workers; w++) {
        fd = &l->listeners_fds[(size_t)w * l->listeners_n + i];
        *fd = listen_tcp(&address, c->listen_sockaddr_len, true);
        if (*fd < 0 || listen(*fd, backlog) != 0)
            return -1;
        len = sizeof address;
        AZ(getsockname(*fd, (struct sockaddr *)&address, &len));
    }
    return 0;
}

/* A bound TCP socket; with `share` others of ours may bind the same address too. */
static int listen_tcp(const struct sockaddr_storage *address, socklen_t len, bool share)
{
    int fd, one = 1, error;

    fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        (address->ss_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0) &&
        (!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) &&
        bind(fd, (const struct sockaddr *)address, len) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int listen_backlog(void)
{
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    int max = SOMAXCONN;

    if (f != NULL) {
        if (fscanf(f, "%d", &max) != 1 || max < 1) /* NOLINT(cert-err34-c): an int of the kernel's */
            max = SOMAXCONN;
        fclose(f);
    }
    return max < LISTEN_BACKLOG_MAX ? max : LISTEN_BACKLOG_MAX;
}

/* The port of a TCP address; -1 for a Unix path. */
static int listen_port(const struct sockaddr_storage *address)
{
    switch (address->ss_family) {
    case AF_INET:
        return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    case AF_INET6:
        return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
    default:
        return -1;
    }
}

static const char *listen_path(const struct conf_listen *c)
{
    if (c->listen_sockaddr.ss_family != AF_UNIX)
        return NULL;
    return c->listen_address + strlen("unix:"); /* sun_path would be cut where the path is too long */
}

static void listen_why(const struct listeners *l, unsigned i, const char *reason, char *why, size_t why_len)
{
    snprintf(why, why_len, "%s:%d: %s %s: %s", l->listeners_conf->conf_file, listen_of(l, i)->listen_line,
             i < l->listeners_conf->conf_listen_n ? "listen" : "admin", listen_of(l, i)->listen_address, reason);
}

static const char *listen_reason(int error)
{
    switch (error) {
    case EADDRINUSE:
        return "in use: another process listens on this port";
    case EADDRNOTAVAIL:
        return "no interface of this machine has this address";
    case EACCES:
        return "permission denied: ports below net.ipv4.ip_unprivileged_port_start (1024) need CAP_NET_BIND_SERVICE";
    default:
        return strerror(error);
    }
}
