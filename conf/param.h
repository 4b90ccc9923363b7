/* One element of a route's params: "query.limit=10". */
#ifndef VANILLA_CONF_PARAM_H
#define VANILLA_CONF_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "conf/memory.h"

/* Reads `text` into *param, for a route with this path (NULL: the path is wrong, so its parameters are not known) and
 * method.  False: `why` gets what is wrong and what is allowed. */
bool param_parse(const char *text, const char *path, enum conf_method method, struct memory *memory,
                 struct conf_param *param, char *why, size_t size) MUSTCHECK;

#endif
