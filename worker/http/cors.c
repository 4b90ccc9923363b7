/*
 * An error is shown to a page as any other answer would be, also one that was made before the request's head was
 * read to its end: else a browser hides what was wrong from the very program that could put it right.  As much is known
 * of such a request as was read and found well-formed before the refusal, and no more is believed:
 *
 * - Where any origin may read (`*`), all answers say so, those without a request included (the ready-made 503).
 * - Where some may, also of the ready-made 503, an Origin counts that stood before what was refused, or before the head
 * was late.  What stands behind it was not parsed, and nobody knows where that head ends: an answer to it goes to no
 * page.  That is so for all errors of the request line.  `Vary: Origin` is there in any case.
 * - The rules are those of the route that the request line asks for, where there is one by method and path, though no
 *   handler was asked (a body too large, a client over its rate); else the file's.
 */
#include "worker/http/cors.h"

#include <stdio.h>
#include <string.h>

#include "worker/http/octet.h"

#define METHODS_TEXT_MAX 64u /* all of them with commas */

static const struct conf_cors *cors_of(const struct request *r);
static bool cors_field(const struct request *r, struct slice *origin);
static bool cors_allows(const struct conf_cors *cors, struct slice origin);
static bool cors_origin(struct request *r, const struct conf_cors *cors);
static void add(struct request *r, const char *name, const char *value);
static const char *methods_text(unsigned methods, char text[METHODS_TEXT_MAX]);
static bool names_are_plain(struct slice names);

bool cors_wanted(const struct conf *conf)
{
    unsigned i;

    for (i = 0; i < conf->conf_routes_n; i++)
        if (conf->conf_routes[i].route_cors != NULL)
            return true;
    return conf->conf_cors != NULL;
}

bool cors_preflight(struct request *r)
{
    const struct http_request *rq = &r->req_http;
    const struct server *s = r->req_server;
    const struct conf_cors *cors = s->server_conf->conf_cors;
    char methods[METHODS_TEXT_MAX], age[16];
    struct slice origin, method, names;
    struct route_match m, allow;
    unsigned wanted = 0;

    if (rq->rq_method != METHOD_OPTIONS || rq->rq_path.slice_p[0] == '*' ||
        !http_field_find(rq, "origin", 6, NULL, &origin) ||
        !http_field_find(rq, "access-control-request-method", 29, NULL, &method))
        return false;
    while (wanted < METHODS_ROUTABLE &&
           !slice_eq(method, (struct slice){conf_method_name((enum conf_method)wanted),
                                            strlen(conf_method_name((enum conf_method)wanted))}))
        wanted++;
    router_match(s->server_router, METHODS_ROUTABLE, rq->rq_path, &allow); /* of no method: says which there are */
    if (allow.match_allow == 0 || allow.match_bad != NULL)
        return false;
    if (wanted < METHODS_ROUTABLE) {
        router_match(s->server_router, wanted, rq->rq_path, &m);
        if (m.match_route >= 0)
            cors = s->server_routes[m.match_route].route_conf->route_cors;
    }
    if (cors == NULL)
        return false;
    r->req_dressed = true;
    r->req_status = 204;
    r->req_allow = (uint16_t)allow.match_allow;
    if (!cors_origin(r, cors))
        return true;
    add(r, "Access-Control-Allow-Methods",
        methods_text(cors->cors_methods != 0 ? cors->cors_methods : allow.match_allow, methods));
    if (cors->cors_headers != NULL)
        add(r, "Access-Control-Allow-Headers", cors->cors_headers);
    else if (http_field_find(rq, "access-control-request-headers", 30, NULL, &names) && names_are_plain(names))
        request_field(r, SLICE_LITERAL("Access-Control-Allow-Headers"), names);
    (void)snprintf(age, sizeof(age), "%u", cors->cors_max_age);
    add(r, "Access-Control-Max-Age", age);
    return true;
}

void cors_dress(struct request *r)
{
    const struct conf_cors *cors = cors_of(r);

    if (cors == NULL || r->req_dressed)
        return;
    r->req_dressed = true;
    if (cors_origin(r, cors) && cors->cors_expose != NULL)
        add(r, "Access-Control-Expose-Headers", cors->cors_expose);
}

