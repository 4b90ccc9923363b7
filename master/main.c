/* vanilla's command line. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "master/master.h"
#include "master/signals.h"
#include "shm/version.h"

#define MAIN_CONF "/etc/vanilla/vanilla.conf"
#define MAIN_USAGE_STATUS 2

static void main_usage(FILE *out);
static void main_standard_streams(void);

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    const char **overrides = calloc((size_t)argc + 1, sizeof *overrides), *file = MAIN_CONF;
    unsigned overrides_n = 0;
    bool check = false;
    struct conf *conf;
    int option, status;

    main_standard_streams();
    signals_block();
    if (overrides == NULL) {
        perror("vanilla");
        return EXIT_FAILURE;
    }
    while ((option = getopt_long(argc, argv, "c:o:tVh", long_options, NULL)) != -1) {
        switch (option) {
        case 'c':
            file = optarg;
            break;
        case 'o':
            overrides[overrides_n++] = optarg;
            break;
        case 't':
            check = true;
            break;
        case 'V':
            printf("vanilla %s\n", VANILLA_VERSION);
            free(overrides);
            return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
        case 'h':
            main_usage(stdout);
            free(overrides);
            return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
        default:
            main_usage(stderr);
            free(overrides);
            return MAIN_USAGE_STATUS;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "vanilla: \"%s\": not an option; the file goes with -c\n", argv[optind]);
        main_usage(stderr);
        free(overrides);
        return MAIN_USAGE_STATUS;
    }

    conf = conf_read(file, overrides, overrides_n, stderr);
    if (conf == NULL) {
        status = EXIT_FAILURE;
    } else if (check) {
        fprintf(stderr, "%s: ok, %u route%s, %u pool%s\n", file, conf->conf_routes_n,
                conf->conf_routes_n == 1 ? "" : "s", conf->conf_pools_n, conf->conf_pools_n == 1 ? "" : "s");
        status = EXIT_SUCCESS;
    } else {
        status = master_run(conf);
    }
    if (conf != NULL)
        conf_free(&conf);
    free(overrides);
    return status;
}

static void main_usage(FILE *out)
{
    fprintf(out,
            "usage: vanilla [-c FILE] [-o KEY=VALUE]...   run, in the foreground (default: -c %s)\n"
            "       vanilla -t [-c FILE] [-o KEY=VALUE]...   check the file and exit\n"
            "       vanilla -V | -h   version, this text\n"
            "  -o overrides one setting: -o limits.headers=50 -o 'pools.[0].max_inflight=16'\n",
            MAIN_CONF);
}

/* Were one of 0, 1, 2 closed, the next socket would get its number, and messages would go there. */
static void main_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}
