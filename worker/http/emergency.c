/* Answers where there is no buffer for one: made on the stack, sent straight to the socket, and the connection's last.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "worker/http/access.h"
#include "worker/http/cors.h"
#include "worker/http/respond.h"
#include "worker/http/server.h"
#include "worker/http/status.h"

#define BODY_MAX 256u

struct emergency {
    unsigned emergency_status;
    bool emergency_shed; /* else its statement has run */
    bool emergency_bodiless;
    struct slice emergency_fields; /* more of them, each with its CRLF */
};

static size_t emergency_write(const struct server *s, const struct emergency *e, char *to, size_t *body);

void emergency_init(struct server *s)
{
    const struct conf_cors *cors = s->server_cors ? s->server_conf->conf_cors : NULL;
    struct emergency e = {.emergency_status = s->server_shed.shed_status, .emergency_shed = true};
    char *date;

    if (cors != NULL)
        e.emergency_fields =
            cors->cors_any ? SLICE_LITERAL("Access-Control-Allow-Origin: *\r\n") : SLICE_LITERAL("Vary: Origin\r\n");
    s->server_emergency_len = emergency_write(s, &e, s->server_emergency, &s->server_emergency_body);
    AN(s->server_emergency_len < sizeof(s->server_emergency));
    date = memmem(s->server_emergency, s->server_emergency_len, s->server_date, sizeof(s->server_date));
    AN(date != NULL);
    s->server_emergency_date = date;
}

void conn_emergency(struct conn *c, struct request *r)
{
    struct server *s = c->conn_server;
    char text[SERVER_EMERGENCY_MAX + CORS_LINES_MAX], cors[CORS_LINES_MAX];
    const char *from = s->server_emergency;
    size_t len = s->server_emergency_len, body = s->server_emergency_body;

    c->conn_closing = true;
    c->conn_linger = true;
    conn_touch(c);
    if (c->conn_requests_n > 0 || c->conn_out.out_bytes > 0 || !c->conn_writable)
        return; /* it would not be in order */
    if (r != NULL) {
        struct emergency e = {.emergency_status = r->req_status,
                              .emergency_shed = r->req_shed != 0,
                              .emergency_bodiless = r->req_http.rq_method == METHOD_HEAD};

        if (s->server_cors)
            e.emergency_fields = (struct slice){cors, cors_lines(r, cors)};
        len = emergency_write(s, &e, text, &body);
        from = text;
    }
    if (send(c->conn_fd, from, len, MSG_NOSIGNAL) != (ssize_t)len)
        return;
    server_count(s, STAT_http_bytes_out, len);
    if (r == NULL) {
        server_count(s, STAT_shed_buffers, 1);
        server_count(s, STAT_http_status_1xx + s->server_shed.shed_status / 100 - 1, 1);
        if (s->server_access != NULL)
            access_note_emergency(s->server_access, c, s->server_shed.shed_status, body);
        return;
    }
    if (r->req_shed)
        request_count_shed(r);
    if (s->server_access != NULL)
        access_note(s->server_access, r, body);
}

/* Returns the octets of all of it; *body: those of its body. */
static size_t emergency_write(const struct server *s, const struct emergency *e, char *to, size_t *body)
{
    const unsigned status = e->emergency_status;
    struct respond respond = {.respond_status = status,
                              .respond_retry_after = e->emergency_shed ? s->server_shed.shed_retry_after + 1 : 0,
                              .respond_close = true,
                              .respond_anonymous = !s->server_conf->conf_server_header,
                              .respond_date = s->server_date};
    char text[BODY_MAX] = "", *at = to;

    if (status >= 300) {
        respond.respond_type = SLICE_LITERAL("application/problem+json");
        (void)snprintf(
            text, sizeof(text), "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\"}",
            http_status_reason(status).slice_p, status,
            e->emergency_shed ? "the server is full" : "the statement was run, but there is no buffer for its answer");
    }
    respond.respond_length = strlen(text);
    *body = e->emergency_bodiless ? 0 : respond.respond_length;
    at += respond_head(at, &respond);
    if (e->emergency_fields.slice_len > 0)
        at = (char *)memcpy(at, e->emergency_fields.slice_p, e->emergency_fields.slice_len) +
             e->emergency_fields.slice_len;
    at = stpcpy(at, "\r\n");
    memcpy(at, text, *body);
    return (size_t)(at - to) + *body;
}
