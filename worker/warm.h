/* Makes libevent allocate at start what it would otherwise allocate on the first busy days. */
#ifndef VANILLA_WORKER_WARM_H
#define VANILLA_WORKER_WARM_H

struct event_base;

/* Registers up to n descriptors with the base at the same time, lets all of them fire, and takes them away again: the
 * base's tables for descriptor numbers, changes and fired events are then as large as n descriptors will ever make
 * them.  Returns how many descriptors there were: fewer than n when the process's limit is lower. */
unsigned loop_warm(struct event_base *base, unsigned n);

#endif
