/* A worker's life: everything is reserved, then the loop turns until the master or its end says stop. */
#include "worker/worker.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "conf/log.h"
#include "shm/stats.h"
#include "shm/view.h"
#include "worker/handler/admin.h"
#include "worker/handler/sql.h"
#include "worker/http/access.h"
#include "worker/http/clients.h"
#include "worker/http/server.h"
#include "worker/http/setup.h"
#include "worker/mem/alloc.h"
#include "worker/pg/pool.h"
#include "worker/sheds.h"
#include "worker/warm.h"

#define TICK_MS 100
#define READY_WAIT_MS 2000u       /* how long "ready" waits for the pools' first attempts */
#define ADMIN_BUFFERS (16u << 20) /* of address space: memory is what is touched */
#define FLUSH_ROUNDS 4            /* per turn; then the loop looks at its descriptors again */
#define MESSAGE_SPARE 65536u      /* a message from PostgreSQL may be larger than the answer it becomes by this much */

struct worker {
    const struct worker_args *worker_args;
    const struct conf *worker_conf;
    struct event_base *worker_base;
    struct server worker_public, worker_admin;
    bool worker_has_admin, worker_ready, worker_draining, worker_done;
    struct pg_pool **worker_pools;
    bool worker_unflushed; /* a pool has something to send */
    struct admin worker_admin_subject;
    int worker_tick_fd, worker_term_fd;
    struct event worker_tick, worker_command, worker_term;
    uint32_t worker_started_ms, worker_drain_ms;
    struct sheds worker_sheds;
    unsigned *worker_inflight; /* each pool's max_inflight */
};

static int worker_init(struct worker *w);
static int worker_servers(struct worker *w);
static void worker_fini(struct worker *w, enum worker_state end);
static void worker_turns(struct worker *w);
static bool worker_flush(struct worker *w);
static void worker_drain(struct worker *w);
static void worker_announce(struct worker *w);
static void worker_gauges(struct worker *w);
static void worker_tell_sheds(struct worker *w, bool end);
static void worker_elsewhere(struct worker *w);
static void worker_set_inflight(struct worker *w);
static void worker_said(struct worker *w, char command);
static void on_tick(evutil_socket_t fd, short what, void *arg);
static void on_command(evutil_socket_t fd, short what, void *arg);
static void on_term(evutil_socket_t fd, short what, void *arg);
static void pool_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void libevent_log(int severity, const char *message);

int worker_run(const struct worker_args *args)
{
    static struct worker w; /* large, and one per process */
    char who[32];

    memset(&w, 0, sizeof(w));
    w.worker_tick_fd = w.worker_term_fd = -1;
    w.worker_args = args;
    w.worker_conf = args->args_conf;
    (void)snprintf(who, sizeof(who), "worker %u", args->args_slot);
    log_speaker(who);
    segment_attach(args->args_segment, args->args_slot, getpid(), args->args_cpu, args->args_generation);
    segment_worker_state(args->args_segment, args->args_slot, WORKER_STATE_STARTING);
    sheds_start(&w.worker_sheds);
    if (args->args_cache != NULL)
        cache_attach(args->args_cache, args->args_slot);
    if (worker_init(&w) != 0) {
        worker_fini(&w, WORKER_STATE_DEAD);
        return WORKER_EXIT_FATAL;
    }
    worker_gauges(&w);
    alloc_ready();
    worker_turns(&w);
    worker_tell_sheds(&w, true);
    (void)alloc_enter(ALLOC_START); /* tearing down may allocate */
    worker_fini(&w, WORKER_STATE_LEFT);
    return WORKER_EXIT_OK;
}

