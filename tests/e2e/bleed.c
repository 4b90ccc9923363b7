/*
 * Many clients, each with payloads that only it knows, of all sizes and both ways, pipelined, chunked, in pieces,
 * aborted and refused.  Every octet of every answer is checked; one that is wrong ends it with exit code 1.
 *
 *     bleed PORT REQUESTS CLIENTS [SEED]
 *
 * The routes are those of test_27_bleed.py.  Heads are compared with the first one of their kind, but for the date and
 * the length, which are checked by themselves; so are problem documents, which say nothing of the request.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 256
#define BODY_MAX 204800 /* 200 KiB */
#define DUE_MAX 8       /* pipelined at most */
#define HEAD_MAX 1024

enum kind { ECHO, CHUNKED, JSON, ROWS, FIXED, LONG, FAIL, NOWHERE, MALFORMED, TOO_LARGE, KINDS };

static const char *const kind_names[KINDS] = {"echo", "chunked", "json",    "rows",      "fixed",
                                              "long", "fail",    "nowhere", "malformed", "too large"};
static const int statuses[KINDS] = {200, 200, 200, 200, 200, 200, 400, 404, 400, 413};

/* An answer that is due. */
struct due {
    enum kind due_kind;
    bool due_closes;
    char *due_body; /* NULL: that of the first answer of its kind */
    size_t due_len;
};

struct text {
    char *text_octets;
    size_t text_len, text_size;
};

struct client {
    unsigned client_id;
    int client_fd;
    uint64_t client_chance;
    long client_n;
    struct text client_out, client_in;
    size_t client_sent, client_piece; /* octets to send at a time; 0: all */
    struct due client_dues[DUE_MAX];
    unsigned client_due, client_dues_n;
    bool client_leaves; /* without waiting for its answers */
};

static struct sockaddr_in server = {.sin_family = AF_INET};
static struct client clients[CLIENTS_MAX];
static char *first_heads[KINDS], *first_bodies[KINDS];
static long asked, answered, aborted, wanted, by_kind[KINDS];
static char long_text[5001];
static int poll_fd;

