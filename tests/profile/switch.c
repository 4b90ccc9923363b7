/*
 * Preloaded into a process that is to be profiled: SIGRTMIN+3 switches callgrind's instrumentation on, SIGRTMIN+4 off.
 * callgrind_control does the same from outside, but by way of ptrace and of pipes that a process which has changed its
 * user cannot open. Where VANILLA_HEAPTRACK names heaptrack's inject library
 * and VANILLA_HEAPTRACK_OUT a file, it is heaptrack that begins and ends.  The signal only says so; it happens behind
 * epoll_wait, for callgrind loses its way where it begins in a handler.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

static volatile sig_atomic_t wanted;

static void want(int number);
static void heaptrack(const char *library, int number);

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
        const char *library = getenv("VANILLA_HEAPTRACK");

        wanted = 0;
        if (library != NULL)
            heaptrack(library, number);
        else if (number == SIGRTMIN + 3)
            CALLGRIND_START_INSTRUMENTATION;
        else
            CALLGRIND_STOP_INSTRUMENTATION;
    }
    return rc;
}

static void heaptrack(const char *library, int number)
{
    void *handle = dlopen(library, RTLD_NOW);
    void (*begin)(const char *), (*end)(void);

    if (handle == NULL)
        return;
    *(void **)&begin = dlsym(handle, "heaptrack_inject");
    *(void **)&end = dlsym(handle, "heaptrack_stop");
    if (number == SIGRTMIN + 3 && begin != NULL)
        begin(getenv("VANILLA_HEAPTRACK_OUT"));
    else if (number != SIGRTMIN + 3 && end != NULL)
        end();
}
