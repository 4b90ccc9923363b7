#include "master/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/log.h"

static int notify_connect(const char *path);
static unsigned notify_watchdog(void);

void notify_open(struct notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");

    n->notify_fd = -1;
    n->notify_watchdog_ms = 0;
    if (path != NULL && *path != '\0') {
        n->notify_fd = notify_connect(path);
        if (n->notify_fd < 0)
            log_write(LOG_LEVEL_WARN, "NOTIFY_SOCKET=%s: %s: the service manager will not hear from us", path,
                      strerror(errno));
        else
            n->notify_watchdog_ms = notify_watchdog();
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *n)
{
    if (n->notify_fd >= 0)
        close(n->notify_fd);
    n->notify_fd = -1;
    n->notify_watchdog_ms = 0;
}

void notify_send(const struct notify *n, const char *format, ...)
{
    char message[1024];
    va_list ap;
    int len;

    if (n->notify_fd < 0)
        return;
    va_start(ap, format);
    len = vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    AN(len >= 0);
    if ((size_t)len >= sizeof message)
        len = sizeof message - 1;
    if (send(n->notify_fd, message, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_write(LOG_LEVEL_DEBUG, "notification of the service manager: %s", strerror(errno));
}

/* "/path", or "@name" for the abstract namespace, whose names start with a NUL and end with the length. */
static int notify_connect(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd, error;

    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof sun.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(sun.sun_path, path, len);
    if (path[0] == '@')
        sun.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    len += offsetof(struct sockaddr_un, sun_path) + (path[0] == '/');
    if (connect(fd, (struct sockaddr *)&sun, (socklen_t)len) != 0) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* sd_watchdog_enabled(3): WATCHDOG_PID unset means us. */
static unsigned notify_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    unsigned long long us;
    char *end;

    if (usec == NULL || (pid != NULL && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    errno = 0;
    us = strtoull(usec, &end, 10);
    if (errno != 0 || end == usec || *end != '\0' || us == 0 || us / 2000 > 86400000)
        return 0;
    return us < 2000 ? 1 : (unsigned)(us / 2000);
}
