#include "worker/http/respond.h"

#include "conf/conf.h"
#include "worker/http/status.h"
#include "worker/mem/digits.h"

#define PUT(to, literal) put((to), (literal), sizeof(literal) - 1)

static char *put(char *to, const char *p, size_t n);
static char *put_u64(char *to, uint64_t v);
static char *put_allow(char *to, unsigned allow);

size_t respond_head(char *to, const struct respond *respond)
{
    size_t date_at;
    char *p = to + respond_template(to, respond, &date_at);

    if (!respond_is_bodiless(respond->respond_status)) {
        p = put_u64(p, respond->respond_length);
        p = PUT(p, "\r\n");
    }
    if (respond->respond_allow != 0)
        p = put_allow(p, respond->respond_allow);
    if (respond->respond_retry_after != 0) {
        p = PUT(p, "Retry-After: ");
        p = put_u64(p, respond->respond_retry_after - 1);
        p = PUT(p, "\r\n");
    }
    if (respond->respond_close)
        p = PUT(p, "Connection: close\r\n");
    else if (respond->respond_keep_alive)
        p = PUT(p, "Connection: keep-alive\r\n");
    return (size_t)(p - to);
}

size_t respond_template(char *to, const struct respond *respond, size_t *date_at)
{
    struct slice line = http_status_line(respond->respond_status);
    struct slice type = respond->respond_type;
    char *p = put(to, line.slice_p, line.slice_len);

    if (type.slice_p != NULL && !respond_is_bodiless(respond->respond_status)) {
        AN(type.slice_len <= RESPOND_TYPE_MAX);
        p = PUT(p, "Content-Type: ");
        p = put(p, type.slice_p, type.slice_len);
        p = PUT(p, "\r\n");
    }
    if (!respond->respond_anonymous)
        p = PUT(p, "Server: vanilla\r\n");
    if (respond->respond_etag.slice_len > 0) {
        p = PUT(p, "ETag: ");
        p = put(p, respond->respond_etag.slice_p, respond->respond_etag.slice_len);
        p = PUT(p, "\r\n");
    }
    p = PUT(p, "Date: ");
    *date_at = (size_t)(p - to);
    p = put(p, respond->respond_date, 29);
    p = PUT(p, "\r\n");
    if (!respond_is_bodiless(respond->respond_status))
        p = PUT(p, "Content-Length: ");
    return (size_t)(p - to);
}

static inline char *put(char *to, const char *p, size_t n)
{
    memcpy(to, p, n);
    return to + n;
}

static char *put_u64(char *to, uint64_t v)
{
    char room[DIGITS_MAX];
    struct slice digits = digits_of(room, v);

    return put(to, digits.slice_p, digits.slice_len);
}

static char *put_allow(char *to, unsigned allow)
{
    unsigned m;

    to = PUT(to, "Allow: ");
    for (m = 0; m < METHODS_ROUTABLE; m++) {
        const char *name;

        if ((allow & (1u << m)) == 0)
            continue;
        name = conf_method_name((enum conf_method)m);
        to = put(to, name, strlen(name));
        to = PUT(to, ", ");
    }
    return PUT(to - 2, "\r\n");
}
