/*
 * An HTTP server inside a worker: its listeners, connections, buffers and routes.  A worker has two: the public
 * one and the admin one, which shares nothing with it, so that pressure on the first never touches the second.
 */
#ifndef VANILLA_WORKER_HTTP_SERVER_H
#define VANILLA_WORKER_HTTP_SERVER_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include "shm/stats.h"
#include "worker/handler/request.h"
#include "worker/mem/buffers.h"
#include "worker/mem/slab.h"

/* Which of the server's lists a connection is on; each but BUSY and PLACE has deadlines, the oldest first.  It is on
 * one of five by what it does (conn_state), and on one of the last three as well while it reads or would like to
 * (conn_reads), so that nothing else that it does moves the deadline of what is coming. */
enum conn_state {
    CONN_IDLE,   /* nothing read, nothing to do: holds no buffer */
    CONN_BUSY,   /* requests are running (the pool's limits apply), or it only reads */
    CONN_LEFT,   /* requests are running, but the client has sent FIN: abandon_ms */
    CONN_WRITE,  /* the client does not take its answer: write_ms without progress */
    CONN_LINGER, /* answered and shut down for writing; what still comes is read and dropped (RFC 9112 9.6) */
    CONN_HEAD,   /* a request's head, or the PROXY header, is coming: header_ms from its first octet */
    CONN_BODY,   /* a request's body is coming: body_ms from the end of its head, looked at in between for its rate */
    CONN_PLACE,  /* there is no place for a further request behind those in progress (conn_short): waits in line */
    CONN_STATES
};

enum conn_shed { /* why its request is turned away */
                 CONN_WELCOME,
                 CONN_SHED,   /* there are more than `connections` */
                 CONN_LIMITED /* its address has more than client.connections */
};

TAILQ_HEAD(conn_list, conn);
STAILQ_HEAD(conn_queue, conn);
TAILQ_HEAD(request_heirs, pg_query);

#define CONN_MAGIC 0xc0223cc0u

struct conn {
    unsigned magic;
    int conn_fd;
    union { /* of a connection between two requests all of these are zero: one look tells */
        struct {
            uint8_t conn_state; /* enum conn_state */
            uint8_t conn_reads; /* CONN_HEAD, CONN_BODY, CONN_PLACE; CONN_IDLE: on none of these lists */
            bool conn_eof;      /* the client has sent FIN */
            bool conn_hangup;   /* ... as the loop told: a short read does not mean drained */
            bool conn_closing;  /* no further request is read; close when all is sent */
            bool conn_linger;   /* ... after a lingering close */
            bool conn_held;     /* there is more to parse or to read, once answers have gone out */
            bool conn_proxy;    /* the PROXY header is still to come */
        };
        uint64_t conn_unusual;
    };
    bool conn_readable;   /* the socket may hold more (edge-triggered) */
    bool conn_writable;   /* the socket may take more */
    bool conn_dirty;      /* on the server's queue of connections to flush */
    bool conn_big_reads;  /* the last buffer was filled: take a larger one next */
    bool conn_timed : 1;  /* conn_read_deadline_ms is that of the head or body that is coming now */
    bool conn_kept : 1;   /* somebody still looks at it: closing it does not free it */
    bool conn_called : 1; /* it was the first in line: a place is kept for its next request */
    bool conn_serial : 1; /* it asks for answers too large to wait for each other: its requests run one by one */
    uint8_t conn_shed;    /* enum conn_shed */
    uint16_t conn_requests_n;
    uint32_t conn_deadline_ms; /* server_now_ms at which its list's time is over (wraps) */
    uint32_t conn_read_deadline_ms;
    union {
        uint32_t conn_idle_ms;  /* server_now_ms when it became idle */
        uint32_t conn_lingered; /* CONN_LINGER: octets dropped so far */
        uint32_t conn_unsent;   /* CONN_WRITE: octets that the kernel held at the last look */
    };
    uint32_t conn_client; /* its place in the table of client addresses; 0: none */
    struct server *conn_server;
    TAILQ_ENTRY(conn) conn_link, conn_read_link;
    STAILQ_ENTRY(conn) conn_dirty_link;
    struct buf *conn_buf;              /* octets read and not parsed; NULL when there are none */
    struct stub *conn_stub;            /* in place of the buffer: the beginning of a head that is slow in coming */
    struct request *conn_reading;      /* the request whose octets are coming, or that is held */
    struct request_list conn_requests; /* parsed and not sent, in order */
    struct out conn_out;               /* answers to send */
    struct in6_addr conn_peer;         /* IPv4 mapped; all zero: unix */
    struct event conn_event;
};

/* A route as the server runs it. */
struct server_route {
    const struct conf_route *route_conf;
    const struct handler *route_handler;
    void *route_state;
    int route_index;       /* into the ROUTE counters; -1: not counted (admin) */
    bool route_once;       /* its requests may do something: none is run a second time */
    bool route_large;      /* has had an answer larger than server_share */
    uint16_t route_status; /* of its usual answer; 0 where that has no head made ready */
    /* The head of its usual answer up to Content-Length's digits, ready made; the date in it is kept fresh. */
    char *route_head, *route_date;
    uint32_t route_head_len;
    /* The whole of its usual answer, where that never changes but for the date (handler_fixed). */
    char *route_fixed, *route_fixed_date;
    uint32_t route_fixed_len;
    char route_etag[19]; /* with its quotes; "": none */
};

