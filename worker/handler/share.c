#include "worker/handler/share.h"

#include <string.h>

#include "worker/handler/request.h"

#define SHARE_MAGIC 0x5aa4e0edu
#define SHARE_CHAINS 256u /* a power of two */

LIST_HEAD(share_chain, request);
TAILQ_HEAD(share_list, pg_query);

struct share {
    unsigned magic;
    unsigned share_values;
    struct share_list share_done; /* those answered: their queries, which are idle */
    struct share_chain share_chains[SHARE_CHAINS];
};

static struct share_chain *share_find(struct share *s, const struct request *r);
static bool share_same(const struct share *s, const struct request *a, const struct request *b);
static void seat_leave(struct request *r);

struct share *share_new(unsigned values)
{
    struct share *s = calloc(1, sizeof(*s)); /* chains of nobody */

    if (s == NULL)
        return NULL;
    s->magic = SHARE_MAGIC;
    s->share_values = values;
    TAILQ_INIT(&s->share_done);
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
    struct request *leader;

    CHECK_OBJ(s, SHARE_MAGIC);
    r->req_role = SHARE_ALONE;
    LIST_FOREACH(leader, share_find(s, r), req_seat.seat_link)
    if (share_same(s, leader, r))
        break;
    if (leader == NULL)
        return false;
    r->req_role = SHARE_FOLLOWS;
    r->req_seat.seat_next = leader;
    r->req_seat.seat_previous = leader->req_seat.seat_previous;
    leader->req_seat.seat_previous->req_seat.seat_next = r;
    leader->req_seat.seat_previous = r;
    return true;
}

void share_lead(struct share *s, struct request *r)
{
    CHECK_OBJ(s, SHARE_MAGIC);
    if (r->req_role == SHARE_ALONE)
        r->req_seat.seat_next = r->req_seat.seat_previous = r;
    r->req_role = SHARE_LEADS;
    LIST_INSERT_HEAD(share_find(s, r), r, req_seat.seat_link);
}

void share_close(struct request *leader)
{
    AN(leader->req_role == SHARE_LEADS || leader->req_role == SHARE_INHERITS);
    if (leader->req_role == SHARE_LEADS)
        LIST_REMOVE(leader, req_seat.seat_link);
    leader->req_role = SHARE_CLOSED;
}

struct request *share_next(struct request *leader)
{
    struct request *r = leader->req_seat.seat_next;

    AN(leader->req_role == SHARE_CLOSED);
    if (r == leader) {
        leader->req_role = SHARE_ALONE;
        return NULL;
    }
    seat_leave(r);
    return r;
}

void share_answered(struct share *s, struct request *follower)
{
    AN(follower->req_role == SHARE_ALONE);
    follower->req_role = SHARE_ANSWERED;
    TAILQ_INSERT_TAIL(&s->share_done, &follower->req_query, query_link);
}

struct request *share_take(struct share *s)
{
    struct pg_query *q = TAILQ_FIRST(&s->share_done);

    if (q == NULL)
        return NULL;
    TAILQ_REMOVE(&s->share_done, q, query_link);
    request_of_query(q)->req_role = SHARE_ALONE;
    return request_of_query(q);
}

bool share_leave(struct share *s, struct request *r, struct request **heir)
{
    enum share_role role = (enum share_role)r->req_role;
    struct request *next;

    CHECK_OBJ(s, SHARE_MAGIC);
    *heir = NULL;
    switch (role) {
    case SHARE_ALONE:
        return false;
    case SHARE_FOLLOWS:
        seat_leave(r);
        return true;
    case SHARE_ANSWERED:
        r->req_role = SHARE_ALONE;
        TAILQ_REMOVE(&s->share_done, &r->req_query, query_link);
        return true;
    case SHARE_LEADS:
        LIST_REMOVE(r, req_seat.seat_link);
        break;
    case SHARE_INHERITS:
        break;
    case SHARE_CLOSED:
        AZ("nobody leaves while it is being answered");
    }
    next = r->req_seat.seat_next;
    if (next != r) {
        next->req_role = SHARE_INHERITS;
        *heir = next;
    }
    seat_leave(r);
    return role == SHARE_INHERITS;
}

static void seat_leave(struct request *r)
{
    r->req_role = SHARE_ALONE;
    r->req_seat.seat_previous->req_seat.seat_next = r->req_seat.seat_next;
    r->req_seat.seat_next->req_seat.seat_previous = r->req_seat.seat_previous;
}

/* Where it belongs (FNV-1a over the values). */
static struct share_chain *share_find(struct share *s, const struct request *r)
{
    uint64_t hash = 0xcbf29ce484222325u;
    unsigned i, k;

    for (i = 0; i < s->share_values; i++) {
        const struct param_value *v = &r->req_values[i];

        hash = (hash ^ v->value_form) * 0x100000001b3u;
        for (k = 0; k < v->value_len; k++)
            hash = (hash ^ (unsigned char)v->value_p[k]) * 0x100000001b3u;
    }
    return &s->share_chains[(hash ^ hash >> 32) % SHARE_CHAINS];
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
