/*
 * The head of a request (RFC 9112 2 to 6, RFC 9110 5 to 10), in one pass and octet order: what is refused, and with
 * which status, never depends on how the octets were cut into reads.
 *
 * Longer than most files here, since it is one loop over the octets, which the compiler must see as one.
 *
 * Where the RFCs leave a choice, this was chosen:
 *
 * Lines.  Only CRLF ends a line: a lone LF, a lone CR and every other control octet but HTAB is a 400 at once, in the
 * request line and in fields (9112 2.2 allows LF; what two readers may see differently is refused).  Empty lines before
 * the request line are skipped (9112 2.2), CRLF only, and count towards its limit.  Folded lines are a 400 (9112 5.2),
 * so is any space before the first field (9112 2.2) or before a colon (9112 5.1).
 *
 * Request line.  One SP between its parts, none around (9112 3 allows more).  HTTP/1.2 to 1.9 are served as 1.1, other
 * majors are a 505, all else a 400, also a line without a version.  Methods are case-sensitive; a token that we do not
 * know is METHOD_UNKNOWN, for the connection to answer 501.
 *
 * Targets.  origin-form; absolute-form with http://, whose authority then stands for Host; https:// is a 421, since
 * this connection is not secured (9110 7.4), other schemes, an empty host and user names (9110 4.2.4) are a 400;
 * asterisk-form for OPTIONS only; authority-form with a port for CONNECT only, which has no route and closes the
 * connection, since what follows may already be tunnel data.  OPTIONS of an absolute-form without path and query is
 * asterisk-form (9112 3.2.4).  A fragment, a broken escape and octets that may not stand in a URI are a 400.
 *
 * Host.  Exactly one in HTTP/1.1, at most one in 1.0, valid by RFC 3986 3.2.2 without user name; an IPv6 literal is
 * checked as such.  An empty value passes, a port without a host does not.
 *
 * Body.  Content-Length is digits, leading zeros pass; a second one is a 400 even when it is equal, so is a list.
 * Transfer-Encoding is one field and exactly `chunked`: other codings below chunked are a 501, all else is a 400 (9112
 * 6.1, 6.3), empty list members too.  Both together are a 400; Transfer-Encoding in HTTP/1.0 is a 400.
 *
 * Connection.  `close` wins over `keep-alive`, in any order and over any number of fields; unknown options are passed
 * over.  Upgrade is passed over (9110 7.8).
 *
 * Expect.  Passed over in HTTP/1.0; in 1.1 any member but 100-continue is a 417.  An empty list expects nothing.
 *
 * Content-Encoding.  No coding is undone: a route that takes a body and has not the field as a parameter answers 415
 * (9110 15.5.16), rather than to take the coded octets for the content.  `identity` and empty members pass.
 *
 * Others.  A second Content-Type is a 400, since no reading of it is safe.  Cookie may come in several fields.
 */
#include "worker/http/authority.h"
#include "worker/http/memo.h"
#include "worker/http/octet.h"
#include "worker/http/request.h"

/* parser_seen */
#define SEEN_HOST 1u
#define SEEN_LENGTH 2u
#define SEEN_CODING 4u
#define SEEN_TYPE 8u
#define SEEN_CLOSE 16u
#define SEEN_KEEP_ALIVE 32u
#define SEEN_CONTINUE 64u
#define SEEN_EXPECT_OTHER 128u
#define SEEN_CONDITIONAL 256u /* an answer may depend on it, and the memo does not remember it */
#define SEEN_CODED 512u       /* likewise */

/* Letters in lower case; no other token octet becomes a letter or '-' by it. */
#define LOWER16 UINT16_C(0x2020)
#define LOWER32 UINT32_C(0x20202020)
#define LOWER64 UINT64_C(0x2020202020202020)

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline)) /* kept out of the registers and the stack frame of the common way */
#define APART __attribute__((noinline))      /* so is this, though not that rare */

/* The control octets ahead, 64 octets at a time: one look finds the line ends and what is not allowed in lines. */
struct scan {
    uint64_t scan_mask;         /* bit i: there is one at scan_at + i */
    uint32_t scan_at, scan_end; /* scan_end: looked at so far */
};

enum line_end { LINE_END_LAST, LINE_END_LATER, LINE_END_BAD };

