/* A client's connection: events, reading, sending, deadlines, and its end. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "worker/http/access.h"
#include "worker/http/clients.h"
#include "worker/http/forwarded.h"
#include "worker/http/server.h"
#include "worker/mem/alloc.h"
#include "worker/mem/plant.h"

#define IOV_MAX_SEND 64u
#define LINGER_READS 16u /* per turn, each DISCARD octets */
#define LINGER_OCTETS (16u << 20)

static char discard[16384]; /* where a lingering connection's octets go */

static void conn_event(evutil_socket_t fd, short what, void *arg);
static void conn_watch(struct conn *c, short what);
static void conn_notice_reset(struct conn *c) __attribute__((noinline));
static bool conn_read(struct conn *c);
static void conn_discard(struct conn *c);
static void conn_settle(struct conn *c);
static inline bool conn_send_at_once(struct conn *c);
static void conn_order(struct conn *c) __attribute__((noinline));
static bool conn_send(struct conn *c);
static void conn_end(struct conn *c);
static void conn_free(struct conn *c);
static void request_abandon(struct request *r);
static struct in6_addr peer_address(const struct sockaddr *peer);

void server_clock(struct server *s)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    s->server_now_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void conn_open(const struct listener *l, int fd, const struct sockaddr *peer)
{
    struct server *s = l->listener_server;
    bool shed = slab_used(s->server_conns) >= s->server_conns_max;
    struct conn *c = slab_get(s->server_conns);

    AN(c != NULL); /* the listener has made sure */
    memset(c, 0, sizeof(*c));
    c->magic = CONN_MAGIC;
    c->conn_fd = fd;
    c->conn_server = s;
    c->conn_shed = shed ? CONN_SHED : CONN_WELCOME;
    c->conn_proxy = l->listener_proxy;
    c->conn_writable = true;
    c->conn_peer = peer_address(peer);
    TAILQ_INIT(&c->conn_requests);
    out_init(&c->conn_out, s->server_buffers, 0);
    c->conn_state = CONN_IDLE;
    c->conn_idle_ms = s->server_now_ms;
    c->conn_deadline_ms = s->server_now_ms + s->server_timeouts_ms[CONN_IDLE];
    TAILQ_INSERT_TAIL(&s->server_lists[CONN_IDLE], c, conn_link);
    conn_watch(c, EV_READ);
    PLANT("connection");
    server_count(s, STAT_http_accepted, 1);
    if (s->server_public)
        stat_set(STAT_http_connections, slab_used(s->server_conns));
    if (c->conn_proxy) {
        if (server_has_trusted(s) && !server_trusts(s, &c->conn_peer)) {
            server_count(s, STAT_limit_proxy_header, 1);
            conn_close(c);
            return;
        }
        conn_move(c, CONN_BUSY);
        conn_time_reading(c);
    } else if (s->server_clients != NULL && !conn_admit(c)) {
        conn_close(c);
    }
}

void conn_close(struct conn *c)
{
    struct server *s = c->conn_server;

    CHECK_OBJ(c, CONN_MAGIC);
    if (c->conn_fd < 0)
        return; /* closed before in this turn; server_flush frees it */
    AZ(event_del(&c->conn_event));
    close(c->conn_fd);
    c->conn_fd = -1;
    TAILQ_REMOVE(&s->server_lists[c->conn_state], c, conn_link);
    if (c->conn_reads != CONN_IDLE)
        conn_reads_stop(c);
    conn_uncall(c);
    if (c->conn_client != 0)
        clients_leave(s->server_clients, c->conn_client);
    conn_abandon(c);
    if (c->conn_reading != NULL)
        request_free(c->conn_reading);
    if (c->conn_buf != NULL)
        buf_unref(s->server_buffers, &c->conn_buf);
    if (c->conn_stub != NULL)
        stub_drop(c);
    out_reset(&c->conn_out);
    server_count(s, STAT_http_closed, 1);
    if (!c->conn_dirty && !c->conn_kept)
        conn_free(c);
    if (s->server_paused)
        server_accept_resume(s);
    server_inherit(s);
}

/* The end of a closed connection that nobody looks at any more. */
static void conn_free(struct conn *c)
{
    struct server *s = c->conn_server;

    c->magic = 0;
    slab_put(s->server_conns, c);
    if (s->server_public)
        stat_set(STAT_http_connections, slab_used(s->server_conns));
}

void conn_touch(struct conn *c)
{
    if (c->conn_dirty)
        return;
    c->conn_dirty = true;
    STAILQ_INSERT_TAIL(&c->conn_server->server_dirty, c, conn_dirty_link);
}

