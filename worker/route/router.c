/*
 * A tree with one level per segment.  Each node has one parent and so one depth: a match visits each node at most once,
 * whatever the path looks like, and so backtracking can cost no more than the table is long.
 */
#include "worker/route/router.h"

#include <stdlib.h>
#include <string.h>

#include "worker/http/octet.h"
#include "worker/http/target.h"

#define ROUTER_MAGIC 0x90c7e3a1u
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define SLOT_EMPTY UINT32_MAX
#define NO_ROUTE (-1)
#define ONES UINT64_C(0x0101010101010101)

struct literal {
    struct slice literal_text; /* points into conf's route_path */
    uint32_t literal_node;
};

struct node {
    /* The literals below, found by an open hash: literal_slots has a power of two of places, more than literals. */
    struct literal *node_literals;
    uint32_t *node_slots;
    uint32_t node_literals_n, node_slots_mask;
    uint32_t node_parameter; /* the node below `{...}`, or SLOT_EMPTY */
    unsigned node_allow;     /* bit per method; 0: no route ends here */
    int node_routes[METHODS_ROUTABLE];
};

struct router {
    unsigned magic;
    struct node *router_nodes; /* the first is the root, above the first segment */
    uint32_t router_nodes_n;
};

/* One request's way down. */
struct walk {
    const struct router *walk_router;
    const char *walk_end; /* of the path */
    struct route_match *walk_match;
    unsigned walk_method;
    bool walk_escaped; /* segments may hold escapes */
};

static void router_add(struct router *r, const struct conf_route *route, int index);
static uint32_t node_new(struct router *r);
static uint32_t node_below(struct router *r, uint32_t node, struct slice text);
static void node_hash(struct node *n);
static inline struct slice segment_at(const char *at, const char *end);
static bool segment_is_parameter(struct slice s);
static inline uint32_t segment_hash(struct slice s);
static bool path_is_plain(const char *at, const char *end);
static bool walk(const struct walk *w, const struct node *n, const char *at, unsigned depth, unsigned args_n);
static inline const struct node *literal_find(const struct walk *w, const struct node *n, struct slice segment);
static const struct node *literal_find_escaped(const struct walk *w, const struct node *n, struct slice segment);
static inline bool octets_eq(const char *a, const char *b, size_t len);
static void *must(void *p) MUSTCHECK;

struct router *router_new(const struct conf *conf)
{
    CHECK_OBJ(conf, CONF_MAGIC);
    struct router *r = must(calloc(1, sizeof *r));
    r->magic = ROUTER_MAGIC;
    (void)node_new(r);
    for (unsigned i = 0; i < conf->conf_routes_n; i++)
        router_add(r, &conf->conf_routes[i], (int)i);
    for (uint32_t i = 0; i < r->router_nodes_n; i++) {
        struct node *n = &r->router_nodes[i];
        node_hash(n);
        if (n->node_allow == 0)
            continue;
        if (n->node_routes[METHOD_HEAD] == NO_ROUTE && n->node_routes[METHOD_GET] != NO_ROUTE) {
            n->node_routes[METHOD_HEAD] = n->node_routes[METHOD_GET];
            n->node_allow |= 1u << METHOD_HEAD;
        }
        n->node_allow |= 1u << METHOD_OPTIONS;
    }
    return r;
}

void router_free(struct router **rp)
{
    struct router *r = *rp;
    if (r == NULL)
        return;
    CHECK_OBJ(r, ROUTER_MAGIC);
    for (uint32_t i = 0; i < r->router_nodes_n; i++) {
        free(r->router_nodes[i].node_literals);
        free(r->router_nodes[i].node_slots);
    }
    free(r->router_nodes);
    r->magic = 0;
    free(r);
    *rp = NULL;
}