/* OPTIONS for the server as a whole, by a target that has no '*' to point at. */
static const char asterisk[] = "*";

static enum http_parse_state refuse(struct http_parser *p, unsigned status, enum http_parse_error error,
                                    const char *why) COLD;
static enum line_end line_end_odd(struct http_parser *p, const char *base, uint32_t line, uint32_t end, uint32_t len,
                                  bool room, const struct conf_limits *limits) COLD;
static inline void request_clear(struct http_request *rq);
static inline uint32_t scan_next(struct scan *scan, const char *base, uint32_t from, uint32_t len);
static inline void scan_drop(struct scan *scan);
static inline bool may_be_crlf(const char *base, uint32_t at, uint32_t len);
static bool request_line_start(struct http_parser *p, const char *base, uint32_t len, uint32_t limit) COLD;
static enum http_parse_state request_line(struct http_parser *p, struct http_request *rq, const char *base,
                                          uint32_t end, uint32_t len);
static unsigned method_find(const char *name, size_t len);
static inline enum http_parse_state target_origin(struct http_parser *p, struct http_request *rq, const char *base,
                                                  uint32_t at, uint32_t len);
static enum http_parse_state target_other(struct http_parser *p, struct http_request *rq, const char *base,
                                          uint32_t len) COLD;
static bool escapes_whole(const char *at, const char *end);
static enum http_parse_state field(struct http_parser *p, struct http_request *rq, const char *base, uint32_t line,
                                   uint32_t end, uint32_t len);
static enum http_parse_state field_host(struct http_parser *p, struct http_request *rq, struct slice v) APART;
static enum http_parse_state field_length(struct http_parser *p, struct http_request *rq, struct slice v) APART;
static enum http_parse_state field_coding(struct http_parser *p, struct http_request *rq, struct slice v) APART;
static void field_connection(struct http_parser *p, struct slice v) APART;
static void field_expect(struct http_parser *p, struct slice v) APART;
static void field_content_coding(struct http_parser *p, struct http_request *rq, struct slice v) APART;
static inline enum http_parse_state complete(struct http_parser *p, struct http_request *rq, const char *base);
static bool list_next(struct slice *list, struct slice *member);

void http_parser_init(struct http_parser *p)
{
    *p = (struct http_parser){.parser_state = HTTP_PARSE_REQUEST_LINE};
}

