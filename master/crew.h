/*
 * The workers of one generation of the configuration, with all that they were given: carries out what the table of
 * supervise.h decides.  A reload makes another crew and lets this one drain.
 */
#ifndef VANILLA_MASTER_CREW_H
#define VANILLA_MASTER_CREW_H

#include <event2/event.h>

#include "master/cpus.h"
#include "master/listen.h"
#include "master/privileges.h"
#include "master/supervise.h"
#include "shm/cache.h"
#include "shm/segment.h"

#define CREW_MAGIC 0xc4e34e01u
#define CREW_STOP_MS 1000       /* from WORKER_STOP to SIGKILL */
#define CREW_DRAIN_SLACK_MS 500 /* for a worker that closes its last connections at drain_ms itself */

struct crew;

struct slot {
    struct crew *slot_crew;
    unsigned slot_number;
    enum slot_state slot_state;
    pid_t slot_pid;      /* of the present or, without one, the last process */
    int slot_status;     /* the last process's, of waitpid */
    int slot_command_fd; /* the master's end; -1: none */
    struct event *slot_command, *slot_timer;
    uint64_t slot_started_ms;
    struct backoff slot_backoff;
};

struct crew_plan {
    struct event_base *crew_base;
    const struct conf *crew_conf;
    struct segment *crew_segment;
    struct listeners *crew_listeners; /* the crew's own from now on */
    const struct privileges *crew_privileges;
    const struct cpus *crew_cpus;
    unsigned crew_workers;
    uint64_t crew_generation;
    /* Once: all that will ever be ready are.  Once: all slots are over; `broken`: each by WORKER_EXIT_FATAL. */
    void (*crew_ready)(void *context, unsigned workers);
    void (*crew_over)(void *context, bool broken);
    void *crew_context;
};

struct crew {
    unsigned magic;
    struct crew_plan crew_plan;
    struct slot *crew_slots; /* crew_workers */
    bool crew_told_ready, crew_told_over;
    struct cache *crew_cache; /* NULL: no route keeps answers */
};

/* With a response cache where a route wants one.  NULL: out of memory. */
struct crew *crew_new(const struct crew_plan *plan) MUSTCHECK;
/* Leaves no process behind: those that still are there are killed. */
void crew_free(struct crew **cp);

void crew_start(struct crew *c);
/* Stops accepting, and gives each worker drain_ms; or CREW_STOP_MS.  Socket files are removed at once. */
void crew_drain(struct crew *c);
void crew_stop(struct crew *c);
/* Sends one octet to every worker. */
void crew_command(struct crew *c, char command);
/* Was this process, of which waitpid says `status`, one of the crew's? */
bool crew_reap(struct crew *c, pid_t pid, int status);

#endif
