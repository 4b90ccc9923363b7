/* A worker's share of one pool: what the rest of the worker sees of it. */
#include "worker/pg/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "worker/mem/alloc.h"
#include "worker/pg/conn.h"
#include "worker/pg/conninfo.h"
#include "worker/pg/scraps.h"

#define SPACE_BYTES 32768u
#define AVG_FIRST_NS 250000u /* until a statement's time is known: a handful to a connection */
#define WINDOW_NS 500000000u
#define MEND_AGAIN_NS 1000000000u            /* between two attempts at what is in doubt */
#define MEND_BUSY_NS 3000000000u             /* ... which takes a worker's only connection from those who use it */
#define REACH_AGAIN_NS UINT64_C(60000000000) /* between two looks at what statements can reach, at least, and */
#define REACH_AGAIN_PART 600u                /* times what the last one took */
#define DOUBT_MAX_NS UINT64_C(60000000000)

static enum pg_outcome pool_submit_late(struct pg_pool *p, struct pg_query *q, uint64_t now);
static enum pg_outcome pool_refuse(struct pg_pool *p, const struct pg_query *q);
static void pool_again(int fd, short what, void *arg);
static bool pool_doubts(struct pg_pool *p, uint64_t now);
static void pool_mend(struct pg_pool *p, uint64_t now);
static void pool_reach(struct pg_pool *p, uint64_t now);
static void pool_parse(const struct pg_pool *p, struct pg_statement *s);
static void pool_gauges(const struct pg_pool *p);

struct pg_pool *pg_pool_new(const struct pg_pool_config *config)
{
    struct pg_pool *p = calloc(1, sizeof *p);
    const struct conf_pool *conf = config->config_pool;

    if (p == NULL)
        return NULL;
    scraps_install();
    p->magic = PG_POOL_MAGIC;
    p->pool_config = *config;
    p->pool_index = config->config_index;
    p->pool_read_only = conf->pool_read_only;
    p->pool_pooler = conf->pool_pooler;
    p->pool_single = !conf->pool_read_only || conf->pool_pooler || conf->pool_sync_batch <= 1;
    p->pool_max_inflight = conf->pool_max_inflight;
    p->pool_sync_batch = conf->pool_sync_batch > 0 ? conf->pool_sync_batch : 1;
    p->pool_batch_ns = (uint64_t)conf->pool_batch_us * 1000 + 1; /* 0 still opens a connection that has nothing to do */
    TAILQ_INIT(&p->pool_dirty);
    TAILQ_INIT(&p->pool_again);
    for (unsigned i = 0; i < CONN_STATES; i++)
        TAILQ_INIT(&p->pool_conns[i]);
    p->pool_random = (uint64_t)(uintptr_t)p ^ pg_now();
    (void)!getrandom(&p->pool_random, sizeof p->pool_random, GRND_NONBLOCK);
    p->pool_random |= 1;
    p->pool_space.space_size = SPACE_BYTES;
    p->pool_space.space_data = malloc(SPACE_BYTES);
    p->pool_types = pg_types_new();
    p->pool_all = calloc(config->config_connections, sizeof *p->pool_all);
    p->pool_again_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue_init(p) != 0 || p->pool_space.space_data == NULL || p->pool_types == NULL || p->pool_all == NULL ||
        p->pool_again_fd < 0) {
        p->pool_config.config_connections = 0;
        pg_pool_free(&p);
        return NULL;
    }
    AZ(event_assign(&p->pool_again_event, config->config_base, p->pool_again_fd, EV_READ | EV_PERSIST, pool_again, p));
    (void)event_add(&p->pool_again_event, NULL);
    for (unsigned i = 0; i < config->config_connections; i++)
        conn_init(&p->pool_all[i], p);
    return p;
}

void pg_pool_free(struct pg_pool **pp)
{
    struct pg_pool *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    CHECK_OBJ(p, PG_POOL_MAGIC);
    p->pool_stopping = true;
    for (unsigned i = 0; i < p->pool_config.config_connections; i++) {
        struct pg_conn *c = &p->pool_all[i];

        if (c->conn_fd != -1)
            conn_lose(c, LOSS_STOP, "the pool ends");
        link_close(&c->conn_pq);
        c->magic = 0;
    }
    queue_shed(p);
    queue_fini(p);
    if (p->pool_again_fd >= 0) {
        if (event_initialized(&p->pool_again_event))
            (void)event_del(&p->pool_again_event);
        (void)close(p->pool_again_fd);
    }
    for (unsigned i = 0; i < p->pool_statements_n; i++) {
        describe_forget(p->pool_statements[i]);
        free(p->pool_statements[i]->statement_parse);
        p->pool_statements[i]->statement_parse = NULL;
    }
    free(p->pool_statements);
    free(p->pool_all);
    pg_types_free(&p->pool_types);
    free(p->pool_space.space_data);
    p->magic = 0;
    free(p);
}

