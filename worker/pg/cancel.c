/* CancelRequest, without blocking. */
#include "worker/pg/cancel.h"

#include <errno.h>
#include <unistd.h>

#include "shm/assert.h"
#include "worker/mem/alloc.h"
#include "worker/pg/codec.h"

#define CANCEL_SECONDS 5 /* for each of its steps */

static void cancel_wait(struct cancel *x, struct event_base *base, short what);
static void cancel_event(int fd, short what, void *arg);
static void cancel_finish(struct cancel *x, bool ok);

int cancel_start(struct cancel *x, struct event_base *base, const struct sockaddr_storage *peer, socklen_t peer_len,
                 uint32_t pid, uint32_t key)
{
    enum alloc_scope old;

    AN(x->cancel_fd == -1);
    x->cancel_fd = socket(peer->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (x->cancel_fd < 0) {
        x->cancel_fd = -1;
        return -1;
    }
    if (connect(x->cancel_fd, (const struct sockaddr *)peer, peer_len) != 0 && errno != EINPROGRESS) {
        (void)close(x->cancel_fd);
        x->cancel_fd = -1;
        return -1;
    }
    codec_cancel(x->cancel_octets, pid, key);
    x->cancel_sent = false;
    old = alloc_enter(ALLOC_CONNECT); /* libevent learns of a new descriptor */
    cancel_wait(x, base, EV_WRITE);
    alloc_leave(old);
    return 0;
}

void cancel_stop(struct cancel *x)
{
    enum alloc_scope old;

    if (x->cancel_fd == -1)
        return;
    old = alloc_enter(ALLOC_CONNECT);
    (void)event_del(&x->cancel_event);
    alloc_leave(old);
    (void)close(x->cancel_fd);
    x->cancel_fd = -1;
}

static void cancel_wait(struct cancel *x, struct event_base *base, short what)
{
    static const struct timeval patience = {CANCEL_SECONDS, 0};

    AZ(event_assign(&x->cancel_event, base, x->cancel_fd, what, cancel_event, x));
    (void)event_add(&x->cancel_event, &patience);
}

static void cancel_event(int fd, short what, void *arg)
{
    struct cancel *x = arg;
    enum alloc_scope old = alloc_enter(ALLOC_CONNECT);
    char octet;
    ssize_t n;

    if (what & EV_TIMEOUT) {
        cancel_finish(x, false);
    } else if (!x->cancel_sent) {
        /* 16 octets into an empty socket buffer: they go in one piece or not at all. */
        n = send(fd, x->cancel_octets, sizeof x->cancel_octets, MSG_NOSIGNAL);
        x->cancel_sent = n == (ssize_t)sizeof x->cancel_octets;
        if (x->cancel_sent)
            cancel_wait(x, event_get_base(&x->cancel_event), EV_READ);
        else
            cancel_finish(x, false);
    } else {
        n = recv(fd, &octet, 1, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            cancel_wait(x, event_get_base(&x->cancel_event), EV_READ);
        else /* the end of file, or a reset: either way the server has seen it */
            cancel_finish(x, n == 0 || (n < 0 && errno == ECONNRESET));
    }
    alloc_leave(old);
}

static void cancel_finish(struct cancel *x, bool ok)
{
    cancel_stop(x);
    x->cancel_done(x->cancel_arg, ok);
}
