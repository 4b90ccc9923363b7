#include "master/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/log.h"
#include "master/cpus.h"
#include "master/descriptors.h"
#include "worker/worker.h"

static int spawn_child(const struct spawn_order *order, int command_fd);
static int spawn_close_others(const struct spawn_order *order, int command_fd);
static int spawn_compare(const void *a, const void *b);
static void spawn_signals(void);

pid_t spawn_worker(const struct spawn_order *order, int *command_fd)
{
    sigset_t all, before;
    int pair[2], error;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;
    fflush(NULL); /* or the child's exit would write it again */
    sigfillset(&all);
    AZ(sigprocmask(SIG_SETMASK, &all, &before));
    pid = fork();
    if (pid == 0)
        exit(spawn_child(order, pair[1]));
    error = errno;
    AZ(sigprocmask(SIG_SETMASK, &before, NULL));
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        errno = error;
        return -1;
    }
    *command_fd = pair[0];
    return pid;
}

static int spawn_child(const struct spawn_order *order, int command_fd)
{
    struct worker_args args = {.args_conf = order->order_conf,
                               .args_segment = order->order_segment,
                               .args_cache = order->order_cache,
                               .args_slot = order->order_slot,
                               .args_workers = order->order_workers,
                               .args_room =
                                   descriptors_room(order->order_conf, order->order_workers, descriptors_limit()),
                               .args_cpu = order->order_cpu,
                               .args_generation = order->order_generation,
                               .args_listen_fds = listeners_slot(order->order_listeners, order->order_slot),
                               .args_admin_fd = listeners_admin(order->order_listeners, order->order_slot),
                               .args_command_fd = command_fd};
    char who[24];

    /* First of all, so that the worker's memory comes from its CPU's node. */
    if (cpus_pin(order->order_cpu) != 0)
        log_write(LOG_LEVEL_WARN, "worker %u: not pinned to CPU %d: %s", order->order_slot, order->order_cpu,
                  strerror(errno));
    snprintf(who, sizeof who, "worker %u", order->order_slot);
    log_speaker(who);
    if (spawn_close_others(order, command_fd) != 0) {
        log_write(LOG_LEVEL_ERROR, "closing the master's descriptors: %s", strerror(errno));
        return WORKER_EXIT_FAILED;
    }
    if (privileges_drop(order->order_privileges) != 0) {
        log_write(LOG_LEVEL_ERROR, "becoming uid %ld: %s", (long)order->order_privileges->privileges_uid,
                  strerror(errno));
        return WORKER_EXIT_FATAL;
    }
    spawn_signals();
    return worker_run(&args);
}

/* The stream's EOF tells a worker that the master is gone: so nobody else may hold the master's end of it, and a
 * sibling's descriptors in general are none of its business. */
static int spawn_close_others(const struct spawn_order *order, int command_fd)
{
    unsigned n = order->order_conf->conf_listen_n, i;
    int *keep = calloc(n + 4ul, sizeof *keep), next = STDERR_FILENO + 1, rc = 0;

    if (keep == NULL)
        return -1;
    if (n > 0)
        memcpy(keep, listeners_slot(order->order_listeners, order->order_slot), n * sizeof *keep);
    keep[n++] = listeners_admin(order->order_listeners, order->order_slot);
    keep[n++] = command_fd;
    keep[n++] = log_fd();
    keep[n++] = log_access_fd();
    qsort(keep, n, sizeof *keep, spawn_compare);
    for (i = 0; i < n; i++) {
        if (keep[i] > next)
            rc |= close_range((unsigned)next, (unsigned)keep[i] - 1, 0);
        if (keep[i] >= next)
            next = keep[i] + 1;
    }
    rc |= close_range((unsigned)next, ~0u, 0);
    free(keep);
    return rc;
}

static int spawn_compare(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The master handles no signal (it reads them), so a handler found here is a sanitizer's and stays. */
static void spawn_signals(void)
{
    static const int masters[] = {SIGPIPE, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction action;
    sigset_t none;
    unsigned i;
    int s;

    for (s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            signal(s, SIG_DFL);
    for (i = 0; i < sizeof masters / sizeof *masters; i++)
        signal(masters[i], SIG_IGN);
    sigemptyset(&none);
    AZ(sigprocmask(SIG_SETMASK, &none, NULL));
}
