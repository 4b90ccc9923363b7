#include "conf/conf.c"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* Puts `n` octets into a file, reads it as a configuration, and gives what was said about it. */
static struct conf *read_octets(const char *text, size_t n, const char *const *overrides, unsigned overrides_n,
                                char **said)
{
    char path[] = "/tmp/vanilla-test-conf-XXXXXX";
    int fd = mkstemp(path);
    size_t size;
    FILE *err = open_memstream(said, &size);
    struct conf *conf;

    assert_true(fd >= 0 && err != NULL);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
    conf = conf_read(path, overrides, overrides_n, err);
    fclose(err);
    unlink(path);
    return conf;
}

static struct conf *read_text(const char *text, char **said)
{
    return read_octets(text, strlen(text), NULL, 0, said);
}

/* Reads a file that must be right and free of warnings. */
static struct conf *read_right(const char *text)
{
    char *said;
    struct conf *conf = read_text(text, &said);

    if (conf == NULL || *said != '\0')
        fail_msg("%s\nsaid: %s", text, said);
    free(said);
    return conf;
}

/* Does the line say `want`: "LINE: words|words"?  What is in front of the line is the file. */
static bool line_says(const char *line, const char *want)
{
    char text[1200], *place, *word, *save = NULL, *words;

    snprintf(text, sizeof text, "%s", want);
    words = strchr(text, ' ');
    *words++ = '\0';
    place = strncmp(line, "/tmp/vanilla-test-conf-", 23) == 0 ? strchr(line, ':') : NULL;
    if (place == NULL || strncmp(place + 1, text, strlen(text)) != 0)
        return false;
    for (word = strtok_r(words, "|", &save); word != NULL; word = strtok_r(NULL, "|", &save))
        if (strstr(line, word) == NULL)
            return false;
    return true;
}

/* The file must be refused, with exactly these lines. */
static void refuse_octets(const char *text, size_t n, const char *const *wants)
{
    char *said, *line, *save = NULL;
    struct conf *conf = read_octets(text, n, NULL, 0, &said);
    char *copy = strdup(said);
    unsigned i = 0;

    if (conf != NULL)
        fail_msg("accepted: %.2000s", text);
    for (line = strtok_r(said, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save), i++)
        if (wants[i] == NULL || !line_says(line, wants[i]))
            fail_msg("%.2000s\nwanted: %s\nsaid:\n%s", text, wants[i] != NULL ? wants[i] : "no more", copy);
    if (wants[i] != NULL)
        fail_msg("%.2000s\nwanted: %s\nsaid:\n%s", text, wants[i], copy);
    free(copy);
    free(said);
}

struct wrong {
    const char *wrong_text;
    const char *wrong_says[7];
};

static void refuse_all(const struct wrong *wrong, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refuse_octets(wrong[i].wrong_text, strlen(wrong[i].wrong_text), wrong[i].wrong_says);
}

#define REFUSE(table) refuse_all(table, sizeof(table) / sizeof((table)[0]))

#define POOL "pools = ( { name = \"p\"; conninfo = \"\"; } );\n"
#define TEXT "routes = ( { method = \"GET\"; path = \"/\"; text = \"ok\"; } );\n"
#define ROUTE(keys) POOL "routes = ( { method = \"GET\"; path = \"/{a}\"; sql = \"SELECT 1\";\n" keys "\n} );\n"
#define POST(keys) POOL "routes = ( { method = \"POST\"; path = \"/{a}\";\n" keys "\n} );\n"

static void defaults_hold_where_the_file_says_nothing(void **state)
{
    struct conf *c = read_right(ROUTE("") "#");
    const struct sockaddr_in *in;

    (void)state;
    assert_int_equal(c->conf_workers, 0);
    assert_string_equal(c->conf_runtime_dir, "/run/vanilla");
    assert_null(c->conf_user);
    assert_null(c->conf_group);
    assert_false(c->conf_expose_errors);
    assert_int_equal(c->conf_listen_n, 1);
    assert_string_equal(c->conf_listen[0].listen_address, "127.0.0.1:8080");
    in = (const struct sockaddr_in *)&c->conf_listen[0].listen_sockaddr;
    assert_int_equal(in->sin_family, AF_INET);
    assert_int_equal(ntohs(in->sin_port), 8080);
    assert_int_equal(ntohl(in->sin_addr.s_addr), 0x7f000001);
    assert_string_equal(c->conf_admin.listen_address, "127.0.0.1:9180");
    assert_int_equal(c->conf_connections, 8192);
    assert_int_equal(c->conf_limits.limit_request_line, 8192);
    assert_int_equal(c->conf_limits.limit_header_bytes, 16384);
    assert_int_equal(c->conf_limits.limit_headers, 100);
    assert_int_equal(c->conf_limits.limit_body_bytes, 1048576);
    assert_int_equal(c->conf_limits.limit_response_bytes, 16777216);
    assert_int_equal(c->conf_timeouts.timeout_header_ms, 10000);
    assert_int_equal(c->conf_timeouts.timeout_body_ms, 30000);
    assert_int_equal(c->conf_timeouts.timeout_idle_ms, 60000);
    assert_int_equal(c->conf_timeouts.timeout_write_ms, 30000);
    assert_int_equal(c->conf_timeouts.timeout_drain_ms, 30000);
    assert_int_equal(c->conf_memory.memory_buffers_mb, 64);
    assert_int_equal(c->conf_log.log_level, LOG_LEVEL_INFO);
    assert_string_equal(c->conf_log.log_file, "stderr");
    assert_string_equal(c->conf_log.log_access, "off");
    assert_true(c->conf_log.log_json);
    assert_int_equal(c->conf_shed.shed_status, 503);
    assert_int_equal(c->conf_shed.shed_retry_after, 1);
    assert_int_equal(c->conf_pools_n, 1);
    assert_int_equal(c->conf_pools[0].pool_connections, 4);
    assert_int_equal(c->conf_pools[0].pool_max_inflight, 32);
    assert_int_equal(c->conf_pools[0].pool_sync_batch, 32);
    assert_int_equal(c->conf_pools[0].pool_batch_us, 500);
    assert_int_equal(c->conf_pools[0].pool_queue, 256);
    assert_int_equal(c->conf_pools[0].pool_queue_timeout_ms, 250);
    assert_int_equal(c->conf_pools[0].pool_statement_timeout_ms, 5000);
    assert_int_equal(c->conf_pools[0].pool_reconnect_max_ms, 2000);
    assert_int_equal(c->conf_pools[0].pool_abandon_ms, 1000);
    assert_int_equal(c->conf_pools[0].pool_plan, PLAN_AUTO);
    assert_int_equal(c->conf_pools[0].pool_reset, RESET_AUTO);
    assert_false(c->conf_pools[0].pool_read_only);
    assert_false(c->conf_pools[0].pool_pooler);
    assert_int_equal(c->conf_pools[0].pool_shed_status, 503);
    assert_int_equal(c->conf_pools[0].pool_line, 1);
    assert_int_equal(c->conf_routes[0].route_result, RESULT_ROWS);
    assert_int_equal(c->conf_routes[0].route_status, 200);
    assert_int_equal(c->conf_routes[0].route_shed_status, 503);
    assert_string_equal(c->conf_routes[0].route_content_type, "application/json");
    assert_false(c->conf_routes[0].route_share);
    assert_int_equal(c->conf_routes[0].route_cache_ms, 0);
    assert_int_equal(conf_cache_bytes(c), 0); /* though memory.cache_mb is 8 */
    assert_int_equal(c->conf_routes[0].route_line, 2);
    conf_free(&c);
    assert_null(c);
}

