/* From the master to a worker: the fork, and all that is shed on the way. */
#ifndef VANILLA_MASTER_SPAWN_H
#define VANILLA_MASTER_SPAWN_H

#include <sys/types.h>

#include "conf/conf.h"
#include "master/listen.h"
#include "master/privileges.h"
#include "shm/cache.h"
#include "shm/segment.h"

struct spawn_order {
    const struct conf *order_conf;
    struct segment *order_segment;
    struct cache *order_cache; /* NULL: none */
    const struct listeners *order_listeners;
    const struct privileges *order_privileges;
    unsigned order_slot, order_workers;
    int order_cpu;
    uint64_t order_generation;
};

/* Forks a worker.  Returns its pid and in *command_fd the master's end of its command stream, non-blocking; or -1 with
 * errno.  In the child, which does not return: it is pinned first; has no descriptor but 0, 1, 2, the log's and those
 * of struct worker_args; is who it shall be; and has all signals unblocked and at their defaults, but for SIGPIPE and
 * those that speak to the master (SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2), which it ignores: a terminal
 * and some service managers send them to the whole group, while a worker takes its commands from the stream. */
pid_t spawn_worker(const struct spawn_order *order, int *command_fd) MUSTCHECK;

#endif
