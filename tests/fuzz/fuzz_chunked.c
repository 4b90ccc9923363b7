/*
 * The chunked coding: whole or in pieces, in place or not, the outcome is the same.  The first octet says how to cut,
 * the second where the limits are, the rest is the body.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "worker/http/chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum http_chunked_result result;
    size_t consumed, decoded;
    const char *why;
    char *body;
};

static void decode(struct outcome *o, const uint8_t *data, size_t size, size_t step, bool in_place, uint64_t max,
                   uint32_t max_trailer)
{
    struct http_chunked c = {0};
    char *in = malloc(size != 0 ? size : 1);

    AN(in != NULL);
    if (size != 0)
        memcpy(in, data, size);
    *o = (struct outcome){.body = in_place ? in : malloc(size != 0 ? size : 1)};
    AN(o->body != NULL);
    do {
        size_t left = size - o->consumed, n = left < step ? left : step, used = 0, before = o->decoded;
        o->result = http_chunked(&c, in + o->consumed, n, &used, o->body + o->decoded, &o->decoded, max, max_trailer);
        AN(used <= n && o->decoded - before <= used);
        AN(o->result != CHUNKED_MORE || used == n);
        o->consumed += used;
    } while (o->result == CHUNKED_MORE && o->consumed < size);
    AN(o->decoded == c.chunked_total && o->decoded <= max);
    AN((o->result == CHUNKED_ERROR) == (c.chunked_why != NULL));
    o->why = c.chunked_why;
    if (!in_place)
        free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, other;

    if (size < 2 || size > 4096)
        return 0;
    size_t step = data[0] % 32 + 1u, len = size - 2;
    uint64_t max = data[1] & 1 ? UINT64_MAX : (data[1] >> 2) * 4u;
    uint32_t max_trailer = data[1] & 2 ? 4096 : 16;
    decode(&whole, data + 2, len, len != 0 ? len : 1, false, max, max_trailer);
    for (unsigned way = 0; way < 3; way++) {
        decode(&other, data + 2, len, way == 0 ? (len != 0 ? len : 1) : step, way != 2, max, max_trailer);
        AN(whole.result == other.result && whole.consumed == other.consumed && whole.why == other.why);
        AN(whole.decoded == other.decoded && memcmp(whole.body, other.body, whole.decoded) == 0);
        free(other.body);
    }
    free(whole.body);
    return 0;
}
