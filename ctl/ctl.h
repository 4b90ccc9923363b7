/* What all commands of vanillactl share: its options, its exit codes, the commands themselves. */
#ifndef VANILLA_CTL_CTL_H
#define VANILLA_CTL_CTL_H

#include <stdbool.h>

enum ctl_exit {
    CTL_DONE = 0,
    CTL_FAILED = 1, /* refused or failed; also a segment that cannot be understood, and output that cannot be written */
    CTL_USAGE = 2,
    CTL_NOT_RUNNING = 3 /* stale figures are still printed */
};

struct ctl {
    const char *ctl_runtime_dir;
    const char *ctl_command;
    const char *ctl_argument; /* of `set`; NULL: none */
    bool ctl_json, ctl_prometheus, ctl_now;
    double ctl_watch; /* seconds; 0: print once */
};

/* Prints "vanillactl: ..." to stderr and returns CTL_USAGE or CTL_FAILED. */
enum ctl_exit ctl_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum ctl_exit ctl_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Output is collected and written at the end, or by ctl_flush in between: one screen is one write, and the reason of a
 * failure is still known.  ctl_flush returns false when it could not be written (said on stderr, unless a pipe was
 * closed), so that there is nobody left to write for. */
void ctl_start(void);
bool ctl_flush(void);

/* A command writes to stdout and does not look whether that works. */
typedef enum ctl_exit ctl_command(const struct ctl *ctl);

ctl_command command_stats, command_top, command_workers, command_pools, command_routes, command_budget, command_allocs;
ctl_command command_control; /* ping, reload, drain, stop, set */
ctl_command command_version;

#endif
