#include "master/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define SIGNALS_MAGIC 0x516ea150u

struct signals {
    unsigned magic;
    int signals_fd;
    struct event *signals_event;
    void (*signals_handler)(void *context, int signo);
    void *signals_context;
};

static void signals_set(sigset_t *set);
static void signals_read(evutil_socket_t fd, short what, void *arg);

static const int signals_wanted[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};

void signals_block(void)
{
    sigset_t set;
    unsigned i;

    /* An ignored signal is dropped even where it is blocked, and an ignored SIGCHLD leaves no status to wait for. */
    for (i = 0; i < sizeof signals_wanted / sizeof *signals_wanted; i++)
        signal(signals_wanted[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signals_set(&set);
    AZ(sigprocmask(SIG_SETMASK, &set, NULL));
}

struct signals *signals_open(struct event_base *base, void (*handler)(void *context, int signo), void *context)
{
    struct signals *s = calloc(1, sizeof *s);
    sigset_t set;
    int error;

    if (s == NULL)
        return NULL;
    s->magic = SIGNALS_MAGIC;
    s->signals_handler = handler;
    s->signals_context = context;
    signals_set(&set);
    s->signals_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->signals_fd >= 0) {
        s->signals_event = event_new(base, s->signals_fd, EV_READ | EV_PERSIST, signals_read, s);
        if (s->signals_event != NULL && event_add(s->signals_event, NULL) == 0)
            return s;
    }
    error = s->signals_fd < 0 ? errno : ENOMEM;
    signals_close(&s);
    errno = error;
    return NULL;
}

void signals_close(struct signals **sp)
{
    struct signals *s = *sp;

    CHECK_OBJ(s, SIGNALS_MAGIC);
    *sp = NULL;
    if (s->signals_event != NULL)
        event_free(s->signals_event);
    if (s->signals_fd >= 0)
        close(s->signals_fd);
    s->magic = 0;
    free(s);
}

static void signals_set(sigset_t *set)
{
    unsigned i;

    sigemptyset(set);
    for (i = 0; i < sizeof signals_wanted / sizeof *signals_wanted; i++)
        sigaddset(set, signals_wanted[i]);
}

static void signals_read(evutil_socket_t fd, short what, void *arg)
{
    struct signals *s = arg;
    struct signalfd_siginfo info;

    (void)what;
    CHECK_OBJ(s, SIGNALS_MAGIC);
    while (read((int)fd, &info, sizeof info) == (ssize_t)sizeof info)
        s->signals_handler(s->signals_context, (int)info.ssi_signo);
}
