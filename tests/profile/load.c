/*
 * A small HTTP client that makes an exact number of requests: each client one at a time, on keep-alive or with a new
 * connection for each.  An answer that was not allowed ends it with exit code 1.
 *
 *     load PORT TARGET REQUESTS CLIENTS [close] [depth=N] [slow] [allow=STATUS[,STATUS...]]
 *
 *     TARGET  a '#' in it becomes a number from 1 to 1000; or @FILE: lines `STATUS[,STATUS...] METHOD TARGET [BODY]`,
 * one after the other and again from the first.  STATUS `abort`: the client leaves with an RST after a moment. close a
 * new connection for each request depth   so many requests are sent in one piece, and all their answers awaited slow
 * requests in two pieces, answers a few octets at a time through the smallest window allow   what may be answered
 * besides 200 (where TARGET is no file)
 *
 * Prints the answers by status and the seconds it took.
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

#define HEAD_MAX 65536
#define REQUEST_MAX 8192
#define CLIENTS_MAX 1024
#define DEPTH_MAX 64
#define LINES_MAX 64
#define STATUS_MAX 600
#define SLOW_READ 2048   /* octets */
#define ABORT_NS 1000000 /* what an aborting client leaves the server to begin with */

struct line { /* of the script */
    bool line_abort, line_allows[STATUS_MAX];
    char *line_method, *line_target, *line_body;
};

struct client {
    int client_fd;
    unsigned client_waiting, client_first; /* requests not answered; where the first of them is in client_lines */
    const struct line *client_lines[DEPTH_MAX];
    size_t client_have, client_left; /* octets of the head so far; octets of the body to come */
    bool client_in_body, client_closing;
    unsigned client_status;
    size_t client_out_len, client_out_sent;
    char client_head[HEAD_MAX];
    char client_out[DEPTH_MAX * REQUEST_MAX];
};

static struct sockaddr_in server = {.sin_family = AF_INET};
static struct line lines[LINES_MAX];
static size_t lines_n;
static bool new_connections, slow;
static unsigned depth = 1;
static long asked, answered, wanted, by_status[STATUS_MAX];
static int poll_fd;
static struct client *clients;

static void options(int argc, char **argv);
static void script_read(const char *name);
static void line_add(char *statuses, char *method, char *path, char *body);
static long number(const char *text, long max);
static void serve(struct client *c, uint32_t what);
static void receive(struct client *c);
static size_t head_take(struct client *c, const char *p, size_t n);
static void head_done(struct client *c);
static void answer_done(struct client *c);
static void ask(struct client *c);
static void append_request(struct client *c, const struct line *l);
static size_t expand(char *to, size_t room, const char *from);
static void push(struct client *c);
static void watch(struct client *c, uint32_t what, int how);
static void connect_client(struct client *c);
static void leave(struct client *c, bool reset);
static void fail(const char *what) __attribute__((noreturn));

