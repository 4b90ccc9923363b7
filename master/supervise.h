/*
 * The life of one worker slot, as a table: what to do and which state comes next, for each state and event.  Only
 * decisions here; crew.c carries them out.
 */
#ifndef VANILLA_MASTER_SUPERVISE_H
#define VANILLA_MASTER_SUPERVISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum slot_state {
    SLOT_EMPTY,    /* nothing was started yet */
    SLOT_STARTING, /* a process that is not ready */
    SLOT_READY,    /* a process that serves */
    SLOT_WAITING,  /* no process: it died, the next one starts when the timer fires */
    SLOT_DRAINING, /* a process that was told to finish; the timer is its deadline */
    SLOT_STOPPING, /* a process that was told to leave at once; the timer is its deadline */
    SLOT_KILLED,   /* a process that was sent SIGKILL */
    SLOT_BROKEN,   /* no process: it said that another would fail the same way */
    SLOT_GONE,     /* no process: it ended as it was told */
    SLOT_STATES
};

enum slot_event {
    SLOT_START, /* the crew sets out */
    SLOT_SAID_READY,
    SLOT_DIED,  /* the process ended, whatever the way, but for: */
    SLOT_FATAL, /* WORKER_EXIT_FATAL */
    SLOT_TIMER, /* back-off over, or deadline passed */
    SLOT_DRAIN,
    SLOT_STOP,
    SLOT_EVENTS
};

enum slot_action {
    SLOT_NOTHING,
    SLOT_SPAWN,     /* fork; when that fails: SLOT_DIED, for the same slot */
    SLOT_WELCOME,   /* it serves */
    SLOT_REPLACE,   /* obituary, count, back-off */
    SLOT_GIVE_UP,   /* obituary, count, close its listeners */
    SLOT_BURY,      /* it was told to go: obituary only where it did not end well */
    SLOT_SAY_DRAIN, /* send WORKER_DRAIN, set the deadline */
    SLOT_SAY_STOP,  /* send WORKER_STOP, set the deadline */
    SLOT_KILL,      /* SIGKILL: it did not leave in time */
    SLOT_CANCEL,    /* no more back-off: nobody is to start */
    SLOT_NEVER      /* this event cannot come in this state */
};

struct slot_step {
    enum slot_action step_action;
    enum slot_state step_next;
};

struct slot_step supervise_step(enum slot_state state, enum slot_event event);

/* Is there a process in this state?  Has the slot come to its end? */
bool supervise_alive(enum slot_state state);
bool supervise_over(enum slot_state state);
const char *supervise_state_name(enum slot_state state);

#define BACKOFF_YOUNG_MS 5000 /* a worker that lived shorter than this died young */
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000

struct backoff {
    unsigned backoff_young; /* deaths in a row that were young ones */
};

/* How long to wait before the next start, ms: 0 after a life of some length, else twice as long each time, up to
 * BACKOFF_MAX_MS. */
unsigned backoff_next(struct backoff *b, uint64_t uptime_ms);

/* "killed by signal 11 (Segmentation fault), core dumped", "exit status 1": what waitpid(2) said. */
void supervise_cause(int status, char *text, size_t text_len);

#endif