enum http_parse_state http_parse(struct http_parser *p, struct http_request *rq, const char *base, uint32_t len,
                                 const struct conf_limits *limits)
{
    struct scan scan = {0};
    struct http_memo *memo = NULL;

    if (LIKELY(p->parser_state == HTTP_PARSE_REQUEST_LINE)) {
        if (p->parser_scan == 0) {
            if (p->parser_memo != NULL && p->parser_line == 0 && memo_head_find(p->parser_memo, p, rq, base, len))
                return HTTP_PARSE_COMPLETE;
            request_clear(rq);
        }
        if (UNLIKELY(p->parser_line >= len || !octet_is(base[p->parser_line], OCTET_TOKEN)) &&
            !request_line_start(p, base, len, limits->limit_request_line))
            return p->parser_state;
        uint32_t end = scan_next(&scan, base, p->parser_scan, len);
        if (UNLIKELY(end > limits->limit_request_line))
            return refuse(p, 414, HTTP_BAD_REQUEST_LINE_LIMIT, "the request line is longer than limits.request_line");
        if (UNLIKELY(len - end < 2 || octet_load16(base + end) != octet_load16("\r\n"))) {
            p->parser_scan = end;
            if (may_be_crlf(base, end, len))
                return HTTP_PARSE_REQUEST_LINE;
            return refuse(p, 400, HTTP_BAD_REQUEST, "a control octet, a lone CR or a lone LF in the request line");
        }
        scan_drop(&scan);
        if (UNLIKELY(request_line(p, rq, base, end, len) == HTTP_PARSE_ERROR))
            return HTTP_PARSE_ERROR;
        if (rq->rq_minor != 0 && rq->rq_host.slice_p == NULL) /* an absolute-form target has its own say about Host */
            memo = p->parser_memo;
        p->parser_line = p->parser_scan = p->parser_fields_at = end + 2;
        p->parser_state = HTTP_PARSE_FIELDS;
        if (memo != NULL) {
            const struct memo_entry *known = memo_find(memo, base + p->parser_line, len - p->parser_line);

            if (LIKELY(known != NULL)) {
                const char *block = base + p->parser_line;

                rq->rq_host = memo_slice_out(known->entry_host, block);
                rq->rq_content_type = memo_slice_out(known->entry_type, block);
                rq->rq_cookie = memo_slice_out(known->entry_cookie, block);
                rq->rq_cookies_more = known->entry_cookies_more;
                rq->rq_fields_n = known->entry_fields_n;
                p->parser_seen = known->entry_seen;
                p->parser_line += known->entry_len - 2u;
                if (UNLIKELY(complete(p, rq, base) != HTTP_PARSE_COMPLETE))
                    return HTTP_PARSE_ERROR;
                memo_head_learn(memo, p, rq, base, len);
                return HTTP_PARSE_COMPLETE;
            }
        }
    }
    if (UNLIKELY(p->parser_state != HTTP_PARSE_FIELDS))
        return p->parser_state;

    uint64_t end_max = (uint64_t)p->parser_fields_at + limits->limit_header_bytes;
    unsigned n = rq->rq_fields_n, n_max = limits->limit_headers < UINT16_MAX ? limits->limit_headers : UINT16_MAX;
    uint32_t line = p->parser_line, from = p->parser_scan;
    if (end_max > len)
        end_max = len;
    while (LIKELY(line < len)) {
        uint32_t end = scan_next(&scan, base, from, len);
        if (UNLIKELY((uint64_t)end + 2 > end_max || n >= n_max || octet_load16(base + end) != octet_load16("\r\n"))) {
            enum line_end what = line_end_odd(p, base, line, end, len, n < n_max, limits);
            if (what == LINE_END_BAD) {
                p->parser_line = line;
                return HTTP_PARSE_ERROR;
            }
            if (what == LINE_END_LATER) {
                from = end;
                break;
            }
        }
        if (UNLIKELY(end == line)) {
            p->parser_line = line;
            rq->rq_fields_n = (uint16_t)n;
            if (memo != NULL && (p->parser_seen & ~(SEEN_TYPE | SEEN_KEEP_ALIVE)) == SEEN_HOST)
                memo_learn(memo, rq, p->parser_seen, base + p->parser_fields_at, line + 2 - p->parser_fields_at);
            return complete(p, rq, base);
        }
        scan_drop(&scan);
        n++;
        if (UNLIKELY(field(p, rq, base, line, end, len) == HTTP_PARSE_ERROR)) {
            p->parser_line = line;
            return HTTP_PARSE_ERROR;
        }
        line = from = end + 2;
    }
    p->parser_line = line;
    p->parser_scan = from;
    rq->rq_fields_n = (uint16_t)n;
    return HTTP_PARSE_FIELDS;
}

struct slice http_parser_fields(const struct http_parser *p, const char *base)
{
    if (p->parser_fields_at == 0)
        return (struct slice){0};
    return (struct slice){base + p->parser_fields_at, p->parser_line - p->parser_fields_at};
}

/* What is not simply the end of one more field line. */
static enum line_end line_end_odd(struct http_parser *p, const char *base, uint32_t line, uint32_t end, uint32_t len,
                                  bool room, const struct conf_limits *limits)
{
    if (end == line && base[end] == '\r') {
        if (end + 1 == len)
            return LINE_END_LATER;
        if (base[end + 1] == '\n')
            return LINE_END_LAST;
        (void)refuse(p, 400, HTTP_BAD_REQUEST, "a lone CR in the fields");
    } else if (!room) {
        (void)refuse(p, 431, HTTP_BAD_HEADERS, "more fields than limits.headers");
    } else if ((uint64_t)end + 2 - p->parser_fields_at > limits->limit_header_bytes) {
        (void)refuse(p, 431, HTTP_BAD_HEADER_BYTES, "the fields are longer than limits.header_bytes");
    } else if (may_be_crlf(base, end, len)) {
        return LINE_END_LATER;
    } else {
        (void)refuse(p, 400, HTTP_BAD_REQUEST, "a control octet, a lone CR or a lone LF in the fields");
    }
    return LINE_END_BAD;
}

