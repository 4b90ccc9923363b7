#include "master/unixsock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int unixsock_refuse(char *why, size_t why_len, const char *what);
static int unixsock_bind(int fd, const char *path, mode_t mode, gid_t group, int backlog);
static void unixsock_name(struct sockaddr_un *sun, const char *path);

int unixsock_check(const char *path, char *why, size_t why_len)
{
    struct sockaddr_un sun;
    struct stat st;
    int fd, error;

    if (strlen(path) > UNIXSOCK_PATH_MAX) {
        snprintf(why, why_len, "the path has %zu octets, a socket's may have %d", strlen(path), UNIXSOCK_PATH_MAX);
        return -1;
    }
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : unixsock_refuse(why, why_len, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return unixsock_refuse(why, why_len, "there is a file at this path that is not a socket");

    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return unixsock_refuse(why, why_len, strerror(errno));
    unixsock_name(&sun, path);
    error = connect(fd, (struct sockaddr *)&sun, sizeof sun) == 0 ? 0 : errno;
    close(fd);
    switch (error) {
    case ECONNREFUSED: /* nobody listens */
    case ENOENT:       /* gone since */
        return 0;
    case 0:
    case EAGAIN: /* somebody listens, whose queue is full */
        return unixsock_refuse(why, why_len, "in use: another process listens on this socket");
    case EPROTOTYPE:
        return unixsock_refuse(why, why_len, "in use: another process has a socket of another type there");
    default:
        return unixsock_refuse(why, why_len, strerror(error));
    }
}

int unixsock_listen(const char *path, mode_t mode, gid_t group, int backlog, struct unixsock_id *id, char *why,
                    size_t why_len)
{
    struct stat st;
    int fd;

    if (unixsock_check(path, why, why_len) != 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return unixsock_refuse(why, why_len, strerror(errno));
    if ((unlink(path) != 0 && errno != ENOENT) || unixsock_bind(fd, path, mode, group, backlog) != 0 ||
        lstat(path, &st) != 0) {
        unixsock_refuse(why, why_len, strerror(errno));
        close(fd);
        return -1;
    }
    id->unixsock_dev = st.st_dev;
    id->unixsock_ino = st.st_ino;
    return fd;
}

void unixsock_remove(const char *path, const struct unixsock_id *id)
{
    struct stat st;

    if (lstat(path, &st) == 0 && st.st_dev == id->unixsock_dev && st.st_ino == id->unixsock_ino)
        unlink(path);
}

static int unixsock_refuse(char *why, size_t why_len, const char *what)
{
    snprintf(why, why_len, "%s", what);
    return -1;
}

/* Nobody can connect before listen, so the mode is right from the first connection on. */
static int unixsock_bind(int fd, const char *path, mode_t mode, gid_t group, int backlog)
{
    struct sockaddr_un sun;
    int error;

    unixsock_name(&sun, path);
    if (bind(fd, (struct sockaddr *)&sun, sizeof sun) != 0)
        return -1;
    if ((group == (gid_t)-1 || lchown(path, (uid_t)-1, group) == 0) && chmod(path, mode) == 0 &&
        listen(fd, backlog) == 0)
        return 0;
    error = errno;
    unlink(path);
    errno = error;
    return -1;
}

static void unixsock_name(struct sockaddr_un *sun, const char *path)
{
    memset(sun, 0, sizeof *sun);
    sun->sun_family = AF_UNIX;
    memcpy(sun->sun_path, path, strlen(path));
}
