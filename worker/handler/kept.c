#include "worker/handler/kept.h"

#include <string.h>

#include "shm/cache.h"
#include "worker/handler/request.h"
#include "worker/http/server.h"

#define KEPT_MAGIC 0x4e97a115u

struct kept {
    unsigned magic;
    unsigned kept_slot, kept_number;
    struct cache *kept_cache;
    const struct conf_route *kept_route;
    uint64_t kept_age_ns;
    /* Of the request at hand: nothing is allocated for it, and the stack stays small. */
    unsigned char kept_key[CACHE_ROOM];
    struct cache_copy kept_copy;
};

static bool kept_ask(struct kept *k, const struct request *r, struct cache_key *key);

struct kept *kept_new(struct cache *cache, unsigned slot, const struct conf_route *route, unsigned number)
{
    struct kept *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return NULL;
    k->magic = KEPT_MAGIC;
    k->kept_cache = cache;
    k->kept_slot = slot;
    k->kept_number = number;
    k->kept_route = route;
    k->kept_age_ns = route->route_cache_ms * UINT64_C(1000000);
    return k;
}

void kept_free(struct kept **kp)
{
    struct kept *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    CHECK_OBJ(k, KEPT_MAGIC);
    k->magic = 0;
    free(k);
}

bool kept_answer(struct kept *k, struct request *r)
{
    uint64_t now = r->req_started_ns;
    struct cache_answer answer;
    struct cache_key key;

    CHECK_OBJ(k, KEPT_MAGIC);
    if (!kept_ask(k, r, &key) || !cache_find(k->kept_cache, k->kept_slot, &key,
                                             now > k->kept_age_ns ? now - k->kept_age_ns : 0, &k->kept_copy, &answer)) {
        stat_add(STAT_cache_misses, 1);
        return false;
    }
    stat_add(STAT_cache_hits, 1);
    stat_route_add(k->kept_number, STAT_route_cache_hits, 1);
    r->req_status = (uint16_t)answer.answer_status;
    if (r->req_status != 404 && k->kept_route->route_result != RESULT_NONE)
        out_write(request_out(r), answer.answer_body, answer.answer_len);
    return true;
}

void kept_store(struct kept *k, const struct request *r)
{
    struct cache_answer answer = {.answer_status = r->req_status, .answer_ns = r->req_started_ns};
    struct cache_key key;

    CHECK_OBJ(k, KEPT_MAGIC);
    if (r->req_out.out_error != OUT_OK || (r->req_status != k->kept_route->route_status && r->req_status != 404) ||
        r->req_server->server_now_ns - r->req_started_ns >= k->kept_age_ns)
        return;
    if (!kept_ask(k, r, &key) || !cache_fits(key.key_len, r->req_status == 404 ? 0 : r->req_out.out_bytes)) {
        stat_add(STAT_cache_too_large, 1);
        return;
    }
    answer.answer_body = k->kept_copy.copy_words;
    if (r->req_status != 404) {
        unsigned char *to = (unsigned char *)k->kept_copy.copy_words;
        const struct buf *b;

        for (b = r->req_out.out_head; b != NULL; b = b->buf_next) {
            memcpy(to + answer.answer_len, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
            answer.answer_len += b->buf_end - b->buf_start;
        }
    }
    cache_store(k->kept_cache, k->kept_slot, &key, &answer);
    stat_add(STAT_cache_stores, 1);
}

/* The parameter values in a row, each behind its form and its length, so that no two lists of values look alike. False:
 * they do not fit. */
static bool kept_ask(struct kept *k, const struct request *r, struct cache_key *key)
{
    size_t n = 0;
    unsigned i;

    for (i = 0; i < k->kept_route->route_params_n; i++) {
        const struct param_value *v = &r->req_values[i];
        const unsigned char head[8] = {v->value_form, v->value_is_default != 0};

        if (sizeof(head) + v->value_len > sizeof(k->kept_key) - n)
            return false;
        memcpy(k->kept_key + n, head, sizeof(head));
        memcpy(k->kept_key + n + 4, &v->value_len, 4);
        n += sizeof(head);
        if (v->value_len > 0)
            memcpy(k->kept_key + n, v->value_p, v->value_len);
        n += v->value_len;
    }
    *key = (struct cache_key){.key_route = k->kept_number, .key_len = (uint32_t)n, .key_octets = k->kept_key};
    return true;
}