int main(int argc, char **argv)
{
    struct epoll_event events[64];
    struct timespec began, ended;
    long n;

    if (argc < 5) {
        fprintf(stderr, "usage: load PORT TARGET REQUESTS CLIENTS [close] [depth=N] [slow] [allow=STATUS,...]\n");
        return 2;
    }
    server.sin_port = htons((uint16_t)number(argv[1], 65535));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    wanted = number(argv[3], 100000000);
    n = number(argv[4], CLIENTS_MAX);
    options(argc, argv);
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
        int ready = epoll_wait(poll_fd, events, 64, 120000); /* a busy machine may be slow */

        if (ready == 0) {
            errno = ETIMEDOUT;
            fail("no answer");
        }
        for (int i = 0; i < ready; i++)
            serve(events[i].data.ptr, events[i].events);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    for (unsigned i = 0; i < STATUS_MAX; i++)
        if (by_status[i] > 0)
            printf("%u %ld\n", i, by_status[i]);
    printf("%ld answers in %.3f s\n", answered,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    free(clients);
    return 0;
}

static void options(int argc, char **argv)
{
    static char get[] = "GET";
    char ok[256] = "200";

    for (int i = 5; i < argc; i++) {
        if (strcmp(argv[i], "close") == 0)
            new_connections = true;
        else if (strcmp(argv[i], "slow") == 0)
            slow = true;
        else if (strncmp(argv[i], "depth=", 6) == 0)
            depth = (unsigned)number(argv[i] + 6, DEPTH_MAX);
        else if (strncmp(argv[i], "allow=", 6) == 0)
            (void)snprintf(ok, sizeof ok, "200,%s", argv[i] + 6);
        else {
            fprintf(stderr, "load: %s is not an option\n", argv[i]);
            exit(2);
        }
    }
    if (new_connections)
        depth = 1;
    if (argv[2][0] == '@')
        script_read(argv[2] + 1);
    else
        line_add(ok, get, argv[2], NULL);
    if (lines_n == 0) {
        fprintf(stderr, "load: %s: no request in it\n", argv[2]);
        exit(2);
    }
}

static void script_read(const char *name)
{
    FILE *file = fopen(name, "r");
    static char text[LINES_MAX * REQUEST_MAX];
    char *next = text, *one;

    if (file == NULL)
        fail(name);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    while ((one = strsep(&next, "\n")) != NULL) {
        char *statuses = strsep(&one, " "), *method = strsep(&one, " "), *path = strsep(&one, " ");

        if (path != NULL)
            line_add(statuses, method, path, one);
    }
}

/* The texts stay where they are. */
static void line_add(char *statuses, char *method, char *path, char *body)
{
    struct line *l = &lines[lines_n++];
    char *status;

    if (lines_n > LINES_MAX) {
        fprintf(stderr, "load: more than %d lines\n", LINES_MAX);
        exit(2);
    }
    while ((status = strsep(&statuses, ",")) != NULL)
        if (strcmp(status, "abort") == 0)
            l->line_abort = true;
        else
            l->line_allows[number(status, STATUS_MAX - 1)] = true;
    l->line_method = method;
    l->line_target = path;
    l->line_body = body;
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

static void serve(struct client *c, uint32_t what)
{
    if (c->client_fd < 0)
        return;
    if ((what & EPOLLOUT) != 0)
        push(c);
    if ((what & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        receive(c);
}

/* Reads what is there; when all answers are complete the next requests go out. */
static void receive(struct client *c)
{
    static char octets[262144];
    ssize_t got = read(c->client_fd, octets, slow ? SLOW_READ : sizeof octets);
    size_t at = 0;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0 || (got == 0 && c->client_waiting > 0))
        fail("an answer was cut short");
    if (got == 0) {
        leave(c, false);
        ask(c);
        return;
    }
    while (at < (size_t)got) {
        if (!c->client_in_body)
            at += head_take(c, octets + at, (size_t)got - at);
        if (c->client_in_body) {
            size_t n = (size_t)got - at < c->client_left ? (size_t)got - at : c->client_left;

            at += n;
            c->client_left -= n;
            if (c->client_left == 0)
                answer_done(c);
        }
    }
    if (c->client_waiting == 0) {
        if (new_connections || c->client_closing) {
            char rest;

            do /* the server closes first */
                got = recv(c->client_fd, &rest, 1, 0);
            while (got < 0 && (errno == EAGAIN || errno == EINTR));
            if (got != 0)
                fail("the connection was not closed");
            leave(c, false);
        }
        ask(c);
    }
}

/* Gathers a head; returns the octets of it that were taken. */
static size_t head_take(struct client *c, const char *p, size_t n)
{
    size_t had = c->client_have, room = HEAD_MAX - 1 - had;
    const char *end;

    if (c->client_waiting == 0 || room == 0) {
        errno = EPROTO;
        fail(room == 0 ? "a head without end" : "more than was asked for");
    }
    if (n > room)
        n = room;
    memcpy(c->client_head + had, p, n);
    c->client_have += n;
    c->client_head[c->client_have] = '\0';
    end = strstr(c->client_head, "\r\n\r\n");
    if (end == NULL)
        return n;
    n = (size_t)(end + 4 - c->client_head) - had;
    c->client_head[had + n] = '\0';
    head_done(c);
    return n;
}

static void head_done(struct client *c)
{
    const struct line *l = c->client_lines[c->client_first];
    const char *length = strcasestr(c->client_head, "\r\nContent-Length:");

    if (sscanf(c->client_head, "HTTP/1.1 %3u", &c->client_status) != 1 || c->client_status >= STATUS_MAX ||
        !l->line_allows[c->client_status]) {
        fprintf(stderr, "%s %s\n%s\n", l->line_method, l->line_target, c->client_head);
        errno = EPROTO;
        fail("not the answer that was wanted");
    }
    if (length == NULL && c->client_status != 204) {
        errno = EPROTO;
        fail("an answer without Content-Length");
    }
    if (strcasestr(c->client_head, "\r\nConnection: close") != NULL)
        c->client_closing = true;
    c->client_left = length == NULL ? 0 : strtoul(length + 17, NULL, 10);
    c->client_in_body = true;
    c->client_have = 0;
    if (c->client_left == 0)
        answer_done(c);
}

static void answer_done(struct client *c)
{
    answered++;
    by_status[c->client_status]++;
    c->client_in_body = false;
    c->client_first++;
    c->client_waiting--;
}

/* Sends the next requests of a client that waits for none. */
static void ask(struct client *c)
{
    c->client_out_len = c->client_out_sent = 0;
    c->client_first = 0;
    if (asked >= wanted)
        return;
    if (c->client_fd < 0)
        connect_client(c);
    while (asked < wanted && c->client_waiting < depth) {
        const struct line *l = &lines[(size_t)asked % lines_n];

        if (l->line_abort && c->client_waiting > 0)
            break; /* alone */
        append_request(c, l);
        c->client_lines[c->client_waiting++] = l;
        asked++;
        if (l->line_abort)
            break;
    }
    push(c);
    if (c->client_lines[0]->line_abort) {
        nanosleep(&(struct timespec){.tv_nsec = ABORT_NS}, NULL);
        leave(c, true);
        answered++;
        ask(c);
    }
}

static void append_request(struct client *c, const struct line *l)
{
    char path[REQUEST_MAX / 2], body[REQUEST_MAX / 4] = "";
    size_t n = 0;
    int length;

    (void)expand(path, sizeof path, l->line_target);
    if (l->line_body != NULL)
        n = expand(body, sizeof body, l->line_body);
    length = snprintf(c->client_out + c->client_out_len, REQUEST_MAX, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s",
                      l->line_method, path, new_connections ? "Connection: close\r\n" : "");
    c->client_out_len += (size_t)length;
    if (l->line_body != NULL)
        length = snprintf(c->client_out + c->client_out_len, REQUEST_MAX,
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", n, body);
    else
        length = snprintf(c->client_out + c->client_out_len, REQUEST_MAX, "\r\n");
    c->client_out_len += (size_t)length;
}

/* Copies with each '#' replaced by the request's number. */
static size_t expand(char *to, size_t room, const char *from)
{
    const char *hash = strchr(from, '#');
    int length = hash == NULL ? snprintf(to, room, "%s", from)
                              : snprintf(to, room, "%.*s%ld%s", (int)(hash - from), from, asked % 1000 + 1, hash + 1);

    if (length < 0 || (size_t)length >= room) {
        errno = EMSGSIZE;
        fail("request too large");
    }
    return (size_t)length;
}

/* Sends what is due: all, or when slow a piece now and the rest when the loop comes round. */
static void push(struct client *c)
{
    size_t n = c->client_out_len - c->client_out_sent;
    ssize_t sent;

    if (slow && c->client_out_sent == 0)
        n /= 2;
    sent = send(c->client_fd, c->client_out + c->client_out_sent, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        fail("write");
    if (sent > 0)
        c->client_out_sent += (size_t)sent;
    watch(c, c->client_out_sent < c->client_out_len ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
}

static void watch(struct client *c, uint32_t what, int how)
{
    struct epoll_event event = {.events = what, .data = {.ptr = c}};
    static uint32_t last[CLIENTS_MAX];
    uint32_t *had = &last[c - clients];

    if (how == EPOLL_CTL_MOD && *had == what)
        return;
    *had = what;
    if (epoll_ctl(poll_fd, how, c->client_fd, &event) != 0)
        fail("epoll");
}

static void connect_client(struct client *c)
{
    int on = 1, small = 1;

    c->client_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (slow && c->client_fd >= 0)
        (void)setsockopt(c->client_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small); /* the kernel's least */
    if (c->client_fd < 0 || connect(c->client_fd, (const struct sockaddr *)&server, sizeof server) != 0 ||
        setsockopt(c->client_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("connect");
    watch(c, EPOLLIN, EPOLL_CTL_ADD);
}

static void leave(struct client *c, bool reset)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (reset)
        (void)setsockopt(c->client_fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->client_fd);
    c->client_fd = -1;
    c->client_waiting = 0;
    c->client_have = 0;
    c->client_in_body = c->client_closing = false;
}

static void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s after %ld of %ld answers\n", what, strerror(errno), answered, wanted);
    exit(1);
}
