/* The service manager's notification protocol, sd_notify(3): datagrams "NAME=VALUE\n..." to $NOTIFY_SOCKET. */
#ifndef VANILLA_MASTER_NOTIFY_H
#define VANILLA_MASTER_NOTIFY_H

#include <stdbool.h>

struct notify {
    int notify_fd;               /* connected datagram socket; -1: nobody wants to know */
    unsigned notify_watchdog_ms; /* how often to send WATCHDOG=1: half of what the manager allows; 0: never */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from the environment, so that no child answers
 * for us.  A socket that cannot be reached is logged and then as none. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);

/* Sends one message, "READY=1\nSTATUS=..."; without waiting, and lost when the manager does not read. */
void notify_send(const struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
