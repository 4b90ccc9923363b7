#include "ctl/figures.h"

#include <limits.h>
#include <stdio.h>

#include "ctl/format.h"
#include "ctl/protocol.h"
#include "shm/view.h"

enum ctl_exit figures_open(const struct ctl *ctl, struct segment **sp)
{
    char path[PATH_MAX], why[PATH_MAX + 128], since[FORMAT_MAX];
    struct view_server server;
    enum segment_error error;

    *sp = NULL;
    if (snprintf(path, sizeof(path), "%s/" CONTROL_SEGMENT, ctl->ctl_runtime_dir) >= (int)sizeof(path))
        return ctl_failed("%s: name too long", ctl->ctl_runtime_dir);
    *sp = segment_open(path, &error, why, sizeof(why));
    if (*sp == NULL && error == SEGMENT_ABSENT) {
        ctl_failed("the server is not running: %s", why);
        return CTL_NOT_RUNNING;
    }
    if (*sp == NULL)
        return error == SEGMENT_SYSTEM ? ctl_failed("%s", why) : ctl_failed("%s: %s", path, why);
    view_server(*sp, &server);
    if (!server.server_stale)
        return CTL_DONE;
    ctl_failed("the server is not running; these are its last figures, of %s",
               format_time(since, server.server_stale_ns));
    return CTL_NOT_RUNNING;
}

enum ctl_exit figures_print(const struct ctl *ctl, void (*print)(const struct segment *s))
{
    struct segment *s;
    enum ctl_exit rc = figures_open(ctl, &s);

    if (s != NULL) {
        print(s);
        segment_close(&s);
    }
    return rc;
}
