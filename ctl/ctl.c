#include "ctl/ctl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void ctl_say(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

enum ctl_exit ctl_usage(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    ctl_say(fmt, ap);
    va_end(ap);
    return CTL_USAGE;
}

enum ctl_exit ctl_failed(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    ctl_say(fmt, ap);
    va_end(ap);
    return CTL_FAILED;
}

static void ctl_say(const char *fmt, va_list ap)
{
    fputs("vanillactl: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
}

void ctl_start(void)
{
    static char buffer[1 << 20];

    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write that fails */
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

bool ctl_flush(void)
{
    static bool said;
    struct pollfd p = {.fd = STDOUT_FILENO};

    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    if (errno == 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0) /* an earlier write failed */
        errno = EPIPE;
    if (!said && errno != EPIPE) /* who closed the pipe knows */
        ctl_failed("cannot write: %s", errno != 0 ? strerror(errno) : "output error");
    said = true;
    return false;
}
