/* The file's text. */
#ifndef VANILLA_CONF_SOURCE_H
#define VANILLA_CONF_SOURCE_H

#include <stddef.h>

#include "conf/report.h"
#include "shm/assert.h"

#define SOURCE_BYTES_MAX 1048576u

/* Reads all of `file`, and puts a line end and a NUL behind it: libconfig does not see a comment that has no line end.
 * *n: octets, with the line end.  The caller frees it; NULL: reported. */
char *source_read(const char *file, size_t *n, struct report *r) MUSTCHECK;

#endif
