/*
 * One HTTP/1.1 request, parsed in place (RFC 9112): slices of the read buffer, no copies.
 */
#ifndef VANILLA_WORKER_HTTP_REQUEST_H
#define VANILLA_WORKER_HTTP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "shm/assert.h"
#include "worker/mem/slice.h"

/* The methods of enum conf_method, and then those that no route can have. */
enum http_method_extra { METHOD_CONNECT = METHODS_ROUTABLE, METHOD_TRACE, METHOD_UNKNOWN };

struct http_memo;

struct http_request {
    struct slice rq_method_name;
    struct slice rq_target; /* as sent */
    struct slice rq_path;   /* of origin-form or absolute-form, still percent-encoded, its escapes are %HEXHEX; begins
                               with '/'; "*" for asterisk-form; slice_p NULL for CONNECT */
    struct slice rq_query;  /* behind '?', without it; slice_p NULL when there is no '?' */
    struct slice rq_fields; /* all field lines as received, each with its CRLF; validated: see http_field_next */
    struct slice rq_host, rq_content_type; /* values, OWS trimmed; absent: slice_p NULL.  rq_host is the authority of an
                                              absolute-form target when there is one (RFC 9112 3.2.2) */
    struct slice rq_cookie;                /* the first Cookie field, see rq_cookies_more */
    struct slice rq_body;       /* set by the connection when all of it is there; decoded when it was chunked */
    uint64_t rq_content_length; /* when rq_has_length; UINT64_MAX for that and for all that does not fit: 413 */
    uint16_t rq_fields_n;
    uint8_t rq_method; /* enum conf_method or http_method_extra */
    uint8_t rq_minor;  /* HTTP/1.<minor>: 0 or 1 (a higher minor is served as 1) */
    bool rq_has_length, rq_chunked;
    bool rq_keep_alive;      /* what the request asks for: version and Connection (RFC 9112 9.3); never for CONNECT */
    bool rq_expect_continue; /* Expect: 100-continue, from an HTTP/1.1 client with a body to come */
    bool rq_path_escaped;    /* there is a '%' in rq_path */
    bool rq_cookies_more;    /* there are Cookie fields behind rq_cookie: http_field_find finds them */
    bool rq_conditional;     /* there is If-None-Match */
    bool rq_coded;           /* Content-Encoding names a coding other than identity */
    bool rq_length_due;      /* a POST, PUT or PATCH with neither length nor chunked: it has no body, and a route that
                                insists on one answers 411 (RFC 9110 15.5.12) */
};

enum http_parse_state { HTTP_PARSE_REQUEST_LINE, HTTP_PARSE_FIELDS, HTTP_PARSE_COMPLETE, HTTP_PARSE_ERROR };

enum http_parse_error { /* why; the connection maps it to a counter */
                        HTTP_BAD_REQUEST,
                        HTTP_BAD_REQUEST_LINE_LIMIT,
                        HTTP_BAD_HEADER_BYTES,
                        HTTP_BAD_HEADERS
};

/* The head's parser: fed as octets come, never looks at an octet twice but to find the line end.  No
 * allocation, no state outside; zeroed by http_parser_init for each request. */
struct http_parser {
    uint32_t parser_line;          /* offset where the line being read begins, or the one that was refused */
    uint32_t parser_scan;          /* offset up to which there is no line end and no control octet */
    uint32_t parser_head;          /* when complete: octets of the head, the empty line included */
    uint32_t parser_fields_at;     /* offset of the first field line; 0: the request line is not through */
    uint16_t parser_status;        /* on error: 400, 414, 417, 421, 431, 501, 505 */
    uint8_t parser_state;          /* enum http_parse_state */
    uint8_t parser_error;          /* enum http_parse_error */
    uint16_t parser_seen;          /* bits private to parse.c: which single fields were seen, codings, ... */
    const char *parser_why;        /* on error: one static sentence for the problem's detail */
    struct http_memo *parser_memo; /* set after http_parser_init: field blocks to know again (memo.h); may be NULL */
};

void http_parser_init(struct http_parser *p);

/* Goes on with the head that starts at base[0], of which len octets are there.  The slices of rq point into base; when
 * the caller moves the octets (a bigger buffer) while the state is still incomplete it calls http_request_rebase first.
 * Returns the state: REQUEST_LINE or FIELDS want more octets; COMPLETE: rq is valid and parser_head says where the body
 * begins; ERROR: parser_status and parser_why, close after the answer. Leading empty lines (RFC 9112 2.2) are skipped
 * and count towards the request line's limit. */
enum http_parse_state http_parse(struct http_parser *p, struct http_request *rq, const char *base, uint32_t len,
                                 const struct conf_limits *limits) MUSTCHECK;

/* Of a head that starts at base[0] and is not complete, or was refused: the field lines that were read and found
 * well-formed, as rq_fields is of others.  slice_p NULL: not even its request line was. */
struct slice http_parser_fields(const struct http_parser *p, const char *base);

/* All slices of rq that are set so far move by (to - from).  Fine at any time after the first http_parse. */
void http_request_rebase(struct http_request *rq, const char *from, const char *to);

/* Walks the field lines of a complete request: *at is 0 at first.  Returns false at the end. */
bool http_field_next(const struct http_request *rq, uint32_t *at, struct slice *name, struct slice *value);
/* The first field named `name` (lower case), from *at on; the way to find repeated ones.  NULL at: from the start. */
bool http_field_find(const struct http_request *rq, const char *name, size_t name_len, uint32_t *at,
                     struct slice *value);

#endif
