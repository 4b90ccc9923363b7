#include "master/supervise.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "shm/assert.h"

/* clang-format off */
static const struct slot_step supervise_table[SLOT_STATES][SLOT_EVENTS] = {
    [SLOT_EMPTY] = {
        [SLOT_START]      = {SLOT_SPAWN,     SLOT_STARTING},
        [SLOT_SAID_READY] = {SLOT_NEVER,     SLOT_EMPTY},
        [SLOT_DIED]       = {SLOT_NEVER,     SLOT_EMPTY},
        [SLOT_FATAL]      = {SLOT_NEVER,     SLOT_EMPTY},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_EMPTY},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_GONE},
        [SLOT_STOP]       = {SLOT_NOTHING,   SLOT_GONE},
    },
    [SLOT_STARTING] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_STARTING},
        [SLOT_SAID_READY] = {SLOT_WELCOME,   SLOT_READY},
        [SLOT_DIED]       = {SLOT_REPLACE,   SLOT_WAITING},
        [SLOT_FATAL]      = {SLOT_GIVE_UP,   SLOT_BROKEN},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_STARTING},
        [SLOT_DRAIN]      = {SLOT_SAY_DRAIN, SLOT_DRAINING},
        [SLOT_STOP]       = {SLOT_SAY_STOP,  SLOT_STOPPING},
    },
    [SLOT_READY] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_READY},
        [SLOT_SAID_READY] = {SLOT_NOTHING,   SLOT_READY},
        [SLOT_DIED]       = {SLOT_REPLACE,   SLOT_WAITING},
        [SLOT_FATAL]      = {SLOT_GIVE_UP,   SLOT_BROKEN},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_READY},
        [SLOT_DRAIN]      = {SLOT_SAY_DRAIN, SLOT_DRAINING},
        [SLOT_STOP]       = {SLOT_SAY_STOP,  SLOT_STOPPING},
    },
    [SLOT_WAITING] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_WAITING},
        [SLOT_SAID_READY] = {SLOT_NEVER,     SLOT_WAITING},
        [SLOT_DIED]       = {SLOT_NEVER,     SLOT_WAITING},
        [SLOT_FATAL]      = {SLOT_NEVER,     SLOT_WAITING},
        [SLOT_TIMER]      = {SLOT_SPAWN,     SLOT_STARTING},
        [SLOT_DRAIN]      = {SLOT_CANCEL,    SLOT_GONE},
        [SLOT_STOP]       = {SLOT_CANCEL,    SLOT_GONE},
    },
    [SLOT_DRAINING] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_DRAINING},
        [SLOT_SAID_READY] = {SLOT_NOTHING,   SLOT_DRAINING},
        [SLOT_DIED]       = {SLOT_BURY,      SLOT_GONE},
        [SLOT_FATAL]      = {SLOT_BURY,      SLOT_GONE},
        [SLOT_TIMER]      = {SLOT_KILL,      SLOT_KILLED},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_DRAINING},
        [SLOT_STOP]       = {SLOT_SAY_STOP,  SLOT_STOPPING},
    },
    [SLOT_STOPPING] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_STOPPING},
        [SLOT_SAID_READY] = {SLOT_NOTHING,   SLOT_STOPPING},
        [SLOT_DIED]       = {SLOT_BURY,      SLOT_GONE},
        [SLOT_FATAL]      = {SLOT_BURY,      SLOT_GONE},
        [SLOT_TIMER]      = {SLOT_KILL,      SLOT_KILLED},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_STOPPING},
        [SLOT_STOP]       = {SLOT_NOTHING,   SLOT_STOPPING},
    },
    [SLOT_KILLED] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_KILLED},
        [SLOT_SAID_READY] = {SLOT_NOTHING,   SLOT_KILLED},
        [SLOT_DIED]       = {SLOT_BURY,      SLOT_GONE},
        [SLOT_FATAL]      = {SLOT_BURY,      SLOT_GONE},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_KILLED},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_KILLED},
        [SLOT_STOP]       = {SLOT_NOTHING,   SLOT_KILLED},
    },
    [SLOT_BROKEN] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_BROKEN},
        [SLOT_SAID_READY] = {SLOT_NEVER,     SLOT_BROKEN},
        [SLOT_DIED]       = {SLOT_NEVER,     SLOT_BROKEN},
        [SLOT_FATAL]      = {SLOT_NEVER,     SLOT_BROKEN},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_BROKEN},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_GONE},
        [SLOT_STOP]       = {SLOT_NOTHING,   SLOT_GONE},
    },
    [SLOT_GONE] = {
        [SLOT_START]      = {SLOT_NEVER,     SLOT_GONE},
        [SLOT_SAID_READY] = {SLOT_NEVER,     SLOT_GONE},
        [SLOT_DIED]       = {SLOT_NEVER,     SLOT_GONE},
        [SLOT_FATAL]      = {SLOT_NEVER,     SLOT_GONE},
        [SLOT_TIMER]      = {SLOT_NEVER,     SLOT_GONE},
        [SLOT_DRAIN]      = {SLOT_NOTHING,   SLOT_GONE},
        [SLOT_STOP]       = {SLOT_NOTHING,   SLOT_GONE},
    },
};

static const struct {
    const char *state_name;
    bool state_alive, state_over;
} supervise_states[SLOT_STATES] = {
    [SLOT_EMPTY]    = {"empty",    false, false},
    [SLOT_STARTING] = {"starting", true,  false},
    [SLOT_READY]    = {"ready",    true,  false},
    [SLOT_WAITING]  = {"waiting",  false, false},
    [SLOT_DRAINING] = {"draining", true,  false},
    [SLOT_STOPPING] = {"stopping", true,  false},
    [SLOT_KILLED]   = {"killed",   true,  false},
    [SLOT_BROKEN]   = {"broken",   false, true},
    [SLOT_GONE]     = {"gone",     false, true},
};
/* clang-format on */

struct slot_step supervise_step(enum slot_state state, enum slot_event event)
{
    AN(state < SLOT_STATES && event < SLOT_EVENTS);
    return supervise_table[state][event];
}

bool supervise_alive(enum slot_state state)
{
    return supervise_states[state].state_alive;
}

bool supervise_over(enum slot_state state)
{
    return supervise_states[state].state_over;
}

const char *supervise_state_name(enum slot_state state)
{
    return supervise_states[state].state_name;
}

unsigned backoff_next(struct backoff *b, uint64_t uptime_ms)
{
    unsigned ms = BACKOFF_FIRST_MS, i;

    if (uptime_ms >= BACKOFF_YOUNG_MS) {
        b->backoff_young = 0;
        return 0;
    }
    for (i = 0; i < b->backoff_young && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    b->backoff_young++;
    return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

void supervise_cause(int status, char *text, size_t text_len)
{
    if (WIFSIGNALED(status))
        snprintf(text, text_len, "killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, text_len, "exit status %d", WEXITSTATUS(status));
}
