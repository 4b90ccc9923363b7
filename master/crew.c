#include "master/crew.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conf/log.h"
#include "master/spawn.h"
#include "worker/worker.h"

static void crew_all(struct crew *c, enum slot_event event);
static void crew_tell(struct crew *c);
static void slot_happens(struct slot *s, enum slot_event event);
static void slot_spawn(struct slot *s, bool again);
static void slot_replace(struct slot *s);
static void slot_give_up(struct slot *s);
static void slot_bury(struct slot *s);
static void slot_deadline(struct slot *s, char command, unsigned ms);
static void slot_kill(struct slot *s);
static void slot_timer_set(struct slot *s, unsigned ms);
static void slot_send(struct slot *s, char command);
static void slot_ended(struct slot *s);
static void slot_on_command(evutil_socket_t fd, short what, void *arg);
static void slot_on_timer(evutil_socket_t fd, short what, void *arg);
static uint64_t slot_uptime_ms(const struct slot *s);
static uint64_t crew_now_ms(void);

struct crew *crew_new(const struct crew_plan *plan)
{
    struct crew *c = calloc(1, sizeof *c);
    unsigned i;

    if (c == NULL)
        return NULL;
    c->magic = CREW_MAGIC;
    c->crew_plan = *plan;
    c->crew_slots = calloc(plan->crew_workers, sizeof *c->crew_slots);
    if (conf_cache_bytes(plan->crew_conf) > 0)
        c->crew_cache = cache_new(plan->crew_workers, conf_cache_bytes(plan->crew_conf));
    if (c->crew_slots == NULL || (conf_cache_bytes(plan->crew_conf) > 0 && c->crew_cache == NULL)) {
        cache_free(&c->crew_cache);
        free(c->crew_slots);
        free(c);
        return NULL;
    }
    for (i = 0; i < plan->crew_workers; i++) {
        struct slot *s = &c->crew_slots[i];

        s->slot_crew = c;
        s->slot_number = i;
        s->slot_command_fd = -1;
        s->slot_command = event_new(plan->crew_base, -1, 0, slot_on_command, s);
        s->slot_timer = evtimer_new(plan->crew_base, slot_on_timer, s);
        if (s->slot_command == NULL || s->slot_timer == NULL) {
            c->crew_plan.crew_workers = i + 1;
            c->crew_plan.crew_listeners = NULL; /* stay the caller's */
            crew_free(&c);
            return NULL;
        }
    }
    return c;
}

void crew_free(struct crew **cp)
{
    struct crew *c = *cp;
    unsigned i;

    CHECK_OBJ(c, CREW_MAGIC);
    *cp = NULL;
    for (i = 0; i < c->crew_plan.crew_workers; i++) {
        struct slot *s = &c->crew_slots[i];

        if (supervise_alive(s->slot_state)) {
            AN(s->slot_pid > 0); /* 0 and -1 would mean many others */
            kill(s->slot_pid, SIGKILL);
            waitpid(s->slot_pid, NULL, 0);
        }
        if (s->slot_command != NULL)
            event_free(s->slot_command);
        if (s->slot_timer != NULL)
            event_free(s->slot_timer);
        if (s->slot_command_fd >= 0)
            close(s->slot_command_fd);
    }
    if (c->crew_plan.crew_listeners != NULL)
        listeners_close(&c->crew_plan.crew_listeners);
    cache_free(&c->crew_cache);
    free(c->crew_slots);
    c->magic = 0;
    free(c);
}

void crew_start(struct crew *c)
{
    CHECK_OBJ(c, CREW_MAGIC);
    crew_all(c, SLOT_START);
}

/* The master's copies go first: while one is open the kernel would go on to queue connections. */
void crew_drain(struct crew *c)
{
    CHECK_OBJ(c, CREW_MAGIC);
    if (c->crew_plan.crew_listeners != NULL)
        listeners_close(&c->crew_plan.crew_listeners);
    crew_all(c, SLOT_DRAIN);
}

void crew_stop(struct crew *c)
{
    CHECK_OBJ(c, CREW_MAGIC);
    if (c->crew_plan.crew_listeners != NULL)
        listeners_close(&c->crew_plan.crew_listeners);
    crew_all(c, SLOT_STOP);
}

void crew_command(struct crew *c, char command)
{
    unsigned i;

    CHECK_OBJ(c, CREW_MAGIC);
    for (i = 0; i < c->crew_plan.crew_workers; i++)
        slot_send(&c->crew_slots[i], command);
}

