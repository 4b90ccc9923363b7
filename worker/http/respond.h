/* The head of a response (RFC 9112 4, RFC 9110 6). */
#ifndef VANILLA_WORKER_HTTP_RESPOND_H
#define VANILLA_WORKER_HTTP_RESPOND_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/mem/slice.h"

struct respond {
    unsigned respond_status;
    struct slice respond_type;              /* Content-Type's value; slice_p NULL: none */
    uint64_t respond_length;                /* of the body; not sent for 1xx, 204, 304 */
    unsigned respond_allow;                 /* bits of enum conf_method: Allow; 0: none */
    unsigned respond_retry_after;           /* seconds + 1; 0: none */
    bool respond_close, respond_keep_alive; /* Connection: close, or keep-alive for an HTTP/1.0 client */
    bool respond_anonymous;                 /* no Server */
    struct slice respond_etag;              /* with its quotes; of length 0: none */
    const char *respond_date;               /* 29 octets, IMF-fixdate */
};

#define RESPOND_HEAD_MAX 768u /* with a Content-Type of up to RESPOND_TYPE_MAX octets */
#define RESPOND_TYPE_MAX 256u

/* Writes the head to `to` (room for RESPOND_HEAD_MAX octets) without the empty line that ends it; returns the octets
 * written. */
size_t respond_head(char *to, const struct respond *respond);

/* The beginning of such a head, up to Content-Length's digits: what can be made ready before the length is known.
 * Returns the octets written; *date_at is where in it the date stands. */
size_t respond_template(char *to, const struct respond *respond, size_t *date_at);

/* Whether a response of this status has neither body nor Content-Length (RFC 9110 6.4.1, 8.6). */
static inline bool respond_is_bodiless(unsigned status)
{
    return status == 204 || status == 304 || status < 200;
}

#endif
