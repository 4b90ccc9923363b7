/* Sockets that the service manager opened for us: sd_listen_fds(3), $LISTEN_FDS and $LISTEN_PID. */
#ifndef VANILLA_MASTER_PASSED_H
#define VANILLA_MASTER_PASSED_H

#include <sys/socket.h>

#include "shm/assert.h"

#define PASSED_FIRST 3 /* SD_LISTEN_FDS_START */
#define PASSED_MAX 256

struct passed {
    unsigned passed_n;
    int passed_fds[PASSED_MAX]; /* -1: taken, or of no use */
};

/* Takes note of what was passed and removes the variables from the environment. */
void passed_read(struct passed *p);

/* The listening stream socket that is bound to this address, now the caller's, non-blocking and close-on-exec; -1 when
 * none is.  An IPv6 wildcard that takes IPv4 too (systemd's plain ListenStream=PORT) also answers to 0.0.0.0. */
int passed_take(struct passed *p, const struct sockaddr *address) MUSTCHECK;

/* Closes what nobody took, and says so. */
void passed_close(struct passed *p);

#endif
