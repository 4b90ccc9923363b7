#include "worker/http/clients.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CLIENTS_MAGIC 0xc11e4750u
#define SET_PLACES 8u
#define TOKEN 1000u /* a bucket's unit: at one request per second it gets one each millisecond */

struct client {
    uint64_t client_key;               /* 0: nobody yet */
    uint32_t client_connections;       /* those above the limit too, while they are told so */
    uint32_t client_tokens, client_ms; /* in the bucket at that time; with client_fresh it is full */
    bool client_fresh;
};

struct clients {
    unsigned magic;
    struct conf_client clients_limits;
    uint32_t clients_full; /* tokens of a full bucket */
    uint64_t clients_seed;
    uint32_t clients_sets; /* a power of two */
    struct client clients_places[];
};

static struct client *client_find(struct clients *cs, const struct in6_addr *address, uint32_t now_ms);
static uint64_t client_key(const struct in6_addr *address);
static void client_refill(const struct clients *cs, struct client *c, uint32_t now_ms);
static uint64_t missing_tokens(const struct clients *cs, const struct client *c);

struct clients *clients_new(const struct conf_client *limits, unsigned connections)
{
    unsigned burst = limits->client_burst != 0 ? limits->client_burst : limits->client_rate;
    uint32_t sets = 128;
    struct clients *cs;

    while (sets * SET_PLACES < 2 * connections)
        sets *= 2;
    cs = calloc(1, sizeof(*cs) + (size_t)sets * SET_PLACES * sizeof(struct client));
    if (cs == NULL)
        return NULL;
    cs->magic = CLIENTS_MAGIC;
    cs->clients_limits = *limits;
    cs->clients_full = (burst != 0 ? burst : 1) * TOKEN;
    cs->clients_sets = sets;
    if (getrandom(&cs->clients_seed, sizeof(cs->clients_seed), 0) != sizeof(cs->clients_seed))
        cs->clients_seed = (uintptr_t)cs; /* an early boot: the loader's choice will do */
    return cs;
}

void clients_free(struct clients **csp)
{
    if (*csp == NULL)
        return;
    CHECK_OBJ(*csp, CLIENTS_MAGIC);
    free(*csp);
    *csp = NULL;
}

size_t clients_bytes(const struct clients *cs)
{
    return sizeof(*cs) + (size_t)cs->clients_sets * SET_PLACES * sizeof(struct client);
}

enum client_verdict clients_enter(struct clients *cs, const struct in6_addr *address, uint32_t now_ms, uint32_t *place)
{
    unsigned limit = cs->clients_limits.client_connections;
    struct client *c;

    CHECK_OBJ(cs, CLIENTS_MAGIC);
    *place = 0;
    if (limit == 0 || (c = client_find(cs, address, now_ms)) == NULL)
        return CLIENT_WELCOME;
    if (c->client_connections >= limit + CLIENT_POLITE)
        return CLIENT_FAR_OVER;
    *place = (uint32_t)(c - cs->clients_places) + 1;
    return c->client_connections++ < limit ? CLIENT_WELCOME : CLIENT_OVER;
}

void clients_leave(struct clients *cs, uint32_t place)
{
    struct client *c = &cs->clients_places[place - 1];

    CHECK_OBJ(cs, CLIENTS_MAGIC);
    AN(place != 0 && c->client_connections > 0);
    c->client_connections--;
}

unsigned clients_request(struct clients *cs, const struct in6_addr *address, uint32_t now_ms)
{
    unsigned rate = cs->clients_limits.client_rate;
    struct client *c;

    CHECK_OBJ(cs, CLIENTS_MAGIC);
    if (rate == 0 || (c = client_find(cs, address, now_ms)) == NULL)
        return 0;
    client_refill(cs, c, now_ms);
    if (c->client_tokens < TOKEN)
        return (TOKEN - c->client_tokens + rate * TOKEN - 1) / (rate * TOKEN);
    c->client_tokens -= TOKEN;
    c->client_fresh = false;
    return 0;
}

/* The place of an address; where it has none, one is made: an empty one, or else the one that can be forgotten with the
 * least harm. */
static struct client *client_find(struct clients *cs, const struct in6_addr *address, uint32_t now_ms)
{
    uint64_t key = client_key(address), hash = (key ^ cs->clients_seed) * UINT64_C(0x9e3779b97f4a7c15);
    struct client *set, *best = NULL;
    unsigned i;

    hash = (hash ^ hash >> 32 ^ cs->clients_seed >> 7) * UINT64_C(0xd6e8feb86659fd93);
    set = &cs->clients_places[(hash >> 32 & (cs->clients_sets - 1)) * SET_PLACES];
    for (i = 0; i < SET_PLACES; i++)
        if (set[i].client_key == key)
            return &set[i];
    for (i = 0; i < SET_PLACES; i++) {
        struct client *c = &set[i];

        if (c->client_connections > 0)
            continue;
        if (c->client_key == 0) {
            best = c;
            break;
        }
        if (cs->clients_limits.client_rate != 0)
            client_refill(cs, c, now_ms);
        if (best == NULL || missing_tokens(cs, c) < missing_tokens(cs, best))
            best = c;
    }
    if (best != NULL)
        *best = (struct client){.client_key = key, .client_fresh = true};
    return best;
}

/* IPv4, or the first 64 bits of IPv6; never 0. */
static uint64_t client_key(const struct in6_addr *address)
{
    uint8_t octets[8] = {0xff}; /* multicast: no client's /64 */
    uint64_t key;

    if (IN6_IS_ADDR_V4MAPPED(address))
        memcpy(octets + 4, address->s6_addr + 12, 4);
    else
        memcpy(octets, address->s6_addr, sizeof(octets));
    memcpy(&key, octets, sizeof(key));
    return key != 0 ? key : 1;
}

static void client_refill(const struct clients *cs, struct client *c, uint32_t now_ms)
{
    uint64_t tokens;

    if (c->client_fresh) {
        c->client_tokens = cs->clients_full;
    } else {
        tokens = c->client_tokens + (uint64_t)(uint32_t)(now_ms - c->client_ms) * cs->clients_limits.client_rate;
        c->client_fresh = tokens >= cs->clients_full;
        c->client_tokens = c->client_fresh ? cs->clients_full : (uint32_t)tokens;
    }
    c->client_ms = now_ms;
}

static uint64_t missing_tokens(const struct clients *cs, const struct client *c)
{
    return c->client_fresh ? 0 : cs->clients_full - c->client_tokens;
}
