#include "conf/override.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/literal.h"
#include "conf/options.h"

#define NAME_SIZE 64u

/* One step of a path: a name, or the index of an element. */
struct step {
    char step_name[NAME_SIZE]; /* "": an index */
    unsigned step_index;
};

static const char *override_step(const char *p, const char *end, struct step *step);
static config_setting_t *override_descend(config_setting_t *at, const struct step *step, const char *text,
                                          struct report *r);
static void override_put(config_setting_t *parent, const struct step *step, const config_setting_t *value,
                         const char *text, struct report *r);
static config_setting_t *override_value(config_t *tree, const char *value, const struct option *o, const char *text,
                                        struct report *r);
static bool override_is_string_kind(const struct option *o);
static config_setting_t *override_copy(config_setting_t *parent, const char *name, const config_setting_t *from);
static const struct option *override_option(const char *first, const char *last, unsigned steps);

void override_apply(config_t *tree, const char *text, struct report *r)
{
    const char *end = strchr(text, '='), *p = text;
    config_setting_t *at = config_root_setting(tree), *value;
    struct step step, first = {.step_name = ""};
    unsigned steps = 0;
    config_t scratch;

    if (end == NULL || end == text) {
        report_override(r, text, "no setting; allowed: KEY=VALUE, as in limits.headers=50");
        return;
    }
    for (;;) {
        p = override_step(p, end, &step);
        if (p == NULL) {
            report_override(r, text, "not a setting's name; allowed: as in limits.headers or pools.[0].max_inflight");
            return;
        }
        if (steps++ == 0)
            first = step;
        if (p == end)
            break;
        at = override_descend(at, &step, text, r);
        if (at == NULL)
            return;
    }
    config_init(&scratch);
    value = override_value(&scratch, end + 1, override_option(first.step_name, step.step_name, steps), text, r);
    if (value != NULL)
        override_put(at, &step, value, text, r);
    config_destroy(&scratch);
}

/* Reads one step of [p, end); returns what follows its dot, `end` behind the last one, NULL when it is none. */
static const char *override_step(const char *p, const char *end, struct step *step)
{
    size_t n;

    memset(step, 0, sizeof *step);
    if (*p == '[') {
        char *after;

        if (p[1] < '0' || p[1] > '9')
            return NULL;
        step->step_index = (unsigned)strtoul(p + 1, &after, 10);
        if (after - p > 9 || *after != ']')
            return NULL;
        p = after + 1;
    } else {
        n = strcspn(p, ".[=");
        if (n == 0 || n >= NAME_SIZE)
            return NULL;
        memcpy(step->step_name, p, n);
        p += n;
    }
    if (p == end || *p == '[')
        return p;
    return *p == '.' && p + 1 < end ? p + 1 : NULL;
}

/* The group or list that the step leads to, made when it is a group that is not there; NULL: reported. */
static config_setting_t *override_descend(config_setting_t *at, const struct step *step, const char *text,
                                          struct report *r)
{
    config_setting_t *next;

    if (step->step_name[0] != '\0') {
        if (!config_setting_is_group(at)) {
            report_override(r, text, "%s is looked for in a list; allowed: an index, as in [0]", step->step_name);
            return NULL;
        }
        next = config_setting_get_member(at, step->step_name);
        if (next == NULL) {
            next = config_setting_add(at, step->step_name, CONFIG_TYPE_GROUP);
            if (next != NULL)
                config_setting_set_hook(next, (void *)(uintptr_t)text);
        }
        if (next == NULL)
            report_override(r, text, "%s cannot be a setting's name", step->step_name);
    } else {
        next = config_setting_is_list(at) ? config_setting_get_elem(at, step->step_index) : NULL;
        if (next == NULL)
            report_override(r, text, "there is no element [%u] here; the list has %d", step->step_index,
                            config_setting_is_list(at) ? config_setting_length(at) : 0);
    }
    if (next != NULL && !config_setting_is_group(next) && !config_setting_is_list(next)) {
        report_override(r, text, "%s is not a group", step->step_name[0] != '\0' ? step->step_name : "the element");
        return NULL;
    }
    return next;
}

