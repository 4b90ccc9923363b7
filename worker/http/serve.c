/* From octets to requests to handlers: parses what a connection has read, collects bodies, and runs what is complete.
 */
#include <string.h>
#include <sys/socket.h>

#include "worker/http/server.h"
#include "worker/mem/plant.h"
#include "worker/route/exact.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static bool conn_hold(const struct conn *c);
static inline bool conn_short(const struct conn *c);
static bool is_safe(const struct request *r);
static struct request *request_begin(struct conn *c);
static bool head_parse(struct conn *c, struct request *r);
static bool head_complete(struct conn *c, struct request *r);
static bool head_unwanted(struct conn *c, struct request *r);
static bool body_collect(struct conn *c, struct request *r);
static bool body_chunks(struct conn *c, struct request *r, char *in, size_t n, size_t *consumed);
static bool body_grow(struct conn *c, struct request *r);
static void body_leftover(struct conn *c, const char *p, size_t n);
static bool head_room(struct conn *c);
static void request_run(struct conn *c, struct request *r);
static enum handler_result request_find(struct conn *c, struct request *r) __attribute__((noinline));
static inline enum handler_result request_handle(struct request *r, int route, const struct slice *args);
static inline void request_ran(struct conn *c, struct request *r, enum handler_result result);
static inline void request_start(struct conn *c, struct request *r, int route, const struct slice *argument);
static inline bool request_fixed(struct conn *c, struct request *r, const struct server_route *route);

bool conn_room(struct conn *c, char **to, size_t *room)
{
    struct request *r = c->conn_reading;

    /* One that is held is complete, though those before it may have been answered meanwhile: it wants nothing, and what
     * is in the buffer belongs to those behind it. */
    if (conn_hold(c) || (r != NULL && r->req_state == REQUEST_HELD)) {
        c->conn_held = true;
        return false;
    }
    if (r == NULL && conn_short(c)) {
        conn_line_up(c);
        return false;
    }
    if (r != NULL && r->req_in_body && r->req_body_buf != NULL) {
        struct buf *b = r->req_body_buf;

        if (r->req_http.rq_chunked && r->req_body_len == b->buf_size && !body_grow(c, r))
            return false;
        b = r->req_body_buf;
        *to = r->req_body + r->req_body_len;
        *room = r->req_http.rq_chunked ? b->buf_size - r->req_body_len
                                       : (size_t)r->req_http.rq_content_length - r->req_body_len;
        return true;
    }
    if (c->conn_buf == NULL) {
        c->conn_buf = buf_get(c->conn_server->server_buffers, c->conn_big_reads ? 4 * BUF_DATA_MIN : BUF_DATA_MIN);
        c->conn_big_reads = false;
        if (c->conn_buf == NULL) {
            conn_no_buffers(c);
            return false;
        }
        if (UNLIKELY(c->conn_stub != NULL))
            stub_take(c);
    }
    if (c->conn_buf->buf_end == c->conn_buf->buf_size) {
        if (r != NULL && r->req_in_body) { /* only a chunked body gets here: others have their place */
            if (!body_grow(c, r))
                return false;
            return conn_room(c, to, room);
        }
        if (!head_room(c))
            return false;
    }
    *to = (char *)c->conn_buf->buf_data + c->conn_buf->buf_end;
    *room = c->conn_buf->buf_size - c->conn_buf->buf_end;
    return true;
}

void conn_received(struct conn *c, size_t n)
{
    struct request *r = c->conn_reading;

    if (r == NULL || !r->req_in_body || r->req_body_buf == NULL) {
        c->conn_buf->buf_end += (uint32_t)n;
        if (c->conn_buf->buf_end == c->conn_buf->buf_size)
            c->conn_big_reads = true;
        return;
    }
    if (r->req_http.rq_chunked) {
        char *in = r->req_body + r->req_body_len;
        size_t consumed;

        if (body_chunks(c, r, in, n, &consumed) && consumed < n)
            body_leftover(c, in + consumed, n - consumed);
    } else {
        r->req_body_len += n;
    }
}

