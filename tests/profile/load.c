/*
 * A small HTTP client that makes an exact number of requests: each client one at a time, on keep-alive or with a new
 * connection for each.  Any answer but a 200 ends it with exit code 1.
 *
 *     load PORT TARGET REQUESTS CLIENTS [close]
 *
 * A '#' in TARGET becomes a number from 1 to 1000.  Prints the answers and the seconds it took.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX 65536
#define CLIENTS_MAX 1024

struct client {
    int client_fd;
    size_t client_have;
    char client_answer[ANSWER_MAX];
};

static struct sockaddr_in server = {.sin_family = AF_INET};
static const char *target;
static bool new_connections;
static long asked, answered, wanted;
static int poll_fd;
static struct client *clients;

static long number(const char *text, long max);
static void serve(struct client *c);
static void answer_done(struct client *c);
static void ask(struct client *c);
static void connect_client(struct client *c);
static size_t answer_length(const struct client *c);
static void fail(const char *what) __attribute__((noreturn));

int main(int argc, char **argv)
{
    struct epoll_event events[64];
    struct timespec began, ended;
    long n;

    if (argc < 5) {
        fprintf(stderr, "usage: load PORT TARGET REQUESTS CLIENTS [close]\n");
        return 2;
    }
    server.sin_port = htons((uint16_t)number(argv[1], 65535));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target = argv[2];
    wanted = number(argv[3], 100000000);
    n = number(argv[4], CLIENTS_MAX);
    new_connections = argc > 5 && strcmp(argv[5], "close") == 0;
    poll_fd = epoll_create1(0);
    clients = calloc((size_t)n, sizeof *clients);
    if (poll_fd < 0 || clients == NULL)
        fail("start");
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long i = 0; i < n; i++) {
        clients[i].client_fd = -1;
        ask(&clients[i]);
    }
    while (answered < wanted) {
        int ready = epoll_wait(poll_fd, events, 64, 30000);

        if (ready == 0) {
            errno = ETIMEDOUT;
            fail("no answer");
        }
        for (int i = 0; i < ready; i++)
            serve(events[i].data.ptr);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%ld answers in %.3f s\n", answered,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    free(clients);
    return 0;
}

static long number(const char *text, long max)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < 1 || value > max) {
        fprintf(stderr, "load: %s is not a number from 1 to %ld\n", text, max);
        exit(2);
    }
    return value;
}

/* Reads what is there; a whole answer begets the next request. */
static void serve(struct client *c)
{
    ssize_t got = read(c->client_fd, c->client_answer + c->client_have, ANSWER_MAX - 1 - c->client_have);
    size_t length;

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("an answer was cut short");
    c->client_have += (size_t)got;
    c->client_answer[c->client_have] = '\0';
    length = answer_length(c);
    if (length == 0 || c->client_have < length)
        return;
    if (c->client_have > length || strncmp(c->client_answer, "HTTP/1.1 200 ", 13) != 0) {
        fprintf(stderr, "%s\n", c->client_answer);
        errno = EPROTO;
        fail("not the answer that was wanted");
    }
    answer_done(c);
}

static void answer_done(struct client *c)
{
    answered++;
    c->client_have = 0;
    if (new_connections) {
        char rest;
        ssize_t got;

        do /* the server closes first */
            got = recv(c->client_fd, &rest, 1, 0);
        while (got < 0 && (errno == EAGAIN || errno == EINTR));
        if (got != 0)
            fail("the connection was not closed");
        close(c->client_fd);
        c->client_fd = -1;
    }
    ask(c);
}

static void ask(struct client *c)
{
    const char *hash = strchr(target, '#');
    char request[4096];
    int length;

    if (asked >= wanted)
        return;
    if (c->client_fd < 0)
        connect_client(c);
    if (hash != NULL)
        length = snprintf(request, sizeof request, "GET %.*s%ld%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                          (int)(hash - target), target, asked % 1000 + 1, hash + 1,
                          new_connections ? "Connection: close\r\n" : "");
    else
        length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target,
                          new_connections ? "Connection: close\r\n" : "");
    if (length < 0 || (size_t)length >= sizeof request || write(c->client_fd, request, (size_t)length) != length)
        fail("write");
    asked++;
}

static void connect_client(struct client *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};
    int on = 1;

    c->client_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->client_fd < 0 || connect(c->client_fd, (const struct sockaddr *)&server, sizeof server) != 0 ||
        setsockopt(c->client_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->client_fd, &event) != 0)
        fail("connect");
}

/* Octets of the answer, head and body; 0: the head is not complete. */
static size_t answer_length(const struct client *c)
{
    const char *end = strstr(c->client_answer, "\r\n\r\n");
    const char *field = strcasestr(c->client_answer, "\r\nContent-Length:");
    size_t length;

    if (end == NULL)
        return 0;
    if (field == NULL || field > end) {
        errno = EPROTO;
        fail("an answer without Content-Length");
    }
    length = (size_t)(end + 4 - c->client_answer) + strtoul(field + 17, NULL, 10);
    if (length >= ANSWER_MAX) {
        errno = EMSGSIZE;
        fail("answer too large");
    }
    return length;
}

static void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s after %ld of %ld answers\n", what, strerror(errno), answered, wanted);
    exit(1);
}
