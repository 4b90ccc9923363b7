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

enum conn_state {             /* which of the server's lists it is on; each but BUSY has a deadline, the oldest first */
                  CONN_IDLE,  /* nothing read, nothing to do: holds no buffer */
                  CONN_HEAD,  /* a request's head is coming: header_ms */
                  CONN_BODY,  /* a request's body is coming: body_ms */
                  CONN_BUSY,  /* requests are running: the pool's limits apply */
                  CONN_LEFT,  /* requests are running, but the client has sent FIN: abandon_ms */
                  CONN_WRITE, /* the client does not take its answer: write_ms */
                  CONN_LINGER, /* answered and shut down for writing; what still comes is read and dropped (RFC
                                  9112 9.6) */
                  CONN_STATES
};

TAILQ_HEAD(conn_list, conn);
STAILQ_HEAD(conn_queue, conn);

#define CONN_MAGIC 0xc0223cc0u

struct conn {
    unsigned magic;
    int conn_fd;
    uint8_t conn_state;  /* enum conn_state */
    bool conn_readable;  /* the socket may hold more (edge-triggered) */
    bool conn_writable;  /* the socket may take more */
    bool conn_eof;       /* the client has sent FIN */
    bool conn_hangup;    /* ... as the loop told: a short read does not mean drained */
    bool conn_closing;   /* no further request is read; close when all is sent */
    bool conn_linger;    /* ... after a lingering close */
    bool conn_dirty;     /* on the server's queue of connections to flush */
    bool conn_shed;      /* beyond `connections`: its request is shed */
    bool conn_big_reads; /* the last buffer was filled: take a larger one next */
    bool conn_held;      /* there is more to parse or to read, once answers have gone out */
    bool conn_timed;     /* conn_deadline_ms is that of what it does now */
    uint16_t conn_requests_n;
    uint32_t conn_deadline_ms; /* server_now_ms at which its list's time is over (wraps) */
    uint32_t conn_idle_ms;     /* server_now_ms when it became idle */
    struct server *conn_server;
    TAILQ_ENTRY(conn) conn_link;
    STAILQ_ENTRY(conn) conn_dirty_link;
    struct buf *conn_buf;              /* octets read and not parsed; NULL when there are none */
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
    uint16_t route_status; /* of its usual answer; 0 where that has no head made ready */
    /* The head of its usual answer up to Content-Length's digits, ready made; the date in it is kept fresh. */
    char *route_head, *route_date;
    uint32_t route_head_len;
    /* The whole of its usual answer, where that never changes but for the date (handler_fixed). */
    char *route_fixed, *route_fixed_date;
    uint32_t route_fixed_len;
};

#define SERVER_MAGIC 0x5e40e45eu
#define SERVER_LISTENERS_MAX 64u
#define SERVER_PIPELINE_MAX 64u /* requests of one connection in progress at the same time */

struct listener {
    int listener_fd;
    struct server *listener_server;
    struct event listener_event;
};

struct server {
    unsigned magic;
    bool server_public; /* counted in http.*; the admin server is not */
    bool server_draining;
    bool server_paused; /* accepting: descriptors or connections ran out */
    struct event_base *server_base;
    const struct conf *server_conf;
    struct conf_limits server_limits;
    struct conf_shed server_shed;
    uint32_t
        server_timeouts_ms[CONN_STATES]; /* for IDLE: how often one is looked at, so that a request need not move it */
    uint32_t server_idle_ms;
    struct buffers *server_buffers;
    struct slab *server_conns, *server_requests;
    unsigned server_conns_max; /* `connections`; a few more are kept to shed politely */
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

/* accept.c: takes over a listening socket; accepts until told not to. */
void server_listen(struct server *s, int fd);
void server_accept_resume(struct server *s);
/* Stops accepting; idle connections are closed, others after their answer. */
void server_drain(struct server *s);

/* conn.c */
void conn_open(struct server *s, int fd, const struct sockaddr *peer, bool shed);
/* Closes at once and abandons what runs. */
void conn_close(struct conn *c);
/* Something about the connection changed: it is looked at when the turn ends. */
void conn_touch(struct conn *c);
/* Ends the turn: sends, settles states, reads on where a connection was held.  True: there may be more to do. */
bool server_flush(struct server *s);
/* Every tick: deadlines, the date. */
void server_tick(struct server *s);

/* The client has left, or will never get this answer: gives the request up; it is on no list any more. */
void request_abandon(struct request *r);

/* serve.c: parses what conn_buf holds and runs the requests in it. */
void conn_serve(struct conn *c);
/* Makes room to read into: false when there is no buffer to be had, or none is wanted now. */
bool conn_room(struct conn *c, char **to, size_t *room);
/* n octets have been read to where conn_room said. */
void conn_received(struct conn *c, size_t n);
/* Answers for a request that is not well-formed or late, and closes behind it. */
void conn_refuse(struct conn *c, unsigned status, const char *why);

/* answer.c: moves answered requests, in order, to the output. */
void conn_answer(struct conn *c);
/* There is no buffer to answer with: sends a ready-made 503 straight to the socket where that keeps the order, and
 * closes. */
void conn_emergency(struct conn *c);

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
    if (r->req_shed)
        stat_route_add(index, STAT_route_shed, 1);
    if (status_class == 4)
        stat_route_add(index, STAT_route_errors_4xx, 1);
    else if (status_class == 5)
        stat_route_add(index, STAT_route_errors_5xx, 1);
    histogram_record(&stats.stats_routes[index].route_us, (s->server_now_ns - r->req_started_ns) / 1000u);
}

#endif