static void every_value_arrives(void **state)
{
    struct conf *c = read_right(
        "workers = 3; runtime_dir = \"/tmp/v\"; user = \"daemon\"; group = \"mail\"; expose_errors = true; connections "
        "= 7;\n"
        "listen = ( { address = \"[::1]:81\"; }, { address = \"unix:/tmp/s\"; } ); admin = { address = \"*:82\"; };\n"
        "limits = { request_line = 1; header_bytes = 2; headers = 3; body_bytes = 4; response_bytes = 5; };\n"
        "timeouts = { header_ms = 1; body_ms = 2; idle_ms = 3; write_ms = 4; drain_ms = 0; };\n"
        "memory = { buffers_mb = 9; cache_mb = 2; }; shed = { status = 429; retry_after = 6; };\n"
        "log = { level = \"debug\"; file = \"/tmp/l\"; access = \"stderr\"; format = \"text\"; };\n"
        "pools = (\n"
        "  { name = \"w\"; conninfo = \"dbname=a\"; connections = 3; max_inflight = 2; sync_batch = 3; batch_us = 4;\n"
        "    queue = 0; queue_timeout_ms = 6; statement_timeout_ms = 7; reconnect_max_ms = 8; abandon_ms = 9;\n"
        "    plan = \"custom\"; pooler = false; },\n"
        "  { name = \"r\"; conninfo = \"\"; read_only = true; shed_status = 500; plan = \"generic\"; reset = "
        "\"always\"; },\n"
        "  { name = \"r2\"; conninfo = \"\"; read_only = true; pooler = true; reset = \"never\"; } );\n"
        "routes = ( { method = \"PUT\"; path = \"/a/{x}/{y.z}\"; sql = \"SELECT $1, $2, $3, $4, $5, $6, $7\";\n"
        "             params = ( \"path.y.z\", \"query.q=a=b\", \"header.X-Y\", \"cookie.c=\", \"body.a.b\",\n"
        "                        \"conn.ip\", \"path.x\" );\n"
        "             result = \"rows\"; wrap = \"w\"; count = \"n\"; echo = [ \"query.q\", \"conn.ip\" ]; status = "
        "202; },\n"
        "  { method = \"GET\"; path = \"/r\"; sql = \"SELECT $1\"; params = [ \"query.a\" ]; result = \"raw\";\n"
        "    content_type = \"text/html; charset=\\\"utf-8\\\"\"; share = true; cache_ms = 250; },\n"
        "  { method = \"DELETE\"; path = \"/r\"; sql = \"DELETE FROM t\"; result = \"none\"; shed_status = 599; pool = "
        "\"r2\"; },\n"
        "  { method = \"HEAD\"; path = \"/r\"; sql = \"SELECT 1\"; result = \"value\"; },\n"
        "  { method = \"OPTIONS\"; path = \"/r\"; text = \"\"; status = 204; },\n"
        "  { method = \"PATCH\"; path = \"/r\"; sql = \"SELECT $1\"; params = [ \"body=\" ]; result = \"row\"; wrap = "
        "\"a\"; } );\n");
    const struct conf_route *r = c->conf_routes;

    (void)state;
    assert_int_equal(c->conf_workers, 3);
    assert_string_equal(c->conf_runtime_dir, "/tmp/v");
    assert_string_equal(c->conf_user, "daemon");
    assert_string_equal(c->conf_group, "mail");
    assert_true(c->conf_expose_errors);
    assert_int_equal(c->conf_connections, 7);
    assert_int_equal(c->conf_listen_n, 2);
    assert_int_equal(c->conf_listen[0].listen_sockaddr.ss_family, AF_INET6);
    assert_int_equal(c->conf_listen[1].listen_line, 2);
    assert_string_equal(((struct sockaddr_un *)&c->conf_listen[1].listen_sockaddr)->sun_path, "/tmp/s");
    assert_string_equal(c->conf_admin.listen_address, "*:82");
    assert_int_equal(c->conf_limits.limit_request_line, 1);
    assert_int_equal(c->conf_limits.limit_header_bytes, 2);
    assert_int_equal(c->conf_limits.limit_headers, 3);
    assert_int_equal(c->conf_limits.limit_body_bytes, 4);
    assert_int_equal(c->conf_limits.limit_response_bytes, 5);
    assert_int_equal(c->conf_timeouts.timeout_header_ms, 1);
    assert_int_equal(c->conf_timeouts.timeout_write_ms, 4);
    assert_int_equal(c->conf_timeouts.timeout_drain_ms, 0);
    assert_int_equal(c->conf_memory.memory_buffers_mb, 9);
    assert_int_equal(conf_cache_bytes(c), 2 << 20);
    assert_int_equal(c->conf_shed.shed_status, 429);
    assert_int_equal(c->conf_shed.shed_retry_after, 6);
    assert_int_equal(c->conf_log.log_level, LOG_LEVEL_DEBUG);
    assert_string_equal(c->conf_log.log_file, "/tmp/l");
    assert_string_equal(c->conf_log.log_access, "stderr");
    assert_false(c->conf_log.log_json);
    assert_int_equal(c->conf_pools_n, 3);
    assert_string_equal(c->conf_pools[0].pool_conninfo, "dbname=a");
    assert_int_equal(c->conf_pools[0].pool_queue, 0);
    assert_int_equal(c->conf_pools[0].pool_plan, PLAN_CUSTOM);
    assert_int_equal(c->conf_pools[0].pool_shed_status, 429);
    assert_int_equal(c->conf_pools[0].pool_abandon_ms, 9);
    assert_true(c->conf_pools[1].pool_read_only);
    assert_int_equal(c->conf_pools[1].pool_shed_status, 500);
    assert_int_equal(c->conf_pools[1].pool_plan, PLAN_GENERIC);
    assert_int_equal(c->conf_pools[1].pool_reset, RESET_ALWAYS);
    assert_int_equal(c->conf_pools[2].pool_reset, RESET_NEVER);
    assert_true(c->conf_pools[2].pool_pooler);

    assert_int_equal(r[0].route_method, METHOD_PUT);
    assert_int_equal(r[0].route_pool, 0);
    assert_int_equal(r[0].route_params_n, 7);
    assert_int_equal(r[0].route_params[0].param_source, SOURCE_PATH);
    assert_string_equal(r[0].route_params[0].param_name, "y.z");
    assert_int_equal(r[0].route_params[0].param_segment, 1);
    assert_string_equal(r[0].route_params[1].param_spec, "query.q");
    assert_string_equal(r[0].route_params[1].param_default, "a=b");
    assert_string_equal(r[0].route_params[2].param_spec, "header.X-Y");
    assert_string_equal(r[0].route_params[2].param_name, "x-y");
    assert_null(r[0].route_params[2].param_default);
    assert_string_equal(r[0].route_params[3].param_default, "");
    assert_int_equal(r[0].route_params[4].param_source, SOURCE_BODY_FIELD);
    assert_string_equal(r[0].route_params[4].param_name, "a.b");
    assert_int_equal(r[0].route_params[5].param_source, SOURCE_CONN_IP);
    assert_string_equal(r[0].route_params[5].param_name, "");
    assert_int_equal(r[0].route_params[6].param_segment, 0);
    assert_string_equal(r[0].route_wrap, "w");
    assert_string_equal(r[0].route_count, "n");
    assert_int_equal(r[0].route_echo_n, 2);
    assert_int_equal(r[0].route_echo[0], 1);
    assert_int_equal(r[0].route_echo[1], 5);
    assert_string_equal(r[0].route_echo_names[0], "q");
    assert_string_equal(r[0].route_echo_names[1], "ip");
    assert_int_equal(r[0].route_status, 202);
    assert_int_equal(r[0].route_shed_status, 429);
    assert_int_equal(r[1].route_pool, 1);
    assert_int_equal(r[1].route_shed_status, 500);
    assert_true(r[1].route_share);
    assert_int_equal(r[1].route_cache_ms, 250);
    assert_string_equal(r[1].route_content_type, "text/html; charset=\"utf-8\"");
    assert_int_equal(r[2].route_pool, 2);
    assert_int_equal(r[2].route_shed_status, 599);
    assert_int_equal(r[2].route_status, 204);
    assert_int_equal(r[3].route_pool, 1);
    assert_int_equal(r[4].route_handler, HANDLER_TEXT);
    assert_int_equal(r[4].route_text_len, 0);
    assert_int_equal(r[4].route_shed_status, 429);
    assert_string_equal(r[4].route_content_type, "text/plain; charset=utf-8");
    assert_int_equal(r[5].route_pool, 0);
    assert_int_equal(r[5].route_params[0].param_source, SOURCE_BODY);
    assert_string_equal(r[5].route_params[0].param_name, "");
    conf_free(&c);
}

