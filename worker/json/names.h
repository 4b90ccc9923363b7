/*
 * The names of one JSON object, told apart by their unescaped octets in fixed space and, whatever a client sends, in
 * linear time.
 */
#ifndef VANILLA_WORKER_JSON_NAMES_H
#define VANILLA_WORKER_JSON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

#define JSON_NAMES_MAX 1024u
#define JSON_NAMES_FEW 16u     /* up to here they are compared one by one */
#define JSON_NAMES_SLOTS 2048u /* a power of two, twice JSON_NAMES_MAX */

struct json_name { /* a checked string's content, still escaped, wherever it stands */
    const char *name_p;
    uint32_t name_len;
    uint32_t name_has_escape;
    uint64_t name_hash; /* of the unescaped octets; made when names are no longer few */
};

struct json_names { /* some 28 KiB, for the stack */
    unsigned names_n;
    struct json_name names_list[JSON_NAMES_MAX];
    uint16_t names_slots[JSON_NAMES_SLOTS]; /* index + 1 into the list; made when names are no longer few */
};

void json_names_init(struct json_names *all);
/* Adds a name.  NULL: fine; else a static sentence: it is there already, or there are too many. */
const char *json_names_add(struct json_names *all, const char *p, size_t len, bool has_escape) MUSTCHECK;
/* Whether a checked string's content, once unescaped, is `plain`. */
bool json_name_eq(const char *p, size_t len, bool has_escape, const char *plain, size_t plain_len);

#endif