void conn_serve(struct conn *c)
{
    while (!c->conn_closing) {
        struct request *r = c->conn_reading;

        if (r == NULL) {
            if (c->conn_buf == NULL || c->conn_buf->buf_start == c->conn_buf->buf_end)
                break;
            if (UNLIKELY(c->conn_proxy)) {
                if (!conn_proxy_header(c))
                    break;
                continue;
            }
            if (conn_hold(c)) {
                c->conn_held = true;
                break;
            }
            if (conn_short(c)) {
                conn_line_up(c);
                break;
            }
            r = request_begin(c);
            if (r == NULL)
                break;
        }
        if (!r->req_in_body && (!head_parse(c, r) || !head_complete(c, r)))
            break;
        if (r->req_state != REQUEST_HELD && !body_collect(c, r))
            break;
        /* What it does must not overtake those before it (RFC 9110 9.2.2, RFC 9112 9.3.2); bodies of many safe requests
         * would be much to keep at the same time. */
        if (c->conn_requests_n > 0 && (!is_safe(r) || r->req_body_buf != NULL)) {
            r->req_state = REQUEST_HELD;
            c->conn_held = true;
            break;
        }
        c->conn_reading = NULL;
        request_run(c, r);
    }
    if (c->conn_buf != NULL && c->conn_buf->buf_start == c->conn_buf->buf_end &&
        (c->conn_reading == NULL || c->conn_reading->req_body_buf != NULL))
        buf_unref(c->conn_server->server_buffers, &c->conn_buf);
}

bool conn_waits(const struct conn *c)
{
    const struct request *r = c->conn_reading;

    return conn_hold(c) || (r == NULL ? conn_short(c) : r->req_state == REQUEST_HELD && c->conn_requests_n > 0);
}

/* Whether no further request may begin now. */
static bool conn_hold(const struct conn *c)
{
    const struct request *first = TAILQ_FIRST(&c->conn_requests);

    if (first == NULL)
        return conn_is_behind(c);
    return c->conn_requests_n >= SERVER_PIPELINE_MAX || conn_is_behind(c) || c->conn_serial || !is_safe(first);
}

/* Whether there is no place for one more behind those in progress: each connection has one for its first, and what is
 * pipelined behind shares what else there is, one at a time where others wait.  It stays in the buffer, or in the
 * kernel's, until it is called, or those before it are answered: then it is the first. */
static inline bool conn_short(const struct conn *c)
{
    const struct server *s = c->conn_server;

    if (c->conn_requests_n == 0 || c->conn_called || c->conn_stub != NULL) /* the latter's head is read to its end */
        return false;
    return s->server_extra + s->server_called >= s->server_extra_max || !TAILQ_EMPTY(&s->server_lists[CONN_PLACE]);
}

void conn_line_again(struct conn *c)
{
    if (c->conn_reading == NULL && !conn_hold(c) && conn_short(c))
        conn_line_up(c);
}

static bool is_safe(const struct request *r)
{
    switch (r->req_http.rq_method) {
    case METHOD_GET:
    case METHOD_HEAD:
    case METHOD_OPTIONS:
        return true;
    default:
        return false;
    }
}

static struct request *request_begin(struct conn *c)
{
    struct server *s = c->conn_server;
    struct request *r = slab_get(s->server_requests);

    if (r == NULL) { /* there is one for each connection, and for each that server_extra_max allows: see places() */
        conn_no_buffers(c);
        return NULL;
    }
    memset(r, 0, offsetof(struct request, req_conn)); /* the parser clears req_http */
    r->magic = REQUEST_MAGIC;
    r->req_conn = c;
    r->req_server = s;
    r->req_out.out_buffers = s->server_buffers;
    r->req_fields.out_head = NULL;
    r->req_query.magic = 0;
    r->req_extra = c->conn_requests_n > 0;
    if (UNLIKELY(r->req_extra)) {
        s->server_extra++;
        conn_uncall(c);
    }
    r->req_peer[0] = '\0';
    r->req_parser.parser_memo = s->server_memo;
    c->conn_reading = r;
    return r;
}

/* True: the head is complete. */
static bool head_parse(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;
    struct buf *b = c->conn_buf;

    switch (http_parse(&r->req_parser, &r->req_http, (const char *)b->buf_data + b->buf_start,
                       b->buf_end - b->buf_start, &s->server_limits)) {
    case HTTP_PARSE_COMPLETE:
        return true;
    case HTTP_PARSE_ERROR:
        switch ((enum http_parse_error)r->req_parser.parser_error) {
        case HTTP_BAD_REQUEST:
            server_count(s, STAT_limit_bad_request, 1);
            break;
        case HTTP_BAD_REQUEST_LINE_LIMIT:
            server_count(s, STAT_limit_request_line, 1);
            break;
        case HTTP_BAD_HEADER_BYTES:
            server_count(s, STAT_limit_header_bytes, 1);
            break;
        case HTTP_BAD_HEADERS:
            server_count(s, STAT_limit_headers, 1);
            break;
        }
        conn_refuse(c, r->req_parser.parser_status, r->req_parser.parser_why);
        return false;
    case HTTP_PARSE_REQUEST_LINE:
    case HTTP_PARSE_FIELDS:
        break;
    }
    return false;
}