static int worker_init(struct worker *w)
{
    struct event_config *config = event_config_new();
    const struct itimerspec tick = {{0, TICK_MS * 1000000L}, {0, TICK_MS * 1000000L}};
    const struct worker_room *room = &w->worker_args->args_room;
    sigset_t term;

    event_set_log_callback(libevent_log);
    if (config != NULL) {
        /* One thread: no locks.  Changes to epoll are gathered and made once per turn; no descriptor here is dup()ed
         * while it is registered, which is what that asks for. */
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST |
                                                EVENT_BASE_FLAG_NO_CACHE_TIME);
        (void)event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE);
        w->worker_base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (w->worker_base == NULL) {
        log_write(LOG_LEVEL_ERROR, "the event loop could not be made");
        return -1;
    }
    (void)loop_warm(w->worker_base, room->room_connections + room->room_spare + room->room_admin + room->room_others);
    if (worker_servers(w) != 0)
        return -1;
    /* A descriptor rather than the loop's own timers: while those are none, the loop does not ask for the time each
     * turn. */
    w->worker_tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->worker_tick_fd < 0 || timerfd_settime(w->worker_tick_fd, 0, &tick, NULL) != 0) {
        log_write(LOG_LEVEL_ERROR, "timerfd: %s", strerrordesc_np(errno));
        return -1;
    }
    AZ(event_assign(&w->worker_tick, w->worker_base, w->worker_tick_fd, EV_READ | EV_PERSIST, on_tick, w));
    AZ(event_add(&w->worker_tick, NULL));
    AZ(event_assign(&w->worker_command, w->worker_base, w->worker_args->args_command_fd, EV_READ | EV_PERSIST,
                    on_command, w));
    AZ(event_add(&w->worker_command, NULL));
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the whole group; the master tells us what to do */
    (void)signal(SIGHUP, SIG_IGN);
    /* A descriptor for this too: libevent's own way with signals costs some work each turn. */
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
    w->worker_term_fd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->worker_term_fd < 0) {
        log_write(LOG_LEVEL_ERROR, "signalfd: %s", strerrordesc_np(errno));
        return -1;
    }
    AZ(event_assign(&w->worker_term, w->worker_base, w->worker_term_fd, EV_READ | EV_PERSIST, on_term, w));
    AZ(event_add(&w->worker_term, NULL));
    w->worker_started_ms = w->worker_public.server_now_ms;
    return 0;
}