bool server_flush(struct server *s)
{
    struct conn_queue now = STAILQ_HEAD_INITIALIZER(now);
    struct conn *c;

    STAILQ_CONCAT(&now, &s->server_dirty);
    while ((c = STAILQ_FIRST(&now)) != NULL) {
        STAILQ_REMOVE_HEAD(&now, conn_dirty_link);
        c->conn_dirty = false;
        if (c->conn_fd < 0) {
            conn_free(c);
            continue;
        }
        conn_settle(c);
    }
    if (!TAILQ_EMPTY(&s->server_lists[CONN_PLACE]))
        server_call(s); /* those who were called may not have taken their places */
    return !STAILQ_EMPTY(&s->server_dirty);
}

/* The loop says that the socket changed.  Edge-triggered: it will not say so again. */
static void conn_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    enum alloc_scope old = alloc_enter(ALLOC_HTTP);
    bool queued = c->conn_dirty;

    (void)fd;
    CHECK_OBJ(c, CONN_MAGIC);
    server_clock(c->conn_server);
    c->conn_dirty = true; /* not to be queued on the way; what is to be done is decided below */
    if (what & EV_WRITE) {
        c->conn_writable = true;
        AZ(event_del(&c->conn_event));
        conn_watch(c, EV_READ);
    }
    if (what & EV_CLOSED)
        c->conn_hangup = true;
    if (what & (EV_READ | EV_CLOSED)) {
        c->conn_readable = true;
        (void)conn_read(c);
        if (__builtin_expect(c->conn_unusual != 0, 0))
            conn_notice_reset(c);
    }
    if (!queued) {
        c->conn_dirty = false;
        if (c->conn_fd < 0)
            conn_free(c);
        else if (c->conn_requests_n > 0) {
            /* What waits for the database alone needs nothing at the end of the turn. */
            if (c->conn_unusual != 0 || c->conn_out.out_bytes > 0 || c->conn_reading != NULL ||
                c->conn_state != CONN_IDLE || c->conn_reads != CONN_IDLE)
                conn_touch(c);
        } else if (c->conn_unusual == 0 && c->conn_out.out_bytes == 0 && c->conn_reading == NULL &&
                   !c->conn_server->server_draining)
            c->conn_idle_ms = c->conn_server->server_now_ms; /* as conn_settle would find it */
        else
            conn_settle(
                c); /* nothing of it waits for the database: what this turn brought is answered, and goes out at once */
    }
    alloc_leave(old);
}

/* One that is not read while its requests run would not be told that the client has reset it. */
static void conn_notice_reset(struct conn *c)
{
    if (c->conn_held || (c->conn_closing && c->conn_requests_n > 0))
        conn_look(c);
}

