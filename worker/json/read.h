/*
 * A strict JSON reader (RFC 8259) that allocates nothing: checks a whole document and finds the top-level members asked
 * for. Decided: depth at most 64; no byte order mark; valid UTF-8; no lone surrogates in escapes; no duplicate names at
 * the top level (compared after unescaping); numbers of any length.
 */
#ifndef VANILLA_WORKER_JSON_READ_H
#define VANILLA_WORKER_JSON_READ_H

#include "shm/assert.h"
#include "worker/mem/slice.h"

enum json_kind { JSON_ABSENT, JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_member {
    const char *member_name; /* in: the name looked for */
    size_t member_name_len;
    struct slice member_value;  /* out: the value's octets; of a string without the quotes, still escaped */
    enum json_kind member_kind; /* out: JSON_ABSENT when it was not there */
    bool member_has_escape;     /* out, strings: there is a backslash in it */
    bool member_has_nul;        /* out, strings, arrays and objects: \u0000 is in it */
    bool member_twice;          /* out: it was there more than once, which is why the document was refused */
};

/* Checks that `doc` is one JSON document.  NULL: fine; else a static sentence. *kind, when not NULL, is set to the
 * top-level kind. */
const char *json_check(struct slice doc, enum json_kind *kind, bool *has_nul) MUSTCHECK;

/* Checks that doc is one JSON object and fills `members`.  NULL: fine; else a static sentence (also for duplicate
 * names, and for more than 1024 names at the top level: so far they are told apart in linear time and fixed space). */
const char *json_read_object(struct slice doc, struct json_member *members, unsigned n) MUSTCHECK;

/* Walks a checked string's content one unescaped run at a time: returns the next run of octets (into doc or into
 * scratch[4]) or an empty slice at the end. */
struct slice json_string_next(const char **at, const char *end, char scratch[4]);

/* Walks the elements of a checked array (`[...]` with its brackets): *at is 0 at first; false at the end. */
bool json_array_next(struct slice array, size_t *at, struct slice *value, enum json_kind *kind);

#endif
