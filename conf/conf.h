/*
 * vanilla.conf, read, checked and immutable.  Everything in it lives as long as the struct conf and is freed
 * with it; nothing of it is changed after conf_read().
 */
#ifndef VANILLA_CONF_CONF_H
#define VANILLA_CONF_CONF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "shm/assert.h"

#define CONF_MAGIC 0x0c0f1234u

struct conf_listen {
    const char *listen_address; /* as written: "0.0.0.0:8080", "[::]:8080", "unix:/path" */
    struct sockaddr_storage listen_sockaddr;
    socklen_t listen_sockaddr_len;
    bool listen_proxy; /* each connection begins with a PROXY header */
    int listen_line;
};

struct conf_limits { /* octets, but for `headers` */
    unsigned limit_request_line, limit_header_bytes, limit_headers, limit_body_bytes, limit_response_bytes;
};

struct conf_timeouts { /* milliseconds */
    unsigned timeout_header_ms, timeout_body_ms, timeout_idle_ms, timeout_write_ms, timeout_drain_ms;
    unsigned timeout_body_rate; /* octets per second; 0: any */
};

struct conf_memory { /* MiB per worker */
    unsigned memory_buffers_mb, memory_cache_mb;
};

struct conf_client { /* per worker and client address; 0: any number */
    unsigned client_connections, client_rate, client_burst;
};

/* A network: the first net_bits of an IPv6 address, in which IPv4 stands mapped. */
struct conf_net {
    struct in6_addr net_address;
    unsigned net_bits;
};

struct conf_shed {
    unsigned shed_status;      /* 503, 429, another 5xx; 200 and 204: optimistic */
    unsigned shed_retry_after; /* seconds */
};

struct conf_cors {
    const char **cors_origins; /* as browsers send them; without cors_any at least one */
    unsigned cors_origins_n;
    bool cors_any;            /* "*" */
    bool cors_credentials;    /* never with cors_any */
    unsigned cors_methods;    /* bits of enum conf_method; 0: what the path has routes for */
    const char *cors_headers; /* "a, b"; NULL: those that are asked for */
    const char *cors_expose;  /* "a, b"; NULL: none */
    unsigned cors_max_age;    /* seconds */
};

enum conf_log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct conf_log {
    enum conf_log_level log_level;
    const char *log_file;   /* "stderr" or a path */
    const char *log_access; /* "off", "stderr" or a path */
    bool log_json;
};

enum conf_plan { PLAN_AUTO, PLAN_GENERIC, PLAN_CUSTOM };

enum conf_reset { RESET_AUTO, RESET_ALWAYS, RESET_NEVER };

struct conf_pool {
    const char *pool_name, *pool_conninfo;
    unsigned pool_connections; /* over all workers */
    unsigned pool_max_inflight, pool_sync_batch, pool_batch_us;
    unsigned pool_queue, pool_queue_timeout_ms, pool_statement_timeout_ms, pool_reconnect_max_ms;
    unsigned pool_queue_target_ms; /* 0: a tenth of pool_queue_timeout_ms */
    unsigned pool_abandon_ms;
    enum conf_plan pool_plan;
    enum conf_reset pool_reset; /* with pool_pooler never RESET_ALWAYS */
    bool pool_read_only, pool_pooler;
    unsigned pool_shed_status; /* resolved: the pool's own, else shed.status */
    int pool_line;
};

enum conf_method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_PATCH,
    METHOD_DELETE,
    METHOD_OPTIONS,
    METHODS_ROUTABLE
};

enum conf_source {
    SOURCE_PATH,
    SOURCE_QUERY,
    SOURCE_HEADER,
    SOURCE_COOKIE,
    SOURCE_BODY,
    SOURCE_BODY_FIELD,
    SOURCE_CONN_IP
};

struct conf_param {
    const char *param_spec; /* as written, without the default: "query.limit"; what a problem's `parameter` says */
    enum conf_source param_source;
    const char *param_name;    /* "limit"; "" for body and conn.ip; header names in lower case */
    const char *param_default; /* NULL: required */
    unsigned param_segment;    /* SOURCE_PATH: which `{...}` of the path, from 0 */
};

