/*
 * The head's parser: whole or in pieces, in a buffer that moves, with or without a memory of field blocks, the outcome
 * is the same; slices lie inside the head.
 * The first octet says how to cut, the rest is the request.
 */
#include <stdint.h>

#include "worker/http/memo.h"
#include "worker/http/octet.h"
#include "worker/http/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct http_parser parser;
    struct http_request request;
    char *base;
    uint32_t len;
};

/* Small, so that they are met. */
static const struct conf_limits limits = {
    .limit_request_line = 600, .limit_header_bytes = 1000, .limit_headers = 20, .limit_body_bytes = 1};

static void parse(struct outcome *o, const uint8_t *data, uint32_t size, uint32_t step, struct http_memo *memo)
{
    *o = (struct outcome){0};
    http_parser_init(&o->parser);
    o->parser.parser_memo = memo;
    do {
        uint32_t len = size - o->len < step ? size : o->len + step;
        char *base = malloc(len != 0 ? len : 1);
        AN(base != NULL);
        if (len != 0)
            memcpy(base, data, len);
        if (o->base != NULL)
            http_request_rebase(&o->request, o->base, base);
        free(o->base);
        o->base = base;
        o->len = len;
        enum http_parse_state state = http_parse(&o->parser, &o->request, base, len, &limits);
        AN(state == o->parser.parser_state);
    } while (o->len < size && o->parser.parser_state < HTTP_PARSE_COMPLETE);
}

/* The offset of a slice that lies in base[0..end). */
static long place(const struct outcome *o, struct slice s, uint32_t end)
{
    if (s.slice_p == NULL) {
        AZ(s.slice_len);
        return -1;
    }
    if (s.slice_len == 1 && (s.slice_p < o->base || s.slice_p >= o->base + o->len)) {
        AN(*s.slice_p == '*'); /* the path of OPTIONS http://host */
        AN(o->request.rq_method == METHOD_OPTIONS);
        return -2;
    }
    AN(s.slice_p >= o->base && s.slice_p + s.slice_len <= o->base + end);
    return s.slice_p - o->base;
}

static void same(const struct outcome *a, const struct outcome *b, struct slice x, struct slice y)
{
    AN(x.slice_len == y.slice_len);
    AN(place(a, x, a->parser.parser_head) == place(b, y, b->parser.parser_head));
}

/* What a complete request promises. */
static void check(const struct outcome *o)
{
    const struct http_request *rq = &o->request;
    uint32_t head = o->parser.parser_head, at = 0;
    unsigned n = 0;
    struct slice name, value;

    AN(head <= o->len && memcmp(o->base + head - 2, "\r\n", 2) == 0);
    AN(rq->rq_minor <= 1);
    AN(rq->rq_method <= METHOD_UNKNOWN);
    AZ(rq->rq_chunked && (rq->rq_has_length || rq->rq_minor == 0));
    AN(rq->rq_minor == 0 || rq->rq_host.slice_p != NULL);
    AN(rq->rq_fields.slice_p + rq->rq_fields.slice_len == o->base + head - 2);
    if (rq->rq_path.slice_p == NULL)
        AN(rq->rq_method == METHOD_CONNECT);
    else
        AN(rq->rq_path.slice_p[0] == '/' || (rq->rq_method == METHOD_OPTIONS && rq->rq_path.slice_p[0] == '*'));
    for (size_t i = 0; i < rq->rq_path.slice_len; i++)
        AN(octet_is(rq->rq_path.slice_p[i], OCTET_PATH));
    for (size_t i = 0; i < rq->rq_query.slice_len; i++)
        AN(octet_is(rq->rq_query.slice_p[i], OCTET_QUERY));
    while (http_field_next(rq, &at, &name, &value)) {
        n++;
        AN(name.slice_len != 0);
        AN(place(o, name, head) >= 0 && place(o, value, head) >= 0);
        for (size_t i = 0; i < name.slice_len; i++)
            AN(octet_is(name.slice_p[i], OCTET_TOKEN));
        for (size_t i = 0; i < value.slice_len; i++)
            AZ(octet_is_control(value.slice_p[i]));
    }
    AN(n == rq->rq_fields_n && n <= limits.limit_headers);
    AN(rq->rq_fields.slice_len <= limits.limit_header_bytes);
    at = 0;
    n = 0;
    while (http_field_find(rq, "host", 4, &at, &value))
        n++;
    AN(n == 1 || (n == 0 && rq->rq_minor == 0));
}

