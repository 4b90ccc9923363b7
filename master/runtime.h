/* The runtime directory: may we have it, making it, and the segment in it. */
#ifndef VANILLA_MASTER_RUNTIME_H
#define VANILLA_MASTER_RUNTIME_H

#include <stddef.h>
#include <sys/types.h>

#include "conf/conf.h"
#include "shm/segment.h"

/* Is it free: a directory, or absent with a parent that is there, and nobody answers on its control socket?  Changes
 * nothing.  0, or -1 and `why`. */
int runtime_check(const struct conf *conf, char *why, size_t why_len) MUSTCHECK;

/* Makes the directory (0755) where it is absent; *made says so.  0, or -1 and `why`. */
int runtime_make(const struct conf *conf, bool *made, char *why, size_t why_len) MUSTCHECK;

/* Makes its stats.shm, readable by members of `group` (-1: nobody's).  The caller closes it; NULL and `why`. */
struct segment *runtime_segment(const struct conf *conf, unsigned workers, gid_t group, char *why,
                                size_t why_len) MUSTCHECK;

/* The path of the control socket, in a buffer of PATH_MAX octets. */
void runtime_control_path(const struct conf *conf, char *path);

#endif