/* Pools, the public server and the admin server. */
static int worker_servers(struct worker *w)
{
    const struct worker_args *args = w->worker_args;
    const struct conf *conf = w->worker_conf;
    struct server_config config = {
        .config_base = w->worker_base,
        .config_conf = conf,
        .config_routes = conf,
        .config_public = true,
        .config_connections = args->args_room.room_connections,
        .config_spare = args->args_room.room_spare,
        .config_cache = args->args_cache,
        .config_slot = args->args_slot,
        .config_buffers = buffers_new((size_t)conf->conf_memory.memory_buffers_mb << 20),
    };
    char why[256];
    unsigned i;

    w->worker_pools = calloc(conf->conf_pools_n + 1, sizeof(struct pg_pool *));
    w->worker_inflight = calloc(conf->conf_pools_n + 1, sizeof(*w->worker_inflight));
    if (config.config_buffers == NULL || w->worker_pools == NULL || w->worker_inflight == NULL) {
        log_write(LOG_LEVEL_ERROR, "out of memory for %u MB of buffers", conf->conf_memory.memory_buffers_mb);
        return -1;
    }
    for (i = 0; i < conf->conf_pools_n; i++) {
        const struct conf_pool *pool = &conf->conf_pools[i];
        const struct pg_pool_config pg = {
            .config_base = w->worker_base,
            .config_buffers = config.config_buffers,
            .config_pool = pool,
            .config_index = i,
            .config_connections = conf_pool_share(pool, args->args_slot, args->args_workers),
            .config_message_max = conf->conf_limits.limit_response_bytes + MESSAGE_SPARE,
            .config_unflushed = &w->worker_unflushed,
            .config_now = &w->worker_public.server_now_ns,
            .config_log = pool_log,
        };

        w->worker_pools[i] = pg_pool_new(&pg);
        if (w->worker_pools[i] == NULL) {
            log_write(LOG_LEVEL_ERROR, "pool %s: out of memory", pool->pool_name);
            return -1;
        }
        w->worker_inflight[i] = pool->pool_max_inflight;
        config.config_slots += (size_t)pg.config_connections * pool->pool_max_inflight;
        config.config_slots_more += (size_t)pg.config_connections * (WORKER_INFLIGHT_MAX - pool->pool_max_inflight);
        config.config_queue += pool->pool_queue;
    }
    config.config_pools = w->worker_pools;
    if (server_init(&w->worker_public, &config, why) != 0) {
        log_write(LOG_LEVEL_ERROR, "%s", why);
        return -1;
    }
    w->worker_admin_subject = (struct admin){
        .admin_segment = args->args_segment,
        .admin_public = &w->worker_public,
        .admin_pools = w->worker_pools,
        .admin_conf = conf,
    };
    if (args->args_admin_fd >= 0) {
        admin_subject(&w->worker_admin_subject);
        config = (struct server_config){
            .config_base = w->worker_base,
            .config_conf = conf,
            .config_routes = &admin_conf,
            .config_handlers = admin_handlers,
            .config_pools = w->worker_pools,
            .config_connections = args->args_room.room_admin,
            .config_buffers = buffers_new(ADMIN_BUFFERS),
        };
        if (config.config_buffers == NULL || server_init(&w->worker_admin, &config, why) != 0) {
            log_write(LOG_LEVEL_ERROR, "admin: %s", why);
            return -1;
        }
        w->worker_has_admin = true;
        server_listen(&w->worker_admin, args->args_admin_fd, false);
        server_accept(&w->worker_admin);
    }
    for (i = 0; i < conf->conf_pools_n; i++)
        pg_pool_start(w->worker_pools[i]);
    for (i = 0; i < conf->conf_listen_n; i++)
        server_listen(&w->worker_public, args->args_listen_fds[i], conf->conf_listen[i].listen_proxy);
    return 0;
}

static void worker_fini(struct worker *w, enum worker_state end)
{
    unsigned i;

    segment_worker_state(w->worker_args->args_segment, w->worker_args->args_slot, end);
    /* The pools first: their queries belong to requests, and their statements to the routes' handlers. */
    server_disinherit(&w->worker_public);
    for (i = 0; w->worker_pools != NULL && i < w->worker_conf->conf_pools_n; i++)
        if (w->worker_pools[i] != NULL)
            pg_pool_free(&w->worker_pools[i]);
    if (w->worker_has_admin)
        server_fini(&w->worker_admin);
    if (w->worker_public.magic == SERVER_MAGIC)
        server_fini(&w->worker_public);
    free(w->worker_pools);
    free(w->worker_inflight);
    if (w->worker_tick_fd >= 0)
        close(w->worker_tick_fd);
    if (w->worker_term_fd >= 0)
        close(w->worker_term_fd);
    if (w->worker_base != NULL)
        event_base_free(w->worker_base);
}