/* Field by field: the compiler's own way is a `rep stos`, which takes its time to start. */
static inline void request_clear(struct http_request *rq)
{
    const struct slice absent = {0};

    rq->rq_method_name = rq->rq_target = rq->rq_path = rq->rq_query = rq->rq_fields = absent;
    rq->rq_host = rq->rq_content_type = rq->rq_cookie = rq->rq_body = absent;
    rq->rq_content_length = 0;
    rq->rq_fields_n = 0;
    rq->rq_method = METHOD_UNKNOWN;
    rq->rq_minor = 0;
    rq->rq_has_length = rq->rq_chunked = rq->rq_keep_alive = rq->rq_expect_continue = false;
    rq->rq_cookies_more = rq->rq_length_due = rq->rq_path_escaped = rq->rq_conditional = rq->rq_coded = false;
}

/* The offset of the first control octet from `from` on that was not returned before, or len.  `from` is behind the
 * last one returned, and behind its LF when that was dropped. */
static inline uint32_t scan_next(struct scan *scan, const char *base, uint32_t from, uint32_t len)
{
    while (UNLIKELY(scan->scan_mask == 0)) {
        if (scan->scan_end > from)
            from = scan->scan_end;
        if (from >= len)
            return len;
        scan->scan_at = from;
        scan->scan_end = from + 64;
        scan->scan_mask = octet_controls(base, from, len);
    }
    uint32_t end = scan->scan_at + (unsigned)__builtin_ctzll(scan->scan_mask);
    scan->scan_mask &= scan->scan_mask - 1;
    return end;
}

/* The LF behind the CR just returned is not to be returned.  When the mask ended between them, it is empty, and the
 * next one begins behind both. */
static inline void scan_drop(struct scan *scan)
{
    scan->scan_mask &= scan->scan_mask - 1;
}

/* Whether nothing speaks yet against a CRLF there. */
static inline bool may_be_crlf(const char *base, uint32_t at, uint32_t len)
{
    return at == len || (at + 1 == len && base[at] == '\r');
}

static enum http_parse_state refuse(struct http_parser *p, unsigned status, enum http_parse_error error,
                                    const char *why)
{
    p->parser_status = (uint16_t)status;
    p->parser_error = (uint8_t)error;
    p->parser_why = why;
    p->parser_state = HTTP_PARSE_ERROR;
    return HTTP_PARSE_ERROR;
}

/* Skips empty lines.  Whether there is a first octet, and it can begin a request line: what speaks another protocol
 * (TLS, say) is refused by its first octet, not left waiting for a line end. */
static bool request_line_start(struct http_parser *p, const char *base, uint32_t len, uint32_t limit)
{
    while (p->parser_line < len) {
        uint32_t at = p->parser_line;
        if (octet_is(base[at], OCTET_TOKEN))
            return true;
        if (base[at] == '\r' && at + 1 == len)
            return false;
        if (base[at] != '\r' || base[at + 1] != '\n') {
            (void)refuse(p, 400, HTTP_BAD_REQUEST, "no request line: a method was expected");
            return false;
        }
        p->parser_line = p->parser_scan = at + 2;
        if (p->parser_line > limit) {
            (void)refuse(p, 414, HTTP_BAD_REQUEST_LINE_LIMIT, "more empty lines than limits.request_line allows");
            return false;
        }
    }
    return false;
}

