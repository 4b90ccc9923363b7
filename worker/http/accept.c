/* Listening sockets: accepting, pausing when descriptors run out, and stopping. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/log.h"
#include "worker/http/server.h"
#include "worker/mem/alloc.h"

#define ACCEPT_BATCH 64u /* connections taken per event, so that those already there get their turn */
#define TELL_MS 10000u   /* the log hears of it once in this time */

static void accept_event(evutil_socket_t fd, short what, void *arg);
static bool accept_makes_room(struct server *s, struct conn **leaves);
static void accept_pause(struct server *s, int error);
static void accept_tell(struct server *s, const char *trouble);
static void accept_refuse(struct server *s, int listener_fd);
static void refuse(struct server *s, int fd);

void server_listen(struct server *s, int fd, bool proxy)
{
    struct listener *l = &s->server_listeners[s->server_listeners_n++];
    int on = 1;

    AN(s->server_listeners_n <= SERVER_LISTENERS_MAX);
    /* Accepted sockets inherit it; a unix socket does not have it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    l->listener_fd = fd;
    l->listener_proxy = proxy;
    l->listener_server = s;
    AZ(event_assign(&l->listener_event, s->server_base, fd, EV_READ | EV_PERSIST, accept_event, l));
    /* Once, so that the loop's tables have room for it. */
    AZ(event_add(&l->listener_event, NULL));
    AZ(event_del(&l->listener_event));
}

void server_accept(struct server *s)
{
    unsigned i;

    if (s->server_draining)
        return;
    s->server_paused = false;
    for (i = 0; i < s->server_listeners_n; i++)
        AZ(event_add(&s->server_listeners[i].listener_event, NULL));
}

void server_accept_resume(struct server *s)
{
    if (s->server_paused)
        server_accept(s);
}

void server_drain(struct server *s)
{
    unsigned i, state;

    if (s->server_draining)
        return;
    s->server_draining = s->server_careful = true;
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
        struct conn *leaves = NULL;
        int client;

        if (slab_used(s->server_conns) >= s->server_conns_all && !s->server_public && !accept_makes_room(s, &leaves))
            break;
        client = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (client >= 0) {
            if (leaves != NULL)
                conn_close(leaves);
            if (slab_used(s->server_conns) < s->server_conns_all)
                conn_open(l, client, (struct sockaddr *)&peer);
            else
                refuse(s, client);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
            continue;
        if (errno != EAGAIN) {
            accept_pause(s, errno);
            accept_refuse(s, fd);
        }
        break;
    }
    alloc_leave(old);
}

/* The admin server sheds nobody for those who have nothing to ask: its connection that has been idle for longest leaves
 * for the new one, *leaves, where there is such.  False: that one has just asked something; it comes first. */
static bool accept_makes_room(struct server *s, struct conn **leaves)
{
    int unread = 0;

    *leaves = server_longest_idle(s);
    return *leaves == NULL || ioctl((*leaves)->conn_fd, FIONREAD, &unread) != 0 || unread == 0;
}

/* Out of descriptors or of kernel memory: waits for a connection to close, or for the next tick, instead of spinning.
 */
static void accept_pause(struct server *s, int error)
{
    char trouble[128];
    unsigned i;

    (void)snprintf(trouble, sizeof(trouble), "%s; accepting pauses", strerrordesc_np(error));
    accept_tell(s, trouble);
    server_count(s, STAT_http_accept_paused, 1);
    s->server_paused = true;
    for (i = 0; i < s->server_listeners_n; i++)
        AZ(event_del(&s->server_listeners[i].listener_event));
}

static void accept_tell(struct server *s, const char *trouble)
{
    uint32_t now_ms = (uint32_t)(s->server_now_ns / 1000000u);

    if (s->server_accept_untold++ != 0 && now_ms - s->server_accept_told_ms < TELL_MS)
        return;
    log_write(LOG_LEVEL_WARN, "%s: %s (%u times since this was last said)", s->server_public ? "accept" : "admin",
              trouble, s->server_accept_untold);
    s->server_accept_told_ms = now_ms;
    s->server_accept_untold = 1;
}

/* Gives up the descriptor in reserve to tell those who wait that there is no room, rather than to let them wait. */
static void accept_refuse(struct server *s, int listener_fd)
{
    unsigned i;

    if (s->server_reserve_fd < 0)
        return;
    close(s->server_reserve_fd);
    for (i = 0; i < ACCEPT_BATCH; i++) {
        int client = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (client < 0)
            break;
        refuse(s, client);
    }
    s->server_reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* No place even for a connection to be told so in its turn.  What it may have said is read, or closing would take the
 * answer away from it. */
static void refuse(struct server *s, int fd)
{
    char request[4096];

    if (!s->server_public)
        accept_tell(s, "every connection is being answered; more are refused");
    server_count(s, STAT_http_accepted, 1);
    server_count(s, STAT_shed_connections, 1);
    server_count(s, STAT_http_status_1xx + s->server_shed.shed_status / 100 - 1, 1);
    (void)!recv(fd, request, sizeof(request), MSG_DONTWAIT);
    (void)!send(fd, s->server_emergency, s->server_emergency_len, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    close(fd);
    server_count(s, STAT_http_closed, 1);
}
