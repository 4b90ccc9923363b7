/* Listening Unix sockets: who holds a path, taking over a dead one's, and removing only our own. */
#ifndef VANILLA_MASTER_UNIXSOCK_H
#define VANILLA_MASTER_UNIXSOCK_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "shm/assert.h"

#define UNIXSOCK_PATH_MAX 107 /* octets: sun_path less its NUL */

struct unixsock_id { /* the file that we made: a successor's at the same path has another inode */
    dev_t unixsock_dev;
    ino_t unixsock_ino;
};

/* May `path` be bound?  0 when nothing is there or a socket that nobody listens on; else -1 and `why` says what is
 * there.  Changes nothing. */
int unixsock_check(const char *path, char *why, size_t why_len) MUSTCHECK;

/* Checks, removes a dead socket, binds, gives it `mode` and, unless -1, `group`, and listens.  Returns a descriptor,
 * non-blocking and close-on-exec, and fills *id; or -1 and `why`. */
int unixsock_listen(const char *path, mode_t mode, gid_t group, int backlog, struct unixsock_id *id, char *why,
                    size_t why_len) MUSTCHECK;

/* Removes `path` when it still is that file.  Call it while the socket is open: its inode cannot be another's then. */
void unixsock_remove(const char *path, const struct unixsock_id *id);

#endif
