/*
 * A small PostgreSQL in the test's own event loop: it speaks protocol version 3 over a unix socket, prepares anything,
 * and does what the value of a query's first parameter says (see fake_execute).  Like the real one it keeps its answers
 * until the Sync.
 */
#ifndef VANILLA_TESTS_UNIT_FAKE_POSTGRES_H
#define VANILLA_TESTS_UNIT_FAKE_POSTGRES_H

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FAKE_CONNS 64

struct fake_conn {
    struct fake *conn_fake;
    struct event *conn_event, *conn_writable;
    int conn_fd;
    unsigned conn_pid;
    char conn_asked; /* the statement parsed last is for: s settings of the transaction; r what can be reached */
    bool conn_started, conn_skipping, conn_hanging, conn_lost;
    char conn_status;         /* of the next ReadyForQuery */
    const char *conn_at_sync; /* SQLSTATE to fail with at the next Sync */
    char conn_bound[64];      /* the value bound last */
    unsigned char conn_in[65536], *conn_out;
    size_t conn_in_n, conn_out_n, conn_out_size;
};

struct fake {
    struct event_base *fake_base;
    char fake_dir[64], fake_path[108];
    int fake_fd;
    struct event *fake_event;
    struct fake_conn *fake_conns[FAKE_CONNS];
    unsigned fake_conns_n; /* ever accepted, cancels left out */
    /* How it behaves. */
    const char *fake_refuse;   /* SQLSTATE for every PREPARE, NULL: none */
    const char *fake_no_login; /* SQLSTATE instead of a login */
    bool fake_octets;          /* answers leave octet by octet */
    bool fake_deaf;            /* cancels come to nothing */
    int fake_stale;            /* so many queries "stale" fail with 0A000 before they work */
    uint32_t fake_column_oid;  /* of the only column: text */
    const char *fake_reach;    /* the first statement may change its session, through this; NULL: it may not */
    const char *fake_no_reach; /* SQLSTATE for that question */
    const char *fake_no_reset; /* SQLSTATE for the simple query that resets a session; "": says nothing any more */
    /* What it saw. */
    unsigned fake_syncs, fake_executes, fake_parses, fake_cancels, fake_deallocates, fake_terminates, fake_reaches,
        fake_resets;
    uint32_t fake_cancel_pid, fake_cancel_key;
    char fake_log[4096]; /* values executed, with a space behind each */
};

static void fake_accept(evutil_socket_t fd, short what, void *arg);
static void fake_read(evutil_socket_t fd, short what, void *arg);
static void fake_consume(struct fake_conn *c);
static void fake_message(struct fake_conn *c, char type, const unsigned char *body, size_t len);
static void fake_catalogue(struct fake_conn *c, char type);
static void fake_reset(struct fake_conn *c);
static void fake_execute(struct fake_conn *c);
static void fake_flush(struct fake_conn *c);
static void fake_put(struct fake_conn *c, char type, const void *body, size_t len);
static void fake_put_row(struct fake_conn *c, const char *text, size_t len);
static void fake_put_error(struct fake_conn *c, const char *severity, const char *sqlstate, const char *routine);
static void fake_write(evutil_socket_t fd, short what, void *arg);
static void fake_close(struct fake_conn *c);

static void fake_listen(struct fake *f)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    memcpy(sun.sun_path, f->fake_path, strlen(f->fake_path) + 1);
    f->fake_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)unlink(f->fake_path);
    if (bind(f->fake_fd, (struct sockaddr *)&sun, sizeof sun) != 0 || listen(f->fake_fd, 64) != 0)
        abort();
    f->fake_event = event_new(f->fake_base, f->fake_fd, EV_READ | EV_PERSIST, fake_accept, f);
    event_add(f->fake_event, NULL);
}

static void fake_unlisten(struct fake *f)
{
    if (f->fake_event == NULL)
        return;
    event_free(f->fake_event);
    f->fake_event = NULL;
    (void)close(f->fake_fd);
    (void)unlink(f->fake_path);
}

static struct fake *fake_new(struct event_base *base)
{
    struct fake *f = calloc(1, sizeof *f);

    f->fake_base = base;
    f->fake_column_oid = 25;
    snprintf(f->fake_dir, sizeof f->fake_dir, "/tmp/vanilla-fake-XXXXXX");
    if (mkdtemp(f->fake_dir) == NULL)
        abort();
    snprintf(f->fake_path, sizeof f->fake_path, "%s/.s.PGSQL.5432", f->fake_dir);
    fake_listen(f);
    return f;
}

