/* The CPUs that this process may use: its affinity, and what the control groups around it leave of them. */
#ifndef VANILLA_MASTER_CPUS_H
#define VANILLA_MASTER_CPUS_H

#include "shm/assert.h"

struct cpus {
    int *cpus_ids; /* of the affinity mask, ascending */
    unsigned cpus_n;
    unsigned cpus_quota; /* CPUs' worth of time per period, rounded up; 0: no quota */
};

/* Reads both; `root` stands before /proc and before the control groups' mount points ("" for the real ones).  0, or -1
 * with errno.  Files of the control groups that are absent or not understood set no quota. */
int cpus_read(struct cpus *cpus, const char *root) MUSTCHECK;
void cpus_free(struct cpus *cpus);

/* How many workers `workers = "auto"` starts: the smaller of affinity and quota, at least 1. */
unsigned cpus_usable(const struct cpus *cpus);

/* The CPU of worker `slot`; with more workers than CPUs they wrap around. */
int cpus_of(const struct cpus *cpus, unsigned slot);

/* Pins this process to one CPU; 0, or -1 with errno. */
int cpus_pin(int cpu) MUSTCHECK;

/* The smallest quota of the process's own control group and all around it, v2 (cpu.max) and v1 (cpu.cfs_quota_us). */
unsigned cpus_quota(const char *root);

#endif