void conn_look(struct conn *c)
{
    int error = 0;
    socklen_t len = sizeof(error);

    CHECK_OBJ(c, CONN_MAGIC);
    if (c->conn_fd >= 0 && getsockopt(c->conn_fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0)
        conn_close(c);
}

/* What to be told of.  Writing is watched only while it is blocked: a unix socket would report each time that the peer
 * reads. */
static void conn_watch(struct conn *c, short what)
{
    AZ(event_assign(&c->conn_event, c->conn_server->server_base, c->conn_fd, what | EV_CLOSED | EV_ET | EV_PERSIST,
                    conn_event, c));
    AZ(event_add(&c->conn_event, NULL));
}

/* Reads and serves until the socket is empty or the connection is held. */
static bool conn_read(struct conn *c)
{
    if (c->conn_state == CONN_LINGER) {
        conn_discard(c);
        return true;
    }
    while (c->conn_readable && !c->conn_eof && !c->conn_closing) {
        size_t room;
        ssize_t n;
        char *to;

        if (!conn_room(c, &to, &room))
            break;
        n = recv(c->conn_fd, to, room, 0);
        if (n > 0) {
            server_count(c->conn_server, STAT_http_bytes_in, (uint64_t)n);
            if ((size_t)n < room && !c->conn_hangup)
                c->conn_readable = false; /* drained; what comes later is a new edge */
            conn_received(c, (size_t)n);
            conn_serve(c);
            /* A reset that comes with the octets is in the same edge and looks like any other: whoever waits for more
             * of a request looks once more.  An answer would meet it when it is sent, and a query that takes long has
             * it looked for (conn_look). */
            if (c->conn_reading != NULL)
                c->conn_readable = true;
        } else if (n == 0) {
            c->conn_eof = true;
            conn_serve(c);
        } else if (errno == EAGAIN) {
            c->conn_readable = false;
            conn_serve(c);
        } else if (errno != EINTR) {
            conn_close(c);
            return false;
        }
    }
    return true;
}

/* After a lingering close: reads what still comes, so that the kernel does not answer it with a reset that would take
 * the answer away from the client (RFC 9112 9.6). */
static void conn_discard(struct conn *c)
{
    unsigned i;

    for (i = 0; i < LINGER_READS; i++) {
        ssize_t n = recv(c->conn_fd, discard, sizeof(discard), 0);

        if (n > 0) {
            c->conn_lingered += (uint32_t)n;
            if (c->conn_lingered < LINGER_OCTETS)
                continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        conn_close(c);
        return;
    }
    conn_touch(c); /* more to come: let others have their turn */
}

/* Brings the connection in order at the end of a turn. */
static void conn_settle(struct conn *c)
{
    if (c->conn_unusual == 0 && c->conn_reading == NULL && conn_send_at_once(c)) {
        c->conn_idle_ms = c->conn_server->server_now_ms; /* as conn_order would find it */
        return;
    }
    c->conn_kept = true;
    conn_order(c);
    c->conn_kept = false;
    if (c->conn_fd < 0 && !c->conn_dirty)
        conn_free(c);
}

/* The usual end of a turn: answers in one block, which the socket takes.  False: see conn_order, which meets again
 * whatever is in the way. */
static inline bool conn_send_at_once(struct conn *c)
{
    const struct buf *b = c->conn_out.out_head;
    ssize_t n;

    if (b == NULL || b != c->conn_out.out_tail || !c->conn_writable || c->conn_server->server_draining)
        return false;
    n = send(c->conn_fd, b->buf_data + b->buf_start, b->buf_end - b->buf_start, MSG_NOSIGNAL);
    if (n <= 0)
        return false;
    server_count(c->conn_server, STAT_http_bytes_out, (uint64_t)n);
    if ((size_t)n < c->conn_out.out_bytes) {
        out_consume(&c->conn_out, (size_t)n);
        return false;
    }
    c->conn_out.out_tail = NULL;
    c->conn_out.out_bytes = 0;
    buf_put(c->conn_out.out_buffers, &c->conn_out.out_head);
    return true;
}

/* Sends, goes on reading if it was held, and finds its state.  It may be closed afterwards. */
static void conn_order(struct conn *c)
{
    struct server *s = c->conn_server;

    if (c->conn_state == CONN_LINGER) {
        conn_discard(c);
        return;
    }
    if (c->conn_reading != NULL && c->conn_reading->req_continue && c->conn_requests_n == 0) {
        c->conn_reading->req_continue = false;
        if (c->conn_reading->req_body_len == 0) {
            out_literal(&c->conn_out, "HTTP/1.1 100 Continue\r\n\r\n");
            if (c->conn_out.out_error == OUT_OK)
                server_count(s, STAT_http_status_1xx, 1);
            c->conn_out.out_error =
                OUT_OK; /* without a buffer for it the client waits a while and sends its body anyway */
        }
    }
    if (c->conn_out.out_bytes > 0 && c->conn_writable && !conn_send(c))
        return;
    if (c->conn_closing && c->conn_out.out_bytes == 0 && c->conn_requests_n > 0 &&
        TAILQ_FIRST(&c->conn_requests)->req_state == REQUEST_ANSWERED)
        conn_answer(c); /* the last one, for which there is no buffer */
    if (c->conn_held && c->conn_out.out_bytes == 0)
        conn_resume(c);
    if (c->conn_held && c->conn_out.out_bytes == 0 && !conn_waits(c)) {
        c->conn_held = false;
        if (c->conn_reads == CONN_PLACE)
            conn_reads_stop(c);
        conn_serve(c);
        if (!conn_read(c))
            return;
        if (c->conn_out.out_bytes > 0)
            conn_touch(c);
    } else if (c->conn_held && c->conn_out.out_bytes == 0 && c->conn_reads == CONN_IDLE && !c->conn_closing) {
        conn_line_again(c);
    }
    conn_uncall(c); /* one who does not read, say, must not keep the place from those behind it */
    if (c->conn_reading != NULL || c->conn_reads != CONN_IDLE)
        conn_time_reading(c);
    if (c->conn_out.out_bytes > 0)
        conn_move(c, CONN_WRITE);
    else if (c->conn_closing && c->conn_requests_n == 0)
        conn_end(c);
    else if (c->conn_eof && c->conn_requests_n == 0 && !c->conn_held)
        conn_close(c); /* NOLINT(bugprone-branch-clone): the order is what matters */
    else if (c->conn_requests_n > 0 || c->conn_reads != CONN_IDLE) {
        if ((c->conn_eof || c->conn_hangup) && c->conn_requests_n > 0) /* the latter: what is before it is not read */
            conn_move(c, CONN_LEFT);
        else if (c->conn_state != CONN_IDLE) /* a query is short: conn_late sees that the connection is not idle */
            conn_move(c, CONN_BUSY);
    } else if (s->server_draining)
        conn_close(c);
    else
        conn_move(c, CONN_IDLE);
}

/* Sends what waits.  False: the connection is gone. */
static bool conn_send(struct conn *c)
{
    while (c->conn_out.out_bytes > 0) {
        ssize_t n;

        if (c->conn_out.out_head == c->conn_out.out_tail) {
            const struct buf *b = c->conn_out.out_head;

            n = send(c->conn_fd, b->buf_data + b->buf_start, b->buf_end - b->buf_start, MSG_NOSIGNAL);
        } else {
            struct iovec iov[IOV_MAX_SEND];
            struct msghdr msg = {.msg_iov = iov, .msg_iovlen = out_iovec(&c->conn_out, iov, IOV_MAX_SEND)};

            n = sendmsg(c->conn_fd, &msg, MSG_NOSIGNAL);
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            c->conn_writable = false;
            AZ(event_del(&c->conn_event));
            conn_watch(c, EV_READ | EV_WRITE);
            return true;
        }
        if (n < 0) {
            conn_close(c);
            return false;
        }
        server_count(c->conn_server, STAT_http_bytes_out, (uint64_t)n);
        out_consume(&c->conn_out, (size_t)n);
        if (c->conn_state == CONN_WRITE)
            conn_again(c);
    }
    return true;
}

/* All is sent and nothing more will be read as a request. */
static void conn_end(struct conn *c)
{
    if (c->conn_eof || (!c->conn_linger && !c->conn_readable && c->conn_buf == NULL && c->conn_reading == NULL)) {
        conn_close(c);
        return;
    }
    (void)shutdown(c->conn_fd, SHUT_WR);
    if (c->conn_reading != NULL) {
        request_free(c->conn_reading);
        c->conn_reading = NULL;
    }
    if (c->conn_buf != NULL)
        buf_unref(c->conn_server->server_buffers, &c->conn_buf);
    if (c->conn_stub != NULL)
        stub_drop(c);
    c->conn_lingered = 0;
    conn_move(c, CONN_LINGER);
    conn_discard(c);
}

void conn_abandon(struct conn *c)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&c->conn_requests)) != NULL) {
        TAILQ_REMOVE(&c->conn_requests, r, req_link);
        request_abandon(r);
    }
    c->conn_requests_n = 0;
}