/* The head is there: takes hold of it and finds a place for the body.  False: refused. */
static bool head_complete(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;
    struct http_request *rq = &r->req_http;
    struct buf *b = c->conn_buf;

    r->req_head_buf = b;
    b->buf_refs++;
    b->buf_start += r->req_parser.parser_head;
    r->req_in_body = true;
    c->conn_timed = false;
    r->req_body = (char *)b->buf_data + b->buf_start;
    r->req_body_len = 0;
    if (!rq->rq_keep_alive)
        r->req_close = true;
    if (!rq->rq_has_length && !rq->rq_chunked)
        return true;
    if (rq->rq_has_length && rq->rq_content_length > s->server_limits.limit_body_bytes) {
        server_count(s, STAT_limit_body_bytes, 1);
        conn_refuse(c, 413, "the body is larger than limits.body_bytes");
        return false;
    }
    if (rq->rq_expect_continue) {
        if (head_unwanted(c, r))
            return false;
        r->req_continue = true;
        conn_touch(c);
    }
    memset(&r->req_chunked, 0, sizeof(r->req_chunked));
    if (rq->rq_has_length && rq->rq_content_length > b->buf_size - b->buf_start) {
        size_t have = b->buf_end - b->buf_start;

        r->req_body_buf = buf_get(s->server_buffers, (size_t)rq->rq_content_length);
        if (r->req_body_buf == NULL) {
            conn_no_buffers(c);
            return false;
        }
        memcpy(r->req_body_buf->buf_data, r->req_body, have);
        r->req_body = (char *)r->req_body_buf->buf_data;
        r->req_body_len = have;
        b->buf_start = b->buf_end;
    }
    return true;
}

/* A client that waits for 100 Continue is told at once when its body would be in vain. */
static bool head_unwanted(struct conn *c, struct request *r)
{
    struct route_match m;

    if (r->req_http.rq_method >= METHODS_ROUTABLE)
        return false;
    router_match(c->conn_server->server_router, r->req_http.rq_method, r->req_http.rq_path, &m);
    if (m.match_route >= 0)
        return false;
    r->req_close = true; /* the body may or may not come: where the next request would begin is in doubt */
    c->conn_reading = NULL;
    c->conn_linger = true;
    request_run(c, r);
    return true;
}

/* True: the body is complete. */
static bool body_collect(struct conn *c, struct request *r)
{
    struct http_request *rq = &r->req_http;
    struct buf *b = c->conn_buf;

    if (rq->rq_has_length) {
        if (r->req_body_buf == NULL && b != NULL) {
            size_t want = (size_t)rq->rq_content_length - r->req_body_len;
            size_t have = b->buf_end - b->buf_start;

            if (have > want)
                have = want;
            r->req_body_len += have;
            b->buf_start += (uint32_t)have;
        }
        if (r->req_body_len < rq->rq_content_length)
            return false;
    } else if (rq->rq_chunked && !r->req_body_done) {
        size_t consumed;

        if (r->req_body_buf != NULL || b == NULL || b->buf_start == b->buf_end)
            return false;
        if (!body_chunks(c, r, (char *)b->buf_data + b->buf_start, b->buf_end - b->buf_start, &consumed)) {
            if (c->conn_closing)
                return false;
            /* All of it was taken: what comes next goes right behind what was decoded. */
            b->buf_start = b->buf_end = (uint32_t)(r->req_body + r->req_body_len - (char *)b->buf_data);
            return false;
        }
        b->buf_start += (uint32_t)consumed;
    }
    rq->rq_body = (struct slice){r->req_body, r->req_body_len};
    return true;
}

/* Decodes n octets at `in`, which lies behind what was decoded before.  True: the body is complete. */
static bool body_chunks(struct conn *c, struct request *r, char *in, size_t n, size_t *consumed)
{
    struct server *s = c->conn_server;
    enum http_chunked_result result;

    result = http_chunked(&r->req_chunked, in, n, consumed, r->req_body + r->req_body_len, &r->req_body_len,
                          s->server_limits.limit_body_bytes, s->server_limits.limit_header_bytes);
    switch (result) {
    case CHUNKED_DONE:
        r->req_body_done = true;
        return true;
    case CHUNKED_MORE:
        break;
    case CHUNKED_ERROR:
        server_count(s, STAT_limit_bad_request, 1);
        conn_refuse(c, 400, r->req_chunked.chunked_why);
        break;
    case CHUNKED_TOO_LARGE:
        server_count(s, STAT_limit_body_bytes, 1);
        conn_refuse(c, 413, "the body is larger than limits.body_bytes");
        break;
    }
    return false;
}

