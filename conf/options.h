/*
 * The table of settings (options.def) and the one walker that holds a tree of libconfig against it: unknown names,
 * types, ranges and choices are found here, for every group alike.  What a group means is its own file's business.
 */
#ifndef VANILLA_CONF_OPTIONS_H
#define VANILLA_CONF_OPTIONS_H

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "conf/memory.h"
#include "conf/report.h"

enum option_group {
    OPTION_TOP,
    OPTION_LISTEN,
    OPTION_ADMIN,
    OPTION_LIMITS,
    OPTION_TIMEOUTS,
    OPTION_MEMORY,
    OPTION_LOG,
    OPTION_SHED,
    OPTION_CLIENT,
    OPTION_CORS,
    OPTION_POOL,
    OPTION_ROUTE
};

enum option_kind {
    KIND_COUNT,
    KIND_AUTO,
    KIND_FLAG,
    KIND_TEXT,
    KIND_LINES,
    KIND_CHOICE,
    KIND_EITHER,
    KIND_GROUP,
    KIND_GROUPS,
    KIND_TEXTS
};

enum option_when { WHEN_LIVE, WHEN_RESTART };

struct option {
    enum option_group option_group;
    const char *option_name;
    enum option_kind option_kind;
    size_t option_place; /* offset in the group's struct, or OPTION_NOWHERE */
    const char *option_default;
    long long option_min, option_max;
    const char *option_choices; /* "a|b|c" */
    enum option_when option_when;
    const char *option_meaning;
};

#define OPTION_NOWHERE ((size_t)-1)

/* What reading needs everywhere: where problems go, and the memory of the configuration. */
struct reader {
    struct report *reader_report;
    struct memory *reader_memory;
};

/* Holds `setting`, a group (NULL: it was left out), against the table and stores what fits at `base`, the group's
 * struct; defaults where nothing is given.  Groups inside it that have a place are read too.  Problems are reported;
 * what has one is stored as its default. */
void options_read(const struct reader *rd, enum option_group group, const config_setting_t *setting, void *base);

/* The member `name` of a group as text, number, list of groups or list of strings, when it is there and right by the
 * table; else NULL.  Reports nothing: options_read has. */
const config_setting_t *options_member(enum option_group group, const config_setting_t *setting, const char *name);

/* The row of a setting, or NULL. */
const struct option *options_find(enum option_group group, const char *name);

/* Row i of the table, or NULL when there are fewer. */
const struct option *options_row(unsigned i);

/* "limits", "pools[]": how a group is called in messages and documents; "" for the top. */
const char *options_group_name(enum option_group group);

#endif
