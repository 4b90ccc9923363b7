/* A connection's bytes: the socket, plain or through libpq's TLS, edge-triggered. */
#include "worker/pg/conn.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "worker/mem/alloc.h"

#define WIRE_TURNS 16  /* reads of one connection before the others have their turn */
#define WIRE_PIECES 16 /* blocks in one write */

enum { WIRE_END = 0, WIRE_AGAIN = -1, WIRE_BROKEN = -2 };

static void wire_event(int fd, short what, void *arg);
static void wire_watch(struct pg_conn *c, short what);
static void wire_rewatch(struct pg_conn *c, short what);
static ssize_t wire_recv(struct pg_conn *c, void *p, size_t n);
static ssize_t wire_send(struct pg_conn *c);
static ssize_t wire_tls(struct pg_conn *c, int rc);
static void wire_continue_later(struct pg_conn *c);
static void wire_last_words(struct reader *r, const char *end, char *why, size_t size);

void wire_start(struct pg_conn *c)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);

    c->conn_fd = PQsocket(c->conn_pq.link_pg);
    c->conn_ssl = PQsslInUse(c->conn_pq.link_pg) ? PQsslStruct(c->conn_pq.link_pg, "OpenSSL") : NULL;
    if (c->conn_ssl != NULL) {
        (void)SSL_set_mode(c->conn_ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        /* OpenSSL's own way to the socket instead of libpq's, which allocates an error message when the connection
         * breaks.  (A worker ignores SIGPIPE.) */
        (void)SSL_set_fd(c->conn_ssl, c->conn_fd);
    }
    c->conn_blocked = c->conn_unsure = false;
    c->conn_prefaced = !c->conn_pool->pool_pooler;
    c->conn_busy_since = 0;
    c->conn_fresh = true;
    /* Both, once: libevent's tables for this descriptor are then as large as they will be. */
    wire_watch(c, EV_READ | EV_WRITE);
    alloc_leave(old);
}

/* EV_CLOSED: a short read is taken for an empty socket, but not when the end of file is behind it.  EV_WRITE only while
 * a write is blocked (or under TLS, which may have to write in order to read): a unix socket reports it each time that
 * the server has read something, which would cost the loop a turn per query. */
static void wire_watch(struct pg_conn *c, short what)
{
    AZ(event_assign(&c->conn_event, c->conn_pool->pool_config.config_base, c->conn_fd,
                    what | EV_CLOSED | EV_ET | EV_PERSIST, wire_event, c));
    AZ(event_add(&c->conn_event, NULL));
}

static void wire_rewatch(struct pg_conn *c, short what)
{
    AZ(event_del(&c->conn_event));
    wire_watch(c, what);
}

void wire_stop(struct pg_conn *c)
{
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    struct pg_pool *p = c->conn_pool;

    if (c->conn_fd != -1)
        (void)event_del(&c->conn_event);
    c->conn_fd = -1;
    c->conn_ssl = NULL;
    out_reset(&c->conn_out);
    reader_reset(&c->conn_reader);
    if (c->conn_dirty)
        TAILQ_REMOVE(&p->pool_dirty, c, conn_dirty_link);
    if (c->conn_again)
        TAILQ_REMOVE(&p->pool_again, c, conn_again_link);
    c->conn_dirty = c->conn_again = false;
    alloc_leave(old);
}

int wire_write(struct pg_conn *c, uint64_t now)
{
    size_t bytes = 0;

    if (c->conn_busy_since == 0)
        c->conn_busy_since = c->conn_heard = now;
    while (c->conn_out.out_bytes > 0) {
        ssize_t n = wire_send(c);

        if (n > 0) {
            out_consume(&c->conn_out, (size_t)n);
            c->conn_written += (size_t)n;
            bytes += (size_t)n;
            continue;
        }
        if (n == WIRE_AGAIN) {
            c->conn_blocked = true;
            if (c->conn_ssl == NULL)
                wire_rewatch(c, EV_READ | EV_WRITE);
            break;
        }
        /* The server may have said why before it closed. */
        wire_read(c, true);
        if (c->conn_fd != -1)
            conn_lose(c, LOSS_SUDDEN, "the connection broke while sending");
        return -1;
    }
    stat_pool_add(c->conn_pool->pool_index, STAT_pool_bytes_out, bytes);
    return 0;
}

