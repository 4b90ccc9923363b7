/* Path segments, percent-encoding and query strings (RFC 3986 3.3, 3.4; WHATWG URL for forms). */
#ifndef VANILLA_WORKER_HTTP_TARGET_H
#define VANILLA_WORKER_HTTP_TARGET_H

#include <stdbool.h>

#include "shm/assert.h"
#include "worker/mem/slice.h"

/* Checks the escapes of s: 0 fine, else a static sentence: a broken escape, %00, or octets that are not UTF-8 once
 * decoded. plus: '+' counts as a space. */
const char *http_escapes_check(struct slice s) MUSTCHECK;
/* Decodes s (checked before) into to (room for slice_len); returns the octets written. */
size_t http_unescape(struct slice s, bool plus, char *to);
/* One decoded octet at a time, for writers that copy: *p advances by 1 or 3. */
int http_unescape_next(const char **p, bool plus);
/* Whether s, once decoded, equals `plain`. */
bool http_unescaped_eq(struct slice s, bool plus, struct slice plain);

/* Walks `name=value` pairs of a query or a form: *at is 0 at first; a pair without '=' has an empty value; empty pairs
 * are skipped. Slices are still encoded.  Returns false at the end. */
bool http_pair_next(struct slice s, size_t *at, struct slice *name, struct slice *value);

/* Whether s is valid UTF-8 (no surrogates, no overlong forms, <= U+10FFFF); NUL is allowed here. */
bool utf8_valid(const char *p, size_t len);

#endif
