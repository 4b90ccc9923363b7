/* What people ask of the master, by signal or through the control socket, and what it does in each of its states. */
#ifndef VANILLA_MASTER_ASK_H
#define VANILLA_MASTER_ASK_H

#include "master/control.h"

enum master_state {
    MASTER_STARTING, /* not all workers are ready for the first time */
    MASTER_SERVING,
    MASTER_DRAINING, /* workers finish what is begun */
    MASTER_STOPPING, /* workers leave at once */
    MASTER_STATES
};

enum ask {
    ASK_TERM,    /* SIGTERM, SIGINT: drain, and the second time stop */
    ASK_DRAIN,   /* control: drain, stop */
    ASK_STOP,    /* SIGQUIT; control: stop now */
    ASK_LOGS,    /* SIGUSR1 */
    ASK_RELOAD,  /* SIGHUP; control: reload */
    ASK_UPGRADE, /* SIGUSR2 */
    ASKS
};

enum ask_action {
    ASK_DO_NOTHING, /* it is being done */
    ASK_DO_DRAIN,
    ASK_DO_STOP,
    ASK_DO_LOGS,
    ASK_REFUSE_ENDING,     /* the server is ending */
    ASK_REFUSE_UNSUPPORTED /* not in this version */
};

enum ask_action ask_decide(enum master_state state, enum ask ask);

/* What a signal asks for; ASKS: nothing. */
enum ask ask_of_signal(int signo);

/* What a command asks for; ASKS: it is not about this (ping, version), or its argument is not understood. */
enum ask ask_of_command(enum control_command command, const char *argument);

#endif
