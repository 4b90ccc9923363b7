/*
 * Allocation accounting.  The binary defines the malloc family itself (alloc.c), forwards to libc, and counts
 * calls, frees and bytes by scope into the process's statistics (shm/stats.h: alloc.*), so that what libpq and
 * libevent allocate is counted too.  Under a sanitizer, whose malloc must stay in charge, the same counting
 * hangs on its hooks.  A process has one thread; so the scope is one plain variable.
 *
 * VANILLA_ALLOC=trap: the first allocation in any scope but `start` and `connect` after alloc_ready() prints a
 * backtrace and aborts.  Built with NOFREE, free() does nothing.
 */
#ifndef VANILLA_WORKER_MEM_ALLOC_H
#define VANILLA_WORKER_MEM_ALLOC_H

enum alloc_scope {
    ALLOC_START,   /* before the worker is ready */
    ALLOC_CONNECT, /* a database connection is being made, prepared or torn down */
    ALLOC_HTTP,
    ALLOC_PG,
    ALLOC_EVENT,
    ALLOC_OTHER,
    ALLOC_SCOPES
};

/* Volatile, because the compiler knows that malloc reads no variable of ours, and is wrong. */
extern volatile enum alloc_scope alloc_scope_now;

/* Enters a scope; returns the one to go back to: `old = alloc_enter(ALLOC_CONNECT); ...; alloc_leave(old);` */
static inline enum alloc_scope alloc_enter(enum alloc_scope s)
{
    enum alloc_scope old = alloc_scope_now;

    alloc_scope_now = s;
    return old;
}

static inline void alloc_leave(enum alloc_scope old)
{
    alloc_scope_now = old;
}

/* From here on allocations outside ALLOC_CONNECT count as alloc.steady, and trap when so asked. */
void alloc_ready(void);

#endif