void wire_read(struct pg_conn *c, bool closed)
{
    struct pg_pool *p = c->conn_pool;
    struct reader *r = &c->conn_reader;
    struct codec_message m;
    uint64_t now = pg_now();
    char why[256];

    if (p->pool_config.config_now != NULL)
        *p->pool_config.config_now = now;
    c->conn_unsure = false;
    for (unsigned turn = 0;; turn++) {
        size_t room;
        unsigned char *to = reader_begin(r, &room);
        ssize_t n = wire_recv(c, to, room);
        enum reader_rc rc;

        if (n == WIRE_AGAIN)
            break;
        if (n <= 0) {
            wire_last_words(r, n == WIRE_END ? "closed by the server" : "the connection broke", why, sizeof why);
            conn_lose(c, LOSS_SUDDEN, why);
            return;
        }
        c->conn_heard = now;
        stat_pool_add(p->pool_index, STAT_pool_bytes_in, (size_t)n);
        reader_add(r, (size_t)n);
        while ((rc = reader_next(r, &m)) == READER_MESSAGE) {
            if (__builtin_expect(m.message_type == 'E', 0) && p->pool_pooler && reader_hold(r, &m))
                break; /* a pooler that closes behind an error speaks of itself, not of what PostgreSQL did */
            if (answer_message(c, &m) != 0)
                return;
        }
        if (rc == READER_BAD) {
            conn_lose(c, LOSS_PROTOCOL, "a message with an impossible length");
            return;
        }
        /* A short read has emptied the socket, and the next octet is a new edge; only an error that came with these
         * octets would not be seen (libevent does not tell it from a readable and writable socket): the tick looks. */
        if ((size_t)n < room && c->conn_ssl == NULL && !closed) {
            c->conn_unsure = true;
            break;
        }
        if (turn + 1 == WIRE_TURNS) {
            wire_continue_later(c);
            break;
        }
    }
    if (reader_park(r, &m) && answer_message(c, &m) != 0)
        return;
    answer_round(c, now);
    if (c->conn_state != CONN_READY)
        conn_settle(c);
    if (!TAILQ_EMPTY(&p->pool_waiting) || !TAILQ_EMPTY(&p->pool_retry))
        queue_pump(p, now);
}

void wire_read_again(struct pg_pool *p)
{
    struct pg_conn *c, *last = TAILQ_LAST(&p->pool_again, conn_list);
    uint64_t wakes;

    /* Once round the list: who is not through comes behind `last`. */
    while ((c = TAILQ_FIRST(&p->pool_again)) != NULL) {
        bool was_last = c == last;

        TAILQ_REMOVE(&p->pool_again, c, conn_again_link);
        c->conn_again = false;
        wire_read(c, true);
        if (was_last)
            break;
    }
    if (TAILQ_EMPTY(&p->pool_again))
        (void)!read(p->pool_again_fd, &wakes, sizeof wakes);
}

static void wire_event(int fd, short what, void *arg)
{
    struct pg_conn *c = arg;
    enum alloc_scope old = alloc_enter(ALLOC_PG);

    (void)fd;
    CHECK_OBJ(c, PG_CONN_MAGIC);
    if ((what & EV_WRITE) != 0 && c->conn_ssl == NULL)
        wire_rewatch(c, EV_READ);
    if (c->conn_blocked && (what & EV_WRITE) != 0) {
        c->conn_blocked = false;
        if (wire_write(c, pg_now()) != 0)
            goto out;
    }
    /* TLS may have to read in order to write and the other way round. */
    if ((what & (EV_READ | EV_CLOSED)) != 0 || c->conn_ssl != NULL)
        wire_read(c, (what & EV_CLOSED) != 0);
out:
    alloc_leave(old);
}

static ssize_t wire_recv(struct pg_conn *c, void *p, size_t n)
{
    ssize_t got;

    if (c->conn_ssl != NULL) {
        ERR_clear_error();
        got = SSL_read(c->conn_ssl, p, (int)n);
        return got > 0 ? got : wire_tls(c, (int)got);
    }
    do
        got = recv(c->conn_fd, p, n, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return got;
    return errno == EAGAIN ? WIRE_AGAIN : WIRE_BROKEN;
}

/* Sends from the front of the chain, which is not empty. */
static ssize_t wire_send(struct pg_conn *c)
{
    struct iovec iov[WIRE_PIECES];
    struct msghdr msg = {.msg_iov = iov};
    ssize_t sent;

    if (c->conn_ssl != NULL) {
        /* After WANT_WRITE the same octets come again, perhaps with more behind them, as OpenSSL demands. */
        AN(out_iovec(&c->conn_out, iov, 1) == 1);
        ERR_clear_error();
        sent = SSL_write(c->conn_ssl, iov[0].iov_base, (int)iov[0].iov_len);
        return sent > 0 ? sent : wire_tls(c, (int)sent);
    }
    msg.msg_iovlen = out_iovec(&c->conn_out, iov, WIRE_PIECES);
    do
        if (msg.msg_iovlen == 1)
            sent = send(c->conn_fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL);
        else
            sent = sendmsg(c->conn_fd, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent > 0)
        return sent;
    return errno == EAGAIN ? WIRE_AGAIN : WIRE_BROKEN;
}

static ssize_t wire_tls(struct pg_conn *c, int rc)
{
    switch (SSL_get_error(c->conn_ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: /* every event of the socket tries both again */
        return WIRE_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return WIRE_END;
    default:
        return WIRE_BROKEN;
    }
}

/* The socket is not empty, but edge-triggered: nobody will call again by himself. */
static void wire_continue_later(struct pg_conn *c)
{
    static const uint64_t one = 1;

    if (c->conn_again)
        return;
    c->conn_again = true;
    TAILQ_INSERT_TAIL(&c->conn_pool->pool_again, c, conn_again_link);
    (void)!write(c->conn_pool->pool_again_fd, &one, sizeof one);
}

/* Why a connection ended: what a pooler said before, if it did (reader_hold). */
static void wire_last_words(struct reader *r, const char *end, char *why, size_t size)
{
    struct codec_message m;
    struct codec_error e;

    if (reader_next(r, &m) == READER_MESSAGE && m.message_type == 'E' && m.message_body != NULL &&
        codec_error(&m, &e) == 0)
        snprintf(why, size, "%s: %s", e.error_public.error_sqlstate,
                 e.error_public.error_message != NULL ? e.error_public.error_message : "no message");
    else
        snprintf(why, size, "%s", end);
}
