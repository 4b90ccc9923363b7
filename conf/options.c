#include "conf/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/fit.h"
#include "conf/near.h"

#define AT(type, member) offsetof(struct type, member)
#define NOWHERE OPTION_NOWHERE
static const struct option options[] = {
#define OPTION(group, name, kind, place, def, min, max, choices, when, meaning) \
    {OPTION_##group, #name, KIND_##kind, place, def, min, max, choices, WHEN_##when, meaning},
#include "conf/options.def"
#undef OPTION
};

#define OPTIONS_N (sizeof options / sizeof options[0])

static void options_unknown(struct report *r, enum option_group group, const config_setting_t *member);
static void options_store(const struct reader *rd, const struct option *o, const config_setting_t *member, void *base);
static void options_store_default(const struct reader *rd, const struct option *o, void *base);
static enum option_group options_subgroup(const struct option *o);

void options_read(const struct reader *rd, enum option_group group, const config_setting_t *setting, void *base)
{
    struct report *r = rd->reader_report;

    for (int i = 0; setting != NULL && i < config_setting_length(setting); i++) {
        const config_setting_t *member = config_setting_get_elem(setting, (unsigned)i);

        if (options_find(group, config_setting_name(member)) == NULL)
            options_unknown(r, group, member);
    }
    for (const struct option *o = options; o < options + OPTIONS_N; o++) {
        const config_setting_t *member = NULL;

        if (o->option_group != group)
            continue;
        if (setting != NULL)
            member = config_setting_get_member(setting, o->option_name);
        if (member == NULL && setting != NULL && strcmp(o->option_default, "!") == 0)
            report_setting(r, setting, "%s is missing; every %s needs one: %s", o->option_name,
                           options_group_name(group), o->option_meaning);
        if (member != NULL && !fit_option(r, o, member))
            member = NULL;
        if (o->option_place == OPTION_NOWHERE)
            continue;
        if (o->option_kind == KIND_GROUP)
            options_read(rd, options_subgroup(o), member, (char *)base + o->option_place);
        else if (member != NULL)
            options_store(rd, o, member, base);
        else
            options_store_default(rd, o, base);
    }
}

const config_setting_t *options_member(enum option_group group, const config_setting_t *setting, const char *name)
{
    const config_setting_t *member = setting != NULL ? config_setting_get_member(setting, name) : NULL;
    const struct option *o = options_find(group, name);

    AN(o);
    return member != NULL && fit_option(NULL, o, member) ? member : NULL;
}

const struct option *options_find(enum option_group group, const char *name)
{
    for (const struct option *o = options; o < options + OPTIONS_N; o++)
        if (o->option_group == group && strcmp(o->option_name, name) == 0)
            return o;
    return NULL;
}

const struct option *options_row(unsigned i)
{
    return i < OPTIONS_N ? &options[i] : NULL;
}

const char *options_group_name(enum option_group group)
{
    static const char *const names[] = {"file",           "listen address", "admin",     "limits group",
                                        "timeouts group", "memory group",   "log group", "shed group",
                                        "client group",   "cors group",     "pool",      "route"};

    return names[group];
}

static void options_unknown(struct report *r, enum option_group group, const config_setting_t *member)
{
    const char *name = config_setting_name(member);
    char text[512] = "";
    size_t n = 0;

    if (near_names(group, name, text, sizeof text)) {
        report_setting(r, member, "unknown setting \"%.64s\" in the %s; did you mean %s?", name,
                       options_group_name(group), text);
        return;
    }
    for (const struct option *o = options; o < options + OPTIONS_N; o++)
        if (o->option_group == group && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n != 0 ? ", " : "", o->option_name);
    report_setting(r, member, "unknown setting \"%.64s\" in the %s; allowed: %s", name, options_group_name(group),
                   text);
}

/* --- values ----------------------------------------------------------------------------------------------------------
 */

static void options_store(const struct reader *rd, const struct option *o, const config_setting_t *member, void *base)
{
    char *place = (char *)base + o->option_place;
    const char *s = config_setting_type(member) == CONFIG_TYPE_STRING ? config_setting_get_string(member) : NULL;

    switch (o->option_kind) {
    case KIND_COUNT:
    case KIND_AUTO:
        *(unsigned *)(void *)place = s != NULL ? 0 : (unsigned)config_setting_get_int64(member);
        break;
    case KIND_FLAG:
        *(bool *)(void *)place = config_setting_get_bool(member) != 0;
        break;
    case KIND_TEXT:
    case KIND_LINES:
        AN(s);
        *(const char **)(void *)place = memory_text(rd->reader_memory, s, strlen(s));
        break;
    case KIND_CHOICE:
        AN(s);
        *(int *)(void *)place = fit_choice(o, s);
        break;
    case KIND_EITHER:
        AN(s);
        *(bool *)(void *)place = fit_choice(o, s) == 1;
        break;
    default:
        AZ("a group or a list has no place");
    }
}

static void options_store_default(const struct reader *rd, const struct option *o, void *base)
{
    const char *s = o->option_default;
    char *place = (char *)base + o->option_place;

    if (strcmp(s, "-") == 0 || strcmp(s, "!") == 0)
        return;
    switch (o->option_kind) {
    case KIND_COUNT:
    case KIND_AUTO:
        *(unsigned *)(void *)place = (unsigned)strtoul(s, NULL, 10); /* "auto" is 0 */
        break;
    case KIND_FLAG:
        *(bool *)(void *)place = strcmp(s, "true") == 0;
        break;
    case KIND_TEXT:
    case KIND_LINES:
        *(const char **)(void *)place = memory_text(rd->reader_memory, s, strlen(s));
        break;
    case KIND_CHOICE:
        *(int *)(void *)place = fit_choice(o, s);
        break;
    case KIND_EITHER:
        *(bool *)(void *)place = fit_choice(o, s) == 1;
        break;
    default:
        AZ("a group or a list has no place");
    }
}

static enum option_group options_subgroup(const struct option *o)
{
    static const struct {
        const char *name;
        enum option_group group;
    } groups[] = {{"limits", OPTION_LIMITS}, {"timeouts", OPTION_TIMEOUTS}, {"memory", OPTION_MEMORY},
                  {"log", OPTION_LOG},       {"shed", OPTION_SHED},         {"client", OPTION_CLIENT}};

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].name, o->option_name) == 0)
            return groups[i].group;
    assert_failed("a group of the table without its rows");
}