/* base[parser_line..end) without its CRLF; no control octet but HTAB is in it. */
static enum http_parse_state request_line(struct http_parser *p, struct http_request *rq, const char *base,
                                          uint32_t end, uint32_t len)
{
    static const char malformed[] = "the request line is not `METHOD target HTTP/1.1`";
    const char *line = base + p->parser_line, *line_end = base + end;

    if (line_end - line < (long)sizeof "X * HTTP/1.1" - 1)
        return refuse(p, 400, HTTP_BAD_REQUEST, malformed);

    const char *version = line_end - 8;
    rq->rq_minor = 1;
    if (UNLIKELY(octet_load64(version) != octet_load64("HTTP/1.1"))) {
        if (memcmp(version, "HTTP/", 5) != 0 || !octet_is(version[5], OCTET_DIGIT) || version[6] != '.' ||
            !octet_is(version[7], OCTET_DIGIT) || version[-1] != ' ')
            return refuse(p, 400, HTTP_BAD_REQUEST, malformed);
        if (version[5] != '1')
            return refuse(p, 505, HTTP_BAD_REQUEST, "only HTTP/1.1 and HTTP/1.0 are spoken here");
        rq->rq_minor = version[7] != '0';
    }

    size_t method_len;
    if (LIKELY(octet_load32(line) == octet_load32("GET "))) {
        rq->rq_method = METHOD_GET;
        method_len = 3;
    } else {
        for (method_len = 0; octet_is(line[method_len], OCTET_TOKEN);)
            method_len++;
        rq->rq_method = (uint8_t)method_find(line, method_len);
    }
    rq->rq_method_name = (struct slice){line, method_len};

    const char *target = line + method_len + 1, *target_end = version - 1;
    if (UNLIKELY(target[-1] != ' ' || *target_end != ' ' || target >= target_end))
        return refuse(p, 400, HTTP_BAD_REQUEST, malformed);
    rq->rq_target = (struct slice){target, (size_t)(target_end - target)};
    if (LIKELY(*target == '/' && rq->rq_method != METHOD_CONNECT))
        return target_origin(p, rq, base, (uint32_t)(target - base), len);
    return target_other(p, rq, base, len);
}

