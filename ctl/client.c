#include "ctl/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl/protocol.h"

static enum client_result client_talk(int fd, const char *line, char *answer, size_t answer_len);
static enum client_result client_understand(char *answer, size_t len);
static int client_connect(int fd, const struct sockaddr_un *to, long long deadline);
static int client_wait(int fd, short events, long long deadline);
static long long client_now_ms(void);
static enum client_result client_fail(char *answer, size_t answer_len, const char *what, const char *why);

enum client_result client_ask(const struct ctl *ctl, const char *line, char *answer, size_t answer_len)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    enum client_result result;
    int fd;

    if (snprintf(to.sun_path, sizeof(to.sun_path), "%s/" CONTROL_SOCKET, ctl->ctl_runtime_dir) >=
        (int)sizeof(to.sun_path))
        return client_fail(answer, answer_len, ctl->ctl_runtime_dir, "name too long for a socket's path");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return client_fail(answer, answer_len, "socket", strerror(errno));
    if (client_connect(fd, &to, client_now_ms() + CLIENT_TIMEOUT_MS) == 0) {
        result = client_talk(fd, line, answer, answer_len);
    } else {
        /* A socket that is not there, or that nobody has open any more. */
        result = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR ? CLIENT_NOT_RUNNING : CLIENT_FAILED;
        client_fail(answer, answer_len, to.sun_path, strerror(errno));
    }
    close(fd);
    return result;
}

static int client_connect(int fd, const struct sockaddr_un *to, long long deadline)
{
    while (connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return -1;
        /* EAGAIN: the backlog is full, and for Unix sockets there is no event that tells when it is not. */
        if (client_now_ms() >= deadline) {
            errno = ETIMEDOUT;
            return -1;
        }
        poll(NULL, 0, 20);
    }
    return 0;
}

static enum client_result client_talk(int fd, const char *line, char *answer, size_t answer_len)
{
    long long deadline = client_now_ms() + CLIENT_TIMEOUT_MS;
    char out[CONTROL_LINE_MAX + 1], rest[256];
    size_t len, done, got = 0;
    ssize_t n;

    len = (size_t)snprintf(out, sizeof(out), "%s\n", line);
    if (len > CONTROL_LINE_MAX)
        return client_fail(answer, answer_len, line, "too long");
    for (done = 0; done < len; done += (size_t)n) {
        n = send(fd, out + done, len - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return client_fail(answer, answer_len, "cannot send", strerror(errno));
        if (n < 0 && client_wait(fd, POLLOUT, deadline) != 0)
            return client_fail(answer, answer_len, "the server does not answer", strerror(errno));
        if (n < 0)
            n = 0;
    }
    for (;;) {
        n = got < answer_len - 1 ? recv(fd, answer + got, answer_len - 1 - got, 0) : recv(fd, rest, sizeof(rest), 0);
        if (n == 0)
            break;
        if (n < 0 && errno == ECONNRESET && got > 0) /* it closed before it had read all that we sent */
            break;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return client_fail(answer, answer_len, "cannot read the answer", strerror(errno));
        if (n < 0 && client_wait(fd, POLLIN, deadline) != 0)
            return client_fail(answer, answer_len, "the server does not answer", strerror(errno));
        if (n > 0 && got < answer_len - 1)
            got += (size_t)n;
    }
    if (got == 0)
        return client_fail(answer, answer_len, "the server", "closed the connection without an answer");
    return client_understand(answer, got);
}

static enum client_result client_understand(char *answer, size_t len)
{
    static const char refused[] = "refused: ";
    size_t skip;
    enum client_result result;

    answer[len] = '\0';
    if (strncmp(answer, "ok", 2) == 0 && (answer[2] == '\n' || answer[2] == '\0')) {
        result = CLIENT_OK;
        skip = answer[2] == '\n' ? 3 : 2;
    } else if (strncmp(answer, refused, sizeof(refused) - 1) == 0) {
        result = CLIENT_REFUSED;
        skip = sizeof(refused) - 1;
    } else {
        return client_fail(answer, len + 1, "?", "not an answer of vanilla");
    }
    memmove(answer, answer + skip, len - skip + 1);
    len -= skip;
    while (len > 0 && answer[len - 1] == '\n')
        answer[--len] = '\0';
    return result;
}

/* 0: ready; -1: errno, ETIMEDOUT past the deadline. */
static int client_wait(int fd, short events, long long deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    long long left;
    int n;

    do {
        left = deadline - client_now_ms();
        n = left > 0 ? poll(&p, 1, (int)left) : 0;
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ETIMEDOUT;
    return n > 0 ? 0 : -1;
}

static long long client_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static enum client_result client_fail(char *answer, size_t answer_len, const char *what, const char *why)
{
    snprintf(answer, answer_len, "%s: %s", what, why);
    return CLIENT_FAILED;
}