/* Makes `value` the member or element that the step names, in place of what is there. */
static void override_put(config_setting_t *parent, const struct step *step, const config_setting_t *value,
                         const char *text, struct report *r)
{
    config_setting_t *fresh;
    config_list_t *list;
    unsigned last;

    if (step->step_name[0] != '\0') {
        if (!config_setting_is_group(parent)) {
            report_override(r, text, "%s is looked for in a list; allowed: an index, as in [0]", step->step_name);
            return;
        }
        (void)config_setting_remove(parent, step->step_name);
        fresh = override_copy(parent, step->step_name, value);
        if (fresh == NULL)
            report_override(r, text, "%s cannot be a setting's name", step->step_name);
        else
            config_setting_set_hook(fresh, (void *)(uintptr_t)text);
        return;
    }
    if (!config_setting_is_list(parent) || config_setting_get_elem(parent, step->step_index) == NULL) {
        report_override(r, text, "there is no element [%u] here; the list has %d", step->step_index,
                        config_setting_is_list(parent) ? config_setting_length(parent) : 0);
        return;
    }
    fresh = override_copy(parent, NULL, value);
    AN(fresh);
    config_setting_set_hook(fresh, (void *)(uintptr_t)text);
    list = parent->value.list; /* the new one is the last: change places with the old one, which then goes */
    last = list->length - 1;
    list->elements[last] = list->elements[step->step_index];
    list->elements[step->step_index] = fresh;
    (void)config_setting_remove_elem(parent, last);
}

/* VALUE, read into the tree of its own; NULL: reported. */
static config_setting_t *override_value(config_t *tree, const char *value, const struct option *o, const char *text,
                                        struct report *r)
{
    struct report quiet = {.report_file = ""};
    struct literals literals = {0};
    struct memory memory = {NULL};
    char *line = memory_format(&memory, "v = %s\n", value);
    config_setting_t *v = NULL;
    bool parsed;

    parsed = literals_scan(&literals, line, strlen(line), &quiet) == 0 && config_read_string(tree, line) == CONFIG_TRUE;
    if (parsed) {
        literals_apply(&literals, config_root_setting(tree));
        v = config_setting_get_elem(config_root_setting(tree), 0);
        if (config_setting_length(config_root_setting(tree)) != 1) {
            report_override(r, text, "more than one value; allowed: KEY=VALUE");
            v = NULL;
        }
    }
    if (!parsed && strchr("\"([{", *value) != NULL && *value != '\0') {
        report_override(r, text,
                        "the value cannot be read; allowed: a number, true, false, a word, \"a string\", "
                        "[ ... ], ( ... ), { ... }");
    } else if (!parsed || (v != NULL && override_is_string_kind(o) && config_setting_is_scalar(v) &&
                           config_setting_type(v) != CONFIG_TYPE_STRING)) {
        config_destroy(tree);
        config_init(tree);
        v = config_setting_add(config_root_setting(tree), "v", CONFIG_TYPE_STRING);
        AN(v);
        (void)config_setting_set_string(v, value);
    }
    report_discard(&quiet);
    literals_free(&literals);
    memory_free(&memory);
    return v;
}

static bool override_is_string_kind(const struct option *o)
{
    return o != NULL && (o->option_kind == KIND_TEXT || o->option_kind == KIND_LINES || o->option_kind == KIND_CHOICE ||
                         o->option_kind == KIND_EITHER);
}

/* A deep copy of `from` as a new member (or element) of parent; NULL: the name cannot be one. */
static config_setting_t *override_copy(config_setting_t *parent, const char *name, const config_setting_t *from)
{
    config_setting_t *to = config_setting_add(parent, name, config_setting_type(from));

    if (to == NULL)
        return NULL;
    switch (config_setting_type(from)) {
    case CONFIG_TYPE_INT:
        (void)config_setting_set_int(to, config_setting_get_int(from));
        break;
    case CONFIG_TYPE_INT64:
        (void)config_setting_set_int64(to, config_setting_get_int64(from));
        break;
    case CONFIG_TYPE_FLOAT:
        (void)config_setting_set_float(to, config_setting_get_float(from));
        break;
    case CONFIG_TYPE_BOOL:
        (void)config_setting_set_bool(to, config_setting_get_bool(from));
        break;
    case CONFIG_TYPE_STRING:
        (void)config_setting_set_string(to, config_setting_get_string(from));
        break;
    default:
        for (int i = 0; i < config_setting_length(from); i++) {
            const config_setting_t *e = config_setting_get_elem(from, (unsigned)i);

            AN(override_copy(to, config_setting_name(e), e));
        }
    }
    return to;
}

/* The row of the table that a path leads to, by its first and last name; NULL: none, which the check will say. */
static const struct option *override_option(const char *first, const char *last, unsigned steps)
{
    static const struct {
        const char *name;
        enum option_group group;
    } groups[] = {{"listen", OPTION_LISTEN},     {"admin", OPTION_ADMIN},   {"limits", OPTION_LIMITS},
                  {"timeouts", OPTION_TIMEOUTS}, {"memory", OPTION_MEMORY}, {"log", OPTION_LOG},
                  {"shed", OPTION_SHED},         {"pools", OPTION_POOL},    {"routes", OPTION_ROUTE}};

    if (steps == 1)
        return options_find(OPTION_TOP, last);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].name, first) == 0)
            return options_find(groups[i].group, last);
    return NULL;
}
