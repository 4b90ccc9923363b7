/* One question to the master's control socket (ctl/protocol.h). */
#ifndef VANILLA_CTL_CLIENT_H
#define VANILLA_CTL_CLIENT_H

#include <stddef.h>

#include "ctl/ctl.h"

#define CLIENT_TIMEOUT_MS 5000 /* for all of it */

enum client_result {
    CLIENT_OK,          /* answer: the lines after "ok" */
    CLIENT_REFUSED,     /* answer: the reason, and the lines after it */
    CLIENT_NOT_RUNNING, /* nobody listens; answer: why */
    CLIENT_FAILED       /* answer: why */
};

/* Sends `line` (without its LF) and takes the answer, NUL-terminated, cut off at answer_len - 1. */
enum client_result client_ask(const struct ctl *ctl, const char *line, char *answer, size_t answer_len);

#endif
