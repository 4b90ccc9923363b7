#include "worker/http/request.h"

#include "worker/http/octet.h"

static void rebase(struct slice *s, const char *from, const char *to);

void http_request_rebase(struct http_request *rq, const char *from, const char *to)
{
    /* The path lies in the target, but for that of `OPTIONS http://host`, which is a constant. */
    uintptr_t path = (uintptr_t)rq->rq_path.slice_p, target = (uintptr_t)rq->rq_target.slice_p;
    bool fixed = path < target || path - target >= rq->rq_target.slice_len;

    rebase(&rq->rq_method_name, from, to);
    if (!fixed)
        rebase(&rq->rq_path, from, to);
    rebase(&rq->rq_target, from, to);
    rebase(&rq->rq_query, from, to);
    rebase(&rq->rq_fields, from, to);
    rebase(&rq->rq_host, from, to);
    rebase(&rq->rq_content_type, from, to);
    rebase(&rq->rq_cookie, from, to);
    rebase(&rq->rq_body, from, to);
}

static void rebase(struct slice *s, const char *from, const char *to)
{
    if (s->slice_p != NULL)
        s->slice_p = to + (s->slice_p - from);
}

bool http_field_next(const struct http_request *rq, uint32_t *at, struct slice *name, struct slice *value)
{
    if (*at >= rq->rq_fields.slice_len)
        return false;
    const char *line = rq->rq_fields.slice_p + *at;
    size_t left = rq->rq_fields.slice_len - *at;
    const char *end = memchr(line, '\r', left); /* in a complete request each line has its colon and its CRLF */
    AN(end != NULL);
    const char *colon = memchr(line, ':', (size_t)(end - line));
    AN(colon != NULL);
    *name = (struct slice){line, (size_t)(colon - line)};
    *value = octet_trim(colon + 1, end);
    *at += (uint32_t)(end + 2 - line);
    return true;
}

bool http_field_find(const struct http_request *rq, const char *name, size_t name_len, uint32_t *at,
                     struct slice *value)
{
    uint32_t start = 0;
    struct slice found;

    if (at == NULL)
        at = &start;
    while (http_field_next(rq, at, &found, value))
        if (octet_lower_eq(found, name, name_len))
            return true;
    return false;
}
