/*
 * CancelRequest on a socket of its own (manual, "Canceling Requests in Progress"): connect, send 16 octets, wait until
 * the server has closed, which it does once the signal is on its way.  Nothing blocks.
 */
#ifndef VANILLA_WORKER_PG_CANCEL_H
#define VANILLA_WORKER_PG_CANCEL_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct cancel {
    struct event cancel_event;
    int cancel_fd; /* -1: none under way */
    bool cancel_sent;
    unsigned char cancel_octets[16];
    void (*cancel_done)(void *arg, bool ok); /* ok: it has gone through */
    void *cancel_arg;
};

/* `peer` is the server's address as the connection has it.  Returns 0, and cancel_done will be called from the loop; or
 * -1: could not even begin. */
int cancel_start(struct cancel *x, struct event_base *base, const struct sockaddr_storage *peer, socklen_t peer_len,
                 uint32_t pid, uint32_t key);
/* Gives up without calling cancel_done; fine when none is under way. */
void cancel_stop(struct cancel *x);

#endif
