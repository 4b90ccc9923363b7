/*
 * Parameters from a whole request: found, checked, written for PostgreSQL, echoed as JSON.  The first octet chooses the
 * types.  What is written is UTF-8 without NUL; what is echoed is JSON.
 */
#include <stdint.h>
#include <stdlib.h>

#include "worker/http/target.h"
#include "worker/json/read.h"
#include "worker/route/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARAMS 6u

static struct buffers *buffers;
static struct pg_types *types;
static struct params *routes[2];
static struct conf_param specs[2][PARAMS] = {
    {{"query.a", SOURCE_QUERY, "a", "1", 0},
     {"query.b c", SOURCE_QUERY, "b c", "{}", 0},
     {"header.x", SOURCE_HEADER, "x", "none", 0},
     {"cookie.c", SOURCE_COOKIE, "c", "none", 0},
     {"path.p", SOURCE_PATH, "p", NULL, 0},
     {"body", SOURCE_BODY, "", "", 0}},
    {{"body.a", SOURCE_BODY_FIELD, "a", "1", 0},
     {"body.b", SOURCE_BODY_FIELD, "b", "{}", 0},
     {"body.c", SOURCE_BODY_FIELD, "c", "null", 0},
     {"body.d", SOURCE_BODY_FIELD, "d", "x", 0},
     {"body.e", SOURCE_BODY_FIELD, "e", "0", 0},
     {"conn.ip", SOURCE_CONN_IP, "", NULL, 0}},
};
static struct conf_route confs[2];

/* int4, text, jsonb, int4[], text[], bool, numeric, uuid, json[], timestamptz, int8, box[] */
static const uint32_t oids[12] = {23, 25, 3802, 1007, 1009, 16, 1700, 2950, 199, 1184, 20, 1020};

static void set_up(void)
{
    unsigned i;

    buffers = buffers_new(64u << 20);
    types = pg_types_new();
    AN(buffers && types);
    for (i = 0; i < 2; i++) {
        confs[i].route_params = specs[i];
        confs[i].route_params_n = PARAMS;
        routes[i] = params_new(&confs[i]);
        AN(routes[i]);
    }
}

static char *taken(struct out *o)
{
    char *text = malloc(o->out_bytes + 1), *to = text;
    struct buf *b;

    AN(text);
    for (b = o->out_head; b != NULL; b = b->buf_next) {
        memcpy(to, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
        to += b->buf_end - b->buf_start;
    }
    *to = '\0';
    return text;
}

static void check_written(struct out *o)
{
    char *text = taken(o), *at = text + 2;
    unsigned i;

    AN(o->out_error == OUT_OK && text[0] == 0 && text[1] == PARAMS);
    for (i = 0; i < PARAMS; i++) {
        uint32_t len;

        AN(at + 4 <= text + o->out_bytes);
        memcpy(&len, at, 4);
        len = __builtin_bswap32(len);
        at += 4;
        if (len == UINT32_MAX)
            continue;
        AN(len <= (size_t)(text + o->out_bytes - at));
        AN(utf8_valid(at, len) && memchr(at, '\0', len) == NULL);
        at += len;
    }
    AN(at == text + o->out_bytes);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct conf_limits limits = {65536, 65536, 100, 1u << 20, 1u << 20};
    struct param_value values[PARAMS];
    const struct pg_type *list[PARAMS];
    struct params_error error = {.error_why = NULL};
    struct http_parser parser;
    struct http_request rq;
    struct slice args[1];
    struct out o;
    unsigned route, i;
    char *copy;

    if (types == NULL)
        set_up();
    if (size < 2)
        return 0;
    copy = malloc(size - 1);
    AN(copy);
    memcpy(copy, data + 1, size - 1);
    http_parser_init(&parser);
    if (http_parse(&parser, &rq, copy, (uint32_t)(size - 1), &limits) != HTTP_PARSE_COMPLETE) {
        free(copy);
        return 0;
    }
    if (parser.parser_head < size - 1)
        rq.rq_body = (struct slice){copy + parser.parser_head, size - 1 - parser.parser_head};
    args[0] = rq.rq_path;
    route = rq.rq_method == METHOD_GET ? 0 : 1;
    for (i = 0; i < PARAMS; i++)
        list[i] = pg_types_find(types, oids[(data[0] + i * (1 + data[0] / 12)) % 12]);
    if (params_find(routes[route], &rq, args, SLICE_LITERAL("192.0.2.1"), values, &error) != 0 ||
        params_check(routes[route], list, values, &error) != 0) {
        AN(error.error_why && error.error_status >= 400 && error.error_status < 600);
        free(copy);
        return 0;
    }
    out_init(&o, buffers, 0);
    params_write(&o, routes[route], list, values);
    check_written(&o);
    out_reset(&o);
    for (i = 0; i < PARAMS; i++) {
        params_echo(&o, routes[route], i, list[i], &values[i]);
        AN(o.out_error == OUT_OK);
        /* json of any length and arrays of json come back as PostgreSQL took them: it would have refused the others */
        if (values[i].value_len < 16384 && !(list[i]->type_oid == 199 && values[i].value_form < PARAM_JSON_STRING)) {
            char *text = taken(&o);

            AZ(json_check((struct slice){text, o.out_bytes}, NULL, NULL));
            free(text);
        }
        out_reset(&o);
    }
    AZ(buffers_used(buffers));
    free(copy);
    return 0;
}
