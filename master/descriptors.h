/* The limit of open files: how many descriptors a process of ours needs, and raising RLIMIT_NOFILE to that. */
#ifndef VANILLA_MASTER_DESCRIPTORS_H
#define VANILLA_MASTER_DESCRIPTORS_H

#include "conf/conf.h"

/* Connections that are only shed, those of the admin listener, standard streams, loop, logs, name resolution, libpq's
 * attempts. */
#define DESCRIPTORS_RESERVE 256

/* The most that one worker uses: client connections, its share of each pool, listeners and the reserve. */
unsigned long descriptors_of_worker(const struct conf *conf, unsigned workers);

/* The master's: every worker's listeners and command stream, control clients, and the reserve. */
unsigned long descriptors_of_master(const struct conf *conf, unsigned workers);

/* Raises the soft limit to the larger of both, the hard one too where we may; warns with the numbers where it does not
 * reach, because the worker then stops accepting early. */
void descriptors_raise(const struct conf *conf, unsigned workers);

#endif
