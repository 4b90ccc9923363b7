#include "worker/handler/share.h"

#include <string.h>

#include "worker/handler/request.h"

#define SHARE_MAGIC 0x5aa4e0edu
#define SHARE_PLACES 64u /* different questions of one route at the same time; a power of two */

TAILQ_HEAD(share_list, pg_query);

struct share_place {
    struct request *place_leader;      /* NULL: free */
    struct share_list place_followers; /* their queries, which are idle */
};

struct share {
    unsigned magic;
    unsigned share_values;
    struct share_place share_places[SHARE_PLACES];
};

static struct share_place *share_find(struct share *s, const struct request *r);
static bool share_same(const struct share *s, const struct request *a, const struct request *b);

struct share *share_new(unsigned values)
{
    struct share *s = calloc(1, sizeof(*s));
    unsigned i;

    if (s == NULL)
        return NULL;
    s->magic = SHARE_MAGIC;
    s->share_values = values;
    for (i = 0; i < SHARE_PLACES; i++)
        TAILQ_INIT(&s->share_places[i].place_followers);
    return s;
}

void share_free(struct share **sp)
{
    struct share *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    CHECK_OBJ(s, SHARE_MAGIC);
    s->magic = 0;
    free(s);
}

bool share_join(struct share *s, struct request *r)
{
    struct share_place *place = share_find(s, r);

    CHECK_OBJ(s, SHARE_MAGIC);
    r->req_place = NULL;
    if (place->place_leader == NULL || !share_same(s, place->place_leader, r))
        return false;
    r->req_place = place;
    TAILQ_INSERT_TAIL(&place->place_followers, request_query(r), query_link);
    return true;
}

void share_lead(struct share *s, struct request *r)
{
    struct share_place *place = share_find(s, r);

    if (place->place_leader != NULL)
        return; /* another question has it */
    place->place_leader = r;
    r->req_place = place;
}

void share_close(struct request *leader)
{
    if (leader->req_place != NULL)
        leader->req_place->place_leader = NULL;
}

struct request *share_next(struct request *leader)
{
    struct share_place *place = leader->req_place;
    struct pg_query *q = place != NULL ? TAILQ_FIRST(&place->place_followers) : NULL;

    if (q == NULL) {
        leader->req_place = NULL;
        return NULL;
    }
    TAILQ_REMOVE(&place->place_followers, q, query_link);
    request_of_query(q)->req_place = NULL;
    return request_of_query(q);
}

bool share_leave(struct request *r, struct request **heir)
{
    struct share_place *place = r->req_place;
    struct pg_query *q;

    *heir = NULL;
    r->req_place = NULL;
    if (place == NULL)
        return false;
    if (place->place_leader != r) {
        TAILQ_REMOVE(&place->place_followers, &r->req_query, query_link);
        return true;
    }
    place->place_leader = NULL;
    q = TAILQ_FIRST(&place->place_followers);
    if (q == NULL)
        return false;
    TAILQ_REMOVE(&place->place_followers, q, query_link);
    *heir = place->place_leader = request_of_query(q);
    return false;
}

/* Where it belongs (FNV-1a over the values). */
static struct share_place *share_find(struct share *s, const struct request *r)
{
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned i, k;

    for (i = 0; i < s->share_values; i++) {
        const struct param_value *v = &r->req_values[i];

        hash = (hash ^ v->value_form) * 0x100000001b3u;
        for (k = 0; k < v->value_len; k++)
            hash = (hash ^ (unsigned char)v->value_p[k]) * 0x100000001b3u;
    }
    return &s->share_places[(hash ^ hash >> 32) % SHARE_PLACES];
}

static bool share_same(const struct share *s, const struct request *a, const struct request *b)
{
    unsigned i;

    for (i = 0; i < s->share_values; i++) {
        const struct param_value *x = &a->req_values[i], *y = &b->req_values[i];

        if (x->value_form != y->value_form || x->value_len != y->value_len ||
            x->value_is_default != y->value_is_default ||
            (x->value_len > 0 && memcmp(x->value_p, y->value_p, x->value_len) != 0))
            return false;
    }
    return true;
}
