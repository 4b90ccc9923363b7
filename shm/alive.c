#include "shm/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool alive_stat(int64_t pid, char *state, uint64_t *ticks);

bool alive(int64_t pid, uint64_t ticks)
{
    uint64_t now;
    char state;

    if (pid <= 0 || pid > INT_MAX)
        return false;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return false;
    if (!alive_stat(pid, &state, &now)) /* /proc is hidden or not there; the signal found somebody */
        return true;
    if (state == 'Z' || state == 'X')
        return false;
    return ticks == 0 || now == ticks;
}

uint64_t alive_ticks(int64_t pid)
{
    uint64_t ticks;
    char state;

    return alive_stat(pid, &state, &ticks) ? ticks : 0;
}

static bool alive_stat(int64_t pid, char *state, uint64_t *ticks)
{
    char path[64], text[1024], *p, *end;
    ssize_t n;
    int fd, field;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    /* Field 2 is the command in parentheses and may hold anything, so the fields are counted from the last one. */
    p = strrchr(text, ')');
    if (p == NULL || p[1] != ' ')
        return false;
    p += 2;
    *state = *p;
    for (field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (p == NULL)
            return false;
        p++;
    }
    errno = 0;
    *ticks = strtoull(p, &end, 10);
    return errno == 0 && end != p;
}
