/* One worker process: what it inherits from the master, and its run. */
#ifndef VANILLA_WORKER_WORKER_H
#define VANILLA_WORKER_WORKER_H

#include "conf/conf.h"
#include "shm/cache.h"
#include "shm/segment.h"

#define WORKER_SPARE 64u          /* connections beyond `connections`, to shed politely */
#define WORKER_ADMIN 256u         /* connections of the admin listener */
#define WORKER_INFLIGHT_MAX 1024u /* what the file allows for max_inflight (conf/options.def) */

/* How a worker's descriptors are divided, so that none of these takes what another needs. */
struct worker_room {
    unsigned room_connections; /* of clients: `connections`, or what the limit of open files leaves */
    unsigned room_spare;       /* WORKER_SPARE, or less */
    unsigned room_admin;       /* WORKER_ADMIN, or less */
    unsigned room_others;      /* set aside for all else: PostgreSQL, listeners, logs, the loop */
};

/* All that a worker inherits; the master closes every other descriptor before worker_run. */
struct worker_args {
    const struct conf *args_conf;
    struct segment *args_segment; /* mapped shared; the worker writes its own block only */
    struct cache *args_cache;     /* likewise; NULL: no route keeps answers */
    unsigned args_slot;           /* 0 .. args_workers - 1 */
    unsigned args_workers;
    struct worker_room args_room;
    int args_cpu; /* already pinned to it */
    uint64_t args_generation;
    const int *args_listen_fds; /* conf_listen_n of them, bound and listening, this slot's own */
    int args_admin_fd;          /* listening; -1: none */
    int args_command_fd; /* a stream from the master: one octet per command (enum worker_command); EOF: the master
                            is gone, drain */
};

enum worker_command {
    WORKER_DRAIN = 'd', /* stop accepting, finish what is begun within drain_ms, exit 0 */
    WORKER_STOP = 's',  /* exit now */
    WORKER_LOGS = 'l'   /* reopen log files */
};

/* Exit codes that mean something to the master. */
enum worker_exit {
    WORKER_EXIT_OK = 0,
    WORKER_EXIT_FAILED = 1, /* start me again (with back-off) */
    WORKER_EXIT_FATAL = 78  /* do not start me again: it would fail the same way */
};

/* Runs until told to leave; returns the exit code.  Ready for requests: writes one octet 'r' to args_command_fd. */
int worker_run(const struct worker_args *args) MUSTCHECK;

#endif