bool crew_reap(struct crew *c, pid_t pid, int status)
{
    unsigned i;

    CHECK_OBJ(c, CREW_MAGIC);
    for (i = 0; i < c->crew_plan.crew_workers; i++) {
        struct slot *s = &c->crew_slots[i];

        if (!supervise_alive(s->slot_state) || s->slot_pid != pid)
            continue;
        s->slot_status = status;
        slot_ended(s);
        slot_happens(s, WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_FATAL ? SLOT_FATAL : SLOT_DIED);
        return true;
    }
    return false;
}

static void crew_all(struct crew *c, enum slot_event event)
{
    unsigned i;

    for (i = 0; i < c->crew_plan.crew_workers; i++)
        slot_happens(&c->crew_slots[i], event);
}

/* Tells the master, once each, that the crew is ready, and that it is over. */
static void crew_tell(struct crew *c)
{
    unsigned ready = 0, broken = 0, over = 0, i, n = c->crew_plan.crew_workers;

    for (i = 0; i < n; i++) {
        ready += c->crew_slots[i].slot_state == SLOT_READY;
        broken += c->crew_slots[i].slot_state == SLOT_BROKEN;
        over += supervise_over(c->crew_slots[i].slot_state);
    }
    if (!c->crew_told_ready && ready > 0 && ready + broken == n) {
        c->crew_told_ready = true;
        c->crew_plan.crew_ready(c->crew_plan.crew_context, ready);
    }
    if (!c->crew_told_over && over == n) {
        c->crew_told_over = true;
        c->crew_plan.crew_over(c->crew_plan.crew_context, broken == n);
    }
}

/* The one place where a slot changes its state. */
static void slot_happens(struct slot *s, enum slot_event event)
{
    struct slot_step step = supervise_step(s->slot_state, event);
    bool again = s->slot_state == SLOT_WAITING;

    AN(step.step_action != SLOT_NEVER);
    s->slot_state = step.step_next;
    switch (step.step_action) {
    case SLOT_SPAWN:
        slot_spawn(s, again);
        break;
    case SLOT_REPLACE:
        slot_replace(s);
        break;
    case SLOT_GIVE_UP:
        slot_give_up(s);
        break;
    case SLOT_BURY:
        slot_bury(s);
        break;
    case SLOT_SAY_DRAIN:
        slot_deadline(s, WORKER_DRAIN,
                      s->slot_crew->crew_plan.crew_conf->conf_timeouts.timeout_drain_ms + CREW_DRAIN_SLACK_MS);
        break;
    case SLOT_SAY_STOP:
        slot_deadline(s, WORKER_STOP, CREW_STOP_MS);
        break;
    case SLOT_KILL:
        slot_kill(s);
        break;
    case SLOT_CANCEL:
        evtimer_del(s->slot_timer);
        break;
    case SLOT_WELCOME:
        log_write(LOG_LEVEL_DEBUG, "worker %u (pid %ld) is ready", s->slot_number, (long)s->slot_pid);
        break;
    case SLOT_NOTHING:
    case SLOT_NEVER:
        break;
    }
    crew_tell(s->slot_crew);
}

static void slot_spawn(struct slot *s, bool again)
{
    const struct crew_plan *p = &s->slot_crew->crew_plan;
    struct spawn_order order = {.order_conf = p->crew_conf,
                                .order_segment = p->crew_segment,
                                .order_cache = s->slot_crew->crew_cache,
                                .order_listeners = p->crew_listeners,
                                .order_privileges = p->crew_privileges,
                                .order_slot = s->slot_number,
                                .order_workers = p->crew_workers,
                                .order_cpu = cpus_of(p->crew_cpus, s->slot_number),
                                .order_generation = p->crew_generation};

    s->slot_started_ms = crew_now_ms();
    s->slot_pid = spawn_worker(&order, &s->slot_command_fd);
    if (s->slot_pid < 0) {
        log_write(LOG_LEVEL_ERROR, "worker %u cannot be started: %s", s->slot_number, strerror(errno));
        s->slot_command_fd = -1;
        slot_happens(s, SLOT_DIED);
        return;
    }
    if (again)
        segment_master_add(p->crew_segment, STAT_master_restarts, 1);
    AZ(event_assign(s->slot_command, p->crew_base, s->slot_command_fd, EV_READ | EV_PERSIST, slot_on_command, s));
    AZ(event_add(s->slot_command, NULL));
}

