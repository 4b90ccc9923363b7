/* vanillactl: what the server counts, and what it may be told. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "shm/version.h"

#define RUNTIME_DIR "/run/vanilla"
#define WATCH_MAX 86400.0

/* Options and arguments that a command takes. */
enum { TAKES_FORMAT = 1, TAKES_WATCH = 2, TAKES_NOW = 4, TAKES_ARGUMENT = 8 };

static const struct {
    const char *command_name, *command_synopsis, *command_meaning;
    ctl_command *command_run;
    unsigned command_takes;
} commands[] = {
    {"stats", "[--json|--prometheus] [--watch S]", "all figures", command_stats, TAKES_FORMAT | TAKES_WATCH},
    {"top", "", "rates per second, one screen, until q", command_top, 0},
    {"workers", "", "who runs where, and since when", command_workers, 0},
    {"pools", "", "connections to PostgreSQL and what they carry", command_pools, 0},
    {"routes", "", "requests, sheds, errors and times by route", command_routes, 0},
    {"budget", "", "memory reserved, and what raising max_inflight costs", command_budget, 0},
    {"allocs", "", "calls to the allocator per request", command_allocs, 0},
    {"ping", "", "whether the server answers", command_control, 0},
    {"reload", "", "not supported by this version: restart the server", command_control, 0},
    {"drain", "", "stop accepting, finish what is begun, end", command_control, 0},
    {"stop", "[--now]", "as drain; with --now: end at once", command_control, TAKES_NOW},
    {"set", "POOL.max_inflight=N", "change a pool's max_inflight while running", command_control, TAKES_ARGUMENT},
    {"version", "", "this program's version and the server's", command_version, 0},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static enum ctl_exit ctl_options(struct ctl *ctl, int argc, char **argv);
static enum ctl_exit ctl_run(struct ctl *ctl, int argc, char **argv, unsigned given);
static bool ctl_seconds(const char *text, double *seconds);
static void ctl_help(void);

int main(int argc, char **argv)
{
    struct ctl ctl = {.ctl_runtime_dir = RUNTIME_DIR};
    enum ctl_exit rc;

    ctl_start();
    rc = ctl_options(&ctl, argc, argv);
    if (!ctl_flush())
        rc = CTL_FAILED;
    return (int)rc;
}

/* Options may stand before and after the command. */
static enum ctl_exit ctl_options(struct ctl *ctl, int argc, char **argv)
{
    static const struct option options[] = {{"runtime-dir", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"prometheus", no_argument, NULL, 'p'},
                                            {"watch", required_argument, NULL, 'w'},
                                            {"now", no_argument, NULL, 'n'},
                                            {NULL, 0, NULL, 0}};
    unsigned given = 0;
    int c;

    while ((c = getopt_long(argc, argv, "r:hV", options, NULL)) != -1) {
        switch (c) {
        case 'r':
            ctl->ctl_runtime_dir = optarg;
            break;
        case 'h':
            ctl_help();
            return CTL_DONE;
        case 'V':
            printf("vanillactl %s\n", VANILLA_VERSION);
            return CTL_DONE;
        case 'j':
            ctl->ctl_json = true;
            given |= TAKES_FORMAT;
            break;
        case 'p':
            ctl->ctl_prometheus = true;
            given |= TAKES_FORMAT;
            break;
        case 'w':
            if (!ctl_seconds(optarg, &ctl->ctl_watch))
                return ctl_usage("--watch %s: seconds, from 0.1 to %.0f", optarg, WATCH_MAX);
            given |= TAKES_WATCH;
            break;
        case 'n':
            ctl->ctl_now = true;
            given |= TAKES_NOW;
            break;
        default: /* getopt has said what is wrong */
            return ctl_usage("vanillactl -h lists commands and options");
        }
    }
    return ctl_run(ctl, argc - optind, argv + optind, given);
}

static enum ctl_exit ctl_run(struct ctl *ctl, int argc, char **argv, unsigned given)
{
    unsigned i, takes;
    int arguments;

    if (argc == 0)
        return ctl_usage("a command is needed; vanillactl -h lists them");
    for (i = 0; i < COMMANDS; i++)
        if (strcmp(argv[0], commands[i].command_name) == 0)
            break;
    if (i == COMMANDS)
        return ctl_usage("%s: no such command; vanillactl -h lists them", argv[0]);
    takes = commands[i].command_takes;
    arguments = takes & TAKES_ARGUMENT ? 1 : 0;
    if ((given & ~takes) != 0 || argc - 1 != arguments)
        return ctl_usage("usage: vanillactl [-r RUNTIME_DIR] %s%s%s", commands[i].command_name,
                         *commands[i].command_synopsis != '\0' ? " " : "", commands[i].command_synopsis);
    if (ctl->ctl_json && ctl->ctl_prometheus)
        return ctl_usage("--json and --prometheus: one of them");
    ctl->ctl_command = argv[0];
    ctl->ctl_argument = arguments > 0 ? argv[1] : NULL;
    return commands[i].command_run(ctl);
}

static bool ctl_seconds(const char *text, double *seconds)
{
    char *end;

    if (strspn(text, "0123456789.") != strlen(text)) /* strtod would take "inf", "0x1p3", " 1" */
        return false;
    *seconds = strtod(text, &end);
    return end != text && *end == '\0' && *seconds >= 0.1 && *seconds <= WATCH_MAX;
}

static void ctl_help(void)
{
    unsigned i;
    int n;

    printf("usage: vanillactl [-r RUNTIME_DIR] COMMAND\n\n");
    for (i = 0; i < COMMANDS; i++) {
        n = printf("  %s%s%s", commands[i].command_name, *commands[i].command_synopsis != '\0' ? " " : "",
                   commands[i].command_synopsis);
        printf("%*s%s\n", n < 46 ? 46 - n : 1, "", commands[i].command_meaning);
    }
    printf("\n  -r, --runtime-dir RUNTIME_DIR   where the server's control socket and figures are (" RUNTIME_DIR ")\n"
           "  -h, --help                      this text\n"
           "  -V, --version                   the version\n\n"
           "Exit status: 0 done, 1 refused or failed, 2 bad usage, 3 server not running.\n");
}