void pg_pool_add_statement(struct pg_pool *p, struct pg_statement *s)
{
    struct pg_statement **all;

    CHECK_OBJ(p, PG_POOL_MAGIC);
    CHECK_OBJ(s, PG_STATEMENT_MAGIC);
    all = realloc(p->pool_statements, (p->pool_statements_n + 1) * sizeof(struct pg_statement *));
    AN(all); /* at start-up, a few octets */
    p->pool_statements = all;
    p->pool_statements[p->pool_statements_n++] = s;
    s->statement_pool = p;
    s->statement_state = STATEMENT_UNKNOWN;
    s->statement_avg_ns = AVG_FIRST_NS;
    s->statement_doubt_wait_ns = PG_DOUBT_FIRST_NS;
    s->statement_least_ns[0] = s->statement_least_ns[1] = UINT32_MAX;
    snprintf(s->statement_name, sizeof s->statement_name, "v%u", s->statement_index);
    s->statement_bind_len =
        codec_bind_prefix(s->statement_bind, sizeof s->statement_bind, p->pool_pooler ? "" : s->statement_name);
    if (p->pool_pooler) {
        pool_parse(p, s);
    }
}

void pg_pool_start(struct pg_pool *p)
{
    CHECK_OBJ(p, PG_POOL_MAGIC);
    for (unsigned i = 0; i < p->pool_config.config_connections; i++)
        conn_connect(&p->pool_all[i]);
    pool_gauges(p);
}

void pg_pool_stop(struct pg_pool *p)
{
    uint64_t now = pg_now();

    CHECK_OBJ(p, PG_POOL_MAGIC);
    p->pool_stopping = true;
    for (unsigned i = 0; i < p->pool_config.config_connections; i++)
        conn_tick(&p->pool_all[i], now);
}

enum pg_outcome pg_pool_submit(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    struct pg_conn *c;

    AN(q->magic == PG_QUERY_MAGIC && q->query_state == QUERY_IDLE);
    if (__builtin_expect(q->query_statement->statement_state != STATEMENT_READY, 0))
        return pool_refuse(p, q);
    q->query_abandoned = q->query_retried = q->query_started = q->query_looked = false;
    q->query_stale = q->query_unlucky = 0;
    if (__builtin_expect(TAILQ_EMPTY(&p->pool_waiting) && TAILQ_EMPTY(&p->pool_retry), 1)) {
        c = batch_pick(p, true, now);
        if (__builtin_expect(c != NULL, 1))
            return batch_append(c, q, false, now);
    }
    return pool_submit_late(p, q, now);
}

bool pg_query_abandon(struct pg_query *q)
{
    struct pg_pool *p = q->query_statement->statement_pool;

    AN(q->magic == PG_QUERY_MAGIC && q->query_state != QUERY_IDLE);
    if (!q->query_abandoned) {
        stat_pool_add(p->pool_index, STAT_pool_abandoned, 1);
        q->query_abandoned = true;
        if (q->query_state == QUERY_SENT && q->query_conn != NULL)
            forsaken_note(q->query_conn);
    }
    if (q->query_state == QUERY_SENT)
        return false;
    queue_remove(p, q);
    return true;
}

void pg_pool_flush(struct pg_pool *p, uint64_t now)
{
    /* A connection that is lost here may put queries on others, behind us in the list; one that found no buffer for its
     * Sync goes to the end, for another try and then for the next turn. */
    unsigned tries = 2 * p->pool_config.config_connections;
    struct pg_conn *c;

    p->pool_current = NULL;
    while ((c = TAILQ_FIRST(&p->pool_dirty)) != NULL && tries-- > 0) {
        TAILQ_REMOVE(&p->pool_dirty, c, conn_dirty_link);
        c->conn_dirty = false;
        batch_sync(c);
        if (c->conn_batch_n > 0) {
            c->conn_dirty = true;
            TAILQ_INSERT_TAIL(&p->pool_dirty, c, conn_dirty_link);
        }
        if (!c->conn_blocked)
            (void)!wire_write(c, now);
    }
    if (c != NULL && p->pool_config.config_unflushed != NULL)
        *p->pool_config.config_unflushed = true;
}