#define SERVER_MAGIC 0x5e40e45eu
#define SERVER_LISTENERS_MAX 64u
#define SERVER_PIPELINE_MAX 64u /* requests of one connection in progress at the same time */
#define SERVER_EMERGENCY_MAX 1088u
#define SERVER_OUT_HIGH 262144u /* server_out_high of the public server; the admin's is 0: one answer at a time */

struct listener {
    int listener_fd;
    bool listener_proxy; /* each connection begins with a PROXY header */
    struct server *listener_server;
    struct event listener_event;
};

struct server {
    unsigned magic;
    bool server_public;  /* counted in http.*; the admin server is not */
    bool server_careful; /* draining, or requests are to be looked at: see careful.c */
    bool server_draining;
    bool server_cors;   /* somebody shares answers across origins */
    bool server_paused; /* accepting: descriptors ran out */
    struct event_base *server_base;
    const struct conf *server_conf;
    struct conf_limits server_limits;
    struct conf_shed server_shed;
    uint32_t
        server_timeouts_ms[CONN_STATES]; /* for IDLE: how often one is looked at, so that a request need not move it */
    uint32_t server_idle_ms;
    uint32_t server_body_ms, server_body_looks, server_body_least; /* octets that must come between two looks */
    struct buffers *server_buffers;
    size_t server_out_high; /* unsent octets above which no further request of a connection is begun */
    size_t server_share;    /* octets of an answer that waits for others of its connection: see request_limit */
    struct slab *server_conns, *server_requests, *server_stubs;
    size_t server_extra, server_extra_max; /* requests that are not their connection's first, or have none any more */
    size_t server_called;                  /* of these places, those that are kept (conn_called) */
    size_t server_queue;
    struct request_heirs server_heirs; /* requests to go on with when all who leave now have left */
    bool server_inherits;
    struct clients *server_clients; /* NULL: not limited */
    struct access *server_access;   /* NULL: not logged */
    int server_reserve_fd;          /* given up for a moment to refuse a connection when there is no descriptor left */
    uint32_t server_accept_told_ms, server_accept_untold; /* the last line about it, and pauses since */
    /* The answer where there is neither a buffer for one nor a request. */
    char server_emergency[SERVER_EMERGENCY_MAX], *server_emergency_date;
    size_t server_emergency_len, server_emergency_body; /* octets: all of it, its body */
    unsigned server_conns_max;                          /* `connections`; a few more are kept to shed politely: */
    unsigned server_conns_all;
    struct router *server_router;
    struct exact *server_exact;
    struct http_memo *server_memo;
    struct server_route *server_routes;
    unsigned server_routes_n;
    unsigned server_values_max; /* of all routes, the most parameters */
    struct conn_list server_lists[CONN_STATES];
    struct conn_queue server_dirty;
    uint64_t server_now_ns;     /* CLOCK_MONOTONIC at the latest event */
    uint64_t server_failure_ns; /* when a failed query was last logged */
    unsigned server_failures;   /* not logged since */
    uint32_t server_now_ms;     /* of the latest tick: good enough for deadlines */
    time_t server_second;       /* whose date is written in server_date and in the routes' heads */
    char server_date[29];       /* IMF-fixdate */
    struct listener server_listeners[SERVER_LISTENERS_MAX];
    unsigned server_listeners_n;
};

/* Reads the clock; called at each event that begins work. */
void server_clock(struct server *s);
/* Once a second: writes the date anew. */
void server_date(struct server *s);

/* accept.c: takes over a listening socket.  proxy: each connection begins with a PROXY header. */
void server_listen(struct server *s, int fd, bool proxy);
/* Accepts on them, until told not to. */
void server_accept(struct server *s);
void server_accept_resume(struct server *s);
/* Stops accepting; idle connections are closed, others after their answer. */
void server_drain(struct server *s);

/* conn.c */
void conn_open(const struct listener *l, int fd, const struct sockaddr *peer);
/* Closes if the client has reset it, of which nobody may have been told. */
void conn_look(struct conn *c);
/* Closes at once and abandons what runs. */
void conn_close(struct conn *c);
/* Something about the connection changed: it is looked at when the turn ends. */
void conn_touch(struct conn *c);
/* Ends the turn: sends, settles states, reads on where a connection was held.  True: there may be more to do. */
bool server_flush(struct server *s);
/* deadlines.c */
/* Every tick: deadlines, the date. */
void server_tick(struct server *s);
/* Of the connections that have no request being answered, the one that has had nothing to do, or whose request has been
 * coming, for the longest time; NULL: there is none. */
