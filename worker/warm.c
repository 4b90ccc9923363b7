#include "worker/warm.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/assert.h"

#define ROUNDS 16 /* the table of fired events doubles each time that it was full */

static void nothing(evutil_socket_t fd, short what, void *arg);

unsigned loop_warm(struct event_base *base, unsigned n)
{
    struct event *events = calloc(n, sizeof(*events));
    int always_ready = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    unsigned i, have = 0;

    if (events == NULL || always_ready < 0) {
        if (always_ready >= 0)
            close(always_ready);
        goto out;
    }
    while (have < n) {
        int fd = have == 0 ? always_ready : fcntl(always_ready, F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
            break;
        AZ(event_assign(&events[have], base, fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, nothing, NULL));
        AZ(event_add(&events[have], NULL));
        have++;
    }
    for (i = 0; i < ROUNDS; i++) {
        uint64_t one = 1;

        (void)!write(always_ready, &one, sizeof(one)); /* a new edge for all of them */
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    for (i = 0; i < have; i++)
        AZ(event_del(&events[i]));
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    for (i = 0; i < have; i++) /* the first is always_ready itself */
        close(event_get_fd(&events[i]));
out:
    free(events);
    return have;
}

static void nothing(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}