static void fake_free(struct fake *f)
{
    fake_unlisten(f);
    for (unsigned i = 0; i < FAKE_CONNS; i++)
        if (f->fake_conns[i] != NULL)
            fake_close(f->fake_conns[i]);
    (void)rmdir(f->fake_dir);
    free(f);
}

/* Every connection breaks, as when the machine dies. */
static inline void fake_break_all(struct fake *f)
{
    for (unsigned i = 0; i < FAKE_CONNS; i++)
        if (f->fake_conns[i] != NULL)
            fake_close(f->fake_conns[i]);
}

/* pg_terminate_backend. */
static inline void fake_terminate(struct fake_conn *c)
{
    fake_put_error(c, "FATAL", "57P01", "ProcessInterrupts");
    fake_flush(c);
    fake_close(c);
}

/* What hangs comes to its end by itself. */
static inline void fake_finish_all(struct fake *f)
{
    for (unsigned i = 0; i < FAKE_CONNS; i++) {
        struct fake_conn *c = f->fake_conns[i];

        if (c == NULL || !c->conn_hanging)
            continue;
        c->conn_hanging = false;
        fake_put_row(c, "hang", 4);
        fake_put(c, 'C', "SELECT 1", 9);
        fake_consume(c);
    }
}

static void fake_put(struct fake_conn *c, char type, const void *body, size_t len)
{
    unsigned char head[5] = {(unsigned char)type};
    uint32_t n = htonl((uint32_t)len + 4);

    memcpy(head + 1, &n, 4);
    if (c->conn_out_n + 5 + len > c->conn_out_size) {
        c->conn_out_size = (c->conn_out_n + 5 + len) * 2;
        c->conn_out = realloc(c->conn_out, c->conn_out_size);
    }
    memcpy(c->conn_out + c->conn_out_n, head, 5);
    if (len > 0)
        memcpy(c->conn_out + c->conn_out_n + 5, body, len);
    c->conn_out_n += 5 + len;
}

static void fake_put_error(struct fake_conn *c, const char *severity, const char *sqlstate, const char *routine)
{
    char body[256];
    size_t n = 0;

    n += (size_t)sprintf(body + n, "S%s", severity) + 1;
    n += (size_t)sprintf(body + n, "V%s", severity) + 1;
    n += (size_t)sprintf(body + n, "C%s", sqlstate) + 1;
    n += (size_t)sprintf(body + n, "Mfake says %s", sqlstate) + 1;
    n += (size_t)sprintf(body + n, "Da detail") + 1;
    n += (size_t)sprintf(body + n, "R%s", routine) + 1;
    body[n++] = '\0';
    fake_put(c, 'E', body, n);
}

static void fake_put_row(struct fake_conn *c, const char *text, size_t len)
{
    unsigned char *row = malloc(6 + len);
    uint32_t n = htonl((uint32_t)len);

    row[0] = 0;
    row[1] = 1;
    memcpy(row + 2, &n, 4);
    memcpy(row + 6, text, len);
    fake_put(c, 'D', row, 6 + len);
    free(row);
}

