#include "master/descriptors.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "conf/log.h"
#include "master/control.h"

#define POOL_DESCRIPTORS 2       /* that each pool wakes the loop with */
#define CONNECTION_DESCRIPTORS 2 /* of each connection to PostgreSQL: a cancel has one of its own */

static unsigned descriptors_others(const struct conf *conf, unsigned workers);
static unsigned at_most(unsigned long n, unsigned most);

unsigned long descriptors_of_worker(const struct conf *conf, unsigned workers)
{
    return descriptors_others(conf, workers) + (unsigned long)conf->conf_connections + WORKER_SPARE +
           (conf->conf_admin.listen_address != NULL ? WORKER_ADMIN : 0);
}

/* Of a worker, without clients and the admin listener's connections. */
static unsigned descriptors_others(const struct conf *conf, unsigned workers)
{
    unsigned n = DESCRIPTORS_RESERVE + conf->conf_listen_n + 1, i; /* 1: the admin listener */

    for (i = 0; i < conf->conf_pools_n; i++) /* the first worker's share is the largest */
        n += POOL_DESCRIPTORS + CONNECTION_DESCRIPTORS * conf_pool_share(&conf->conf_pools[i], 0, workers);
    return n;
}

unsigned long descriptors_of_master(const struct conf *conf, unsigned workers)
{
    return DESCRIPTORS_RESERVE + CONTROL_CLIENTS_MAX + (conf->conf_listen_n + 3ul) * workers;
}

struct worker_room descriptors_room(const struct conf *conf, unsigned workers, unsigned long limit)
{
    unsigned others = descriptors_others(conf, workers), admin = conf->conf_admin.listen_address != NULL;
    unsigned long left = limit > others ? limit - others : 0;
    struct worker_room room = {.room_others = others, .room_spare = at_most(left / 8, WORKER_SPARE)};
    unsigned long taken = room.room_spare + admin * at_most(left / 4, WORKER_ADMIN);

    room.room_connections = at_most(left > taken ? left - taken : 0, conf->conf_connections);
    taken = room.room_spare + room.room_connections;
    room.room_admin = admin * at_most(left > taken ? left - taken : 0, WORKER_ADMIN);
    return room;
}

/* But one at least: with less there is no server. */
static unsigned at_most(unsigned long n, unsigned most)
{
    return n == 0 ? 1 : n < most ? (unsigned)n : most;
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
        "the limit of open files is too low: %llu where %llu are needed (connections = %u, and %u workers): %u client "
        "connections fit into a worker, and more are shed; raise LimitNOFILE= or ulimit -Hn, or lower `connections`",
        (unsigned long long)limit.rlim_cur, (unsigned long long)need, conf->conf_connections, workers,
        descriptors_room(conf, workers, descriptors_limit()).room_connections);
}

unsigned long descriptors_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (unsigned long)limit.rlim_cur : ULONG_MAX;
}
