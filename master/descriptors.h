/* The limit of open files: how many descriptors a process of ours needs, raising RLIMIT_NOFILE to that, and how a
 * worker's are divided where it cannot be raised. */
#ifndef VANILLA_MASTER_DESCRIPTORS_H
#define VANILLA_MASTER_DESCRIPTORS_H

#include "conf/conf.h"
#include "worker/worker.h"

/* Standard streams, loop, logs, name resolution, the files of TLS. */
#define DESCRIPTORS_RESERVE 32

/* The most that one worker uses: clients and those that are only shed, the admin listener's connections, its share of
 * each pool with as many cancels, listeners and the reserve. */
unsigned long descriptors_of_worker(const struct conf *conf, unsigned workers);

/* The master's: every worker's listeners and command stream, control clients, and the reserve. */
unsigned long descriptors_of_master(const struct conf *conf, unsigned workers);

/* How a worker that may open `limit` files divides them: what is not for client connections is set aside first, the
 * admin listener's share included; of very few each still gets some. */
struct worker_room descriptors_room(const struct conf *conf, unsigned workers, unsigned long limit);

/* Raises the soft limit to the larger of both, the hard one too where we may; warns with the numbers where it does not
 * reach, because workers then take fewer connections. */
void descriptors_raise(const struct conf *conf, unsigned workers);

/* The limit as it is now. */
unsigned long descriptors_limit(void);

#endif
