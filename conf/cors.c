#include "conf/cors.h"

#include <string.h>

static void cors_read_origins(const struct reader *rd, const config_setting_t *group, struct conf_cors *cors);
static const char *origin_wrong(const char *text);
static void cors_read_methods(const struct reader *rd, const config_setting_t *group, struct conf_cors *cors);
static const char *cors_read_names(const struct reader *rd, const config_setting_t *group, const char *name);

const struct conf_cors *cors_read(const struct reader *rd, const config_setting_t *group)
{
    const config_setting_t *member;
    struct conf_cors *cors;

    if (group == NULL)
        return NULL;
    cors = memory_get(rd->reader_memory, sizeof *cors);
    options_read(rd, OPTION_CORS, group, cors);
    cors_read_origins(rd, group, cors);
    cors_read_methods(rd, group, cors);
    cors->cors_headers = cors_read_names(rd, group, "headers");
    cors->cors_expose = cors_read_names(rd, group, "expose");
    member = options_member(OPTION_CORS, group, "credentials");
    if (cors->cors_any && cors->cors_credentials && member != NULL)
        report_setting(rd->reader_report, member,
                       "cors.credentials is true beside the origin \"*\": browsers drop such answers, and any page "
                       "could act as its visitors; allowed: credentials = false, or origins by name");
    return cors->cors_any || cors->cors_origins_n > 0 ? cors : NULL;
}

static void cors_read_origins(const struct reader *rd, const config_setting_t *group, struct conf_cors *cors)
{
    const config_setting_t *list = options_member(OPTION_CORS, group, "origins");
    unsigned n = list != NULL ? (unsigned)config_setting_length(list) : 0;

    cors->cors_origins = memory_get(rd->reader_memory, (n != 0 ? n : 1) * sizeof *cors->cors_origins);
    for (unsigned i = 0; i < n; i++) {
        const config_setting_t *element = config_setting_get_elem(list, i);
        const char *text = config_setting_get_string(element);
        const char *why = strcmp(text, "*") != 0 ? origin_wrong(text)
                          : n == 1               ? NULL
                                                 : "stands for all, beside others; allowed: \"*\" alone, or names";

        if (why != NULL)
            report_setting(rd->reader_report, element, "origin \"%.128s\" %s", text, why);
        else if (strcmp(text, "*") == 0)
            cors->cors_any = true;
        else
            cors->cors_origins[cors->cors_origins_n++] = memory_text(rd->reader_memory, text, strlen(text));
    }
}

/* An origin is compared octet by octet with what browsers send (RFC 6454 6.2): what they never send is a mistake. */
static const char *origin_wrong(const char *text)
{
    const char *host = strstr(text, "://");

    if (strcmp(text, "null") == 0)
        return "is what any sandboxed page sends; allowed: SCHEME://HOST, SCHEME://HOST:PORT, \"*\"";
    if (host == NULL || host == text || host[3] == '\0' || strlen(text) > 255)
        return "is not one; allowed: SCHEME://HOST, SCHEME://HOST:PORT, \"*\"";
    if (strpbrk(host + 3, "/?#") != NULL)
        return "has something behind the host; allowed: SCHEME://HOST, SCHEME://HOST:PORT, without a slash at the end";
    if (strchr(text, '*') != NULL)
        return "has a * inside; allowed: whole names, or \"*\" for all";
    for (const char *p = text; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || (*p >= 'A' && *p <= 'Z'))
            return "has a capital letter or an octet that browsers never send; allowed: lower case, ASCII";
    return NULL;
}

static void cors_read_methods(const struct reader *rd, const config_setting_t *group, struct conf_cors *cors)
{
    const config_setting_t *list = options_member(OPTION_CORS, group, "methods");
    int n = list != NULL ? config_setting_length(list) : 0;

    for (int i = 0; i < n; i++) {
        const config_setting_t *element = config_setting_get_elem(list, (unsigned)i);
        unsigned m = 0;

        while (m < METHODS_ROUTABLE &&
               strcmp(conf_method_name((enum conf_method)m), config_setting_get_string(element)) != 0)
            m++;
        if (m < METHODS_ROUTABLE)
            cors->cors_methods |= 1u << m;
        else
            report_setting(rd->reader_report, element,
                           "method \"%.64s\"; allowed: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
                           config_setting_get_string(element));
    }
}

/* A list of field names as it stands in an answer; NULL: none. */
static const char *cors_read_names(const struct reader *rd, const config_setting_t *group, const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const config_setting_t *list = options_member(OPTION_CORS, group, name);
    int n = list != NULL ? config_setting_length(list) : 0;
    const char *all = NULL;

    for (int i = 0; i < n; i++) {
        const config_setting_t *element = config_setting_get_elem(list, (unsigned)i);
        const char *text = config_setting_get_string(element);

        if (*text == '\0' || strlen(text) > 64 || text[strspn(text, token)] != '\0')
            report_setting(rd->reader_report, element, "cors.%s: \"%.64s\" is not the name of a field", name, text);
        else
            all = all == NULL ? memory_text(rd->reader_memory, text, strlen(text))
                              : memory_format(rd->reader_memory, "%s, %s", all, text);
    }
    return all;
}
