#include "master/master.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/log.h"
#include "master/ask.h"
#include "master/crew.h"
#include "master/descriptors.h"
#include "master/notify.h"
#include "master/passed.h"
#include "master/runtime.h"
#include "master/signals.h"
#include "shm/version.h"
#include "worker/worker.h"

#define MASTER_MAGIC 0x3a57e201u
#define MASTER_WHY_MAX 1024

struct master {
    unsigned magic;
    const struct conf *master_conf;
    enum master_state master_state;
    int master_status; /* of exit */
    struct cpus master_cpus;
    struct privileges master_privileges;
    struct passed master_passed;
    struct notify master_notify;
    bool master_made_dir;               /* the runtime directory was not there before */
    struct listeners *master_listeners; /* until the crew has them */
    struct segment *master_segment;
    struct event_base *master_base;
    struct signals *master_signals;
    struct control *master_control;
    struct event *master_watchdog;
    struct crew *master_crew;
};

static int master_start(struct master *m, char *why, size_t why_len);
static int master_loop_start(struct master *m, char *why, size_t why_len);
static int master_crew_start(struct master *m, unsigned workers, char *why, size_t why_len);
static void master_end(struct master *m);
static int master_refuse(char *why, size_t why_len, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void master_on_ready(void *context, unsigned workers);
static void master_on_over(void *context, bool broken);
static void master_on_signal(void *context, int signo);
static void master_on_command(void *context, struct control_client *client, enum control_command command,
                              const char *argument);
static void master_set(struct master *m, struct control_client *client, const char *argument);
static void master_on_watchdog(evutil_socket_t fd, short what, void *arg);
static const char *master_ask(struct master *m, enum ask ask);
static void master_reap(struct master *m);
static void master_drain(struct master *m);
static void master_stop(struct master *m);
static void master_logs(struct master *m);
static void master_give_logs(const struct master *m);
static const char *master_log_name(int opened);
static const char *master_log_path(const struct master *m, int opened);

int master_run(const struct conf *conf)
{
    static struct master master; /* static: in a forked worker it still is what the leak check sees */
    struct master *m = &master;
    char why[MASTER_WHY_MAX] = "";

    m->magic = MASTER_MAGIC;
    m->master_conf = conf;
    m->master_notify.notify_fd = -1;
    log_speaker("master");
    if (master_start(m, why, sizeof why) == 0) {
        event_base_dispatch(m->master_base);
        if (m->master_status == 0)
            log_write(LOG_LEVEL_INFO, "ended");
    } else {
        m->master_status = EXIT_FAILURE;
        fprintf(stderr, "%s\n", why);
        if (log_fd() >= 0) /* else it would be said twice */
            log_write(LOG_LEVEL_ERROR, "not started: %s", why);
    }
    master_end(m);
    if (*why != '\0' && m->master_made_dir)
        rmdir(conf->conf_runtime_dir); /* as it was, unless there is something in it */
    return m->master_status;
}

/* Everything that may be refused comes first, and leaves what it finds as it was. */
static int master_start(struct master *m, char *why, size_t why_len)
{
    const struct conf *conf = m->master_conf;
    unsigned workers;
    int opened = log_open(&conf->conf_log);

    if (opened != 0)
        return master_refuse(why, why_len, "%s: %s %s: %s", conf->conf_file, master_log_name(opened),
                             master_log_path(m, opened), strerror(errno));
    notify_open(&m->master_notify);
    passed_read(&m->master_passed);
    if (cpus_read(&m->master_cpus, "") != 0)
        return master_refuse(why, why_len, "%s: the CPUs that may be used: %s", conf->conf_file, strerror(errno));
    workers = conf->conf_workers > 0 ? conf->conf_workers : cpus_usable(&m->master_cpus);
    if (runtime_check(conf, why, why_len) != 0 || privileges_find(&m->master_privileges, conf, why, why_len) != 0)
        return -1;
    descriptors_raise(conf, workers);
    /* Before the sockets: one of them may be in it. */
    if (runtime_make(conf, &m->master_made_dir, why, why_len) != 0)
        return -1;
    m->master_listeners = listeners_open(conf, workers, &m->master_passed, why, why_len);
    if (m->master_listeners == NULL)
        return -1;
    passed_close(&m->master_passed);
    if (master_loop_start(m, why, why_len) != 0)
        return -1;
    m->master_segment = runtime_segment(conf, workers, m->master_privileges.privileges_control, why, why_len);
    if (m->master_segment == NULL)
        return -1;
    master_give_logs(m);
    return master_crew_start(m, workers, why, why_len);
}

static int master_loop_start(struct master *m, char *why, size_t why_len)
{
    const struct timeval watchdog = {.tv_sec = m->master_notify.notify_watchdog_ms / 1000,
                                     .tv_usec = (suseconds_t)(m->master_notify.notify_watchdog_ms % 1000) * 1000};
    char path[PATH_MAX], reason[256];

    m->master_base = event_base_new();
    if (m->master_base == NULL)
        return master_refuse(why, why_len, "the event loop: %s", strerror(errno));
    m->master_signals = signals_open(m->master_base, master_on_signal, m);
    if (m->master_signals == NULL)
        return master_refuse(why, why_len, "signals: %s", strerror(errno));
    runtime_control_path(m->master_conf, path);
    m->master_control = control_open(m->master_base, path, m->master_privileges.privileges_control, master_on_command,
                                     m, reason, sizeof reason);
    if (m->master_control == NULL)
        return master_refuse(why, why_len, "%s: runtime_dir: %s: %s", m->master_conf->conf_file, path, reason);
    if (m->master_notify.notify_watchdog_ms > 0) {
        m->master_watchdog = event_new(m->master_base, -1, EV_PERSIST, master_on_watchdog, m);
        if (m->master_watchdog == NULL || event_add(m->master_watchdog, &watchdog) != 0)
            return master_refuse(why, why_len, "the watchdog's timer: %s", strerror(ENOMEM));
    }
    return 0;
}

static int master_crew_start(struct master *m, unsigned workers, char *why, size_t why_len)
{
    struct crew_plan plan = {.crew_base = m->master_base,
                             .crew_conf = m->master_conf,
                             .crew_segment = m->master_segment,
                             .crew_listeners = m->master_listeners,
                             .crew_privileges = &m->master_privileges,
                             .crew_cpus = &m->master_cpus,
                             .crew_workers = workers,
                             .crew_generation = 1,
                             .crew_ready = master_on_ready,
                             .crew_over = master_on_over,
                             .crew_context = m};

    log_write(LOG_LEVEL_INFO, "vanilla %s: workers: %u, CPUs: %u%s", VANILLA_VERSION, workers, m->master_cpus.cpus_n,
              m->master_cpus.cpus_quota > 0 ? ", within a CPU quota" : "");
    m->master_crew = crew_new(&plan);
    if (m->master_crew == NULL)
        return master_refuse(why, why_len, "%s", strerror(ENOMEM));
    m->master_listeners = NULL;
    segment_set_generation(m->master_segment, plan.crew_generation);
    crew_start(m->master_crew);
    return 0;
}

static void master_end(struct master *m)
{
    if (m->master_crew != NULL)
        crew_free(&m->master_crew);
    if (m->master_listeners != NULL)
        listeners_close(&m->master_listeners);
    if (m->master_segment != NULL) {
        segment_mark_stale(m->master_segment);
        segment_close(&m->master_segment);
    }
    if (m->master_control != NULL)
        control_close(&m->master_control);
    if (m->master_watchdog != NULL)
        event_free(m->master_watchdog);
    if (m->master_signals != NULL)
        signals_close(&m->master_signals);
    if (m->master_base != NULL)
        event_base_free(m->master_base);
    notify_close(&m->master_notify);
    cpus_free(&m->master_cpus);
}

static int master_refuse(char *why, size_t why_len, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(why, why_len, format, ap);
    va_end(ap);
    return -1;
}

static void master_on_ready(void *context, unsigned workers)
{
    struct master *m = context;
    char where[512];

    CHECK_OBJ(m, MASTER_MAGIC);
    if (m->master_state != MASTER_STARTING)
        return;
    m->master_state = MASTER_SERVING;
    listeners_describe(m->master_crew->crew_plan.crew_listeners, where, sizeof where);
    log_write(LOG_LEVEL_INFO, "ready: %u worker%s, listening on %s", workers, workers == 1 ? "" : "s", where);
    notify_send(&m->master_notify, "READY=1\nSTATUS=%u worker%s, listening on %s", workers, workers == 1 ? "" : "s",
                where);
}

static void master_on_over(void *context, bool broken)
{
    struct master *m = context;

    CHECK_OBJ(m, MASTER_MAGIC);
    if (broken) {
        log_write(LOG_LEVEL_ERROR, "no worker can run: the server ends");
        notify_send(&m->master_notify, "STOPPING=1\nSTATUS=no worker can run");
        m->master_status = WORKER_EXIT_FATAL;
    }
    event_base_loopbreak(m->master_base);
}

static void master_on_signal(void *context, int signo)
{
    struct master *m = context;
    const char *refusal;

    CHECK_OBJ(m, MASTER_MAGIC);
    if (signo == SIGCHLD) {
        master_reap(m);
        return;
    }
    log_write(LOG_LEVEL_INFO, "SIG%s", sigabbrev_np(signo));
    refusal = master_ask(m, ask_of_signal(signo));
    if (refusal != NULL)
        log_write(LOG_LEVEL_WARN, "SIG%s refused: %s", sigabbrev_np(signo), refusal);
}

static void master_on_command(void *context, struct control_client *client, enum control_command command,
                              const char *argument)
{
    struct master *m = context;
    enum ask ask = ask_of_command(command, argument);
    const char *refusal;

    CHECK_OBJ(m, MASTER_MAGIC);
    switch (command) {
    case CONTROL_ping:
        control_answer(client, "ok\n");
        return;
    case CONTROL_version:
        control_answer(client, "ok\nvanilla %s\n", VANILLA_VERSION);
        return;
    case CONTROL_set:
        master_set(m, client, argument);
        return;
    default:
        break;
    }
    if (ask == ASKS) {
        control_answer(client, "refused: \"%.64s\" is not an argument of this command\n", argument);
        return;
    }
    log_write(LOG_LEVEL_INFO, "control socket: %s",
              command == CONTROL_reload ? "reload"
              : ask == ASK_STOP         ? "stop now"
                                        : "drain");
    refusal = master_ask(m, ask);
    if (refusal != NULL)
        control_answer(client, "refused: %s\n", refusal);
    else
        control_answer(client, "ok\n");
}

/* POOL.max_inflight=N */
static void master_set(struct master *m, struct control_client *client, const char *argument)
{
    static const char key[] = ".max_inflight=";
    const struct conf *conf = m->master_conf;
    const char *at = strstr(argument, key), *digits = at != NULL ? at + sizeof key - 1 : "";
    unsigned long n =
        strlen(digits) <= 4 && strspn(digits, "0123456789") == strlen(digits) ? strtoul(digits, NULL, 10) : 0;
    unsigned i;

    if (at == NULL || n == 0 || n > WORKER_INFLIGHT_MAX) {
        control_answer(client, "refused: \"%.128s\": POOL.max_inflight=N is what can be set, N from 1 to %u\n",
                       argument, WORKER_INFLIGHT_MAX);
        return;
    }
    for (i = 0; i < conf->conf_pools_n; i++)
        if (strlen(conf->conf_pools[i].pool_name) == (size_t)(at - argument) &&
            memcmp(conf->conf_pools[i].pool_name, argument, (size_t)(at - argument)) == 0)
            break;
    if (i == conf->conf_pools_n) {
        control_answer(client, "refused: there is no pool \"%.*s\"\n", (int)(at - argument > 64 ? 64 : at - argument),
                       argument);
        return;
    }
    if (m->master_state == MASTER_DRAINING || m->master_state == MASTER_STOPPING) {
        control_answer(client, "refused: the server is ending\n");
        return;
    }
    log_write(LOG_LEVEL_INFO, "control socket: %s", argument);
    segment_set_max_inflight(m->master_segment, i, (unsigned)n);
    control_answer(client, "ok\n");
}

static void master_on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    struct master *m = arg;

    (void)fd;
    (void)what;
    CHECK_OBJ(m, MASTER_MAGIC);
    notify_send(&m->master_notify, "WATCHDOG=1");
}