static void slot_replace(struct slot *s)
{
    uint64_t uptime_ms = slot_uptime_ms(s);
    unsigned ms = backoff_next(&s->slot_backoff, uptime_ms);
    char cause[96], next[32] = "at once";

    if (s->slot_pid > 0) { /* there was one */
        supervise_cause(s->slot_status, cause, sizeof cause);
        if (ms > 0)
            snprintf(next, sizeof next, "in %u ms", ms);
        log_write(LOG_LEVEL_ERROR,
                  "worker %u (pid %ld, generation %" PRIu64 ") died after %" PRIu64
                  ".%03u s: %s; the next one starts %s",
                  s->slot_number, (long)s->slot_pid, s->slot_crew->crew_plan.crew_generation, uptime_ms / 1000,
                  (unsigned)(uptime_ms % 1000), cause, next);
        segment_master_add(s->slot_crew->crew_plan.crew_segment, STAT_master_deaths, 1);
    }
    if (ms > 0)
        slot_timer_set(s, ms);
    else
        slot_happens(s, SLOT_TIMER);
}

/* Its sockets are closed, or the kernel would queue connections that nobody accepts. */
static void slot_give_up(struct slot *s)
{
    log_write(LOG_LEVEL_ERROR,
              "worker %u (pid %ld, generation %" PRIu64 ") ended with exit status %d: it would fail the same way again "
              "and is not replaced",
              s->slot_number, (long)s->slot_pid, s->slot_crew->crew_plan.crew_generation, WORKER_EXIT_FATAL);
    segment_master_add(s->slot_crew->crew_plan.crew_segment, STAT_master_deaths, 1);
    listeners_close_slot(s->slot_crew->crew_plan.crew_listeners, s->slot_number);
}

static void slot_bury(struct slot *s)
{
    uint64_t uptime_ms = slot_uptime_ms(s);
    char cause[96];

    evtimer_del(s->slot_timer);
    supervise_cause(s->slot_status, cause, sizeof cause);
    log_write(s->slot_status == 0 ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN,
              "worker %u (pid %ld, generation %" PRIu64 ") left after %" PRIu64 ".%03u s: %s", s->slot_number,
              (long)s->slot_pid, s->slot_crew->crew_plan.crew_generation, uptime_ms / 1000,
              (unsigned)(uptime_ms % 1000), cause);
}

static void slot_deadline(struct slot *s, char command, unsigned ms)
{
    slot_send(s, command);
    slot_timer_set(s, ms);
}

static void slot_kill(struct slot *s)
{
    log_write(LOG_LEVEL_WARN, "worker %u (pid %ld) did not leave in time: killed", s->slot_number, (long)s->slot_pid);
    AN(s->slot_pid > 0);
    kill(s->slot_pid, SIGKILL);
}

static void slot_timer_set(struct slot *s, unsigned ms)
{
    const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    AZ(evtimer_add(s->slot_timer, &tv));
}

/* A few octets never fill the stream of a worker that reads; one that hangs meets its deadline. */
static void slot_send(struct slot *s, char command)
{
    if (s->slot_command_fd >= 0 && send(s->slot_command_fd, &command, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        log_write(LOG_LEVEL_DEBUG, "worker %u (pid %ld) does not take command '%c': %s", s->slot_number,
                  (long)s->slot_pid, command, strerror(errno));
}

/* The process is gone, whatever comes next. */
static void slot_ended(struct slot *s)
{
    event_del(s->slot_command);
    close(s->slot_command_fd);
    s->slot_command_fd = -1;
    segment_worker_state(s->slot_crew->crew_plan.crew_segment, s->slot_number,
                         s->slot_status == 0 ? WORKER_STATE_LEFT : WORKER_STATE_DEAD);
}

static void slot_on_command(evutil_socket_t fd, short what, void *arg)
{
    struct slot *s = arg;
    char octets[16];
    ssize_t n = read((int)fd, octets, sizeof octets);

    (void)what;
    CHECK_OBJ(s->slot_crew, CREW_MAGIC);
    if (n > 0 && memchr(octets, 'r', (size_t)n) != NULL)
        slot_happens(s, SLOT_SAID_READY);
    else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        event_del(s->slot_command); /* SIGCHLD says the rest */
}

static void slot_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct slot *s = arg;

    (void)fd;
    (void)what;
    CHECK_OBJ(s->slot_crew, CREW_MAGIC);
    slot_happens(s, SLOT_TIMER);
}

static uint64_t slot_uptime_ms(const struct slot *s)
{
    return crew_now_ms() - s->slot_started_ms;
}

static uint64_t crew_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
