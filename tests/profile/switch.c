/*
 * Preloaded into a process under callgrind: SIGRTMIN+3 switches its instrumentation on, SIGRTMIN+4 off.
 * callgrind_control does the same from outside, but by way of ptrace and of pipes that a process which has changed its
 * user cannot open. The signal only says so; it happens behind epoll_wait, for callgrind loses its way where it begins
 * in a handler.
 */
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

static volatile sig_atomic_t wanted;

static void want(int number);

__attribute__((constructor)) static void prepare(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = want;
    action.sa_flags = SA_RESTART;
    (void)sigaction(SIGRTMIN + 3, &action, NULL);
    (void)sigaction(SIGRTMIN + 4, &action, NULL);
}

static void want(int number)
{
    wanted = number;
}

/* Instead of the C library's. */
int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    int rc = (int)syscall(SYS_epoll_wait, fd, events, n, timeout), number = wanted;

    if (number != 0) {
        wanted = 0;
        if (number == SIGRTMIN + 3)
            CALLGRIND_START_INSTRUMENTATION;
        else
            CALLGRIND_STOP_INSTRUMENTATION;
    }
    return rc;
}
