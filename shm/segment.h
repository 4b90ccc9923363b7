/*
 * The shared segment `stats.shm`: a header, the master's counters, a directory of pools and routes, and one
 * cache-line-aligned block per worker, of which that worker is the only writer.  Plain 64-bit relaxed stores, no locks,
 * no atomic read-modify-write.  Here is who writes and who opens; what a reader asks is in shm/view.h.
 *
 * The runtime directory belongs on a tmpfs, as /run is: the kernel may make the writer of a mapped page wait while it
 * writes that page to a disk.
 */
#ifndef VANILLA_SHM_SEGMENT_H
#define VANILLA_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/assert.h"
#include "shm/stats.h"

struct segment; /* a mapping, or a reader's copy */

/* What the segment is about; strings are copied into it. */
struct segment_shape {
    unsigned shape_workers, shape_pools, shape_routes;
    const char *const *shape_pool_names;
    const unsigned *shape_pool_max_inflight;
    const char *const *shape_route_methods, *const *shape_route_paths;
    const int *shape_route_pools; /* index, or -1 */
    const char *shape_version;    /* of the binary */
};

enum worker_state {
    WORKER_STATE_NONE,
    WORKER_STATE_STARTING,
    WORKER_STATE_READY,
    WORKER_STATE_DRAINING,
    WORKER_STATE_DEAD,
    WORKER_STATE_LEFT /* in good order: as it was told, or with nothing left to do */
};

/* Creates `path` anew (written to a temporary name, renamed into place, mode 0640) and maps it read-write, shared.  The
 * calling process is the master that it tells of.  NULL with errno (EINVAL: more workers, pools or routes than a
 * segment holds).  The caller unmaps with segment_close, which leaves the file. */
struct segment *segment_create(const char *path, const struct segment_shape *shape) MUSTCHECK;
/* Marks the file stale: the server has ended; figures stay for a post-mortem. */
void segment_mark_stale(struct segment *s);

/* For the master only. */
void segment_master_add(struct segment *s, enum stat_master counter, uint64_t n);
void segment_set_generation(struct segment *s, uint64_t generation);
/* The workers, those that are started later included, take it at their next tick. */
void segment_set_max_inflight(struct segment *s, unsigned pool, unsigned max_inflight);
/* After a reload, with `from` the segment of the generation before: whatever was counted there goes on in `to`, worker
 * by worker (workers that `to` has no slot for go to the others), pools and routes by name, and so do the master's
 * counters and the server's start time.  Gauges do not.  It sets and does not add, so it may be called again while the
 * old workers drain, and once more when the last of them is gone; each time the figures of `to` only grow. */
void segment_carry(struct segment *to, const struct segment *from);

enum segment_error {
    SEGMENT_OK,
    SEGMENT_ABSENT,
    SEGMENT_FOREIGN,
    SEGMENT_TRUNCATED,
    SEGMENT_OLDER,
    SEGMENT_NEWER,
    SEGMENT_SYSTEM
};
/* Takes a copy of an existing file: figures as of now; open again for newer ones.  (A copy and not a mapping, because
 * touching a mapped file that has shrunk is a SIGBUS, and so that nothing changes after it was checked.)  Never trusts
 * the file: every size, count and offset is checked against the file's length.  Allocates.  On error returns NULL, sets
 * *error, and writes to `why` a sentence without a full stop, which says where it applies which of the two is older. */
struct segment *segment_open(const char *path, enum segment_error *error, char *why, size_t why_len) MUSTCHECK;
/* Where this process was attached to s, its counters go to private memory again. */
void segment_close(struct segment **sp);

/* Makes worker `slot`'s block the one that this process's counters (shm/stats.h) write to, and says who it is. Figures
 * of a predecessor stay: counters and peaks go on from where they were; gauges are cleared.  State: STARTING. */
void segment_attach(struct segment *s, unsigned slot, int pid, int cpu, uint64_t generation);
/* Also sets the started (STARTING) or ready (READY) time.  The worker calls it; the master for DEAD, once the worker is
 * gone: from then on its gauges do not count in totals, while what it counted and its peaks do. */
void segment_worker_state(struct segment *s, unsigned slot, enum worker_state state);
/* How many of a pool's slots the ready workers but `but` have free, less what waits there, as of their latest ticks. */
unsigned segment_free_slots(const struct segment *s, unsigned pool, unsigned but);
void segment_heartbeat(struct segment *s, unsigned slot, uint64_t now_ns); /* CLOCK_MONOTONIC */

#endif