static void worker_turns(struct worker *w)
{
    bool more = false;

    while (!w->worker_done) {
        enum alloc_scope old = alloc_enter(ALLOC_EVENT);

        (void)event_base_loop(w->worker_base, more ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        alloc_leave(old);
        stat_add(STAT_loop_turns, 1);
        more = worker_flush(w);
        if (w->worker_draining && slab_used(w->worker_public.server_conns) == 0)
            w->worker_done = true;
    }
}

/* The end of a turn: one send per connection on either side.  True: there is more to do at once. */
static bool worker_flush(struct worker *w)
{
    unsigned round, i;
    bool more = true;

    for (round = 0; more && round < FLUSH_ROUNDS; round++) {
        (void)alloc_enter(ALLOC_HTTP);
        more = !STAILQ_EMPTY(&w->worker_public.server_dirty) && server_flush(&w->worker_public);
        if (w->worker_has_admin && !STAILQ_EMPTY(&w->worker_admin.server_dirty))
            more |= server_flush(&w->worker_admin);
        (void)alloc_enter(ALLOC_PG);
        if (w->worker_unflushed) {
            w->worker_unflushed = false;
            for (i = 0; i < w->worker_conf->conf_pools_n; i++)
                pg_pool_flush(w->worker_pools[i], w->worker_public.server_now_ns);
        }
        more |= !STAILQ_EMPTY(&w->worker_public.server_dirty);
    }
    (void)alloc_enter(ALLOC_OTHER);
    if (w->worker_public.server_careful && w->worker_public.server_access != NULL)
        access_flush(w->worker_public.server_access);
    return more;
}

static void worker_drain(struct worker *w)
{
    if (w->worker_draining)
        return;
    w->worker_draining = true;
    w->worker_drain_ms = w->worker_public.server_now_ms + w->worker_conf->conf_timeouts.timeout_drain_ms;
    segment_worker_state(w->worker_args->args_segment, w->worker_args->args_slot, WORKER_STATE_DRAINING);
    server_drain(&w->worker_public);
}

/* Requests are welcome, and the master is told so, once every pool has tried to connect, or that takes too long.  Until
 * then clients wait in the listeners' queues: a worker that takes a dead one's place would shed what they ask. */
static void worker_announce(struct worker *w)
{
    unsigned i;

    if (w->worker_ready)
        return;
    if (w->worker_public.server_now_ms - w->worker_started_ms < READY_WAIT_MS)
        for (i = 0; i < w->worker_conf->conf_pools_n; i++)
            if (!pg_pool_tried(w->worker_pools[i]))
                return;
    w->worker_ready = true;
    server_accept(&w->worker_public);
    if (!w->worker_draining)
        segment_worker_state(w->worker_args->args_segment, w->worker_args->args_slot, WORKER_STATE_READY);
    (void)!write(w->worker_args->args_command_fd, "r", 1);
}

static void worker_gauges(struct worker *w)
{
    const struct server *s = &w->worker_public;
    unsigned i;

    stat_set(STAT_memory_buffers_total, buffers_total(s->server_buffers));
    stat_set(STAT_memory_buffers_used, buffers_used(s->server_buffers));
    stat_set(STAT_memory_buffers_peak, buffers_peak(s->server_buffers));
    stat_set(STAT_memory_connections, slab_bytes(s->server_conns) + slab_bytes(s->server_stubs) +
                                          (s->server_clients != NULL ? clients_bytes(s->server_clients) : 0));
    stat_set(STAT_memory_connection, slab_object_size(s->server_conns));
    stat_set(STAT_memory_cache, w->worker_args->args_cache != NULL ? cache_bytes(w->worker_args->args_cache) : 0);
    stat_set(STAT_memory_requests, slab_bytes(s->server_requests));
    stat_set(STAT_memory_request, slab_object_size(s->server_requests));
    for (i = 0; i < s->server_routes_n; i++)
        if (s->server_routes[i].route_handler == &handler_sql)
            stat_route_set(i, STAT_route_broken,
                           sql_statement(s->server_routes[i].route_state)->statement_state == STATEMENT_BROKEN);
}

static void worker_tell_sheds(struct worker *w, bool end)
{
    char line[SHEDS_LINE_MAX];

    if (sheds_tell(&w->worker_sheds, w->worker_public.server_now_ns, end, line))
        log_write(LOG_LEVEL_WARN, "%s", line);
}

/* The kernel deals connections out blindly, so that one worker may shed while others are idle: each tells its pools how
 * many slots the others have free, as of their latest tick. */
static void worker_elsewhere(struct worker *w)
{
    unsigned i;

    for (i = 0; i < w->worker_conf->conf_pools_n; i++)
        pg_pool_set_elsewhere(w->worker_pools[i],
                              segment_free_slots(w->worker_args->args_segment, i, w->worker_args->args_slot));
}

/* The master writes the pools' max_inflight into the segment: a worker that has not looked for a while misses nothing.
 * The requests that they let in need room. */
static void worker_set_inflight(struct worker *w)
{
    const struct worker_args *args = w->worker_args;
    const struct conf *conf = w->worker_conf;
    size_t slots = 0;
    unsigned i, n, changed = 0;

    for (i = 0; i < conf->conf_pools_n; i++) {
        n = view_pool_max_inflight(args->args_segment, i);
        AN(n > 0 && n <= WORKER_INFLIGHT_MAX);
        changed += n != w->worker_inflight[i];
        w->worker_inflight[i] = n;
        slots += (size_t)conf_pool_share(&conf->conf_pools[i], args->args_slot, args->args_workers) * n;
    }
    if (changed == 0)
        return;
    server_slots(&w->worker_public, slots);
    (void)alloc_enter(ALLOC_PG);
    for (i = 0; i < conf->conf_pools_n; i++)
        pg_pool_set_max_inflight(w->worker_pools[i], w->worker_inflight[i]);
    (void)alloc_enter(ALLOC_OTHER);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct worker *w = arg;
    enum alloc_scope old = alloc_enter(ALLOC_HTTP);
    uint64_t ticks;
    unsigned i;

    (void)what;
    (void)!read(fd, &ticks, sizeof(ticks));
    server_tick(&w->worker_public);
    if (w->worker_has_admin)
        server_tick(&w->worker_admin);
    (void)alloc_enter(ALLOC_PG);
    for (i = 0; i < w->worker_conf->conf_pools_n; i++)
        pg_pool_tick(w->worker_pools[i], w->worker_public.server_now_ns);
    (void)alloc_enter(ALLOC_OTHER);
    worker_set_inflight(w);
    worker_elsewhere(w);
    worker_announce(w);
    worker_gauges(w);
    worker_tell_sheds(w, false);
    segment_heartbeat(w->worker_args->args_segment, w->worker_args->args_slot, w->worker_public.server_now_ns);
    if (w->worker_draining && (int32_t)(w->worker_public.server_now_ms - w->worker_drain_ms) >= 0) {
        log_write(LOG_LEVEL_WARN, "drain_ms is over: %zu connections are cut",
                  slab_used(w->worker_public.server_conns));
        w->worker_done = true;
    }
    alloc_leave(old);
}

/* The master speaks, or it is gone. */
static void on_command(evutil_socket_t fd, short what, void *arg)
{
    struct worker *w = arg;
    char command;
    ssize_t n = read(fd, &command, 1);

    (void)what;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        log_write(LOG_LEVEL_WARN, "the master is gone: draining");
        AZ(event_del(&w->worker_command));
        worker_drain(w);
        return;
    }
    worker_said(w, command);
}

static void worker_said(struct worker *w, char command)
{
    switch (command) {
    case WORKER_DRAIN:
        worker_drain(w);
        break;
    case WORKER_STOP:
        w->worker_done = true;
        break;
    case WORKER_LOGS:
        (void)log_reopen();
        break;
    default:
        log_write(LOG_LEVEL_WARN, "the master said '%c', which this version does not know", command);
    }
}

static void on_term(evutil_socket_t fd, short what, void *arg)
{
    struct signalfd_siginfo info;

    (void)what;
    (void)!read(fd, &info, sizeof(info));
    worker_drain(arg);
}

static void pool_log(int level, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log_write((enum conf_log_level)level, "%s", line);
}

static void libevent_log(int severity, const char *message)
{
    if (severity != EVENT_LOG_DEBUG)
        log_write(severity == EVENT_LOG_MSG ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "libevent: %s", message);
}
