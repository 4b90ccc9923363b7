/* The terminal while a command redraws its screen: keys come at once and unseen, signals end it in good order. */
#ifndef VANILLA_CTL_TERMINAL_H
#define VANILLA_CTL_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

struct terminal {
    bool terminal_in, terminal_out; /* stdin is one and was changed; stdout is one */
    struct termios terminal_old;
};

/* Turns to a screen of its own, where stdout is a terminal; from here on SIGINT, SIGTERM and SIGHUP only end
 * terminal_wait. */
void terminal_set(struct terminal *t);
/* Waits; false when somebody wants to leave: q, Ctrl-C or a signal. */
bool terminal_wait(const struct terminal *t, unsigned ms);
/* Brings the old screen back. */
void terminal_reset(const struct terminal *t);

#endif
