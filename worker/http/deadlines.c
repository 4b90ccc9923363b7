/*
 * Deadlines: one list for each kind of time-out, in the order of time, looked at by one tick.  A list is in order
 * because all on it have the same time, and a new one goes to the end.
 *
 * A body is looked at several times on its way, about every five seconds: each look moves it to the end of its list
 * with the next deadline, counted from the last one and not from now, so that the last look is at body_ms exactly.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "worker/http/server.h"

static bool conn_is_late(const struct server *s, uint32_t deadline_ms);
static uint32_t conn_unsent(const struct conn *c);
static void conn_late(struct conn *c);
static uint32_t conn_idle_since(const struct conn *c);
static void reading_late(struct conn *c);
static bool body_goes_on(struct conn *c);
static void reading_again(struct conn *c, uint32_t deadline_ms);
static enum conn_state conn_awaits(const struct conn *c);

void server_tick(struct server *s)
{
    static const enum conn_state doing[] = {CONN_IDLE, CONN_LEFT, CONN_WRITE, CONN_LINGER},
                                 coming[] = {CONN_HEAD, CONN_BODY};
    struct conn *c;
    unsigned i;

    server_clock(s);
    s->server_now_ms = (uint32_t)(s->server_now_ns / 1000000u);
    server_date(s);
    for (i = 0; i < sizeof(doing) / sizeof(doing[0]); i++)
        while ((c = TAILQ_FIRST(&s->server_lists[doing[i]])) != NULL && conn_is_late(s, c->conn_deadline_ms))
            conn_late(c);
    for (i = 0; i < sizeof(coming) / sizeof(coming[0]); i++)
        while ((c = TAILQ_FIRST(&s->server_lists[coming[i]])) != NULL && conn_is_late(s, c->conn_read_deadline_ms))
            reading_late(c);
    if (s->server_paused)
        server_accept_resume(s);
}

static bool conn_is_late(const struct server *s, uint32_t deadline_ms)
{
    return (int32_t)(s->server_now_ms - deadline_ms) >= 0;
}

/* --- what a connection does --- */

void conn_move(struct conn *c, enum conn_state state)
{
    if (state == CONN_IDLE)
        c->conn_idle_ms = c->conn_server->server_now_ms;
    if (c->conn_state == state)
        return;
    TAILQ_REMOVE(&c->conn_server->server_lists[c->conn_state], c, conn_link);
    c->conn_state = (uint8_t)state;
    TAILQ_INSERT_TAIL(&c->conn_server->server_lists[state], c, conn_link);
    c->conn_deadline_ms = c->conn_server->server_now_ms + c->conn_server->server_timeouts_ms[state];
    if (state == CONN_WRITE)
        c->conn_unsent = conn_unsent(c);
}

void conn_again(struct conn *c)
{
    struct server *s = c->conn_server;

    TAILQ_REMOVE(&s->server_lists[c->conn_state], c, conn_link);
    c->conn_deadline_ms = s->server_now_ms + s->server_timeouts_ms[c->conn_state];
    TAILQ_INSERT_TAIL(&s->server_lists[c->conn_state], c, conn_link);
    if (c->conn_state == CONN_WRITE)
        c->conn_unsent = conn_unsent(c);
}

/* Octets that the kernel holds for the client: it takes more from us only when many of them are gone, so a slow client
 * makes progress long before we see any. */
static uint32_t conn_unsent(const struct conn *c)
{
    int n = 0;

    return ioctl(c->conn_fd, SIOCOUTQ, &n) == 0 && n > 0 ? (uint32_t)n : 0;
}

/* Its time in the state is over. */
static void conn_late(struct conn *c)
{
    struct server *s = c->conn_server;

    switch ((enum conn_state)c->conn_state) {
    case CONN_WRITE:
        if (conn_unsent(c) < c->conn_unsent) {
            conn_again(c);
            return;
        }
        server_count(s, STAT_timeout_write, 1);
        break;
    case CONN_IDLE:
        if (c->conn_requests_n > 0 || c->conn_reads != CONN_IDLE)
            c->conn_idle_ms = s->server_now_ms;
        if (s->server_now_ms - c->conn_idle_ms < s->server_idle_ms) { /* it has been busy meanwhile: look again later */
            conn_again(c);
            return;
        }
        server_count(s, STAT_timeout_idle, 1);
        break;
    case CONN_LEFT: /* its queries are abandoned */
    case CONN_LINGER:
        break;
    case CONN_BUSY:
    case CONN_HEAD:
    case CONN_BODY:
    case CONN_PLACE:
    case CONN_STATES:
        AZ("no deadline in this state");
    }
    conn_close(c);
}

/* A look at each: a list is in the order of looks where a connection is idle, not in that of idleness.  There are few,
 * and it is asked only when all places are taken. */
struct conn *server_longest_idle(const struct server *s)
{
    static const enum conn_state doing[] = {CONN_IDLE, CONN_BUSY, CONN_LINGER};
    struct conn *c, *longest = NULL;
    uint32_t most = 0;
    unsigned i;

    for (i = 0; i < sizeof(doing) / sizeof(doing[0]); i++)
        TAILQ_FOREACH(c, &s->server_lists[doing[i]], conn_link)
        {
            uint32_t idle = s->server_now_ms - conn_idle_since(c);

            /* A dirty one has had something to do in this turn. */
            if (c->conn_requests_n > 0 || c->conn_out.out_bytes > 0 || c->conn_dirty)
                continue;
            if (longest != NULL && idle <= most)
                continue;
            longest = c;
            most = idle;
        }
    return longest;
}

