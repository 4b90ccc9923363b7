#include "conf/fit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "conf/utf8.h"

static bool fit_number(struct report *r, const struct option *o, const config_setting_t *member);
static bool fit_text(struct report *r, const struct option *o, const config_setting_t *member);
static bool fit_word(struct report *r, const struct option *o, const config_setting_t *member);
static bool fit_elements(struct report *r, const struct option *o, const config_setting_t *list);
static void fit_wrong_type(struct report *r, const struct option *o, const config_setting_t *member);
static const char *fit_choices_text(const struct option *o, char *out, size_t size);
static const char *fit_label(const struct option *o, char *out, size_t size);
static const char *fit_type_name(const config_setting_t *s);
static bool fit_is_int(const config_setting_t *s);

bool fit_option(struct report *r, const struct option *o, const config_setting_t *member)
{
    switch (o->option_kind) {
    case KIND_AUTO:
        if (config_setting_type(member) == CONFIG_TYPE_STRING)
            return fit_word(r, o, member);
        return fit_number(r, o, member);
    case KIND_COUNT:
        return fit_number(r, o, member);
    case KIND_FLAG:
        if (config_setting_type(member) == CONFIG_TYPE_BOOL)
            return true;
        break;
    case KIND_TEXT:
    case KIND_LINES:
        return fit_text(r, o, member);
    case KIND_CHOICE:
    case KIND_EITHER:
        return fit_word(r, o, member);
    case KIND_GROUP:
        if (config_setting_is_group(member))
            return true;
        break;
    case KIND_GROUPS:
    case KIND_TEXTS:
        return fit_elements(r, o, member);
    }
    fit_wrong_type(r, o, member);
    return false;
}

static bool fit_number(struct report *r, const struct option *o, const config_setting_t *member)
{
    char label[64];
    const char *or_auto = o->option_kind == KIND_AUTO ? "\"auto\" or " : "";
    long long v;

    if (!fit_is_int(member)) {
        fit_wrong_type(r, o, member);
        return false;
    }
    v = config_setting_get_int64(member);
    if (v >= o->option_min && v <= o->option_max)
        return true;
    fit_label(o, label, sizeof label);
    if (v == LLONG_MAX || v == LLONG_MIN) /* literal.c puts these for what 64 bits do not hold */
        report_setting(r, member, "%s is a number that does not fit 64 bits; allowed: %s%lld..%lld", label, or_auto,
                       o->option_min, o->option_max);
    else
        report_setting(r, member, "%s is %lld; allowed: %s%lld..%lld", label, v, or_auto, o->option_min, o->option_max);
    return false;
}

static bool fit_text(struct report *r, const struct option *o, const config_setting_t *member)
{
    char label[64];
    const char *s;
    size_t n;

    if (config_setting_type(member) != CONFIG_TYPE_STRING) {
        fit_wrong_type(r, o, member);
        return false;
    }
    fit_label(o, label, sizeof label);
    s = config_setting_get_string(member);
    n = strlen(s);
    if (n == 0 && o->option_min > 0)
        report_setting(r, member, "%s is empty; allowed: 1..%lld octets", label, o->option_max);
    else if (n > (size_t)o->option_max)
        report_setting(r, member, "%s has %zu octets; allowed: at most %lld", label, n, o->option_max);
    else if (!conf_utf8_valid(s, n))
        report_setting(r, member, "%s is not valid UTF-8", label);
    else if (o->option_kind == KIND_TEXT && conf_utf8_has_control(s, ""))
        report_setting(r, member, "%s has a control character; allowed: printable characters", label);
    else if (o->option_kind == KIND_LINES && conf_utf8_has_control(s, "\t\n\r\f\v"))
        report_setting(r, member, "%s has a control character; allowed: printable characters, white space", label);
    else
        return true;
    return false;
}

static bool fit_word(struct report *r, const struct option *o, const config_setting_t *member)
{
    char label[64], choices[128];

    if (config_setting_type(member) != CONFIG_TYPE_STRING) {
        fit_wrong_type(r, o, member);
        return false;
    }
    if (fit_choice(o, config_setting_get_string(member)) >= 0)
        return true;
    report_setting(r, member, "%s is \"%.64s\"; allowed: %s", fit_label(o, label, sizeof label),
                   config_setting_get_string(member), fit_choices_text(o, choices, sizeof choices));
    return false;
}

