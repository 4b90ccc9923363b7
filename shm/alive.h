/* Whether a process is still the one that it was. */
#ifndef VANILLA_SHM_ALIVE_H
#define VANILLA_SHM_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/* The process's start time in clock ticks since boot (field 22 of /proc/PID/stat); 0 when it cannot be known. */
uint64_t alive_ticks(int64_t pid);

/* Whether `pid` lives and, where `ticks` (not 0) and /proc can tell, is the process that started then: pids are used
 * again.  A zombie is not alive. */
bool alive(int64_t pid, uint64_t ticks);

#endif
