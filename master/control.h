/*
 * The server's side of the control socket (ctl/protocol.h): a few clients at a time, each with two seconds to say its
 * line, none of which the master waits for.
 */
#ifndef VANILLA_MASTER_CONTROL_H
#define VANILLA_MASTER_CONTROL_H

#include <event2/event.h>
#include <stddef.h>
#include <sys/types.h>

#include "ctl/protocol.h"
#include "shm/assert.h"

#define CONTROL_CLIENTS_MAX 16u
#define CONTROL_TIMEOUT_S 2

enum control_command {
#define CONTROL(name, argument, meaning) CONTROL_##name,
    CONTROL_COMMANDS
#undef CONTROL
        CONTROL_UNKNOWN
};

struct control;
struct control_client;

/* Does one command, and sees to it that control_answer is called once for this client, now or later. */
typedef void control_do(void *context, struct control_client *client, enum control_command command,
                        const char *argument);

/* Listens on `path`, mode 0660 and of `group` (-1: as it comes).  Root, our own user and members of `group` are let in.
 * The caller owns the result; NULL and `why`. */
struct control *control_open(struct event_base *base, const char *path, gid_t group, control_do *handler, void *context,
                             char *why, size_t why_len) MUSTCHECK;

/* Closes it, its clients too, and removes the socket's file if it still is ours. */
void control_close(struct control **cp);

/* Sends the whole answer, lines with their ends, and lets the client go. */
void control_answer(struct control_client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What a line (without its end) says; *argument points into it, at a NUL that this writes when there is none.  The
 * command is CONTROL_UNKNOWN also for a command with an argument that it does not take. */
enum control_command control_parse(char *line, const char **argument);

#endif