/* A list of groups can only be (...); of strings (...) or [...]. */
static bool fit_elements(struct report *r, const struct option *o, const config_setting_t *list)
{
    bool groups = o->option_kind == KIND_GROUPS, fits = true;
    char label[64];
    int n;

    fit_label(o, label, sizeof label);
    if (!config_setting_is_list(list) && !config_setting_is_array(list)) {
        fit_wrong_type(r, o, list);
        return false;
    }
    n = config_setting_length(list);
    if (n < o->option_min || n > o->option_max) {
        report_setting(r, list, "%s has %d elements; allowed: %lld..%lld", label, n, o->option_min, o->option_max);
        fits = false;
    }
    for (int i = 0; i < n; i++) {
        const config_setting_t *e = config_setting_get_elem(list, (unsigned)i);

        if (groups ? config_setting_is_group(e) : config_setting_type(e) == CONFIG_TYPE_STRING)
            continue;
        report_setting(r, e, "element %d of %s is %s; allowed: %s", i + 1, label, fit_type_name(e),
                       groups ? "a group, { ... }" : "a string");
        fits = false;
    }
    return fits;
}

static void fit_wrong_type(struct report *r, const struct option *o, const config_setting_t *member)
{
    char label[64], want[160];

    switch (o->option_kind) {
    case KIND_COUNT:
    case KIND_AUTO:
        snprintf(want, sizeof want, "%sa whole number, %lld..%lld", o->option_kind == KIND_AUTO ? "\"auto\" or " : "",
                 o->option_min, o->option_max);
        break;
    case KIND_FLAG:
        snprintf(want, sizeof want, "true or false");
        break;
    case KIND_TEXT:
    case KIND_LINES:
        snprintf(want, sizeof want, "a string, in double quotes");
        break;
    case KIND_CHOICE:
    case KIND_EITHER:
        fit_choices_text(o, want, sizeof want);
        break;
    case KIND_GROUP:
        snprintf(want, sizeof want, "a group, { ... }");
        break;
    case KIND_GROUPS:
        snprintf(want, sizeof want, "a list of groups, ( { ... }, { ... } )");
        break;
    case KIND_TEXTS:
        snprintf(want, sizeof want, "a list of strings, [ \"...\", \"...\" ]");
        break;
    }
    report_setting(r, member, "%s is %s; allowed: %s", fit_label(o, label, sizeof label), fit_type_name(member), want);
}

int fit_choice(const struct option *o, const char *word)
{
    const char *p = o->option_kind == KIND_AUTO ? "auto" : o->option_choices;
    size_t n = strlen(word);

    for (int i = 0; *p != '\0'; i++) {
        size_t len = strcspn(p, "|");

        if (len == n && memcmp(p, word, n) == 0)
            return i;
        p += len + (p[len] == '|');
    }
    return -1;
}

/* "a|b|c" as a person reads it: "a", "b" or "c". */
static const char *fit_choices_text(const struct option *o, char *out, size_t size)
{
    const char *p = o->option_choices;
    size_t n = 0;

    if (o->option_kind == KIND_AUTO) {
        snprintf(out, size, "\"auto\" or %lld..%lld", o->option_min, o->option_max);
        return out;
    }
    while (*p != '\0' && n < size) {
        size_t len = strcspn(p, "|");
        const char *before = n == 0 ? "" : p[len] == '|' ? ", " : " or ";

        n += (size_t)snprintf(out + n, size - n, "%s\"%.*s\"", before, (int)len, p);
        p += len + (p[len] == '|');
    }
    return out;
}

static const char *fit_label(const struct option *o, char *out, size_t size)
{
    static const char *const prefixes[] = {"",     "",      "admin.",  "limits.", "timeouts.", "memory.",
                                           "log.", "shed.", "client.", "cors.",   "",          ""};

    snprintf(out, size, "%s%s", prefixes[o->option_group], o->option_name);
    return out;
}

static const char *fit_type_name(const config_setting_t *s)
{
    switch (config_setting_type(s)) {
    case CONFIG_TYPE_GROUP:
        return "a group";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return "a whole number";
    case CONFIG_TYPE_FLOAT:
        return "a fraction";
    case CONFIG_TYPE_STRING:
        return "a string";
    case CONFIG_TYPE_BOOL:
        return "true or false";
    case CONFIG_TYPE_ARRAY:
        return "an array";
    case CONFIG_TYPE_LIST:
        return "a list";
    default:
        return "nothing";
    }
}

static bool fit_is_int(const config_setting_t *s)
{
    return config_setting_type(s) == CONFIG_TYPE_INT || config_setting_type(s) == CONFIG_TYPE_INT64;
}
