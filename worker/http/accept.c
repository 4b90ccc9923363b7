/* Listening sockets: accepting, pausing when descriptors run out, and stopping. */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/log.h"
#include "worker/http/server.h"
#include "worker/mem/alloc.h"

#define ACCEPT_BATCH 64u /* connections taken per event, so that those already there get their turn */

static void accept_event(evutil_socket_t fd, short what, void *arg);
static void accept_pause(struct server *s, int error);

void server_listen(struct server *s, int fd)
{
    struct listener *l = &s->server_listeners[s->server_listeners_n++];
    int on = 1;

    AN(s->server_listeners_n <= SERVER_LISTENERS_MAX);
    /* Accepted sockets inherit it; a unix socket does not have it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    l->listener_fd = fd;
    l->listener_server = s;
    AZ(event_assign(&l->listener_event, s->server_base, fd, EV_READ | EV_PERSIST, accept_event, l));
    AZ(event_add(&l->listener_event, NULL));
}

void server_accept_resume(struct server *s)
{
    unsigned i;

    if (!s->server_paused || s->server_draining)
        return;
    s->server_paused = false;
    for (i = 0; i < s->server_listeners_n; i++)
        AZ(event_add(&s->server_listeners[i].listener_event, NULL));
}

void server_drain(struct server *s)
{
    unsigned i, state;

    if (s->server_draining)
        return;
    s->server_draining = true;
    for (i = 0; i < s->server_listeners_n; i++) {
        (void)event_del(&s->server_listeners[i].listener_event);
        close(s->server_listeners[i].listener_fd);
    }
    s->server_listeners_n = 0;
    for (state = 0; state < CONN_STATES; state++) {
        struct conn *c;

        TAILQ_FOREACH(c, &s->server_lists[state], conn_link)
        conn_touch(c);
    }
}

static void accept_event(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    struct server *s = l->listener_server;
    enum alloc_scope old = alloc_enter(ALLOC_HTTP);
    unsigned i;

    (void)what;
    server_clock(s);
    for (i = 0; i < ACCEPT_BATCH && !s->server_paused; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof(peer);
        int client = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (client >= 0) {
            conn_open(s, client, (struct sockaddr *)&peer, slab_used(s->server_conns) >= s->server_conns_max);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
            continue;
        if (errno != EAGAIN)
            accept_pause(s, errno);
        break;
    }
    alloc_leave(old);
}

/* Out of descriptors or of kernel memory: waits for a connection to close, or for the next tick, instead of spinning.
 */
static void accept_pause(struct server *s, int error)
{
    unsigned i;

    log_write(LOG_LEVEL_WARN, "accept: %s; accepting pauses", strerrordesc_np(error));
    server_count(s, STAT_http_accept_paused, 1);
    s->server_paused = true;
    for (i = 0; i < s->server_listeners_n; i++)
        AZ(event_del(&s->server_listeners[i].listener_event));
}