void pg_pool_tick(struct pg_pool *p, uint64_t now)
{
    CHECK_OBJ(p, PG_POOL_MAGIC);
    for (unsigned i = 0; i < p->pool_config.config_connections; i++)
        conn_tick(&p->pool_all[i], now);
    queue_expire(p, now);
    queue_pump(p, now);
    if ((p->pool_broken_hit || (p->pool_doubted && pool_doubts(p, now))) && now - p->pool_mended_at > MEND_AGAIN_NS)
        pool_mend(p, now);
    if (now > p->pool_reached_at + REACH_AGAIN_NS)
        pool_reach(p, now);
    if (now - p->pool_window_at >= WINDOW_NS) {
        p->pool_window_at = now;
        for (unsigned i = 0; i < p->pool_statements_n; i++)
            answer_window(p->pool_statements[i]);
    }
    pool_gauges(p);
}

unsigned pg_pool_up(const struct pg_pool *p)
{
    return p->pool_conns_n[CONN_READY] + p->pool_conns_n[CONN_CANCELLING] + p->pool_conns_n[CONN_DRAINING];
}

bool pg_pool_tried(const struct pg_pool *p)
{
    for (unsigned i = 0; i < p->pool_config.config_connections; i++)
        if (!p->pool_all[i].conn_tried)
            return false;
    return true;
}

const char *pg_pool_trouble(const struct pg_pool *p)
{
    return p->pool_trouble;
}

void pg_statement_doubt(struct pg_statement *s, uint64_t now)
{
    if (s->statement_doubted)
        return;
    s->statement_doubted = s->statement_pool->pool_doubted = true;
    s->statement_doubted_ns = now;
}

void pg_pool_set_elsewhere(struct pg_pool *p, unsigned slots)
{
    p->pool_elsewhere = slots;
}

bool pg_pool_send_away(struct pg_pool *p)
{
    if (p->pool_elsewhere == 0)
        return false;
    p->pool_elsewhere--;
    stat_pool_add(p->pool_index, STAT_pool_moved, 1);
    return true;
}

void pg_pool_set_max_inflight(struct pg_pool *p, unsigned n)
{
    AN(n > 0);
    p->pool_max_inflight = n;
    queue_pump(p, pg_now());
}

/* There is no room, or others came first.  Slots that are about to be free count as slots, whatever the queue's length:
 * who waits for one of them is not in anybody's way. */
static enum pg_outcome pool_submit_late(struct pg_pool *p, struct pg_query *q, uint64_t now)
{
    const struct conf_pool *conf = p->pool_config.config_pool;
    unsigned slots, queue = conf->pool_queue_timeout_ms > 0 ? conf->pool_queue : 0;
    struct pg_conn *c = NULL;

    if (!conn_serving(p))
        return PG_SHED_DOWN;
    if (!TAILQ_EMPTY(&p->pool_retry) && TAILQ_EMPTY(&p->pool_waiting)) /* those would be sent if they could */
        c = batch_pick(p, true, now);
    if (c == NULL && forsaken_relieve(p, now) && TAILQ_EMPTY(&p->pool_waiting) && TAILQ_EMPTY(&p->pool_retry))
        c = batch_pick(p, true, now);
    slots = forsaken_slots(p, now) + conn_returning(p) * p->pool_max_inflight + batch_held(p);
    if (c == NULL && p->pool_waiting_n < queue + slots) {
        queue_wait(p, q, now);
        return PG_DONE;
    }
    if (c == NULL && slots > 0) /* before it is shed */
        c = batch_pick(p, false, now);
    return c != NULL ? batch_append(c, q, false, now) : PG_SHED_FULL;
}

static enum pg_outcome pool_refuse(struct pg_pool *p, const struct pg_query *q)
{
    if (q->query_statement->statement_state == STATEMENT_BROKEN) {
        p->pool_broken_hit = true;
        return PG_BROKEN;
    }
    return PG_SHED_DOWN;
}

static void pool_again(int fd, short what, void *arg)
{
    struct pg_pool *p = arg;
    enum alloc_scope old = alloc_enter(ALLOC_PG);

    (void)fd;
    (void)what;
    CHECK_OBJ(p, PG_POOL_MAGIC);
    wire_read_again(p);
    alloc_leave(old);
}

/* Whether a statement has been in doubt for long enough to be looked at again. */
static bool pool_doubts(struct pg_pool *p, uint64_t now)
{
    bool any = false;

    for (unsigned i = 0; i < p->pool_statements_n; i++) {
        const struct pg_statement *s = p->pool_statements[i];

        any |= s->statement_doubted;
        if (s->statement_doubted && now > s->statement_doubted_ns + s->statement_doubt_wait_ns)
            return true;
    }
    p->pool_doubted = any;
    return false;
}

