/* What a person may have meant by a name that is not a setting. */
#ifndef VANILLA_CONF_NEAR_H
#define VANILLA_CONF_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/options.h"

/* Names of this group that are a slip of the finger away ("a" or "b"), or else the group where the name would be right.
 * False: neither. */
bool near_names(enum option_group group, const char *name, char *out, size_t size);

#endif