static uint32_t conn_idle_since(const struct conn *c)
{
    const struct server *s = c->conn_server;

    if (c->conn_reads != CONN_IDLE)
        return c->conn_read_deadline_ms - s->server_timeouts_ms[c->conn_reads];
    return c->conn_state == CONN_IDLE ? c->conn_idle_ms : c->conn_deadline_ms - s->server_timeouts_ms[c->conn_state];
}

/* --- what is coming --- */

void conn_time_reading(struct conn *c)
{
    struct server *s = c->conn_server;
    enum conn_state awaits = conn_awaits(c);

    if (c->conn_reads == CONN_PLACE && c->conn_held && !c->conn_closing)
        return;
    if (awaits != (enum conn_state)c->conn_reads || !c->conn_timed) {
        if (c->conn_reads != CONN_IDLE)
            conn_reads_stop(c);
        if (awaits == CONN_IDLE)
            return;
        c->conn_reads = (uint8_t)awaits;
        c->conn_timed = true;
        c->conn_read_deadline_ms = s->server_now_ms + s->server_timeouts_ms[awaits];
        TAILQ_INSERT_TAIL(&s->server_lists[awaits], c, conn_read_link);
        if (awaits == CONN_BODY) {
            c->conn_reading->req_body_looks = s->server_body_looks;
            c->conn_reading->req_body_seen = c->conn_reading->req_body_len;
        }
    }
    if (awaits == CONN_HEAD && c->conn_buf != NULL && !c->conn_held)
        stub_put(c);
}

void conn_reads_stop(struct conn *c)
{
    AN(c->conn_reads == CONN_HEAD || c->conn_reads == CONN_BODY || c->conn_reads == CONN_PLACE);
    TAILQ_REMOVE(&c->conn_server->server_lists[c->conn_reads], c, conn_read_link);
    c->conn_reads = CONN_IDLE;
}

void conn_line_up(struct conn *c)
{
    c->conn_held = true;
    if (c->conn_reads == CONN_PLACE)
        return;
    if (c->conn_reads != CONN_IDLE)
        conn_reads_stop(c);
    c->conn_reads = CONN_PLACE;
    TAILQ_INSERT_TAIL(&c->conn_server->server_lists[CONN_PLACE], c, conn_read_link);
}

void server_call(struct server *s)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&s->server_lists[CONN_PLACE])) != NULL &&
           s->server_extra + s->server_called < s->server_extra_max) {
        conn_reads_stop(c);
        c->conn_called = true;
        s->server_called++;
        conn_touch(c);
    }
}

void conn_uncall(struct conn *c)
{
    c->conn_server->server_called -= c->conn_called;
    c->conn_called = false;
}

static enum conn_state conn_awaits(const struct conn *c)
{
    const struct request *r = c->conn_reading;

    if (c->conn_closing)
        return CONN_IDLE;
    if (c->conn_proxy || c->conn_stub != NULL)
        return CONN_HEAD;
    if (r == NULL || r->req_state != REQUEST_READING)
        return CONN_IDLE;
    return r->req_in_body ? CONN_BODY : CONN_HEAD;
}

static void reading_late(struct conn *c)
{
    struct server *s = c->conn_server;
    bool head = c->conn_reads == CONN_HEAD;

    if (c->conn_held) { /* we are the ones who do not read */
        reading_again(c, s->server_now_ms + s->server_timeouts_ms[c->conn_reads]);
        return;
    }
    if (!head && body_goes_on(c))
        return;
    if (head)
        server_count(s, STAT_timeout_header, 1);
    conn_reads_stop(c);
    if (c->conn_proxy) {
        conn_close(c);
        return;
    }
    if (c->conn_stub != NULL) { /* an answer needs a request */
        c->conn_buf = buf_get(s->server_buffers, BUF_DATA_MIN);
        if (c->conn_buf != NULL) {
            stub_take(c);
            conn_serve(c);
        }
    }
    if (!c->conn_closing)
        conn_refuse(c, 408,
                    head ? "the request's head did not arrive in time" : "the request's body did not arrive in time");
    conn_touch(c);
}

/* A look at a body on its way.  False: counted, and not to be waited for any longer. */
static bool body_goes_on(struct conn *c)
{
    struct server *s = c->conn_server;
    struct request *r = c->conn_reading;

    if (r->req_body_looks <= 1) {
        server_count(s, STAT_timeout_body, 1);
        return false;
    }
    if (r->req_body_len - r->req_body_seen < s->server_body_least) {
        server_count(s, STAT_timeout_body_rate, 1);
        return false;
    }
    r->req_body_looks--;
    r->req_body_seen = r->req_body_len;
    reading_again(c, c->conn_read_deadline_ms + s->server_timeouts_ms[CONN_BODY]);
    return true;
}

static void reading_again(struct conn *c, uint32_t deadline_ms)
{
    struct conn_list *list = &c->conn_server->server_lists[c->conn_reads];

    TAILQ_REMOVE(list, c, conn_read_link);
    c->conn_read_deadline_ms = deadline_ms;
    TAILQ_INSERT_TAIL(list, c, conn_read_link);
}
