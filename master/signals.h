/* Signals as events of the master's loop: they stay blocked and are read from a signalfd, so no code of ours ever runs
 * in a signal handler. */
#ifndef VANILLA_MASTER_SIGNALS_H
#define VANILLA_MASTER_SIGNALS_H

#include <event2/event.h>

#include "shm/assert.h"

struct signals;

/* Blocks SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 and SIGCHLD, which wait until they are read, and ignores
 * SIGPIPE.  At the very start: what a parent left blocked or ignored does not matter then. */
void signals_block(void);

/* Calls `handler` for each from the loop.  The caller owns the result; NULL with errno. */
struct signals *signals_open(struct event_base *base, void (*handler)(void *context, int signo),
                             void *context) MUSTCHECK;
void signals_close(struct signals **sp);

#endif
