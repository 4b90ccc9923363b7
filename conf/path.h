/* A route's path: literal segments, and parameters that fill one whole segment each. */
#ifndef VANILLA_CONF_PATH_H
#define VANILLA_CONF_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/assert.h"

#define PATH_SEGMENTS_MAX 64u /* the router's */

/* Is it one?  If not, `why` gets what is wrong and what is allowed. */
bool path_check(const char *path, char *why, size_t size) MUSTCHECK;

/* Which `{...}` of a right path has this name, from 0; -1: none. */
int path_param(const char *path, const char *name);

/* Do two right paths match the same requests: are they equal but for the names of parameters? */
bool path_same(const char *a, const char *b);

#endif
