#include "master/descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "conf/log.h"
#include "master/control.h"

unsigned long descriptors_of_worker(const struct conf *conf, unsigned workers)
{
    unsigned long n = DESCRIPTORS_RESERVE + conf->conf_listen_n + 2ul + conf->conf_connections;
    unsigned i;

    for (i = 0; i < conf->conf_pools_n; i++)
        n += conf_pool_share(&conf->conf_pools[i], 0, workers); /* the first worker's share is the largest */
    return n;
}

unsigned long descriptors_of_master(const struct conf *conf, unsigned workers)
{
    return DESCRIPTORS_RESERVE + CONTROL_CLIENTS_MAX + (conf->conf_listen_n + 3ul) * workers;
}

void descriptors_raise(const struct conf *conf, unsigned workers)
{
    unsigned long worker = descriptors_of_worker(conf, workers), master = descriptors_of_master(conf, workers);
    rlim_t need = worker > master ? worker : master;
    struct rlimit limit, more;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return;
    more.rlim_cur = need;
    more.rlim_max = limit.rlim_max > need ? limit.rlim_max : need; /* above the old one only for CAP_SYS_RESOURCE */
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_write(LOG_LEVEL_WARN, "RLIMIT_NOFILE: %s", strerror(errno));
    log_write(
        LOG_LEVEL_WARN,
        "the limit of open files is too low: %llu where %llu are needed (connections = %u, and %u workers); beyond "
        "it clients wait; raise LimitNOFILE= or ulimit -Hn, or lower `connections`",
        (unsigned long long)limit.rlim_cur, (unsigned long long)need, conf->conf_connections, workers);
}