struct conn *server_longest_idle(const struct server *s);
/* The one place that moves a connection between lists.  In the same state the deadline stays. */
void conn_move(struct conn *c, enum conn_state state);
/* It makes progress in its state: the time begins anew. */
void conn_again(struct conn *c);
/* Starts and ends the time that a head or a body may take, as the connection now stands. */
void conn_time_reading(struct conn *c);
/* Takes it off the list of what is coming. */
void conn_reads_stop(struct conn *c);
/* It waits in line for a place for its next request. */
void conn_line_up(struct conn *c);
/* Calls as many of those in line as there are places, the first ones: they are looked at when the turn ends. */
void server_call(struct server *s);
/* It has taken its place, or has no use for it. */
void conn_uncall(struct conn *c);

/* stub.c: the octets of a head that did not come whole, in STUB_OCTETS of their own instead of a buffer and a request
 * object.  stub_put takes them out of conn_buf if they are few enough; stub_take puts them into conn_buf, which is
 * empty, and from there they are parsed again. */
void stub_put(struct conn *c);
void stub_take(struct conn *c);
void stub_drop(struct conn *c);
size_t stub_size(void);

/* careful.c: how a request is run, with an eye on what server_careful stands for; `route` and `argument` as request_run
 * found them. */
enum handler_result request_careful(struct conn *c, struct request *r, int route, const struct slice *argument);
/* Turns the first request of a connection away for which there is no place. */
void request_turn_away(struct conn *c, struct request *r);
/* The connection's address is known: enters it in the table.  False: it is to be closed without an answer. */
bool conn_admit(struct conn *c);
/* The PROXY header of the connection is in conn_buf.  True: it was taken out; false: more is to come, or the connection
 * is on its way out. */
bool conn_proxy_header(struct conn *c);

/* The client has left, or will never get these answers: gives up all requests of the connection that are parsed and not
 * sent.  Nothing else happens before server_inherit, which the caller calls when it is through with the connection. */
void conn_abandon(struct conn *c);
/* Those who shared a query with one who has left go on by themselves. */
void server_inherit(struct server *s);
/* From now on they do not: the pools are about to be freed. */
void server_disinherit(struct server *s);

/* serve.c: runs the handler of a route with the argument that its path was found with; -1: finds the route first. */
enum handler_result request_dispatch(struct conn *c, struct request *r, int route, const struct slice *argument);
/* Parses what conn_buf holds and runs the requests in it. */
void conn_serve(struct conn *c);
/* Runs the first request of the connection if it was deferred (REQUEST_DEFERRED); all answers before it are sent. */
void conn_resume(struct conn *c);
/* Whether its client is slow to read: no further request is begun. */
static inline bool conn_is_behind(const struct conn *c)
{
    return c->conn_out.out_bytes > c->conn_server->server_out_high;
}
/* Whether the request's answer is the next to be sent. */
static inline bool conn_has_turn(const struct conn *c, const struct request *r)
{
    return r == TAILQ_FIRST(&c->conn_requests) && !conn_is_behind(c);
}
/* Whether a connection that is held (conn_held) still has to wait for the answers before it. */
bool conn_waits(const struct conn *c);
/* It is held: if what it waits for is a place, it waits in line from now on. */
void conn_line_again(struct conn *c);
/* Makes room to read into: false when there is no buffer to be had, or none is wanted now. */
bool conn_room(struct conn *c, char **to, size_t *room);
/* n octets have been read to where conn_room said. */
void conn_received(struct conn *c, size_t n);
/* Answers for a request that is not well-formed or late, and closes behind it. */
void conn_refuse(struct conn *c, unsigned status, const char *why);

/* answer.c: moves answered requests, in order, to the output. */
void conn_answer(struct conn *c);
/* The buffer budget is spent before a request could be read: it waits for what goes out before it, or is shed. */
void conn_no_buffers(struct conn *c);
/* emergency.c: writes the answer where there is not even a request, when the server is made. */
void emergency_init(struct server *s);
/* There is no buffer to answer with: sends what the request's status says, which is a shed or the end of one that has
 * run, straight to the socket where that keeps the order, counts it, and closes.  r: on no list; NULL: there is no
 * request, a shed. */
void conn_emergency(struct conn *c, struct request *r);

static inline void server_count(const struct server *s, enum stat_worker stat, uint64_t n)
{
    if (s->server_public)
        stat_add(stat, n);
}

/* Counts an answer by its status and, where it has one, its route. */
static inline void request_count(const struct request *r, const struct server_route *route, unsigned status)
{
    const struct server *s = r->req_server;
    unsigned status_class = status / 100u;
    unsigned index;

    AN(status_class >= 1 && status_class <= 5);
    server_count(s, STAT_http_status_1xx + status_class - 1, 1);
    if (route == NULL || route->route_index < 0)
        return;
    index = (unsigned)route->route_index;
    stat_route_add(index, STAT_route_requests, 1);
    if (status_class == 4)
        stat_route_add(index, STAT_route_errors_4xx, 1);
    else if (status_class == 5)
        stat_route_add(index, STAT_route_errors_5xx, 1);
    if (__builtin_expect(r->req_shed, 0)) /* done at once, and says nothing of how long the others take */
        return;
    histogram_record(&stats.stats_routes[index].route_us, (s->server_now_ns - r->req_started_ns) / 1000u);
}

#endif
