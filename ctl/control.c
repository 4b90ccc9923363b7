/* The commands that are a question to the master: ping, reload, drain, stop, set, version. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/protocol.h"
#include "shm/version.h"

#define CONTROL_ANSWER_MAX 65536
#define CONTROL_INFLIGHT_MAX 1024u /* conf/options.def */

static bool control_setting(const char *argument);

enum ctl_exit command_control(const struct ctl *ctl)
{
    static char answer[CONTROL_ANSWER_MAX];
    char line[CONTROL_LINE_MAX];
    const char *argument = ctl->ctl_now ? "now" : ctl->ctl_argument;

    if (ctl->ctl_argument != NULL && !control_setting(ctl->ctl_argument))
        return ctl_usage("%s: POOL.max_inflight=N is what can be set, N from 1 to %u", ctl->ctl_argument,
                         CONTROL_INFLIGHT_MAX);
    if (snprintf(line, sizeof(line), "%s%s%s", ctl->ctl_command, argument != NULL ? " " : "",
                 argument != NULL ? argument : "") >= (int)sizeof(line) - 1)
        return ctl_usage("the argument is too long");
    switch (client_ask(ctl, line, answer, sizeof(answer))) {
    case CLIENT_OK:
        puts(answer[0] != '\0' ? answer : "ok");
        return CTL_DONE;
    case CLIENT_REFUSED:
        return ctl_failed("refused: %s", answer);
    case CLIENT_NOT_RUNNING:
        ctl_failed("the server is not running: %s", answer);
        return CTL_NOT_RUNNING;
    case CLIENT_FAILED:
        break;
    }
    return ctl_failed("%s", answer);
}

/* POOL.max_inflight=N, N in its range; whether the pool exists is the server's to say. */
static bool control_setting(const char *argument)
{
    static const char key[] = ".max_inflight=";
    const char *at = strstr(argument, key), *p;

    if (at == NULL || at == argument)
        return false;
    for (p = argument; p < at; p++) /* one line, one argument */
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    p = at + sizeof(key) - 1;
    return strspn(p, "0123456789") == strlen(p) && strlen(p) <= 9 && strtoul(p, NULL, 10) > 0 &&
           strtoul(p, NULL, 10) <= CONTROL_INFLIGHT_MAX;
}

enum ctl_exit command_version(const struct ctl *ctl)
{
    char answer[1024];

    printf("vanillactl %s\n", VANILLA_VERSION);
    switch (client_ask(ctl, "version", answer, sizeof(answer))) {
    case CLIENT_OK:
        puts(answer); /* "vanilla VERSION" */
        return CTL_DONE;
    case CLIENT_NOT_RUNNING:
        puts("server not running");
        return CTL_DONE;
    case CLIENT_REFUSED:
        return ctl_failed("refused: %s", answer);
    case CLIENT_FAILED:
        break;
    }
    return ctl_failed("%s", answer);
}