/* Somebody asked for a broken statement, and perhaps the table is there by now; or gave a value that is not of its
 * parameter's type, and perhaps the type is another by now.  One connection prepares its statements again; when that
 * brings news, the others follow (conn_tick). */
static void pool_mend(struct pg_pool *p, uint64_t now)
{
    struct pg_conn *c = TAILQ_LAST(&p->pool_conns[CONN_READY], conn_list);

    /* The only one is not taken away from those who use it, unless it is never idle, and through soon. */
    if (c == NULL || (p->pool_conns_n[CONN_READY] == 1 && c->conn_inflight_n > 0 &&
                      (now < p->pool_mended_at + MEND_BUSY_NS || c->conn_cost_ns > p->pool_patience_ns / 2)))
        return;
    p->pool_broken_hit = p->pool_doubted = false;
    p->pool_mended_at = now;
    for (unsigned i = 0; i < p->pool_statements_n; i++) {
        struct pg_statement *s = p->pool_statements[i];

        if (s->statement_doubted && s->statement_doubt_wait_ns < DOUBT_MAX_NS)
            s->statement_doubt_wait_ns *= 2; /* but see describe_take */
        s->statement_doubted = false;
    }
    conn_drain(c, AFTER_PREPARE);
    conn_settle(c);
}

/* A function may have been replaced by one that changes its session, of which nothing tells: one connection asks again,
 * unless there is news best when it has nothing to do; and a worker's only one not for longer than anybody waits. */
static void pool_reach(struct pg_pool *p, uint64_t now)
{
    const struct conf_pool *conf = p->pool_config.config_pool;
    struct pg_conn *c = TAILQ_LAST(&p->pool_conns[CONN_READY], conn_list);
    bool only = p->pool_conns_n[CONN_READY] == 1, news = p->pool_reached_at == 0;
    uint64_t took = p->pool_reach_ns,
             wait = took * REACH_AGAIN_PART > REACH_AGAIN_NS ? took * REACH_AGAIN_PART : REACH_AGAIN_NS;

    if (conf->pool_reset != RESET_AUTO || p->pool_pooler || p->pool_stopping || p->pool_statements_n == 0 || c == NULL)
        return;
    if (!news && (now <= p->pool_reached_at + wait || (only && took > conf->pool_queue_timeout_ms * UINT64_C(1000000))))
        return;
    if (!news && c->conn_inflight_n > 0 && (only || now <= p->pool_reached_at + 2 * wait))
        return;
    p->pool_reached_at = now;
    conn_drain(c, AFTER_REACH);
    conn_settle(c);
}

/* Behind a pooler no session is ours, so that each query brings its settings along: for its own transaction, which is
 * all that comes before its Sync. */
static void pool_parse(const struct pg_pool *p, struct pg_statement *s)
{
    char preface[512], *local;
    size_t preface_len = 0, parse_len = 0;
    unsigned char *parse = codec_parse(s->statement_sql, &parse_len), *all;

    local = conninfo_local(p->pool_config.config_pool, preface, sizeof preface);
    s->statement_parse = codec_statement(local, &preface_len);
    AN(parse);
    AN(s->statement_parse);
    all = realloc(s->statement_parse, preface_len + parse_len);
    AN(all); /* at start-up, a few octets */
    memcpy(all + preface_len, parse, parse_len);
    free(parse);
    s->statement_parse = all;
    s->statement_parse_len = preface_len + parse_len;
}

static void pool_gauges(const struct pg_pool *p)
{
    uint64_t inflight = 0;

    for (unsigned i = 0; i < p->pool_config.config_connections; i++)
        inflight += p->pool_all[i].conn_inflight_n;
    stat_pool_set(p->pool_index, STAT_pool_connections, p->pool_config.config_connections);
    stat_pool_set(p->pool_index, STAT_pool_up, pg_pool_up(p));
    stat_pool_set(p->pool_index, STAT_pool_slots, (uint64_t)pg_pool_up(p) * p->pool_max_inflight);
    stat_pool_set(p->pool_index, STAT_pool_inflight, inflight);
    stat_pool_set(p->pool_index, STAT_pool_overloaded, p->pool_overloaded);
    stat_pool_set(p->pool_index, STAT_pool_waiting, p->pool_waiting_n + p->pool_retry_n);
}