/* NULL: done, or being done; else why not. */
static const char *master_ask(struct master *m, enum ask ask)
{
    switch (ask_decide(m->master_state, ask)) {
    case ASK_DO_NOTHING:
        return NULL;
    case ASK_DO_DRAIN:
        master_drain(m);
        return NULL;
    case ASK_DO_STOP:
        master_stop(m);
        return NULL;
    case ASK_DO_LOGS:
        master_logs(m);
        return NULL;
    case ASK_REFUSE_ENDING:
        return "the server is ending";
    case ASK_REFUSE_UNSUPPORTED:
        return ask == ASK_RELOAD ? "not supported by this version: a restart applies changes"
                                 : "not supported by this version";
    }
    return NULL;
}

static void master_reap(struct master *m)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (!crew_reap(m->master_crew, pid, status)) /* as process 1 we inherit others' orphans */
            log_write(LOG_LEVEL_DEBUG, "reaped pid %ld, which is not a worker", (long)pid);
}

static void master_drain(struct master *m)
{
    m->master_state = MASTER_DRAINING;
    log_write(LOG_LEVEL_INFO, "draining, for at most %u ms", m->master_conf->conf_timeouts.timeout_drain_ms);
    notify_send(&m->master_notify, "STOPPING=1\nSTATUS=draining");
    crew_drain(m->master_crew);
}

static void master_stop(struct master *m)
{
    m->master_state = MASTER_STOPPING;
    log_write(LOG_LEVEL_INFO, "stopping now");
    notify_send(&m->master_notify, "STOPPING=1\nSTATUS=stopping");
    crew_stop(m->master_crew);
}

/* The master opens them first: it may create files where the workers' user may not. */
static void master_logs(struct master *m)
{
    int opened = log_reopen();

    if (opened != 0)
        log_write(LOG_LEVEL_ERROR, "%s %s cannot be opened again, the old one stays in use: %s",
                  master_log_name(opened), master_log_path(m, opened), strerror(errno));
    master_give_logs(m);
    crew_command(m->master_crew, WORKER_LOGS);
}

/* The workers must be able to open both files again under their own user. */
static void master_give_logs(const struct master *m)
{
    privileges_give(&m->master_privileges, log_fd());
    privileges_give(&m->master_privileges, log_access_fd());
}

/* Which of the two log_open or log_reopen could not open. */
static const char *master_log_name(int opened)
{
    return opened == -1 ? "log.file" : "log.access";
}

static const char *master_log_path(const struct master *m, int opened)
{
    return opened == -1 ? m->master_conf->conf_log.log_file : m->master_conf->conf_log.log_access;
}