enum conf_result { RESULT_ROW, RESULT_ROWS, RESULT_VALUE, RESULT_NONE, RESULT_RAW };
enum conf_handler { HANDLER_SQL, HANDLER_TEXT };

struct conf_route {
    enum conf_method route_method;
    const char *route_path; /* "/items/{id}": literal segments and whole-segment parameters */
    enum conf_handler route_handler;
    unsigned route_status;          /* of success: 200 unless told otherwise; 204 for RESULT_NONE */
    const char *route_content_type; /* resolved: application/json, text/plain; charset=utf-8 for raw and text */
    unsigned route_shed_status;     /* resolved: the route's own, else its pool's, else shed.status */
    bool route_share;
    unsigned route_cache_ms;            /* 0: its answers are not kept */
    const struct conf_cors *route_cors; /* resolved: the route's own, else the file's; NULL: off */
    int route_line;
    /* HANDLER_TEXT */
    const char *route_text;
    size_t route_text_len;
    /* HANDLER_SQL */
    const char *route_sql;
    bool route_calls;    /* CALL or DO: what it runs may commit on its way, and fail later */
    unsigned route_pool; /* index into conf_pools */
    struct conf_param *route_params;
    unsigned route_params_n;
    enum conf_result route_result;
    const char *route_wrap;        /* NULL: none */
    const char *route_count;       /* NULL: none */
    const char **route_echo_names; /* member names: "page" for "query.page" */
    unsigned *route_echo;          /* indices into route_params */
    unsigned route_echo_n;
};

struct conf {
    unsigned magic;
    const char *conf_file;
    unsigned conf_workers;                                 /* 0: auto */
    const char *conf_runtime_dir, *conf_user, *conf_group; /* user, group: NULL when not given */
    bool conf_expose_errors, conf_server_header;
    struct conf_listen *conf_listen;
    unsigned conf_listen_n;
    struct conf_listen conf_admin;
    unsigned conf_connections; /* per worker */
    struct conf_limits conf_limits;
    struct conf_timeouts conf_timeouts;
    struct conf_memory conf_memory;
    struct conf_log conf_log;
    struct conf_shed conf_shed;
    struct conf_client conf_client;
    struct conf_net *conf_trusted; /* proxies that are believed */
    unsigned conf_trusted_n;
    bool conf_trusted_unix;            /* so is whoever comes through a unix socket */
    const struct conf_cors *conf_cors; /* NULL: off */
    struct conf_pool *conf_pools;
    unsigned conf_pools_n;
    struct conf_route *conf_routes;
    unsigned conf_routes_n;
};

/* Reads and checks FILE; `overrides` are n strings "KEY=VALUE" (libconfig paths: "limits.headers=50",
 * "pools.[0].max_inflight=16").  Every problem found goes to `err` as "FILE:LINE: what, and what is allowed"
 * (overrides:
 * "-o KEY=VALUE: ..."), all of them in one go; warnings too, as "FILE:LINE: warning: ...".  Returns the configuration,
 * owned by the caller until conf_free, or NULL when there was an error. */
struct conf *conf_read(const char *file, const char *const *overrides, unsigned n, FILE *err) MUSTCHECK;
void conf_free(struct conf **confp);

/* For a reload: names on `out`, a line for each, the settings in which `next` differs from the running configuration
 * but which only a restart can change ("FILE: listen needs a restart"), and gives them in `next` the running values.
 * Returns how many.  Before anybody else has seen `next`. */
unsigned conf_keep(struct conf *next, const struct conf *running, FILE *out);

/* The share of a pool's total that worker `slot` of `workers` gets: as even as it goes, at least one each. */
unsigned conf_pool_share(const struct conf_pool *pool, unsigned slot, unsigned workers);

/* Octets of each worker's response cache; 0: no route keeps answers. */
size_t conf_cache_bytes(const struct conf *conf);

/* "GET" and so on. */
const char *conf_method_name(enum conf_method m);

#endif