static void router_add(struct router *r, const struct conf_route *route, int index)
{
    const char *at = route->route_path, *end = at + strlen(at);
    uint32_t node = 0;

    AN(*at == '/');
    for (at++; at <= end;) {
        struct slice segment = segment_at(at, end);
        node = node_below(r, node, segment);
        at += segment.slice_len + 1;
    }
    struct node *n = &r->router_nodes[node];
    n->node_allow |= 1u << route->route_method;
    if (n->node_routes[route->route_method] == NO_ROUTE) /* conf_read refuses duplicates; else the first would win */
        n->node_routes[route->route_method] = index;
}

static uint32_t node_new(struct router *r)
{
    uint32_t i = r->router_nodes_n++;

    r->router_nodes = must(reallocarray(r->router_nodes, r->router_nodes_n, sizeof *r->router_nodes));
    struct node *n = &r->router_nodes[i];
    *n = (struct node){.node_parameter = SLOT_EMPTY};
    for (unsigned m = 0; m < METHODS_ROUTABLE; m++)
        n->node_routes[m] = NO_ROUTE;
    return i;
}

/* The node below `node` for a segment of a route, made when it is not there. */
static uint32_t node_below(struct router *r, uint32_t node, struct slice text)
{
    if (segment_is_parameter(text)) {
        if (r->router_nodes[node].node_parameter == SLOT_EMPTY) {
            uint32_t below = node_new(r);
            r->router_nodes[node].node_parameter = below;
        }
        return r->router_nodes[node].node_parameter;
    }
    for (uint32_t i = 0; i < r->router_nodes[node].node_literals_n; i++)
        if (slice_eq(r->router_nodes[node].node_literals[i].literal_text, text))
            return r->router_nodes[node].node_literals[i].literal_node;
    uint32_t below = node_new(r);
    struct node *n = &r->router_nodes[node];
    n->node_literals = must(reallocarray(n->node_literals, n->node_literals_n + 1, sizeof *n->node_literals));
    n->node_literals[n->node_literals_n++] = (struct literal){text, below};
    return below;
}

static void node_hash(struct node *n)
{
    uint32_t size = 2;

    if (n->node_literals_n == 0)
        return;
    while (size < 2 * n->node_literals_n)
        size *= 2;
    n->node_slots = must(reallocarray(NULL, size, sizeof *n->node_slots));
    n->node_slots_mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        n->node_slots[i] = SLOT_EMPTY;
    for (uint32_t i = 0; i < n->node_literals_n; i++) {
        uint32_t slot = segment_hash(n->node_literals[i].literal_text) & n->node_slots_mask;
        while (n->node_slots[slot] != SLOT_EMPTY)
            slot = (slot + 1) & n->node_slots_mask;
        n->node_slots[slot] = i;
    }
}

static inline struct slice segment_at(const char *at, const char *end)
{
    const char *stop = at;
    while (stop < end && *stop != '/')
        stop++;
    return (struct slice){at, (size_t)(stop - at)};
}

static bool segment_is_parameter(struct slice s)
{
    return s.slice_len >= 2 && s.slice_p[0] == '{' && s.slice_p[s.slice_len - 1] == '}';
}

