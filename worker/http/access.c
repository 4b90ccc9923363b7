#include "worker/http/access.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/log.h"
#include "worker/http/octet.h"
#include "worker/mem/digits.h"

#define ACCESS_MAGIC 0xacce5501u
#define ACCESS_OCTETS 65536u
#define TARGET_MAX 2048u /* octets of it in a line, escapes included; what is longer is cut */
#define ROUTE_MAX 1024u
#define TRACEPARENT_LEN 55u
#define TIME_LEN 24u /* 2026-01-01T00:00:00.000Z */

struct access {
    unsigned magic;
    bool access_json;
    time_t access_second; /* whose time is written in access_time */
    char access_time[64];
    size_t access_used;
    char access_octets[ACCESS_OCTETS];
};

/* What a line says.  Absent: slice_p NULL. */
struct note {
    struct slice note_client, note_method, note_target, note_route_method, note_route, note_trace;
    unsigned note_status;
    bool note_abandoned;
    uint64_t note_body, note_us;
    int note_minor; /* HTTP/1.<minor>; -1: unknown */
};

static void note_request(struct access *a, struct request *r, struct note *note);
static void note_put(struct access *a, const struct note *note);
static char *put_json(char *at, const struct access *a, const struct note *note);
static char *put_text(char *at, const struct access *a, const struct note *note);
static void access_clock(struct access *a);
static char *put(char *at, const char *text);
static char *put_slice(char *at, struct slice s);
static char *put_u64(char *at, uint64_t v);
static char *put_escaped(char *at, struct slice s, size_t max, bool json);
static struct slice peer_text(const struct in6_addr *peer, char text[INET6_ADDRSTRLEN]);
static bool is_lower_hex(const char *p, size_t n, bool *zero);

struct access *access_new(bool json)
{
    struct access *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->magic = ACCESS_MAGIC;
    a->access_json = json;
    a->access_second = -1;
    return a;
}

void access_free(struct access **ap)
{
    if (*ap == NULL)
        return;
    access_flush(*ap);
    free(*ap);
    *ap = NULL;
}

void access_note(struct access *a, struct request *r, uint64_t body)
{
    struct note note = {.note_status = r->req_status, .note_body = body};

    note_request(a, r, &note);
}

void access_note_abandoned(struct access *a, struct request *r)
{
    struct note note = {.note_status = ACCESS_ABANDONED, .note_abandoned = true};

    note_request(a, r, &note);
}

static void note_request(struct access *a, struct request *r, struct note *note)
{
    const struct http_request *rq = &r->req_http;
    uint32_t at = 0;
    struct slice value, second;

    note->note_client = request_peer(r);
    note->note_method = rq->rq_method_name;
    note->note_target = rq->rq_target;
    note->note_us = (r->req_server->server_now_ns - r->req_started_ns) / 1000u;
    note->note_minor = rq->rq_method_name.slice_p != NULL ? rq->rq_minor : -1;
    if (r->req_route != NULL) {
        const char *method = conf_method_name(r->req_route->route_conf->route_method);

        note->note_route_method = (struct slice){method, strlen(method)};
        note->note_route =
            (struct slice){r->req_route->route_conf->route_path, strlen(r->req_route->route_conf->route_path)};
    }
    if (http_field_find(rq, "traceparent", 11, &at, &value) && !http_field_find(rq, "traceparent", 11, &at, &second))
        note->note_trace = access_traceparent(value);
    note_put(a, note);
}

void access_note_emergency(struct access *a, const struct conn *c, unsigned status, uint64_t body)
{
    char client[INET6_ADDRSTRLEN];
    struct note note = {.note_status = status, .note_body = body, .note_minor = -1};

    note.note_client = peer_text(&c->conn_peer, client);
    note_put(a, &note);
}

static void note_put(struct access *a, const struct note *note)
{
    char *at = a->access_octets + a->access_used;

    CHECK_OBJ(a, ACCESS_MAGIC);
    if (ACCESS_OCTETS - a->access_used < ACCESS_LINE_MAX) {
        access_flush(a);
        if (ACCESS_OCTETS - a->access_used < ACCESS_LINE_MAX) {
            stat_add(STAT_log_dropped, 1);
            return;
        }
        at = a->access_octets + a->access_used;
    }
    access_clock(a);
    at = a->access_json ? put_json(at, a, note) : put_text(at, a, note);
    *at++ = '\n';
    a->access_used = (size_t)(at - a->access_octets);
    AN(a->access_used <= ACCESS_OCTETS);
}

void access_flush(struct access *a)
{
    size_t done;

    if (a->access_used == 0)
        return;
    done = log_access_write(a->access_octets, a->access_used);
    a->access_used -= done;
    if (a->access_used > 0 && done > 0)
        memmove(a->access_octets, a->access_octets + done, a->access_used);
}

static char *put_json(char *at, const struct access *a, const struct note *note)
{
    at = put(at, "{\"time\":\"");
    at = put_slice(at, (struct slice){a->access_time, TIME_LEN});
    at = put(at, "\",\"client\":\"");
    at = put_slice(at, note->note_client);
    if (note->note_method.slice_p != NULL) {
        at = put(at, "\",\"method\":\"");
        at = put_escaped(at, note->note_method, 64, true);
    }
    if (note->note_target.slice_p != NULL) {
        at = put(at, "\",\"target\":\"");
        at = put_escaped(at, note->note_target, TARGET_MAX, true);
    }
    at = put(at, "\",\"status\":");
    at = put_u64(at, note->note_status);
    if (note->note_abandoned)
        at = put(at, ",\"abandoned\":true");
    at = put(at, ",\"bytes\":");
    at = put_u64(at, note->note_body);
    at = put(at, ",\"duration_us\":");
    at = put_u64(at, note->note_us);
    if (note->note_route.slice_p != NULL) {
        at = put(at, ",\"route\":\"");
        at = put_slice(at, note->note_route_method);
        at = put(at, " ");
        at = put_escaped(at, note->note_route, ROUTE_MAX, true);
        at = put(at, "\"");
    }
    if (note->note_trace.slice_p != NULL) {
        at = put(at, ",\"traceparent\":\"");
        at = put_slice(at, note->note_trace);
        at = put(at, "\"");
    }
    return put(at, "}");
}