size_t cors_lines(const struct request *r, char text[CORS_LINES_MAX])
{
    static const char allow[] = "Access-Control-Allow-Origin: ",
                      more[] = "\r\nAccess-Control-Allow-Credentials: true\r\n";
    const struct conf_cors *cors = cors_of(r);
    struct slice origin;
    char *at = text;

    if (cors == NULL)
        return 0;
    at = stpcpy(at, cors->cors_any ? "Access-Control-Allow-Origin: *\r\n" : "Vary: Origin\r\n");
    if (cors->cors_any || !cors_field(r, &origin) || !cors_allows(cors, origin) ||
        origin.slice_len > CORS_LINES_MAX - sizeof(allow) - sizeof(more) - (size_t)(at - text))
        return (size_t)(at - text);
    at = stpcpy(at, allow);
    memcpy(at, origin.slice_p, origin.slice_len);
    at = stpcpy(at + origin.slice_len, cors->cors_credentials ? more : "\r\n");
    return (size_t)(at - text);
}

static const struct conf_cors *cors_of(const struct request *r)
{
    const struct server *s = r->req_server;
    const struct http_request *rq = &r->req_http;
    struct route_match m;

    if (r->req_route != NULL)
        return r->req_route->route_conf->route_cors;
    /* Without a complete head the request line may not be through either, whatever rq_path says. */
    if ((rq->rq_fields.slice_p != NULL || r->req_parser.parser_fields_at != 0) && rq->rq_path.slice_p != NULL &&
        rq->rq_path.slice_p[0] == '/' && rq->rq_method < METHODS_ROUTABLE) {
        router_match(s->server_router, rq->rq_method, rq->rq_path, &m);
        if (m.match_route >= 0)
            return s->server_routes[m.match_route].route_conf->route_cors;
    }
    return s->server_conf->conf_cors;
}

static bool cors_field(const struct request *r, struct slice *origin)
{
    struct http_request seen = r->req_http;
    const struct buf *b = r->req_conn->conn_buf;

    if (seen.rq_fields.slice_p == NULL && b != NULL) /* the head was refused: it is still where it was read */
        seen.rq_fields = http_parser_fields(&r->req_parser, (const char *)b->buf_data + b->buf_start);
    return seen.rq_fields.slice_p != NULL && http_field_find(&seen, "origin", 6, NULL, origin);
}

/* Says who may read the answer.  False: this origin may not, or there is none. */
static bool cors_origin(struct request *r, const struct conf_cors *cors)
{
    struct slice origin;

    if (cors->cors_any) {
        add(r, "Access-Control-Allow-Origin", "*");
        return true;
    }
    add(r, "Vary", "Origin"); /* whoever asks: a cache must not give this answer to another */
    if (!cors_field(r, &origin) || !cors_allows(cors, origin))
        return false;
    request_field(r, SLICE_LITERAL("Access-Control-Allow-Origin"), origin);
    if (cors->cors_credentials)
        add(r, "Access-Control-Allow-Credentials", "true");
    return true;
}

static bool cors_allows(const struct conf_cors *cors, struct slice origin)
{
    unsigned i;

    for (i = 0; i < cors->cors_origins_n; i++)
        if (slice_eq(origin, (struct slice){cors->cors_origins[i], strlen(cors->cors_origins[i])}))
            return true;
    return false;
}

static void add(struct request *r, const char *name, const char *value)
{
    request_field(r, (struct slice){name, strlen(name)}, (struct slice){value, strlen(value)});
}

static const char *methods_text(unsigned methods, char text[METHODS_TEXT_MAX])
{
    size_t n = 0;
    unsigned m;

    text[0] = '\0';
    for (m = 0; m < METHODS_ROUTABLE; m++)
        if (methods >> m & 1)
            n += (size_t)snprintf(text + n, METHODS_TEXT_MAX - n, "%s%s", n > 0 ? ", " : "",
                                  conf_method_name((enum conf_method)m));
    return text;
}

/* A list of field names, and nothing that should not come back in an answer. */
static bool names_are_plain(struct slice names)
{
    size_t i;

    for (i = 0; i < names.slice_len; i++)
        if (!octet_is(names.slice_p[i], OCTET_TOKEN) && names.slice_p[i] != ',' && names.slice_p[i] != ' ')
            return false;
    return names.slice_len > 0;
}