static void one_pool_serves_every_method(void **state)
{
    struct conf *c = read_right("pools = ( { name = \"p\"; conninfo = \"\"; read_only = true; } );\n"
                                "routes = ( { method = \"POST\"; path = \"/\"; sql = \"SELECT f()\"; pool = \"p\"; },\n"
                                "           { method = \"GET\"; path = \"/\"; sql = \"SELECT 1\"; } );\n");

    (void)state;
    assert_int_equal(c->conf_routes[0].route_pool, 0);
    assert_int_equal(c->conf_routes[1].route_pool, 0);
    conf_free(&c);
}

static void text_routes_need_no_pool(void **state)
{
    struct conf *c = read_right(TEXT);

    (void)state;
    assert_int_equal(c->conf_pools_n, 0);
    assert_string_equal(c->conf_routes[0].route_text, "ok");
    assert_int_equal(c->conf_routes[0].route_text_len, 2);
    conf_free(&c);
}

static void types_and_ranges(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "workers = 0;\nconnections = -1;", {"2: workers is 0|1..1024|auto", "3: connections is -1|1..1048576"}},
        {TEXT "workers = \"many\";", {"2: workers is \"many\"|\"auto\" or 1..1024"}},
        {TEXT "workers = true;", {"2: workers is true or false|whole number"}},
        {TEXT "workers = 1.0;", {"2: workers is a fraction|whole number, 1..1024"}},
        {TEXT "\nlimits = {\n\nheaders = 1e1;\n};", {"5: limits.headers is a fraction|whole number"}},
        {TEXT "limits = { headers = \"1\"; request_line = 0; header_bytes = 0; };",
         {"2: limits.request_line is 0", "2: limits.header_bytes is 0", "2: limits.headers is a string"}},
        {TEXT "limits = ( { headers = 1; } );", {"2: limits is a list|a group"}},
        {TEXT "limits = 5;", {"2: limits is a whole number|a group"}},
        {TEXT "memory = { buffers_mb = 0; };", {"2: memory.buffers_mb is 0|1..65536"}},
        {TEXT "timeouts = { idle_ms = 0; drain_ms = 86400001; };",
         {"2: timeouts.idle_ms is 0|1..86400000", "2: timeouts.drain_ms is 86400001|0..86400000"}},
        {TEXT "expose_errors = 1;", {"2: expose_errors is a whole number|true or false"}},
        {TEXT "expose_errors = \"true\";", {"2: expose_errors is a string|true or false"}},
        {TEXT "user = 5;\ngroup = \"\";", {"2: user is a whole number|string", "3: group is empty"}},
        {TEXT "user = \"a\\x07b\";", {"2: user has a control character"}},
        {TEXT "user = \"a\\xffb\";", {"2: user is not valid UTF-8"}},
        {TEXT "runtime_dir = \"run\";", {"2: runtime_dir is \"run\"|absolute path"}},
        {TEXT "log = { level = \"verbose\"; format = \"xml\"; };",
         {"2: log.level is \"verbose\"|\"error\", \"warn\", \"info\" or \"debug\"",
          "2: log.format is \"xml\"|\"text\" or \"json\""}},
        {TEXT "log = { file = \"stdout\"; access = \"on\"; };",
         {"2: file is \"stdout\"|a path", "2: access is \"on\"|off"}},
        {TEXT "listen = { address = \"1.2.3.4:5\"; };", {"2: listen is a group|a list of groups"}},
        {TEXT "listen = ( \"1.2.3.4:5\" );", {"2: element 1 of listen is a string|a group"}},
        {TEXT "listen = ( );", {"2: listen has 0 elements|1..64"}},
        {TEXT "listen = [ ];", {"2: listen has 0 elements|1..64"}},
        {TEXT "admin = ( { address = \"1.2.3.4:5\"; } );", {"2: admin is a list|a group"}},
        {TEXT "pools = { name = \"p\"; };", {"2: pools is a group|a list of groups"}},
        {"routes = \"x\";", {"1: routes is a string|a list of groups"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void numbers_that_libconfig_would_wrap(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "connections = 4294967297;", {"2: connections is 4294967297|1..1048576"}},
        {TEXT "connections = 4294967297L;", {"2: connections is 4294967297|1..1048576"}},
        {TEXT "connections = 0x1FFFFFFFF;", {"2: connections is 8589934591|1..1048576"}},
        {TEXT "connections = 0x100000001LL;", {"2: connections is 4294967297|1..1048576"}},
        {TEXT "connections = 99999999999999999999;", {"2: connections is a number that does not fit"}},
        {TEXT "connections = 99999999999999999999L;", {"2: connections is a number that does not fit"}},
        {TEXT "connections = -99999999999999999999;", {"2: connections is a number that does not fit"}},
        {TEXT "# 4294967297\n// 4294967297\n/* 4294967297\n*/ connections = /* 1 */ 4294967297; runtime_dir = "
              "\"/4294967297\";",
         {"5: connections is 4294967297"}},
        {TEXT "limits = { headers = 5; header_bytes = 18446744073709551617; };",
         {"2: limits.header_bytes is a number that does not fit"}},
        /* no tree: then by line */
        {"connections = 4294967297;\n" TEXT TEXT, {"1: too big", "3: duplicate setting name"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void small_numbers_in_any_spelling(void **state)
{
    struct conf *c = read_right(TEXT "connections = 0x10; workers = 5L; limits = { headers = +7; body_bytes = 010; };");

    (void)state;
    assert_int_equal(c->conf_connections, 16);
    assert_int_equal(c->conf_workers, 5);
    assert_int_equal(c->conf_limits.limit_headers, 7);
    assert_int_equal(c->conf_limits.limit_body_bytes, 10);
    conf_free(&c);
}

static void unknown_names(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "conections = 5;", {"2: unknown setting \"conections\"|did you mean \"connections\""}},
        {TEXT "Listen = 5;", {"2: unknown setting \"Listen\"|did you mean \"listen\""}},
        {TEXT "max_inflight = 5;", {"2: unknown setting \"max_inflight\"|of a pool"}},
        {TEXT "frobnicate = 5;", {"2: unknown setting \"frobnicate\"|allowed: workers, runtime_dir"}},
        {TEXT "limits = { header = 5;\n heders = 6; };",
         {"2: unknown setting \"header\"|\"headers\"", "3: unknown setting \"heders\"|\"headers\""}},
        {ROUTE("pram = [ \"path.a\" ];"), {"3: unknown setting \"pram\"|\"params\""}},
        {"routes = ( {\n method = \"GET\"; path = \"/\"; static = \"/srv\"; } );",
         {"1: neither sql nor text", "2: unknown setting \"static\""}},
        {"pools = ( { name = \"p\"; conninfo = \"\"; size = 5; } );\n" TEXT,
         {"1: unknown setting \"size\"|allowed: name"}},
        {TEXT "listen = ( { adress = \"127.0.0.1:80\"; } );",
         {"2: unknown setting \"adress\"|\"address\"", "2: address is missing"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void missing_settings_are_reported_at_their_group(void **state)
{
    static const struct wrong wrong[] = {
        {"\npools = (\n{ }\n);\n" TEXT, {"3: name is missing|every pool", "3: conninfo is missing"}},
        {"routes = (\n\n { text = \"x\"; } );", {"3: method is missing", "3: path is missing"}},
        {"routes = (\n { method = \"GET\"; path = \"/\";\n } );", {"2: neither sql nor text"}},
        {"routes = ( { method = \"GET\"; path = \"/\"; sql = \"SELECT 1\"; } );", {"1: there is no pool"}},
        {"pools = ( { name = \"r\"; conninfo = \"\"; read_only = true; pooler = true; } );\n"
         "routes = ( { method = \"GET\"; path = \"/\"; sql = \" call sneak()\"; } );",
         {"2: sql is a CALL or DO"}},
        {TEXT "pools = ( { name = \"p\"; conninfo = \"\"; pooler = true;\nreset = \"always\"; } );",
         {"3: reset is \"always\" with pooler|server_reset_query"}},
        {"pools = ();\nroutes = ( { method = \"GET\"; path = \"/\"; sql = \"SELECT 1\"; } );", {"2: there is no pool"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void addresses(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT
         "listen = ( { address = \"1.2.3.4:0\"; },\n{ address = \"1.2.3.4:65536\"; },\n{ address = \"x.org:80\"; } );",
         {"2: 1.2.3.4:0|1..65535", "3: 1.2.3.4:65536|1..65535", "4: x.org:80|numeric"}},
        {TEXT "listen = ( { address = \"127.0.0.1:80\"; },\n { address = \"localhost:80\"; } );",
         {"3: of line 2 again"}},
        {TEXT "listen = ( { address = \"unix:/a\"; },\n { address = \"unix:/a\"; } );", {"3: of line 2 again"}},
        {TEXT "listen = ( { address = \"127.0.0.1:9180\"; } );", {"2: admin and listen both"}},
        {TEXT "listen = ( { address = \"127.0.0.1:80\"; } );\nadmin = { address = \"127.0.0.1:80\"; };",
         {"3: admin and listen both"}},
        {TEXT "admin = { address = \"127.0.0.1:8080\"; };", {"2: admin and listen both"}},
        {TEXT "runtime_dir = \"/r\"; listen = ( { address = \"unix:/r/control.sock\"; } );", {"2: control socket"}},
        {TEXT "admin = { address = 9180; };", {"2: admin.address is a whole number|string"}},
    };
    struct conf *c =
        read_right(TEXT "listen = ( { address = \"0.0.0.0:80\"; }, { address = \"127.0.0.1:80\"; } ); admin = { };");

    (void)state;
    assert_string_equal(c->conf_admin.listen_address, "127.0.0.1:9180");
    assert_int_equal(c->conf_listen_n, 2);
    conf_free(&c);
    REFUSE(wrong);
}

static void proxies_clients_and_origins(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "trusted_proxies = [ \"10.0.0.1/8\", \"unix\", \"::/200\" ];",
         {"2: 10.0.0.1/8|bits behind", "2: ::/200|0..128"}},
        {TEXT "client = { connections = -1; rate = 3; };",
         {"2: unknown setting \"rate\" in the client group", "2: client.connections is -1|0..1048576"}},
        {TEXT "cors = { origins = [ \"*\" ]; credentials = true; };", {"2: credentials|browsers drop"}},
        {TEXT "cors = { origins = [ \"*\", \"https://a\" ]; };", {"2: \"*\" stands for all"}},
        {TEXT "cors = { origins = [ \"https://a/\", \"https://A\", \"a.example\", \"null\", \"https://*.a\" ]; };",
         {"2: https://a/|behind the host", "2: https://A|capital", "2: a.example|is not one", "2: null|sandboxed",
          "2: has a * inside"}},
        {TEXT
         "cors = { origins = [ \"https://a\" ]; methods = [ \"get\" ]; headers = [ \"a b\" ]; expose = [ \"\" ]; };",
         {"2: \"get\"; allowed: GET", "2: cors.headers|a b", "2: cors.expose"}},
        {"routes = ( { method = \"GET\"; path = \"/\"; text = \"\"; cors = { origins = [ \"x\" ]; }; } );",
         {"1: origin \"x\""}},
        {TEXT "listen = ( { address = \"127.0.0.1:80\"; proxy_protocol = 1; } );", {"2: proxy_protocol|true or false"}},
    };
    struct conf *c;

    (void)state;
    REFUSE(wrong);
    c = read_right(
        "routes = ( { method = \"GET\"; path = \"/a\"; text = \"\"; },\n"
        "  { method = \"GET\"; path = \"/b\"; text = \"\"; cors = {}; },\n"
        "  { method = \"GET\"; path = \"/c\"; text = \"\"; cors = { origins = [ \"*\" ]; max_age = 5; }; } );\n"
        "cors = { origins = [ \"https://a.example:8443\" ]; methods = [ \"GET\", \"PUT\" ];\n"
        "  headers = [ \"x-a\", \"x-b\" ]; expose = [ \"etag\" ]; credentials = true; };\n"
        "listen = ( { address = \"127.0.0.1:80\"; proxy_protocol = true; }, { address = \"127.0.0.1:81\"; } );\n"
        "trusted_proxies = ( \"10.0.0.0/8\", \"unix\", \"fd00::/8\" );\n"
        "client = { connections = 5; requests_per_second = 10; burst = 20; };\n"
        "server_header = false; timeouts = { body_rate = 0; };");
    assert_true(c->conf_cors->cors_credentials);
    assert_int_equal(c->conf_cors->cors_methods, 1u << METHOD_GET | 1u << METHOD_PUT);
    assert_string_equal(c->conf_cors->cors_headers, "x-a, x-b");
    assert_string_equal(c->conf_cors->cors_expose, "etag");
    assert_string_equal(c->conf_cors->cors_origins[0], "https://a.example:8443");
    assert_int_equal(c->conf_cors->cors_max_age, 600);
    assert_ptr_equal(c->conf_routes[0].route_cors, c->conf_cors);
    assert_null(c->conf_routes[1].route_cors);
    assert_true(c->conf_routes[2].route_cors->cors_any);
    assert_int_equal(c->conf_routes[2].route_cors->cors_max_age, 5);
    assert_null(c->conf_routes[2].route_cors->cors_headers);
    assert_true(c->conf_listen[0].listen_proxy);
    assert_false(c->conf_listen[1].listen_proxy);
    assert_int_equal(c->conf_trusted_n, 2);
    assert_true(c->conf_trusted_unix);
    assert_int_equal(c->conf_client.client_burst, 20);
    assert_false(c->conf_server_header);
    assert_int_equal(c->conf_timeouts.timeout_body_rate, 0);
    conf_free(&c);
    c = read_right(TEXT);
    assert_null(c->conf_cors);
    assert_null(c->conf_routes[0].route_cors);
    assert_true(c->conf_server_header);
    assert_int_equal(c->conf_timeouts.timeout_body_rate, 240);
    assert_int_equal(c->conf_client.client_connections, 0);
    conf_free(&c);
}

static void pools(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "pools = ( { name = \"a b\"; conninfo = \"\"; } );", {"2: name is \"a b\"|letters, digits"}},
        {TEXT "pools = ( { name = \"a\"; conninfo = \"\"; },\n{ name = \"a\"; conninfo = \"\"; } );",
         {"3: pool of line 2|\"a\""}},
        {TEXT "pools = ( { name = \"a\"; conninfo = \"hst=x\"; } );", {"2: conninfo|hst"}},
        {TEXT "pools = ( { name = \"a\"; conninfo = \"host='x\"; } );", {"2: conninfo|unterminated"}},
        {TEXT "pools = ( { name = \"a\"; conninfo = \"postgresql://[x\"; } );", {"2: conninfo"}},
        {TEXT
         "pools = ( { name = \"a\"; conninfo = \"\"; connections = 0; max_inflight = 0; queue = -1; sync_batch = 0;\n"
         "batch_us = 1000001; plan = \"x\"; } );",
         {"2: connections is 0", "2: max_inflight is 0", "2: sync_batch is 0", "2: queue is -1", "3: batch_us",
          "3: plan"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void statuses_of_sheds(void **state)
{
    static const struct wrong wrong[] = {
        {TEXT "shed = { status = 404; };", {"2: status is 404|blames the client"}},
        {TEXT "shed = { status = 301; retry_after = -1; };", {"2: shed.retry_after", "2: status is 301|503, 429"}},
        {TEXT "shed = { status = 600; };", {"2: shed.status is 600"}},
        {TEXT "pools = ( { name = \"p\"; conninfo = \"\"; shed_status = 400; } );", {"2: shed_status is 400|blames"}},
        {ROUTE("shed_status = 418;"), {"3: shed_status is 418|blames"}},
        {ROUTE("shed_status = 201;"), {"3: shed_status is 201|503"}},
    };
    static const char *const optimistic[] = {ROUTE("shed_status = 200;"), ROUTE("shed_status = 204;")};

    (void)state;
    REFUSE(wrong);
    for (unsigned i = 0; i < 2; i++) {
        char *said;
        struct conf *c = read_text(optimistic[i], &said);

        assert_non_null(c);
        assert_int_equal(c->conf_routes[0].route_shed_status, i == 0 ? 200 : 204);
        assert_true(line_says(said, "3: warning: shed_status|optimistic"));
        conf_free(&c);
        free(said);
    }
}

static void routes(void **state)
{
    static const struct wrong wrong[] = {
        {ROUTE("text = \"x\";"), {"3: both sql and text"}},
        {"routes = ( { method = \"get\"; path = \"x\"; text = \"\"; } );",
         {"1: method is \"get\"|\"GET\"", "1: path \"x\"|/"}},
        {"routes = ( { method = \"GET\"; path = \"/a%20\"; text = \"\"; } );", {"1: path|'%'"}},
        {"routes = (\n{ method = \"GET\"; path = \"/a/{b}\"; text = \"\"; },\n{ method = \"GET\"; path = \"/a/{c}\"; "
         "text = \"\"; },"
         "\n{ method = \"POST\"; path = \"/a/{c}\"; text = \"\"; },\n{ method = \"HEAD\"; path = \"/a/{c}\"; text = "
         "\"\"; } );",
         {"3: GET /a/{c}|line 2|/a/{b}"}},
        {"routes = ( { method = \"GET\"; path = \"/\"; text = \"\";\nparams = [];\nresult = \"row\";\npool = "
         "\"p\";\nwrap = \"w\";\ncache_ms = 5; } );",
         {"2: params goes with sql only", "3: result goes with sql only", "4: pool goes with sql only",
          "5: wrap goes with sql only", "6: cache_ms goes with sql only"}},
        {"routes = ( { method = \"GET\"; path = \"/\"; text = \"x\"; status = 204; } );",
         {"1: status 204 has no body"}},
        {ROUTE("status = 204;"), {"3: status 204 has no body"}},
        {ROUTE("result = \"none\"; status = 206;"), {"3: status 206"}},
        {ROUTE("status = 300;"), {"3: status is 300|200..299"}},
        {ROUTE("result = \"json\";"), {"3: result is \"json\"|\"row\", \"rows\""}},
        {ROUTE("content_type = \"text/html\";"), {"3: content_type goes with"}},
        {ROUTE("result = \"raw\"; content_type = \"html\";"), {"3: content_type is \"html\"|TYPE/SUBTYPE"}},
        {ROUTE("result = \"raw\"; content_type = \"a/b\\r\\nX: y\";"), {"3: content_type has a control"}},
        {ROUTE("pool = \"q\";"), {"3: no pool \"q\""}},
        {ROUTE("count = \"n\";"), {"3: count needs wrap"}},
        {ROUTE("echo = [];"), {"3: echo needs wrap"}},
        {ROUTE("result = \"value\"; wrap = \"w\";"), {"3: wrap goes with"}},
        {ROUTE("result = \"row\"; wrap = \"w\"; count = \"n\";"), {"3: count goes with"}},
        {ROUTE("wrap = \"w\"; count = \"w\";"), {"3: count and wrap both are \"w\""}},
        {ROUTE("wrap = \"w\"; echo = [ \"query.x\" ];"), {"3: echo names \"query.x\""}},
        {POOL
         "routes = ( { method = \"GET\"; path = \"/\"; sql = \"SELECT $1, $2\"; wrap = \"w\"; params = [ \"query.w\",\n"
         "\"header.a\" ];\n echo = [ \"query.w\", \"header.a\", \"header.a\" ]; } );",
         {"4: echo puts \"w\"", "4: echo puts \"a\""}},
        {POST("sql = \"SELECT 1\"; share = true;"), {"3: share goes with GET only"}},
        {POST("sql = \"SELECT 1\"; cache_ms = 9;"), {"3: cache_ms goes with GET and HEAD only"}},
        {ROUTE("cache_ms = 86400001;"), {"3: cache_ms is 86400001|0..86400000"}},
        {ROUTE("share = 1;"), {"3: share is a whole number|true or false"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void parameters(void **state)
{
    static const struct wrong wrong[] = {
        {POST("sql = \"SELECT $1\"; params = \"path.a\";"), {"3: params is a string|list of strings"}},
        {POST("sql = \"SELECT $1\"; params = ( \"path.a\",\n 5 );"), {"4: element 2 of params is a whole number"}},
        {POST("sql = \"SELECT $1, $2, $3\"; params = [\n\"path.b\",\n\"form.x\",\n\"path.a=5\"\n];"),
         {"4: \"path.b\"|the path /{a}", "5: \"form.x\"|path.NAME, query.NAME", "6: \"path.a=5\"|always there"}},
        {POST("sql = \"SELECT $1, $2\"; params = [\n\"body\",\n\"body.x\"\n];"), {"5: mixes body and body.NAME"}},
        {POST("sql = \"SELECT $1, $2\"; params = [\n\"body.x\",\n\"body\"\n];"), {"5: mixes body and body.NAME"}},
        {POOL "routes = ( { method = \"GET\"; path = \"/\"; sql = \"SELECT $1\"; params = [ \"body.x\" ]; } );",
         {"2: needs a body, which GET has not"}},
        {POOL "routes = ( { method = \"HEAD\"; path = \"/\"; sql = \"SELECT $1\"; params = [ \"body\" ]; } );",
         {"2: needs a body, which HEAD has not"}},
        {POST("sql = \"SELECT $1\"; params = [ \"query.a=\\x01\" ];"), {"3: control character"}},
        {POST("sql = \"SELECT $1, $65\"; params = [ \"query.a\" ];"), {"3: sql uses $65|$1..$64"}},
    };
    struct conf *c = read_right(POST("sql = \"SELECT $1, $2\"; params = [ \"query.a\", \"query.a\" ];"));

    (void)state;
    assert_int_equal(c->conf_routes[0].route_params_n, 2);
    conf_free(&c);
    REFUSE(wrong);
}

static void statements(void **state)
{
    static const struct wrong wrong[] = {
        {POST("sql = \"SET x = 1\";"), {"3: sql is a SET|leaves the session as it found it"}},
        {POST("sql = \"SELECT 1;\n SELECT 2\";"), {"3: sql is more than one statement"}},
        {POST("sql = \" -- x\";"), {"3: sql has no statement"}},
        {POST("sql = \"\";"), {"3: sql is empty"}},
    };

    (void)state;
    REFUSE(wrong);
}

static void syntax(void **state)
{
    static const struct wrong wrong[] = {
        {"", {"1: the file is empty"}},
        {"# nothing\n", {"1: the file sets nothing"}},
        {"workers = 1\nworkers = 2;\n", {"2: duplicate setting name"}},
        {"a\n b = 1", {"2: equals sign is missing between a and b|not a setting"}},
        {"workers 2;", {"1: equals sign is missing between workers and this number; allowed: NAME = VALUE;"}},
        {"worker_processes 2;", {"1: between worker_processes and this number|not a setting's name"}},
        {"routes = ( { path = \"/\"; },\n );", {"2: a comma before the closing )"}},
        {"routes = ( { path = \"/\"; }\n { path = \"/\"; } );", {"2: a comma is missing"}},
        {"routes = (\n { path = \"/\"; \n", {"1: this ( is never closed", "2: this { is never closed"}},
        {"routes = ( }\n", {"1: a } where the ( of line 1 is still open"}},
        {"workers = 1; }", {"1: a } that closes nothing"}},
        {"user = \"abc\n\n", {"1: this string is never closed"}},
        {"workers = 1; /* abc\n\n", {"1: this /* is never closed"}},
        {"\nlog = { level = info; };", {"2: a bare word, info|\"info\""}},
        {"\n@include \"/etc/passwd\"\n", {"2: @include"}},
        {"user = 'x';", {"1: single quote"}},
        {"\xef\xbb\xbfworkers = 1;", {"1: byte order mark"}},
        {"user = \"a\\x00b\";", {"1: \\x00"}},
        {"x = [ 1, \"a\" ];", {"1: mismatched element type"}},
        {"params = [ \"a\"\n \"b\" ];", {"2: two strings without a comma"}},
        {"workers = ;", {"1: syntax error"}},
        {"workers $ 1;", {"1: '$'"}},
    };

    (void)state;
    REFUSE(wrong);
    refuse_octets("workers = 1;\0", 13, (const char *const[]){"1: not text", NULL});
    refuse_octets("user = \"a\0b\";", 13, (const char *const[]){"1: NUL", NULL});
}

/* PostgreSQL has the last word on what $n there are: such a route is broken (500, named by /ready), the others work. */
static void parameters_that_do_not_match_are_warned_about(void **state)
{
    static const struct {
        const char *text, *said;
    } warned[] = {
        {ROUTE("params = [ \"path.a\" ];"), "params has 1, but sql does not use $1"},
        {POST("sql = \"SELECT $1\";"), "sql uses $1, but params has 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof warned / sizeof *warned; i++) {
        char *said;
        struct conf *c = read_text(warned[i].text, &said);

        assert_non_null(c);
        assert_non_null(strstr(said, "warning: "));
        assert_non_null(strstr(said, warned[i].said));
        free(said);
        conf_free(&c);
    }
}

static void all_problems_come_in_one_go_by_line(void **state)
{
    static const struct wrong wrong[] = {
        {"routes = ( { method = \"GET\"; path = \"/\"; sql = \"SELECT $1\"; pool = \"q\"; } );\n"
         "shed = { status = 404; };\n"
         "connections = 0;\n"
         "listen = ( { address = \"nowhere\"; } );\n"
         "oops = 1;\n",
         {"1: warning: sql uses $1", "1: no pool \"q\"", "2: status is 404", "3: connections is 0", "4: nowhere",
          "5: oops"}},
    };

    (void)state;
    /* On one line in the order in which they are found. */
    char *said;
    struct conf *c = read_text(wrong[0].wrong_text, &said);
    unsigned lines = 0, last = 0;

    assert_null(c);
    for (char *p = said; *p != '\0'; p = strchr(p, '\n') + 1, lines++) {
        unsigned line = (unsigned)atoi(strchr(p, ':') + 1);

        assert_true(line >= last);
        last = line;
    }
    assert_int_equal(lines, 6);
    free(said);
}

static void warnings_do_not_refuse(void **state)
{
    static const char *const texts[][2] = {
        {"workers = 1;", "1: warning|no routes"},
        {"workers = 1;\nroutes = ();", "2: warning|no routes"},
        {TEXT "memory = {\nbuffers_mb = 1; };", "3: warning|buffers_mb is 1"},
        {TEXT POOL "workers = 5;", "2: warning|4 connections for 5 workers"},
        {TEXT "limits = { body_bytes = 100000000; };", "1: warning|buffers_mb is 64"},
        {TEXT "pools = ( { name = \"p\"; conninfo = \"\"; pooler = true; plan = \"generic\"; } );",
         "2: warning|plan has no effect"},
        {POOL "routes = ( { method = \"GET\";\npath = \"/html/*\"; text = \"\"; } );", "3: warning|*|{name}"},
        {"pools = ( { name = \"r\"; conninfo = \"\"; read_only = true; } );\n"
         "routes = ( { method = \"POST\"; path = \"/\"; sql = \"SELECT 1\"; } );",
         "2: warning|POST|read_only|405"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *said;
        struct conf *c = read_text(texts[i][0], &said);

        assert_non_null(c);
        if (!line_says(said, texts[i][1]))
            fail_msg("%s\nwanted: %s\nsaid: %s", texts[i][0], texts[i][1], said);
        conf_free(&c);
        free(said);
    }
}

static void a_read_only_pool_that_is_named_is_meant(void **state)
{
    struct conf *c = read_right("pools = ( { name = \"r\"; conninfo = \"\"; read_only = true; } );\n"
                                "routes = ( { method = \"POST\"; path = \"/\"; sql = \"SELECT 1\"; pool = \"r\"; } );");

    (void)state;
    conf_free(&c);
}

static void what_the_machine_does_not_have_is_refused(void **state)
{
    static const char *const texts[][2] = {
        {TEXT "user = \"no-such-user\";", "2: no-such-user"},
        {TEXT "\ngroup = \"no-such-group\";", "3: no-such-group"},
    };
    static const struct wrong wrong[] = {
        {TEXT "log = { file = \"/no/such/log\";\naccess = \"/dev/null/log\"; };",
         {"2: file|/no/such|there is no folder", "3: access|/dev/null"}},
    };

    (void)state;
    REFUSE(wrong);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) { /* to others than root it is nothing but a warning */
        char *said;
        struct conf *c = read_text(texts[i][0], &said);

        assert_int_equal(c == NULL, geteuid() == 0);
        assert_true(line_says(said, texts[i][1]));
        if (c != NULL)
            conf_free(&c);
        free(said);
    }
}

static void a_file_that_is_none(void **state)
{
    char *said;
    size_t size;
    FILE *err = open_memstream(&said, &size);

    (void)state;
    assert_null(conf_read("/nonexistent/vanilla.conf", NULL, 0, err));
    assert_null(conf_read("/tmp", NULL, 0, err));
    assert_null(conf_read("/dev/null", NULL, 0, err));
    assert_null(conf_read("/dev/zero", NULL, 0, err));
    fclose(err);
    assert_non_null(strstr(said, "/nonexistent/vanilla.conf: cannot be opened: No such file"));
    assert_non_null(strstr(said, "/tmp: is a directory"));
    assert_non_null(strstr(said, "/dev/null:1: the file is empty"));
    assert_non_null(strstr(said, "/dev/zero: is larger"));
    free(said);
}

static void overrides_are_named_in_what_is_said(void **state)
{
    const char *const right[] = {
        "connections=5",     "limits.headers=7", "log.level=debug",    "pools.[0].max_inflight=16",
        "pools[0].name=007", "runtime_dir=/7",   "routes.[0].path=/x", "connections=6"};
    const char *const wrong[] = {"connections=0",
                                 "conections=1",
                                 "nothing",
                                 "pools.[1].queue=1",
                                 "limits.headers=1.5",
                                 "listen=(",
                                 "pools.[0].shed_status=404",
                                 "connections=4294967297"};
    char *said;
    struct conf *c = read_octets(POOL TEXT, strlen(POOL TEXT), right, 8, &said);

    (void)state;
    assert_string_equal(said, "");
    assert_int_equal(c->conf_connections, 6);
    assert_int_equal(c->conf_limits.limit_headers, 7);
    assert_int_equal(c->conf_log.log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(c->conf_pools[0].pool_max_inflight, 16);
    assert_string_equal(c->conf_pools[0].pool_name, "007");
    assert_string_equal(c->conf_runtime_dir, "/7");
    assert_string_equal(c->conf_routes[0].route_path, "/x");
    conf_free(&c);
    free(said);

    assert_null(read_octets(POOL TEXT, strlen(POOL TEXT), wrong, 8, &said));
    assert_non_null(strstr(said, "-o conections=1: unknown setting"));
    assert_non_null(strstr(said, "-o nothing: no setting"));
    assert_non_null(strstr(said, "-o pools.[1].queue=1: there is no element [1] here; the list has 1"));
    assert_non_null(strstr(said, "-o limits.headers=1.5: limits.headers is a fraction"));
    assert_non_null(strstr(said, "-o listen=(: the value cannot be read"));
    assert_non_null(strstr(said, "-o pools.[0].shed_status=404: shed_status is 404"));
    assert_non_null(strstr(said, "-o connections=4294967297: connections is 4294967297"));
    assert_null(strstr(said, "connections=0")); /* the last one counts */
    free(said);
}

static void shares_add_up_to_the_total(void **state)
{
    (void)state;
    for (unsigned connections = 1; connections <= 40; connections++)
        for (unsigned workers = 1; workers <= 20; workers++) {
            struct conf_pool pool = {.pool_connections = connections};
            unsigned sum = 0, low = connections, high = 0;

            for (unsigned slot = 0; slot < workers; slot++) {
                unsigned share = conf_pool_share(&pool, slot, workers);

                sum += share;
                low = share < low ? share : low;
                high = share > high ? share : high;
            }
            assert_int_equal(sum, connections > workers ? connections : workers);
            assert_true(low >= 1 && high - low <= 1);
        }
}

static void a_reload_keeps_what_needs_a_restart(void **state)
{
    struct conf *old =
        read_right(TEXT "connections = 5; user = \"daemon\"; listen = ( { address = \"1.2.3.4:5\"; } );");
    struct conf *new = read_right(TEXT "connections = 6; runtime_dir = \"/x\"; listen = ( { address = \"1.2.3.4:6\"; },"
                                       "{ address = \"1.2.3.4:7\"; } ); admin = { address = \"unix:/a\"; };");
    char *said;
    size_t size;
    FILE *out = open_memstream(&said, &size);

    (void)state;
    assert_int_equal(conf_keep(new, old, out), 4);
    fclose(out);
    assert_non_null(strstr(said, "runtime_dir needs a restart\n"));
    assert_non_null(strstr(said, "user needs a restart\n"));
    assert_non_null(strstr(said, "listen needs a restart\n"));
    assert_non_null(strstr(said, "admin needs a restart\n"));
    free(said);
    conf_free(&old); /* nothing of it is left in the new one */
    assert_int_equal(new->conf_connections, 6);
    assert_string_equal(new->conf_runtime_dir, "/run/vanilla");
    assert_string_equal(new->conf_user, "daemon");
    assert_int_equal(new->conf_listen_n, 1);
    assert_string_equal(new->conf_listen[0].listen_address, "1.2.3.4:5");
    assert_string_equal(new->conf_admin.listen_address, "127.0.0.1:9180");
    conf_free(&new);

    old = read_right(TEXT);
    new = read_right(TEXT "workers = 2; listen = ( { address = \"localhost:8080\"; } );");
    out = open_memstream(&said, &size);
    assert_int_equal(conf_keep(new, old, out), 0);
    fclose(out);
    assert_string_equal(said, "");
    free(said);
    conf_free(&old);
    conf_free(&new);
}

/* The tests are run from the top of the tree. */
static void the_file_that_is_installed_is_right(void **state)
{
    char *said;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    struct conf *c = conf_read("conf/vanilla.conf", NULL, 0, err);

    (void)state;
    fclose(err);
    assert_string_equal(said, "");
    assert_non_null(c);
    assert_int_equal(c->conf_routes_n, 5);
    assert_string_equal(c->conf_file, "conf/vanilla.conf");
    free(said);
    conf_free(&c);
}

static void hostile_files(void **state)
{
    size_t n = 1048576;
    char *text = malloc(n + 1), *said;
    unsigned seed = 12345;

    (void)state;
    text[n] = '\0';
    for (unsigned round = 0; round < 200; round++) { /* octets of every kind, and of the kinds that mean something */
        static const char some[] = "{}()[]=:;,\"\"\\x/*#\n+-.0123456789eELxX@ atruefalse\0\xff\x80";
        size_t len = round * 17u % 3000u;

        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = round % 2 != 0 ? (char)(seed >> 16) : some[(seed >> 16) % (sizeof some - 1)];
        }
        assert_null(read_octets(text, len, NULL, 0, &said));
        free(said);
    }
    memset(text, '(', n); /* deep nesting */
    memcpy(text, "routes = ", 9);
    refuse_octets(text, n, (const char *const[]){"1: too deep|16", NULL});
    memset(text, 'x', n); /* a megabyte in one string */
    memcpy(text, "user = \"", 8);
    memcpy(text + n - 2, "\";", 2);
    refuse_octets(text, n, (const char *const[]){"1: user has|octets|at most 64", NULL});
    memset(text, '7', n); /* and in one number */
    memcpy(text, "workers = ", 10);
    refuse_octets(text, n, (const char *const[]){"1: workers is a number that does not fit", NULL});
    memset(text, 'y', n); /* and in one name */
    memcpy(text + n - 3, "=1;", 3);
    assert_null(read_octets(text, n, NULL, 0, &said));
    assert_non_null(strstr(said, ":1: unknown setting \"yyy"));
    assert_true(strlen(said) < 1000);
    free(said);
    for (size_t i = 0; i + 4 <= n; i += 4) /* more wrong settings than anybody reads */
        memcpy(text + i, i % 8 == 0 ? "\n\"\" " : "    ", 4);
    assert_null(read_octets(text, n, NULL, 0, &said));
    free(said);
    free(text);
}

static void what_is_said_is_bounded_and_printable(void **state)
{
    char text[20000] = TEXT, *said;
    size_t n = strlen(text);
    unsigned lines = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "oops%u = 1;\n", i);
    assert_null(read_text(text, &said));
    for (const char *p = said; *p != '\0'; p++)
        lines += *p == '\n';
    assert_int_equal(lines, REPORT_LINES_MAX + 1);
    assert_non_null(strstr(said, ": and 800 more\n"));
    free(said);

    assert_null(read_text(TEXT "log = { level = \"\\x1b[31m\\nfake\"; };", &said));
    assert_null(strchr(said, 0x1b));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold_where_the_file_says_nothing),
        cmocka_unit_test(every_value_arrives),
        cmocka_unit_test(one_pool_serves_every_method),
        cmocka_unit_test(text_routes_need_no_pool),
        cmocka_unit_test(types_and_ranges),
        cmocka_unit_test(numbers_that_libconfig_would_wrap),
        cmocka_unit_test(small_numbers_in_any_spelling),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(missing_settings_are_reported_at_their_group),
        cmocka_unit_test(addresses),
        cmocka_unit_test(proxies_clients_and_origins),
        cmocka_unit_test(pools),
        cmocka_unit_test(statuses_of_sheds),
        cmocka_unit_test(routes),
        cmocka_unit_test(parameters),
        cmocka_unit_test(statements),
        cmocka_unit_test(syntax),
        cmocka_unit_test(parameters_that_do_not_match_are_warned_about),
        cmocka_unit_test(all_problems_come_in_one_go_by_line),
        cmocka_unit_test(warnings_do_not_refuse),
        cmocka_unit_test(a_read_only_pool_that_is_named_is_meant),
        cmocka_unit_test(what_the_machine_does_not_have_is_refused),
        cmocka_unit_test(a_file_that_is_none),
        cmocka_unit_test(overrides_are_named_in_what_is_said),
        cmocka_unit_test(shares_add_up_to_the_total),
        cmocka_unit_test(a_reload_keeps_what_needs_a_restart),
        cmocka_unit_test(the_file_that_is_installed_is_right),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(what_is_said_is_bounded_and_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