/* CLIENT - - [TIME] "METHOD TARGET HTTP/1.1" STATUS BYTES MICROSECONDS "ROUTE" TRACEPARENT, with "-" for what there is
 * not. */
static char *put_text(char *at, const struct access *a, const struct note *note)
{
    at = put_slice(at, note->note_client);
    at = put(at, " - - [");
    at = put_slice(at, (struct slice){a->access_time, TIME_LEN});
    at = put(at, "] \"");
    if (note->note_method.slice_p != NULL && note->note_target.slice_p != NULL) {
        at = put_escaped(at, note->note_method, 64, false);
        at = put(at, " ");
        at = put_escaped(at, note->note_target, TARGET_MAX, false);
        at = put(at, note->note_minor == 0 ? " HTTP/1.0" : " HTTP/1.1");
    } else {
        at = put(at, "-");
    }
    at = put(at, "\" ");
    at = put_u64(at, note->note_status);
    at = put(at, " ");
    at = put_u64(at, note->note_body);
    at = put(at, " ");
    at = put_u64(at, note->note_us);
    at = put(at, " \"");
    if (note->note_route.slice_p != NULL) {
        at = put_slice(at, note->note_route_method);
        at = put(at, " ");
        at = put_escaped(at, note->note_route, ROUTE_MAX, false);
    } else {
        at = put(at, "-");
    }
    at = put(at, "\" ");
    return note->note_trace.slice_p != NULL ? put_slice(at, note->note_trace) : put(at, "-");
}

static void access_clock(struct access *a)
{
    struct timespec now;
    unsigned ms;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != a->access_second) {
        AN(log_time(a->access_time, (int64_t)now.tv_sec * 1000) == TIME_LEN);
        a->access_second = now.tv_sec;
    }
    ms = (unsigned)(now.tv_nsec / 1000000);
    a->access_time[20] = (char)('0' + ms / 100);
    a->access_time[21] = (char)('0' + ms / 10 % 10);
    a->access_time[22] = (char)('0' + ms % 10);
}

static char *put(char *at, const char *text)
{
    return put_slice(at, (struct slice){text, strlen(text)});
}

static char *put_slice(char *at, struct slice s)
{
    memcpy(at, s.slice_p, s.slice_len);
    return at + s.slice_len;
}

static char *put_u64(char *at, uint64_t v)
{
    char room[DIGITS_MAX];

    return put_slice(at, digits_of(room, v));
}

/* So that nobody's target forges a line: all but printable ASCII, quotes and backslashes are escaped.  What does not
 * fit into `max` octets is cut and ends in "...". */
static char *put_escaped(char *at, struct slice s, size_t max, bool json)
{
    static const char hex[] = "0123456789abcdef";
    const char *end = at + max - 9;
    size_t i;

    for (i = 0; i < s.slice_len; i++) {
        unsigned char o = (unsigned char)s.slice_p[i];

        if (at >= end)
            return put(at, "...");
        if (o == '"' || o == '\\') {
            *at++ = '\\';
            *at++ = (char)o;
        } else if (o >= 0x20 && o < 0x7f) {
            *at++ = (char)o;
        } else {
            at = put(at, json ? "\\u00" : "\\x");
            *at++ = hex[o >> 4];
            *at++ = hex[o & 0xf];
        }
    }
    return at;
}

static struct slice peer_text(const struct in6_addr *peer, char text[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_V4MAPPED(peer))
        (void)inet_ntop(AF_INET, peer->s6_addr + 12, text, INET6_ADDRSTRLEN);
    else
        (void)inet_ntop(AF_INET6, peer, text, INET6_ADDRSTRLEN);
    return (struct slice){text, strlen(text)};
}

/* VERSION-TRACE-PARENT-FLAGS; a later version may have more behind a further '-'. */
struct slice access_traceparent(struct slice value)
{
    const struct slice none = {NULL, 0};
    const char *p = value.slice_p;
    bool zero;

    if (value.slice_len < TRACEPARENT_LEN || p[2] != '-' || p[35] != '-' || p[52] != '-' ||
        !is_lower_hex(p, 2, &zero) || memcmp(p, "ff", 2) == 0)
        return none;
    if (value.slice_len > TRACEPARENT_LEN && (zero || p[TRACEPARENT_LEN] != '-'))
        return none;
    if (!is_lower_hex(p + 3, 32, &zero) || zero || !is_lower_hex(p + 36, 16, &zero) || zero ||
        !is_lower_hex(p + 53, 2, &zero))
        return none;
    return (struct slice){p, TRACEPARENT_LEN};
}

static bool is_lower_hex(const char *p, size_t n, bool *zero)
{
    size_t i;

    *zero = true;
    for (i = 0; i < n; i++) {
        if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'f'))
            return false;
        if (p[i] != '0')
            *zero = false;
    }
    return true;
}
