/*
 * What this worker sheds, said in its log: while it sheds, a line each SHEDS_PAUSE_S seconds with counts by cause.  The
 * first line comes with the tick after the first shed.  Only counters are looked at, so requests pay nothing for it.
 */
#ifndef VANILLA_WORKER_SHEDS_H
#define VANILLA_WORKER_SHEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"

#define SHEDS_PAUSE_S 10
#define SHEDS_CAUSES 5u
#define SHEDS_LINE_MAX 256

struct sheds {
    uint64_t sheds_told[SHEDS_CAUSES]; /* the counters as of the latest line */
    uint64_t sheds_told_ns;            /* when that was; 0: never */
};

/* What was shed until now, by this slot's predecessors too, is not told. */
void sheds_start(struct sheds *s);

/* With each tick, and at the worker's end: true when `line` has something to say, which is then told. */
bool sheds_tell(struct sheds *s, uint64_t now_ns, bool end, char line[SHEDS_LINE_MAX]) MUSTCHECK;

#endif