void server_inherit(struct server *s)
{
    struct pg_query *q;

    if (s->server_inherits)
        return; /* one of them was refused, and its answer closes a connection: whoever has called it goes on */
    s->server_inherits = true;
    while ((q = TAILQ_FIRST(&s->server_heirs)) != NULL) {
        struct request *r = request_of_query(q);

        TAILQ_REMOVE(&s->server_heirs, q, query_link);
        r->req_route->route_handler->handler_inherit(r, r->req_route->route_state);
    }
    s->server_inherits = false;
}

void server_disinherit(struct server *s)
{
    s->server_inherits = true;
}

/* The request is on no list any more. */
static void request_abandon(struct request *r)
{
    struct server *s = r->req_server;

    CHECK_OBJ(r, REQUEST_MAGIC);
    server_count(s, STAT_http_aborted, 1);
    if (s->server_access != NULL &&
        (r->req_state != REQUEST_ANSWERED || r->req_out.out_bytes == 0)) /* else it has its line */
        access_note_abandoned(s->server_access, r);
    r->req_conn = NULL;
    if (r->req_state == REQUEST_SUSPENDED &&
        !r->req_route->route_handler->handler_abandon(r, r->req_route->route_state)) {
        r->req_state = REQUEST_ORPHANED;
        s->server_extra += !r->req_extra;
        r->req_extra = true;
        request_release(r);
        return;
    }
    request_free(r);
}

static struct in6_addr peer_address(const struct sockaddr *peer)
{
    struct in6_addr a = IN6ADDR_ANY_INIT;

    if (peer->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, peer, sizeof(in6));
        a = in6.sin6_addr;
    } else if (peer->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, peer, sizeof(in));
        a.s6_addr[10] = a.s6_addr[11] = 0xff;
        memcpy(a.s6_addr + 12, &in.sin_addr, 4);
    }
    return a;
}
