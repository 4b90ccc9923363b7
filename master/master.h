/* The master process: sets up what the workers are given, forks them, and then answers signals and the control
 * socket. */
#ifndef VANILLA_MASTER_MASTER_H
#define VANILLA_MASTER_MASTER_H

#include "conf/conf.h"

/* Runs the server until it is told to end; the process's exit status: 0, 1 when it could not start (the reason went to
 * stderr as "FILE:LINE: ..." and to the log), or WORKER_EXIT_FATAL when no worker could.  Signals are blocked already
 * (signals.h). */
int master_run(const struct conf *conf) MUSTCHECK;

#endif