/* Four looks, whatever the length: what makes literals of one API differ is most often among them. */
static inline uint32_t segment_hash(struct slice s)
{
    if (s.slice_len == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.slice_p;
    uint32_t h = (uint32_t)s.slice_len;
    h = h * 31 + p[0];
    h = h * 31 + p[s.slice_len / 2];
    h = h * 31 + p[s.slice_len - 1];
    return h ^ h >> 7;
}

void router_match(const struct router *r, unsigned method, struct slice path, struct route_match *m)
{
    CHECK_OBJ(r, ROUTER_MAGIC);
    m->match_route = NO_ROUTE;
    m->match_allow = 0;
    m->match_args_n = 0;
    m->match_bad = NULL;
    if (path.slice_len == 0 || path.slice_p[0] != '/')
        return;
    struct walk w = {r, path.slice_p + path.slice_len, m, method, false};
    if (!path_is_plain(path.slice_p, w.walk_end)) {
        if ((m->match_bad = http_escapes_check(path)) != NULL)
            return;
        w.walk_escaped = true;
    }
    (void)walk(&w, r->router_nodes, path.slice_p + 1, 0, 0);
}

/* Whether all octets are ASCII, and none is '%' or zero. */
static bool path_is_plain(const char *at, const char *end)
{
    /* In each octet of v: a high bit where it is one of these, and maybe above the first such. */
    for (; end - at >= 8; at += 8) {
        uint64_t v = octet_load64(at), percent = v ^ ONES * '%';
        if ((((v - ONES) | (percent - ONES) | v) & ONES << 7) != 0)
            return false;
    }
    for (; at < end; at++)
        if (*at == '%' || (signed char)*at <= 0)
            return false;
    return true;
}

/* Goes down from n with the segments from `at` on.  Whether it found a route. */
static bool walk(const struct walk *w, const struct node *n, const char *at, unsigned depth, unsigned args_n)
{
    struct route_match *m = w->walk_match;

    for (; at <= w->walk_end; depth++) {
        if (depth == ROUTER_SEGMENTS_MAX)
            return false;
        struct slice segment = segment_at(at, w->walk_end);
        const struct node *literal = literal_find(w, n, segment);
        at += segment.slice_len + 1;
        /* An empty segment is no value: DELETE /items/ must not run DELETE /items/{id} for the id ''. */
        if (n->node_parameter != SLOT_EMPTY && segment.slice_len != 0) {
            if (literal != NULL && walk(w, literal, at, depth + 1, args_n))
                return true;
            m->match_args[args_n++] = segment;
            n = &w->walk_router->router_nodes[n->node_parameter];
        } else if (LIKELY(literal != NULL)) {
            n = literal;
        } else {
            return false;
        }
    }
    m->match_allow |= n->node_allow;
    if (w->walk_method >= METHODS_ROUTABLE || n->node_routes[w->walk_method] == NO_ROUTE)
        return false;
    m->match_route = n->node_routes[w->walk_method];
    m->match_args_n = args_n;
    return true;
}

static inline const struct node *literal_find(const struct walk *w, const struct node *n, struct slice segment)
{
    if (n->node_literals_n == 0)
        return NULL;
    if (w->walk_escaped)
        return literal_find_escaped(w, n, segment);
    for (uint32_t slot = segment_hash(segment);; slot++) {
        uint32_t i = n->node_slots[slot & n->node_slots_mask];
        if (i == SLOT_EMPTY)
            return NULL;
        const struct literal *l = &n->node_literals[i];
        if (LIKELY(l->literal_text.slice_len == segment.slice_len) &&
            octets_eq(l->literal_text.slice_p, segment.slice_p, segment.slice_len))
            return &w->walk_router->router_nodes[l->literal_node];
    }
}

static const struct node *literal_find_escaped(const struct walk *w, const struct node *n, struct slice segment)
{
    for (uint32_t i = 0; i < n->node_literals_n; i++)
        if (http_unescaped_eq(segment, false, n->node_literals[i].literal_text))
            return &w->walk_router->router_nodes[n->node_literals[i].literal_node];
    return NULL;
}

/* memcmp without the call: segments are short. */
static inline bool octets_eq(const char *a, const char *b, size_t len)
{
    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8)
            if (octet_load64(a + i) != octet_load64(b + i))
                return false;
        return octet_load64(a + len - 8) == octet_load64(b + len - 8);
    }
    if (len >= 4)
        return octet_load32(a) == octet_load32(b) && octet_load32(a + len - 4) == octet_load32(b + len - 4);
    for (size_t i = 0; i < len; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Start-up: without memory for the table there is nothing to serve. */
static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "vanilla: out of memory for the route table\n");
        abort();
    }
    return p;
}