/* A chunked body has filled its block: moves it to one of twice the size.  False: none to be had. */
static bool body_grow(struct conn *c, struct request *r)
{
    struct buffers *bs = c->conn_server->server_buffers;
    struct buf *b = buf_get(bs, 2 * r->req_body_len + (size_t)4 * BUF_DATA_MIN);

    if (b == NULL) {
        conn_no_buffers(c);
        return false;
    }
    memcpy(b->buf_data, r->req_body, r->req_body_len);
    if (r->req_body_buf != NULL)
        buf_put(bs, &r->req_body_buf);
    else
        buf_unref(bs, &c->conn_buf); /* all of it was body; the request holds it for its head */
    r->req_body_buf = b;
    r->req_body = (char *)b->buf_data;
    return true;
}

/* What came behind a chunked body that has a block of its own is the beginning of the next request. */
static void body_leftover(struct conn *c, const char *p, size_t n)
{
    AN(c->conn_buf == NULL);
    c->conn_buf = buf_get(c->conn_server->server_buffers, n);
    if (c->conn_buf == NULL) {
        c->conn_reading->req_close = true; /* its answer is the last one: the rest is lost */
        return;
    }
    memcpy(c->conn_buf->buf_data, p, n);
    c->conn_buf->buf_end = (uint32_t)n;
}

/* The block is full in the middle of a head: moves what is there to the front, or to another block.  False: none to be
 * had. */
static bool head_room(struct conn *c)
{
    struct buffers *bs = c->conn_server->server_buffers;
    struct buf *b = c->conn_buf, *to = b;
    uint32_t have = b->buf_end - b->buf_start;
    const char *from = (const char *)b->buf_data + b->buf_start;

    if (b->buf_refs > 1 || b->buf_start == 0) {
        to = buf_get(bs, b->buf_start == 0 ? 2 * (size_t)b->buf_size : b->buf_size);
        if (to == NULL) {
            conn_no_buffers(c);
            return false;
        }
    }
    memmove(to->buf_data, from, have);
    if (c->conn_reading != NULL)
        http_request_rebase(&c->conn_reading->req_http, from, (const char *)to->buf_data);
    if (to != b)
        buf_unref(bs, &c->conn_buf);
    c->conn_buf = to;
    to->buf_start = 0;
    to->buf_end = have;
    return true;
}

/* Runs a complete request. */
static void request_run(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;
    struct slice argument;
    int route = -1;

    PLANT("request");
    r->req_started_ns = s->server_now_ns;
    if (r->req_http.rq_method == METHOD_GET && !r->req_http.rq_path_escaped && !c->conn_shed) {
        route = exact_find(s->server_exact, r->req_http.rq_path, &argument);
        if (route >= 0 && request_fixed(c, r, &s->server_routes[route]))
            return;
    }
    request_start(c, r, route, &argument);
}

/* One that its handler is to be asked about. */
static inline void request_start(struct conn *c, struct request *r, int route, const struct slice *argument)
{
    struct server *s = c->conn_server;

    server_count(s, STAT_http_requests, 1);
    r->req_behind = c->conn_requests_n > 0;
    if (r->req_behind)
        server_count(s, STAT_http_pipelined, 1);
    r->req_continue = false;
    r->req_state = REQUEST_RUNNING;
    TAILQ_INSERT_TAIL(&c->conn_requests, r, req_link);
    c->conn_requests_n++;
    if (r->req_close)
        c->conn_closing = true;
    request_ran(c, r,
                UNLIKELY(s->server_careful) ? request_careful(c, r, route, argument)
                : route >= 0                ? request_handle(r, route, argument)
                                            : request_find(c, r));
}

void conn_resume(struct conn *c)
{
    struct request *r = TAILQ_FIRST(&c->conn_requests);

    if (r == NULL || r->req_state != REQUEST_DEFERRED)
        return;
    r->req_behind = false;
    r->req_state = REQUEST_RUNNING;
    request_ran(c, r, request_find(c, r));
}

