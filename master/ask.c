#include "master/ask.h"

#include <signal.h>
#include <string.h>

/* clang-format off */
static const enum ask_action ask_table[MASTER_STATES][ASKS] = {
    [MASTER_STARTING] = {
        [ASK_TERM]    = ASK_DO_DRAIN,
        [ASK_DRAIN]   = ASK_DO_DRAIN,
        [ASK_STOP]    = ASK_DO_STOP,
        [ASK_LOGS]    = ASK_DO_LOGS,
        [ASK_RELOAD]  = ASK_REFUSE_UNSUPPORTED,
        [ASK_UPGRADE] = ASK_REFUSE_UNSUPPORTED,
    },
    [MASTER_SERVING] = {
        [ASK_TERM]    = ASK_DO_DRAIN,
        [ASK_DRAIN]   = ASK_DO_DRAIN,
        [ASK_STOP]    = ASK_DO_STOP,
        [ASK_LOGS]    = ASK_DO_LOGS,
        [ASK_RELOAD]  = ASK_REFUSE_UNSUPPORTED,
        [ASK_UPGRADE] = ASK_REFUSE_UNSUPPORTED,
    },
    [MASTER_DRAINING] = {
        [ASK_TERM]    = ASK_DO_STOP,
        [ASK_DRAIN]   = ASK_DO_NOTHING,
        [ASK_STOP]    = ASK_DO_STOP,
        [ASK_LOGS]    = ASK_DO_LOGS,
        [ASK_RELOAD]  = ASK_REFUSE_ENDING,
        [ASK_UPGRADE] = ASK_REFUSE_ENDING,
    },
    [MASTER_STOPPING] = {
        [ASK_TERM]    = ASK_DO_NOTHING,
        [ASK_DRAIN]   = ASK_DO_NOTHING,
        [ASK_STOP]    = ASK_DO_NOTHING,
        [ASK_LOGS]    = ASK_DO_LOGS,
        [ASK_RELOAD]  = ASK_REFUSE_ENDING,
        [ASK_UPGRADE] = ASK_REFUSE_ENDING,
    },
};
/* clang-format on */

enum ask_action ask_decide(enum master_state state, enum ask ask)
{
    AN(state < MASTER_STATES && ask < ASKS);
    return ask_table[state][ask];
}

enum ask ask_of_signal(int signo)
{
    switch (signo) {
    case SIGTERM:
    case SIGINT:
        return ASK_TERM;
    case SIGQUIT:
        return ASK_STOP;
    case SIGHUP:
        return ASK_RELOAD;
    case SIGUSR1:
        return ASK_LOGS;
    case SIGUSR2:
        return ASK_UPGRADE;
    default:
        return ASKS;
    }
}

enum ask ask_of_command(enum control_command command, const char *argument)
{
    switch (command) {
    case CONTROL_drain:
        return ASK_DRAIN;
    case CONTROL_stop:
        return *argument == '\0' ? ASK_DRAIN : strcmp(argument, "now") == 0 ? ASK_STOP : ASKS;
    case CONTROL_reload:
        return ASK_RELOAD;
    default:
        return ASKS;
    }
}