static void fake_accept(evutil_socket_t fd, short what, void *arg)
{
    struct fake *f = arg;
    int got;

    (void)what;
    while ((got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct fake_conn *c = calloc(1, sizeof *c);
        unsigned i = 0;

        while (f->fake_conns[i] != NULL)
            i++;
        f->fake_conns[i] = c;
        c->conn_fake = f;
        c->conn_fd = got;
        c->conn_status = 'I';
        c->conn_event = event_new(f->fake_base, got, EV_READ | EV_PERSIST, fake_read, c);
        event_add(c->conn_event, NULL);
        c->conn_writable = event_new(f->fake_base, got, EV_WRITE | EV_PERSIST, fake_write, c);
    }
}

static void fake_close(struct fake_conn *c)
{
    for (unsigned i = 0; i < FAKE_CONNS; i++)
        if (c->conn_fake->fake_conns[i] == c)
            c->conn_fake->fake_conns[i] = NULL;
    event_free(c->conn_event);
    event_free(c->conn_writable);
    (void)close(c->conn_fd);
    free(c->conn_out);
    free(c);
}

/* All at once, or an octet in each turn of the loop. */
static void fake_flush(struct fake_conn *c)
{
    if (c->conn_out_n > 0)
        event_add(c->conn_writable, NULL);
    if (!c->conn_fake->fake_octets)
        fake_write(c->conn_fd, EV_WRITE, c);
}

static void fake_write(evutil_socket_t fd, short what, void *arg)
{
    struct fake_conn *c = arg;
    ssize_t n = 0;

    (void)what;
    if (c->conn_out_n > 0)
        n = send(fd, c->conn_out, c->conn_fake->fake_octets ? 1 : c->conn_out_n, MSG_NOSIGNAL);
    if (n > 0) {
        memmove(c->conn_out, c->conn_out + n, c->conn_out_n - (size_t)n);
        c->conn_out_n -= (size_t)n;
    }
    if (c->conn_out_n == 0)
        event_del(c->conn_writable);
}

static void fake_startup(struct fake_conn *c, const unsigned char *body)
{
    struct fake *f = c->conn_fake;
    uint32_t code;

    memcpy(&code, body, 4);
    code = ntohl(code);
    if (code == 80877102) {
        f->fake_cancels++;
        memcpy(&f->fake_cancel_pid, body + 4, 4);
        memcpy(&f->fake_cancel_key, body + 8, 4);
        f->fake_cancel_pid = ntohl(f->fake_cancel_pid);
        f->fake_cancel_key = ntohl(f->fake_cancel_key);
        for (unsigned i = 0; i < FAKE_CONNS && !f->fake_deaf; i++) {
            struct fake_conn *other = f->fake_conns[i];

            if (other != NULL && other->conn_pid == f->fake_cancel_pid && other->conn_hanging) {
                other->conn_hanging = false;
                fake_put_error(other, "ERROR", "57014", "ProcessInterrupts");
                other->conn_skipping = true;
                fake_consume(other);
            }
        }
        c->conn_lost = true;
        return;
    }
    c->conn_started = true;
    c->conn_pid = 1000 + f->fake_conns_n++;
    if (f->fake_no_login != NULL) {
        fake_put_error(c, "FATAL", f->fake_no_login, "InitPostgres");
        fake_flush(c);
        c->conn_lost = true;
        return;
    }
    {
        unsigned char key[8];
        uint32_t pid = htonl(c->conn_pid), secret = htonl(0x80000000u + c->conn_pid);

        memcpy(key, &pid, 4);
        memcpy(key + 4, &secret, 4);
        fake_put(c, 'R', "\0\0\0\0", 4);
        fake_put(c, 'S', "client_encoding\0UTF8", 21);
        fake_put(c, 'S', "server_version\00015.0", 20);
        fake_put(c, 'K', key, 8);
        fake_put(c, 'Z', "I", 1);
        fake_flush(c);
    }
}

static void fake_read(evutil_socket_t fd, short what, void *arg)
{
    struct fake_conn *c = arg;
    ssize_t n = recv(fd, c->conn_in + c->conn_in_n, sizeof c->conn_in - c->conn_in_n, 0);

    (void)what;
    if (n <= 0) {
        fake_close(c);
        return;
    }
    c->conn_in_n += (size_t)n;
    fake_consume(c);
}

static void fake_consume(struct fake_conn *c)
{
    for (;;) {
        size_t head = c->conn_started ? 1 : 0;
        uint32_t len;

        if (c->conn_hanging || c->conn_in_n < head + 4)
            break;
        memcpy(&len, c->conn_in + head, 4);
        len = ntohl(len);
        if (c->conn_in_n < head + len)
            break;
        if (!c->conn_started)
            fake_startup(c, c->conn_in + 4);
        else
            fake_message(c, (char)c->conn_in[0], c->conn_in + 5, len - 4);
        if (c->conn_lost) {
            fake_close(c);
            return;
        }
        memmove(c->conn_in, c->conn_in + head + len, c->conn_in_n - head - len);
        c->conn_in_n -= head + len;
    }
}

static void fake_catalogue(struct fake_conn *c, char type)
{
    static const unsigned char columns[] = {0,   2,   'n', 0,   0,   0,   0,   0,   0,   0,   0,   0,   0, 25,
                                            255, 255, 255, 255, 255, 255, 0,   0,   't', 0,   0,   0,   0, 0,
                                            0,   0,   0,   0,   0,   25,  255, 255, 255, 255, 255, 255, 0, 0};
    struct fake *f = c->conn_fake;

    switch (type) {
    case 'P':
        if (c->conn_asked == 'r') {
            f->fake_reaches++;
            if (f->fake_no_reach != NULL) {
                fake_put_error(c, "ERROR", f->fake_no_reach, "aclcheck_error");
                c->conn_skipping = true;
                return;
            }
        }
        fake_put(c, '1', NULL, 0);
        return;
    case 'B':
        fake_put(c, '2', NULL, 0);
        return;
    case 'D':
        fake_put(c, 'T', columns, sizeof columns);
        return;
    case 'E':
        if (c->conn_asked == 'r' && f->fake_reach != NULL) {
            unsigned char row[64] = {0, 2, 0, 0, 0, 1, '1', 0, 0, 0};
            size_t n = strlen(f->fake_reach);

            row[10] = (unsigned char)n;
            memcpy(row + 11, f->fake_reach, n);
            fake_put(c, 'D', row, 11 + n);
        }
        fake_put(c, 'C', "SELECT 1", 9);
        return;
    default:
        return;
    }
}

/* What PostgreSQL says to "RESET ALL; ...; SELECT pg_advisory_unlock_all(); ...". */
static void fake_reset(struct fake_conn *c)
{
    struct fake *f = c->conn_fake;

    f->fake_resets++;
    if (f->fake_no_reset != NULL && f->fake_no_reset[0] == '\0')
        return;
    if (f->fake_no_reset != NULL) {
        fake_put_error(c, "ERROR", f->fake_no_reset, "ProcessInterrupts");
    } else {
        fake_put(c, 'C', "RESET", 6);
        fake_put(c, 'T', "\0\1u\0\0\0\0\0\0\0\0\0\x08\xe6\0\4\xff\xff\xff\xff\0\0", 22);
        fake_put_row(c, "", 0);
        fake_put(c, 'C', "SELECT 1", 9);
        fake_put(c, 'S', "DateStyle\0ISO, MDY", 19);
        fake_put(c, 'N', "SNOTICE\0VNOTICE\0C00000\0Mhello\0", 31);
        fake_put(c, 'C', "DISCARD TEMP", 13);
    }
    fake_put(c, 'Z', "I", 1);
    fake_flush(c);
}

static void fake_message(struct fake_conn *c, char type, const unsigned char *body, size_t len)
{
    struct fake *f = c->conn_fake;

    if (type == 'X') {
        f->fake_terminates++;
        c->conn_lost = true;
        return;
    }
    if (type == 'S') {
        f->fake_syncs++;
        c->conn_asked = '\0';
        if (c->conn_at_sync != NULL)
            fake_put_error(c, "ERROR", c->conn_at_sync, "CommitTransaction");
        c->conn_at_sync = NULL;
        c->conn_skipping = false;
        fake_put(c, 'Z', &c->conn_status, 1);
        c->conn_status = 'I';
        fake_flush(c);
        return;
    }
    if (type == 'Q') {
        fake_reset(c);
        return;
    }
    if (c->conn_skipping)
        return;
    if (type == 'P')
        c->conn_asked = strstr((const char *)body + 1, "pg_catalog.set_config(name") != NULL ? 's'
                        : strstr((const char *)body + 1, "WITH RECURSIVE given") != NULL     ? 'r'
                                                                                             : '\0';
    if (c->conn_asked != '\0') {
        fake_catalogue(c, type);
        return;
    }
    switch (type) {
    case 'P':
        f->fake_parses++;
        if (strstr((const char *)body + strlen((const char *)body) + 1, "DISCARD") != NULL)
            f->fake_deallocates++;
        else if (f->fake_refuse != NULL) {
            fake_put_error(c, "ERROR", f->fake_refuse, "parserOpenTable");
            c->conn_skipping = true;
            return;
        }
        fake_put(c, '1', NULL, 0);
        return;
    case 'D': {
        unsigned char columns[64] = {0, 1, 'c', 0};
        uint32_t oid = htonl(f->fake_column_oid);

        if (body[0] == 'P') { /* libpq describes the portal of DISCARD */
            fake_put(c, 'n', NULL, 0);
            return;
        }
        memcpy(columns + 10, &oid, 4);
        fake_put(c, 't', "\0\1\0\0\0\31", 6); /* one parameter: text */
        fake_put(c, 'T', columns, 22);
        return;
    }
    case 'B': { /* portal, statement, no formats, one value */
        const unsigned char *p = body + strlen((const char *)body) + 1;
        uint32_t n = 0;

        p += strlen((const char *)p) + 1;
        c->conn_bound[0] = '\0';
        if ((size_t)(p + 8 - body) <= len && p[3] == 1) {
            memcpy(&n, p + 4, 4);
            n = ntohl(n);
            memcpy(c->conn_bound, p + 8, n);
            c->conn_bound[n] = '\0';
        }
        if (strncmp(c->conn_bound, "stale", 5) == 0 && f->fake_stale > 0) {
            f->fake_stale--;
            fake_put_error(c, "ERROR", "0A000", "RevalidateCachedQuery");
            c->conn_skipping = true;
            return;
        }
        if (strcmp(c->conn_bound, "fatal-unbound") == 0) {
            fake_put_error(c, "FATAL", "57P01", "ProcessInterrupts");
            fake_flush(c);
            c->conn_lost = true;
            return;
        }
        fake_put(c, '2', NULL, 0);
        return;
    }
    case 'E':
        fake_execute(c);
        return;
    default:
        return;
    }
}

/* What a query does, by the value that was bound:
 * err:SQLSTATE fails; err-close:SQLSTATE fails, and there is no more; fatal, close: end the connection while running;
 * hang: runs until cancelled; row-hang: the same after a row; bad-length, bad-type: hostile messages; big:N: a row of N
 * octets; rows:N: N rows; commit:SQLSTATE: the commit fails; begin: leaves a transaction open; set: a setting that is
 * reported; anything else: one row, the value itself. */
static void fake_execute(struct fake_conn *c)
{
    struct fake *f = c->conn_fake;
    const char *v = c->conn_bound;

    if (v[0] == '\0') { /* DISCARD */
        fake_put(c, 'C', "OK", 3);
        return;
    }
    f->fake_executes++;
    if (strlen(f->fake_log) + strlen(v) + 2 < sizeof f->fake_log)
        strcat(strcat(f->fake_log, v), " ");
    if (strncmp(v, "err:", 4) == 0) {
        fake_put_error(c, "ERROR", v + 4, "fake");
        c->conn_skipping = true;
    } else if (strncmp(v, "err-close:", 10) == 0) {
        fake_put_error(c, "ERROR", v + 10, "fake");
        fake_flush(c);
        c->conn_lost = true;
    } else if (strcmp(v, "fatal") == 0) {
        fake_put_error(c, "FATAL", "57P01", "ProcessInterrupts");
        fake_flush(c);
        c->conn_lost = true;
    } else if (strcmp(v, "close") == 0) {
        fake_flush(c);
        c->conn_lost = true;
    } else if (strcmp(v, "hang") == 0 || strcmp(v, "row-hang") == 0) {
        if (v[0] == 'r')
            fake_put_row(c, v, strlen(v));
        fake_flush(c);
        c->conn_hanging = true;
    } else if (strcmp(v, "bad-length") == 0) {
        fake_flush(c);
        (void)!send(c->conn_fd, "D\0\0\0\3", 5, MSG_NOSIGNAL);
    } else if (strcmp(v, "bad-type") == 0) {
        fake_put(c, 'G', "\0\0\0", 3);
    } else if (strncmp(v, "big:", 4) == 0) {
        size_t n = strtoul(v + 4, NULL, 10);
        char *text = malloc(n);

        memset(text, 'x', n);
        fake_put_row(c, text, n);
        free(text);
        fake_put(c, 'C', "SELECT 1", 9);
    } else if (strncmp(v, "rows:", 5) == 0) {
        for (unsigned long i = strtoul(v + 5, NULL, 10); i > 0; i--)
            fake_put_row(c, v, strlen(v));
        fake_put(c, 'C', "SELECT n", 9);
    } else {
        if (strncmp(v, "commit:", 7) == 0)
            c->conn_at_sync = strcmp(v + 7, "40001") == 0 ? "40001" : "23505";
        if (strcmp(v, "set") == 0)
            fake_put(c, 'S', "DateStyle\0German, DMY", 22);
        if (strcmp(v, "begin") == 0)
            c->conn_status = 'T';
        fake_put(c, 'N', "SNOTICE\0VNOTICE\0C00000\0Mhello\0", 31);
        fake_put_row(c, v, strlen(v));
        fake_put(c, 'C', "SELECT 1", 9);
    }
}

#endif