static void client_begin(struct client *c);
static void client_connect(struct client *c);
static void client_leave(struct client *c);
static void client_ask(struct client *c, enum kind kind);
static void client_write(struct client *c);
static void client_read(struct client *c);
static size_t answer_check(struct client *c);
static void head_check(struct client *c, const struct due *d, size_t head, size_t *length);
static void body_check(struct client *c, const struct due *d, const char *body, size_t len);
static void ask_echo(struct client *c, struct due *d, bool chunked);
static void payload(struct client *c, struct text *t, size_t n);
static size_t some_size(struct client *c, size_t max);
static uint64_t chance(struct client *c, uint64_t n);
static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_octets(struct text *t, const char *p, size_t n);
static void fail(const struct client *c, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

int main(int argc, char **argv)
{
    struct epoll_event events[64];
    long n, seed = argc > 4 ? atol(argv[4]) : 1;
    time_t began = time(NULL);

    if (argc < 4 || (wanted = atol(argv[2])) < 1 || (n = atol(argv[3])) < 1 || n > CLIENTS_MAX) {
        fprintf(stderr, "usage: bleed PORT REQUESTS CLIENTS [SEED]\n");
        return 2;
    }
    server.sin_port = htons((uint16_t)atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (unsigned i = 0; i < sizeof(long_text) - 1; i++)
        long_text[i] = (char)('a' + i % 26);
    poll_fd = epoll_create1(0);
    for (unsigned i = 0; i < n; i++) {
        clients[i] = (struct client){
            .client_id = i, .client_fd = -1, .client_chance = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + i};
        client_begin(&clients[i]);
    }
    while (answered + aborted < asked || asked < wanted) {
        int ready = epoll_wait(poll_fd, events, 64, 60000);

        if (ready == 0)
            fail(NULL, "no answer within a minute: %ld asked, %ld answered, %ld aborted", asked, answered, aborted);
        for (int i = 0; i < ready; i++) {
            struct client *c = events[i].data.ptr;

            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                client_read(c);
            else if (events[i].events & EPOLLOUT)
                client_write(c);
        }
    }
    printf("%ld requests: %ld answers checked, %ld aborted, in %ld s:", asked, answered, aborted,
           (long)(time(NULL) - began));
    for (unsigned k = 0; k < KINDS; k++)
        printf(" %s %ld", kind_names[k], by_kind[k]);
    printf("\n");
    return 0;
}

/* The next request, or some. */
static void client_begin(struct client *c)
{
    static const enum kind usual[] = {ECHO, ECHO, ECHO, CHUNKED, CHUNKED, JSON, JSON, ROWS, FIXED, LONG, FAIL, NOWHERE};
    unsigned n = 1;

    c->client_due = c->client_dues_n = 0;
    c->client_out.text_len = c->client_sent = 0;
    if (asked >= wanted) {
        if (c->client_fd >= 0)
            close(c->client_fd);
        c->client_fd = -1;
        return;
    }
    if (c->client_fd < 0)
        client_connect(c);
    if (chance(c, 4) == 0)
        n = 1 + (unsigned)chance(c, DUE_MAX);
    for (unsigned i = 0; i < n; i++)
        client_ask(c, usual[chance(c, sizeof usual / sizeof *usual)]);
    if (chance(c, 40) == 0 && c->client_dues_n < DUE_MAX)
        client_ask(c, chance(c, 2) ? MALFORMED : TOO_LARGE);
    c->client_leaves = chance(c, 25) == 0;
    c->client_piece = chance(c, 5) == 0 ? 1 + chance(c, 3000) : 0;
    client_write(c);
}

static void client_connect(struct client *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};
    int on = 1, small = 4096;

    c->client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->client_id % 4 == 0) /* these make the server wait while it writes */
        (void)setsockopt(c->client_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (c->client_fd < 0 || connect(c->client_fd, (const struct sockaddr *)&server, sizeof server) != 0 ||
        setsockopt(c->client_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        fcntl(c->client_fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->client_fd, &event) != 0)
        fail(c, "connect: %s", strerror(errno));
    c->client_in.text_len = 0;
}

/* With an RST or a FIN, in the midst of it. */
static void client_leave(struct client *c)
{
    const struct linger rst = {1, 0};

    if (chance(c, 2) == 0)
        (void)setsockopt(c->client_fd, SOL_SOCKET, SO_LINGER, &rst, sizeof rst);
    close(c->client_fd);
    c->client_fd = -1;
    aborted += c->client_dues_n - c->client_due;
    for (; c->client_due < c->client_dues_n; c->client_due++)
        free(c->client_dues[c->client_due].due_body);
    client_begin(c);
}

/* --- asking --- */

static void client_ask(struct client *c, enum kind kind)
{
    struct due *d = &c->client_dues[c->client_dues_n];
    struct text *out = &c->client_out, v = {0}, want = {0};

    if (c->client_dues_n >= DUE_MAX || (c->client_dues_n > 0 && c->client_dues[c->client_dues_n - 1].due_closes))
        return;
    c->client_dues_n++;
    *d = (struct due){.due_kind = kind};
    c->client_n++;
    asked++;
    switch (kind) {
    case ECHO:
    case CHUNKED:
        ask_echo(c, d, kind == CHUNKED);
        return;
    case JSON:
        payload(c, &v, some_size(c, 3000));
        put(&want, "{\"v\":\"%s\",\"w\":\"%.20s\"}", v.text_octets, v.text_octets);
        put(out, "GET /echo/%s?w=%.20s HTTP/1.1\r\nHost: x\r\nX-Mark: %.30s\r\n\r\n", v.text_octets, v.text_octets,
            v.text_octets);
        break;
    case ROWS: {
        unsigned rows = (unsigned)chance(c, chance(c, 10) == 0 ? 2000 : 40);

        payload(c, &v, 10 + chance(c, 50));
        put(&want, "[");
        for (unsigned i = 1; i <= rows; i++)
            put(&want, "%s{\"v\":\"%s\",\"n\":%u}", i > 1 ? "," : "", v.text_octets, i);
        put(&want, "]");
        put(out, "GET /rows/%s?n=%u HTTP/1.1\r\nHost: x\r\n\r\n", v.text_octets, rows);
        break;
    }
    case FIXED:
        put(&want, "ok");
        put(out, "GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n");
        break;
    case LONG:
        put(&want, "%s", long_text);
        put(out, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n");
        break;
    case FAIL:
        payload(c, &v, some_size(c, 300));
        put(out, "GET /fail/x%s HTTP/1.1\r\nHost: x\r\n\r\n", v.text_octets);
        break;
    case NOWHERE:
        payload(c, &v, some_size(c, 3000));
        put(out, "GET /nowhere/%s HTTP/1.1\r\nHost: x\r\n\r\n", v.text_octets);
        break;
    case MALFORMED:
        d->due_closes = true;
        payload(c, &v, some_size(c, 3000));
        put(out, "GET /fixed HTTP/1.1\r\nHost: x\r\nX-Mark: %s\r\n folded: y\r\n\r\n", v.text_octets);
        break;
    case TOO_LARGE:
        d->due_closes = true;
        payload(c, &v, 3000);
        put(out, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n%s", v.text_octets);
        break;
    case KINDS:
        break;
    }
    free(v.text_octets);
    d->due_body = want.text_octets;
    d->due_len = want.text_len;
}

static void ask_echo(struct client *c, struct due *d, bool chunked)
{
    struct text v = {0}, *out = &c->client_out;

    payload(c, &v, some_size(c, BODY_MAX));
    put(out, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n");
    if (!chunked) {
        put(out, "Content-Length: %zu\r\n\r\n", v.text_len);
        put_octets(out, v.text_octets, v.text_len);
    } else {
        put(out, "Transfer-Encoding: chunked\r\n\r\n");
        for (size_t at = 0, n; at < v.text_len; at += n) {
            n = 1 + chance(c, chance(c, 2) == 0 ? 50 : 20000);
            if (n > v.text_len - at)
                n = v.text_len - at;
            put(out, "%zx%s\r\n", n, chance(c, 8) == 0 ? ";note=\"x\"" : "");
            put_octets(out, v.text_octets + at, n);
            put(out, "\r\n");
        }
        put(out, "0\r\n%s\r\n", chance(c, 4) == 0 ? "X-Trailer: y\r\n" : "");
    }
    d->due_body = v.text_octets;
    d->due_len = v.text_len;
}

/* Who, which, and then letters that no other has in this order: n octets or a few more. */
static void payload(struct client *c, struct text *t, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char mark[32];
    uint64_t word = 0;

    snprintf(mark, sizeof mark, "c%02u.%ld.", c->client_id, c->client_n);
    put_octets(t, mark, strlen(mark) < n ? strlen(mark) : n);
    if (t->text_len == 0)
        put_octets(t, mark, 1);
    while (t->text_len < n) {
        char octets[8];

        word = chance(c, UINT64_MAX);
        for (unsigned i = 0; i < 8; i++)
            octets[i] = letters[word >> 8 * i & 63];
        put_octets(t, octets, n - t->text_len < 8 ? n - t->text_len : 8);
    }
}

/* Small ones mostly, those around a block's size, and large ones. */
static size_t some_size(struct client *c, size_t max)
{
    static const size_t around[] = {1, 2, 4040, 4056, 4096, 8150, 16300, 65536};
    size_t n;

    switch (chance(c, 6)) {
    case 0:
        n = chance(c, max + 1);
        break;
    case 1:
        n = around[chance(c, sizeof around / sizeof *around)] + chance(c, 40);
        break;
    case 2:
        n = chance(c, 3000);
        break;
    default:
        n = chance(c, 200);
    }
    return n == 0 ? 1 : n < max ? n : max;
}

/* --- octets in and out --- */

static void client_write(struct client *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};
    struct text *out = &c->client_out;

    while (c->client_sent < out->text_len) {
        size_t n = out->text_len - c->client_sent;
        ssize_t sent;

        if (c->client_piece != 0 && n > c->client_piece)
            n = c->client_piece;
        sent = send(c->client_fd, out->text_octets + c->client_sent, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0 && (c->client_dues[c->client_dues_n - 1].due_closes)) {
            c->client_sent = out->text_len; /* its answer has come before its end */
            break;
        }
        if (sent < 0)
            fail(c, "write: %s", strerror(errno));
        c->client_sent += (size_t)sent;
        if (c->client_leaves && chance(c, 3) == 0) {
            client_leave(c);
            return;
        }
        if (c->client_piece != 0)
            break;
    }
    if (c->client_sent < out->text_len)
        event.events |= EPOLLOUT;
    else if (c->client_leaves) {
        client_leave(c);
        return;
    }
    if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->client_fd, &event) != 0)
        fail(c, "epoll: %s", strerror(errno));
}

static void client_read(struct client *c)
{
    char octets[65536];
    ssize_t got = recv(c->client_fd, octets, sizeof octets, 0);
    size_t used;

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        if (c->client_due < c->client_dues_n)
            fail(c, "closed where an answer was due (%s): %s", kind_names[c->client_dues[c->client_due].due_kind],
                 got < 0 ? strerror(errno) : "end");
        if (c->client_dues_n == 0 || !c->client_dues[c->client_dues_n - 1].due_closes)
            fail(c, "closed for no reason");
        close(c->client_fd);
        c->client_fd = -1;
        client_begin(c);
        return;
    }
    put_octets(&c->client_in, octets, (size_t)got);
    while (c->client_in.text_len > 0 && (used = answer_check(c)) > 0) {
        c->client_in.text_len -= used;
        memmove(c->client_in.text_octets, c->client_in.text_octets + used, c->client_in.text_len + 1);
    }
    if (c->client_due == c->client_dues_n && !c->client_dues[c->client_dues_n - 1].due_closes) {
        if (c->client_sent < c->client_out.text_len)
            fail(c, "answered before it was asked");
        client_begin(c);
    } else if (c->client_sent < c->client_out.text_len) {
        client_write(c); /* level-triggered reading would starve it */
    }
}

/* --- checking --- */

/* The octets of a whole answer at the beginning of what came in; 0: there is none yet. */
static size_t answer_check(struct client *c)
{
    struct due *d = &c->client_dues[c->client_due];
    const char *in = c->client_in.text_octets, *end = strstr(in, "\r\n\r\n");
    size_t head, length;

    if (c->client_due == c->client_dues_n)
        fail(c, "octets that nobody asked for: %.100s", in);
    if (end == NULL) {
        if (c->client_in.text_len > HEAD_MAX)
            fail(c, "not a head: %.100s", in);
        return 0;
    }
    head = (size_t)(end + 4 - in);
    head_check(c, d, head, &length);
    if (c->client_in.text_len < head + length)
        return 0;
    body_check(c, d, in + head, length);
    free(d->due_body);
    d->due_body = NULL;
    by_kind[d->due_kind]++;
    answered++;
    c->client_due++;
    return head + length;
}

static void head_check(struct client *c, const struct due *d, size_t head, size_t *length)
{
    char plain[HEAD_MAX + 1], *at, *field;
    size_t digits;

    if (head > HEAD_MAX)
        fail(c, "a head of %zu octets", head);
    memcpy(plain, c->client_in.text_octets, head);
    plain[head] = '\0';
    field = strstr(plain, "\r\nDate: ");
    if (field == NULL || strncmp(field + 8 + 25, " GMT\r\n", 6) != 0)
        fail(c, "no date: %s", plain);
    memset(field + 8, 'D', 25);
    field = strstr(plain, "\r\nContent-Length: ");
    if (field == NULL)
        fail(c, "no length: %s", plain);
    field += 18;
    *length = strtoul(field, &at, 10);
    digits = (size_t)(at - field);
    memmove(field, at, strlen(at) + 1);
    if (digits == 0 || *field != '\r' || atoi(plain + 9) != statuses[d->due_kind])
        fail(c, "%s: not the head that was due: %s%.300s", kind_names[d->due_kind], plain,
             c->client_in.text_octets + head);
    if (first_heads[d->due_kind] == NULL)
        first_heads[d->due_kind] = strdup(plain);
    else if (strcmp(first_heads[d->due_kind], plain) != 0)
        fail(c, "%s: a head unlike others:\n%s\nthe first:\n%s", kind_names[d->due_kind], plain,
             first_heads[d->due_kind]);
}

static void body_check(struct client *c, const struct due *d, const char *body, size_t len)
{
    const char *want = d->due_body;
    size_t want_len = d->due_len, at = 0;

    if (want == NULL) {
        if (first_bodies[d->due_kind] == NULL)
            first_bodies[d->due_kind] = strndup(body, len);
        want = first_bodies[d->due_kind];
        want_len = strlen(want);
    }
    if (len == want_len && memcmp(body, want, len) == 0)
        return;
    while (at < len && at < want_len && body[at] == want[at])
        at++;
    fail(c, "%s: %zu octets, not %zu, other from %zu on:\n%.80s\nwanted:\n%.80s", kind_names[d->due_kind], len,
         want_len, at, body + at, want + at);
}

/* --- helpers --- */

static uint64_t chance(struct client *c, uint64_t n)
{
    uint64_t z = c->client_chance += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % n;
}

static void put(struct text *t, const char *format, ...)
{
    char *text;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0)
        fail(NULL, "no memory");
    put_octets(t, text, (size_t)n);
    free(text);
}

static void put_octets(struct text *t, const char *p, size_t n)
{
    if (t->text_len + n + 1 > t->text_size) {
        t->text_size = 2 * (t->text_len + n + 1);
        t->text_octets = realloc(t->text_octets, t->text_size);
        if (t->text_octets == NULL)
            fail(NULL, "no memory");
    }
    memcpy(t->text_octets + t->text_len, p, n);
    t->text_len += n;
    t->text_octets[t->text_len] = '\0';
}

static void fail(const struct client *c, const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "bleed: ");
    if (c != NULL)
        fprintf(stderr, "client %u, request %ld: ", c->client_id, c->client_n);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    exit(1);
}