/* What its handler has made of it. */
static inline void request_ran(struct conn *c, struct request *r, enum handler_result result)
{
    switch (result) {
    case HANDLER_SUSPEND:
        r->req_state = REQUEST_SUSPENDED;
        return;
    case HANDLER_CLOSE:
        r->req_close = true;
        break;
    case HANDLER_DONE:
        if (UNLIKELY(r->req_out.out_error == OUT_SHARE)) {
            request_defer(r);
            return;
        }
        break;
    }
    r->req_state = REQUEST_ANSWERED;
    request_render(r);
    conn_answer(c);
}

/* An answer that never changes, to the usual kind of request: straight to the output.  False: not this time. */
static inline bool request_fixed(struct conn *c, struct request *r, const struct server_route *route)
{
    struct server *s = c->conn_server;
    size_t len = route->route_fixed_len, sent = 0;

    if (route->route_fixed == NULL || c->conn_requests_n != 0 ||
        (r->req_close | r->req_http.rq_conditional | s->server_careful) || r->req_http.rq_minor == 0)
        return false;
    if (c->conn_out.out_bytes == 0 && c->conn_writable && c->conn_buf->buf_start == c->conn_buf->buf_end) {
        ssize_t n = send(c->conn_fd, route->route_fixed, len, MSG_NOSIGNAL); /* the only answer of this turn: no copy */

        if (LIKELY(n == (ssize_t)len)) {
            server_count(s, STAT_http_bytes_out, len);
            goto counted;
        }
        if (n > 0) {
            server_count(s, STAT_http_bytes_out, (uint64_t)n);
            sent = (size_t)n;
        } /* whatever was in the way will be met again by conn_send */
    }
    out_write(&c->conn_out, route->route_fixed + sent, len - sent);
    if (c->conn_out.out_error != OUT_OK) {
        c->conn_out.out_error = OUT_OK; /* nothing was written: it fits into one block */
        if (sent == 0)
            return false;
        c->conn_closing = true; /* half an answer is out and the other half has no place */
    }
counted:
    server_count(s, STAT_http_requests, 1);
    request_count(r, route, route->route_status);
    request_free(r);
    return true;
}

enum handler_result request_dispatch(struct conn *c, struct request *r, int route, const struct slice *argument)
{
    return route >= 0 ? request_handle(r, route, argument) : request_find(c, r);
}

/* A path with parameters, another method than GET, or nothing that there is a route for. */
static enum handler_result request_find(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;
    struct route_match m;

    if (c->conn_shed) {
        request_turn_away(c, r);
        return HANDLER_CLOSE;
    }
    if (r->req_http.rq_method >= METHODS_ROUTABLE && r->req_http.rq_method != METHOD_TRACE) {
        request_problem(r, 501, &(struct problem){.problem_detail = SLICE_LITERAL("the method is not implemented")});
        return HANDLER_CLOSE;
    }
    if (r->req_http.rq_path.slice_p[0] == '*') { /* OPTIONS * (RFC 9110 9.3.7) */
        r->req_allow = (1u << METHODS_ROUTABLE) - 1;
        r->req_status = 204;
        return HANDLER_DONE;
    }
    router_match(s->server_router, r->req_http.rq_method, r->req_http.rq_path, &m);
    if (m.match_route >= 0)
        return request_handle(r, m.match_route, m.match_args);
    if (m.match_bad != NULL) {
        request_problem(r, 400, &(struct problem){.problem_detail = {m.match_bad, strlen(m.match_bad)}});
        return HANDLER_DONE;
    }
    if (m.match_allow == 0) {
        request_problem(r, 404, &(struct problem){.problem_detail = SLICE_LITERAL("no route has this path")});
        return HANDLER_DONE;
    }
    r->req_allow = (uint16_t)m.match_allow;
    if (r->req_http.rq_method == METHOD_OPTIONS) {
        r->req_status = 204;
        return HANDLER_DONE;
    }
    request_problem(
        r, 405, &(struct problem){.problem_detail = SLICE_LITERAL("the path has routes, but none for this method")});
    return HANDLER_DONE;
}

static inline enum handler_result request_handle(struct request *r, int route, const struct slice *args)
{
    const struct server_route *found = &r->req_server->server_routes[route];

    r->req_route = found;
    r->req_status = (uint16_t)found->route_conf->route_status;
    r->req_args = args;
    if (UNLIKELY(r->req_behind) && found->route_large && found->route_once) {
        r->req_out.out_error = OUT_SHARE; /* it cannot be known beforehand, nor asked for again: it has to wait */
        return HANDLER_DONE;
    }
    return found->route_handler->handler_request(r, found->route_state);
}
