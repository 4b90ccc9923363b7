#include "conf/param.h"

#include <string.h>

#include "conf/mediatype.h"
#include "conf/path.h"

static const struct param_form {
    const char *form_prefix;
    enum conf_source form_source;
    bool form_has_name, form_has_default, form_is_token;
} forms[] = {
    {"path", SOURCE_PATH, true, false, false},        {"query", SOURCE_QUERY, true, true, false},
    {"header", SOURCE_HEADER, true, true, true},      {"cookie", SOURCE_COOKIE, true, true, true},
    {"body", SOURCE_BODY, false, true, false},        {"body", SOURCE_BODY_FIELD, true, true, false},
    {"conn.ip", SOURCE_CONN_IP, false, false, false},
};

static const struct param_form *param_form_of(const char *spec, size_t n);
static bool param_check_name(const struct param_form *form, const char *name, char *why, size_t size);

bool param_parse(const char *text, const char *path, enum conf_method method, struct memory *memory,
                 struct conf_param *param, char *why, size_t size)
{
    size_t n = strcspn(text, "=");
    const struct param_form *form = param_form_of(text, n);
    int segment = 0;

    if (form == NULL) {
        snprintf(why, size,
                 "is not one; allowed: path.NAME, query.NAME, header.NAME, cookie.NAME, body, body.NAME, conn.ip, with "
                 "=DEFAULT behind");
        return false;
    }
    param->param_source = form->form_source;
    param->param_spec = memory_text(memory, text, n);
    param->param_name = form->form_has_name ? param->param_spec + strlen(form->form_prefix) + 1 : "";
    if (form->form_has_name && !param_check_name(form, param->param_name, why, size))
        return false;
    if (text[n] == '=' && !form->form_has_default) {
        snprintf(why, size, "has a default, but is always there; allowed: %s", param->param_spec);
        return false;
    }
    if (text[n] == '=')
        param->param_default = memory_text(memory, text + n + 1, strlen(text + n + 1));
    if (form->form_source == SOURCE_HEADER) { /* names do not care about case: RFC 9110 section 5.1 */
        char *lower = memory_text(memory, param->param_name, strlen(param->param_name));

        for (char *p = lower; *p != '\0'; p++)
            if (*p >= 'A' && *p <= 'Z')
                *p = (char)(*p | 0x20);
        param->param_name = lower;
    }
    if (form->form_source == SOURCE_PATH && path != NULL)
        segment = path_param(path, param->param_name);
    if (segment < 0) {
        snprintf(why, size, "names nothing in the path %.128s; allowed: the names in {} there", path);
        return false;
    }
    param->param_segment = (unsigned)segment;
    if ((form->form_source == SOURCE_BODY || form->form_source == SOURCE_BODY_FIELD) &&
        (method == METHOD_GET || method == METHOD_HEAD)) {
        snprintf(why, size, "needs a body, which %s has not; allowed: path, query, header, cookie, conn.ip",
                 conf_method_name(method));
        return false;
    }
    return true;
}

/* The form of the n octets before a default: "conn.ip", "body", or PREFIX.NAME. */
static const struct param_form *param_form_of(const char *spec, size_t n)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t len = strlen(forms[i].form_prefix);

        if (n < len || memcmp(spec, forms[i].form_prefix, len) != 0)
            continue;
        if (forms[i].form_has_name ? n > len && spec[len] == '.' : n == len)
            return &forms[i];
    }
    return NULL;
}

static bool param_check_name(const struct param_form *form, const char *name, char *why, size_t size)
{
    if (*name == '\0') {
        snprintf(why, size, "has no name behind the dot; allowed: %s.NAME", form->form_prefix);
        return false;
    }
    if (form->form_is_token && name[strspn(name, MEDIATYPE_TOKEN)] != '\0') {
        snprintf(why, size, "cannot be a %s's name; allowed: letters, digits and !#$%%&'*+-.^_`|~", form->form_prefix);
        return false;
    }
    if (strpbrk(name, "\"\\") != NULL) {
        snprintf(why, size, "has a quote or a backslash in its name; allowed: any other printable characters");
        return false;
    }
    return true;
}