static unsigned method_find(const char *name, size_t len)
{
    static const struct {
        struct slice name;
        unsigned method;
    } methods[] = {
        {SLICE_LITERAL("POST"), METHOD_POST},       {SLICE_LITERAL("HEAD"), METHOD_HEAD},
        {SLICE_LITERAL("PUT"), METHOD_PUT},         {SLICE_LITERAL("PATCH"), METHOD_PATCH},
        {SLICE_LITERAL("DELETE"), METHOD_DELETE},   {SLICE_LITERAL("OPTIONS"), METHOD_OPTIONS},
        {SLICE_LITERAL("CONNECT"), METHOD_CONNECT}, {SLICE_LITERAL("TRACE"), METHOD_TRACE},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (slice_eq((struct slice){name, len}, methods[i].name))
            return methods[i].method;
    return METHOD_UNKNOWN;
}

/* Path and query, up to the end of rq_target; base[at] is '/' (or '?', where an absolute-form has no path: then rq_path
 * is set already). */
static inline enum http_parse_state target_origin(struct http_parser *p, struct http_request *rq, const char *base,
                                                  uint32_t at, uint32_t len)
{
    const char *end = rq->rq_target.slice_p + rq->rq_target.slice_len; /* a SP, which ends the loops */
    const char *begin = base + at, *next = begin;
    bool escapes = false;

    if (LIKELY(*next == '/')) {
        for (next += octet_target_run(base, at, len); octet_is(*next, OCTET_PATH); next++)
            escapes |= *next == '%';
        rq->rq_path = (struct slice){begin, (size_t)(next - begin)};
        rq->rq_path_escaped = escapes;
    }
    if (*next == '?') {
        const char *query = ++next;
        for (next += octet_target_run(base, (uint32_t)(next - base), len); octet_is(*next, OCTET_QUERY); next++)
            escapes |= *next == '%';
        rq->rq_query = (struct slice){query, (size_t)(next - query)};
    }
    if (UNLIKELY(next != end))
        return refuse(p, 400, HTTP_BAD_REQUEST, "the target has an octet that must be percent-encoded, or a fragment");
    if (UNLIKELY(escapes) && !escapes_whole(begin, end))
        return refuse(p, 400, HTTP_BAD_REQUEST, "a '%' in the target is not followed by two hexadecimal digits");
    return HTTP_PARSE_REQUEST_LINE;
}

/* What does not begin with '/': asterisk-form, absolute-form, authority-form (RFC 9112 3.2). */
static enum http_parse_state target_other(struct http_parser *p, struct http_request *rq, const char *base,
                                          uint32_t len)
{
    struct slice t = rq->rq_target;
    const char *end = t.slice_p + t.slice_len, *why;

    if (rq->rq_method == METHOD_CONNECT) {
        if ((why = authority_check(t, true)) != NULL)
            return refuse(p, 400, HTTP_BAD_REQUEST, why);
        return HTTP_PARSE_REQUEST_LINE;
    }
    if (t.slice_len == 1 && t.slice_p[0] == '*') {
        if (rq->rq_method != METHOD_OPTIONS)
            return refuse(p, 400, HTTP_BAD_REQUEST, "the target `*` is for OPTIONS only");
        rq->rq_path = t;
        return HTTP_PARSE_REQUEST_LINE;
    }
    if (t.slice_len >= 8 && octet_lower_eq((struct slice){t.slice_p, 8}, "https://", 8))
        return refuse(p, 421, HTTP_BAD_REQUEST, "https is not served on this connection");
    if (t.slice_len < 7 || !octet_lower_eq((struct slice){t.slice_p, 7}, "http://", 7))
        return refuse(p, 400, HTTP_BAD_REQUEST, "the target is neither a path nor an http URI");

    struct slice authority = {t.slice_p + 7, 0};
    const char *at = authority.slice_p;
    while (at < end && *at != '/' && *at != '?')
        at++;
    authority.slice_len = (size_t)(at - authority.slice_p);
    if (authority.slice_len == 0)
        return refuse(p, 400, HTTP_BAD_REQUEST, "the target's host is empty");
    if ((why = authority_check(authority, false)) != NULL)
        return refuse(p, 400, HTTP_BAD_REQUEST, why);
    rq->rq_host = authority;
    /* An empty path is "/" (RFC 9110 4.2.3): one of the two before the authority will do. */
    rq->rq_path = (struct slice){t.slice_p + 6, 1};
    if (at == end) {
        if (rq->rq_method == METHOD_OPTIONS)
            rq->rq_path = (struct slice){asterisk, 1};
        return HTTP_PARSE_REQUEST_LINE;
    }
    return target_origin(p, rq, base, (uint32_t)(at - base), len);
}

static bool escapes_whole(const char *at, const char *end)
{
    while ((at = memchr(at, '%', (size_t)(end - at))) != NULL) {
        if (end - at < 3 || !octet_is(at[1], OCTET_HEX) || !octet_is(at[2], OCTET_HEX))
            return false;
        at += 3;
    }
    return true;
}

/* The field line base[line..end), without its CRLF. */
static enum http_parse_state field(struct http_parser *p, struct http_request *rq, const char *base, uint32_t line,
                                   uint32_t end, uint32_t len)
{
    const char *name = base + line, *line_end = base + end;
    uint32_t n = octet_name(base, line, len);

    if (UNLIKELY(n == 0)) {
        if (*name == ' ' || *name == '\t')
            return refuse(p, 400, HTTP_BAD_REQUEST, "a field line begins with white space: folded lines are refused");
        return refuse(p, 400, HTTP_BAD_REQUEST, "a field line is not `name: value`");
    }
    const char *value = name + n + 1;
    switch (n) { /* the lengths of the names that matter to the parser */
    case 4:
        if (LIKELY((octet_load32(name) | LOWER32) == octet_load32("host"))) {
            struct slice host = octet_trim(value, line_end);
            bool plain = octet_plain_host(base, (uint32_t)(host.slice_p - base), host.slice_len, len);
            if (UNLIKELY(!plain || (p->parser_seen & SEEN_HOST) || rq->rq_host.slice_p != NULL))
                return field_host(p, rq, host);
            p->parser_seen |= SEEN_HOST;
            rq->rq_host = host;
        }
        break;
    case 6:
        if ((octet_load32(name) | LOWER32) == octet_load32("cook") &&
            (octet_load16(name + 4) | LOWER16) == octet_load16("ie")) {
            if (rq->rq_cookie.slice_p != NULL)
                rq->rq_cookies_more = true;
            else
                rq->rq_cookie = octet_trim(value, line_end);
        } else if ((octet_load32(name) | LOWER32) == octet_load32("expe") &&
                   (octet_load16(name + 4) | LOWER16) == octet_load16("ct")) {
            field_expect(p, octet_trim(value, line_end));
        }
        break;
    case 10:
        if ((octet_load64(name) | LOWER64) == octet_load64("connecti") &&
            (octet_load16(name + 8) | LOWER16) == octet_load16("on"))
            field_connection(p, octet_trim(value, line_end));
        break;
    case 12:
        if ((octet_load64(name) | LOWER64) == octet_load64("content-") &&
            (octet_load32(name + 8) | LOWER32) == octet_load32("type")) {
            if (p->parser_seen & SEEN_TYPE)
                return refuse(p, 400, HTTP_BAD_REQUEST, "two Content-Type fields");
            p->parser_seen |= SEEN_TYPE;
            rq->rq_content_type = octet_trim(value, line_end);
        }
        break;
    case 13:
        if ((octet_load64(name) | LOWER64) == octet_load64("if-none-") &&
            (octet_load64(name + 5) | LOWER64) == octet_load64("ne-match")) {
            p->parser_seen |= SEEN_CONDITIONAL;
            rq->rq_conditional = true;
        }
        break;
    case 14:
        if ((octet_load64(name) | LOWER64) == octet_load64("content-") &&
            (octet_load64(name + 6) | LOWER64) == octet_load64("t-length"))
            return field_length(p, rq, octet_trim(value, line_end));
        break;
    case 16:
        if ((octet_load64(name) | LOWER64) == octet_load64("content-") &&
            (octet_load64(name + 8) | LOWER64) == octet_load64("encoding"))
            field_content_coding(p, rq, octet_trim(value, line_end));
        break;
    case 17:
        if ((octet_load64(name) | LOWER64) == octet_load64("transfer") &&
            (octet_load64(name + 8) | LOWER64) == octet_load64("-encodin") && (name[16] | 0x20) == 'g')
            return field_coding(p, rq, octet_trim(value, line_end));
        break;
    default:
        break;
    }
    return HTTP_PARSE_FIELDS;
}

/* Of any kind, and not only the first. */
static enum http_parse_state field_host(struct http_parser *p, struct http_request *rq, struct slice v)
{
    const char *why;

    if (p->parser_seen & SEEN_HOST)
        return refuse(p, 400, HTTP_BAD_REQUEST, "two Host fields");
    p->parser_seen |= SEEN_HOST;
    if (v.slice_len != 0 && (why = authority_check(v, false)) != NULL)
        return refuse(p, 400, HTTP_BAD_REQUEST, why);
    if (rq->rq_host.slice_p == NULL)
        rq->rq_host = v;
    return HTTP_PARSE_FIELDS;
}

static enum http_parse_state field_length(struct http_parser *p, struct http_request *rq, struct slice v)
{
    uint64_t n = 0;

    if (p->parser_seen & SEEN_LENGTH)
        return refuse(p, 400, HTTP_BAD_REQUEST, "two Content-Length fields");
    p->parser_seen |= SEEN_LENGTH;
    if (v.slice_len == 0)
        return refuse(p, 400, HTTP_BAD_REQUEST, "Content-Length is empty");
    for (size_t i = 0; i < v.slice_len; i++) {
        unsigned digit = (unsigned char)v.slice_p[i] - (unsigned)'0';
        if (digit > 9)
            return refuse(p, 400, HTTP_BAD_REQUEST, "Content-Length is not a number");
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
            n = UINT64_MAX; /* and stays there: any further digit overflows again */
    }
    rq->rq_content_length = n;
    rq->rq_has_length = true;
    return HTTP_PARSE_FIELDS;
}

static enum http_parse_state field_coding(struct http_parser *p, struct http_request *rq, struct slice v)
{
    struct slice member, last = {0};
    bool others = false, malformed = false; /* before the last */

    if (p->parser_seen & SEEN_CODING)
        return refuse(p, 400, HTTP_BAD_REQUEST, "two Transfer-Encoding fields");
    p->parser_seen |= SEEN_CODING;
    if (LIKELY(octet_lower_eq(v, "chunked", 7))) {
        rq->rq_chunked = true;
        return HTTP_PARSE_FIELDS;
    }
    while (list_next(&v, &member)) {
        if (last.slice_p != NULL) {
            malformed |= last.slice_len == 0 || octet_lower_eq(last, "chunked", 7);
            others = true;
        }
        last = member;
    }
    if (others && !malformed && octet_lower_eq(last, "chunked", 7))
        return refuse(p, 501, HTTP_BAD_REQUEST, "Transfer-Encoding: chunked is the only coding that is understood");
    return refuse(p, 400, HTTP_BAD_REQUEST, "Transfer-Encoding does not end in exactly one `chunked`");
}

static void field_connection(struct http_parser *p, struct slice v)
{
    struct slice option;

    if (LIKELY(v.slice_len == 10 && (octet_load64(v.slice_p) | LOWER64) == octet_load64("keep-ali") &&
               (octet_load16(v.slice_p + 8) | LOWER16) == octet_load16("ve"))) {
        p->parser_seen |= SEEN_KEEP_ALIVE;
        return;
    }
    while (list_next(&v, &option))
        if (octet_lower_eq(option, "close", 5))
            p->parser_seen |= SEEN_CLOSE;
        else if (octet_lower_eq(option, "keep-alive", 10))
            p->parser_seen |= SEEN_KEEP_ALIVE;
}

static void field_expect(struct http_parser *p, struct slice v)
{
    struct slice member;

    while (list_next(&v, &member))
        if (member.slice_len != 0)
            p->parser_seen |= octet_lower_eq(member, "100-continue", 12) ? SEEN_CONTINUE : SEEN_EXPECT_OTHER;
}

static void field_content_coding(struct http_parser *p, struct http_request *rq, struct slice v)
{
    struct slice member;

    while (list_next(&v, &member))
        if (member.slice_len != 0 && !octet_lower_eq(member, "identity", 8)) {
            p->parser_seen |= SEEN_CODED;
            rq->rq_coded = true;
        }
}

/* The empty line is at parser_line.  What no single field can tell. */
static inline enum http_parse_state complete(struct http_parser *p, struct http_request *rq, const char *base)
{
    unsigned seen = p->parser_seen;

    rq->rq_keep_alive = rq->rq_minor != 0;
    if (UNLIKELY((seen & ~(SEEN_TYPE | SEEN_LENGTH | SEEN_KEEP_ALIVE)) != SEEN_HOST || rq->rq_minor == 0)) {
        if (!(seen & SEEN_HOST) && rq->rq_minor != 0)
            return refuse(p, 400, HTTP_BAD_REQUEST, "an HTTP/1.1 request needs a Host field");
        if ((seen & SEEN_CODING) && (seen & SEEN_LENGTH))
            return refuse(p, 400, HTTP_BAD_REQUEST, "both Content-Length and Transfer-Encoding");
        if ((seen & SEEN_CODING) && rq->rq_minor == 0)
            return refuse(p, 400, HTTP_BAD_REQUEST, "Transfer-Encoding in an HTTP/1.0 request");
        if ((seen & SEEN_EXPECT_OTHER) && rq->rq_minor != 0)
            return refuse(p, 417, HTTP_BAD_REQUEST, "100-continue is the only expectation that can be met");
        rq->rq_expect_continue =
            (seen & SEEN_CONTINUE) && rq->rq_minor != 0 && (rq->rq_chunked || rq->rq_content_length != 0);
        rq->rq_keep_alive = !(seen & SEEN_CLOSE) && (rq->rq_minor != 0 || (seen & SEEN_KEEP_ALIVE));
    }
    if (UNLIKELY(rq->rq_method == METHOD_CONNECT))
        rq->rq_keep_alive = false;
    rq->rq_length_due = ((1u << METHOD_POST | 1u << METHOD_PUT | 1u << METHOD_PATCH) >> rq->rq_method & 1) != 0 &&
                        !(seen & (SEEN_LENGTH | SEEN_CODING));
    rq->rq_fields = (struct slice){base + p->parser_fields_at, p->parser_line - p->parser_fields_at};
    p->parser_head = p->parser_line + 2;
    p->parser_state = HTTP_PARSE_COMPLETE;
    return HTTP_PARSE_COMPLETE;
}

/* Cuts the next member, trimmed and maybe empty, off a comma-separated list without quotes.  An empty list has one
 * empty member. */
static bool list_next(struct slice *list, struct slice *member)
{
    if (list->slice_p == NULL)
        return false;
    const char *end = list->slice_p + list->slice_len;
    const char *comma = memchr(list->slice_p, ',', list->slice_len);
    *member = octet_trim(list->slice_p, comma != NULL ? comma : end);
    *list = comma != NULL ? (struct slice){comma + 1, (size_t)(end - comma - 1)} : (struct slice){0};
    return true;
}