/* The fields that were read before a refusal, or before the octets ended: as many however they were cut, and each is
 * one that a complete request might have. */
static void check_refused(const struct outcome *whole, const struct outcome *other)
{
    struct http_request seen = {.rq_fields = http_parser_fields(&whole->parser, whole->base)};
    struct slice others = http_parser_fields(&other->parser, other->base), name, value;
    uint32_t at = 0;

    AN(seen.rq_fields.slice_len == others.slice_len);
    AN((seen.rq_fields.slice_p == NULL) == (others.slice_p == NULL));
    while (http_field_next(&seen, &at, &name, &value)) {
        AN(name.slice_len != 0 && octet_is(name.slice_p[name.slice_len - 1], OCTET_TOKEN));
        for (size_t i = 0; i < value.slice_len; i++)
            AZ(octet_is_control(value.slice_p[i]));
    }
    AN(at == seen.rq_fields.slice_len);
}

static void compare(const struct outcome *whole, const struct outcome *other)
{
    const struct http_request *a = &whole->request, *b = &other->request;

    AN(whole->parser.parser_state == other->parser.parser_state);
    if (whole->parser.parser_state == HTTP_PARSE_ERROR) {
        AN(whole->parser.parser_status == other->parser.parser_status);
        AN(whole->parser.parser_error == other->parser.parser_error);
        AN(whole->parser.parser_why != NULL && whole->parser.parser_why == other->parser.parser_why);
        AN(a->rq_method == b->rq_method);
        check_refused(whole, other);
    } else if (whole->parser.parser_state == HTTP_PARSE_COMPLETE) {
        AN(whole->parser.parser_head == other->parser.parser_head);
        same(whole, other, a->rq_method_name, b->rq_method_name);
        same(whole, other, a->rq_target, b->rq_target);
        same(whole, other, a->rq_path, b->rq_path);
        same(whole, other, a->rq_query, b->rq_query);
        same(whole, other, a->rq_fields, b->rq_fields);
        same(whole, other, a->rq_host, b->rq_host);
        same(whole, other, a->rq_content_type, b->rq_content_type);
        same(whole, other, a->rq_cookie, b->rq_cookie);
        AN(a->rq_body.slice_p == NULL && b->rq_body.slice_p == NULL);
        AN(a->rq_content_length == b->rq_content_length && a->rq_has_length == b->rq_has_length);
        AN(a->rq_fields_n == b->rq_fields_n && a->rq_method == b->rq_method && a->rq_minor == b->rq_minor);
        AN(a->rq_chunked == b->rq_chunked && a->rq_keep_alive == b->rq_keep_alive);
        AN(a->rq_expect_continue == b->rq_expect_continue && a->rq_cookies_more == b->rq_cookies_more);
        AN(a->rq_length_due == b->rq_length_due && a->rq_coded == b->rq_coded);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_memo old; /* from input to input: no outcome may depend on it */
    static struct http_memo fresh;
    struct outcome whole, other;

    if (size == 0 || size > 4096)
        return 0;
    uint32_t pieces = data[0] % 64 + 1, len = (uint32_t)size - 1, one = len != 0 ? len : 1;
    memset(&fresh, 0, sizeof fresh);
    parse(&whole, data + 1, len, one, NULL);
    if (whole.parser.parser_state == HTTP_PARSE_COMPLETE)
        check(&whole);
    for (unsigned way = 0; way < 4; way++) { /* in pieces; remembering it; remembering it again; remembering others */
        parse(&other, data + 1, len, way == 0 ? pieces : one, way == 0 ? NULL : way == 3 ? &old : &fresh);
        compare(&whole, &other);
        free(other.base);
    }
    free(whole.base);
    return 0;
}
