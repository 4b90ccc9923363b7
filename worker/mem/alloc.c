#include "worker/mem/alloc.h"

#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/stats.h"
#include "worker/mem/plant.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOC_HOOKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ALLOC_HOOKS 1
#endif
#endif
#ifdef ALLOC_HOOKS
/* From sanitizer/allocator_interface.h, which gcc does not ship. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                                     void (*)(const volatile void *));
#endif

_Static_assert(STAT_alloc_connect == STAT_alloc_start + ALLOC_CONNECT &&
                   STAT_alloc_http == STAT_alloc_start + ALLOC_HTTP && STAT_alloc_pg == STAT_alloc_start + ALLOC_PG &&
                   STAT_alloc_event == STAT_alloc_start + ALLOC_EVENT &&
                   STAT_alloc_other == STAT_alloc_start + ALLOC_OTHER,
               "counters.def lists alloc.* in the order of enum alloc_scope");

volatile enum alloc_scope alloc_scope_now = ALLOC_START;
#ifdef VANILLA_PLANT
void *volatile plant_last;
#endif

static volatile bool alloc_is_ready, alloc_traps; /* volatile: see alloc_scope_now */

static void count(size_t bytes);
static void trap(void) __attribute__((noreturn, noinline));

void alloc_ready(void)
{
    const char *mode = getenv("VANILLA_ALLOC");
    void *frames[2];

    (void)backtrace(frames, 2); /* its first call loads a library, which allocates: now rather than in trap() */
    alloc_traps = mode != NULL && strcmp(mode, "trap") == 0;
    alloc_scope_now = ALLOC_OTHER;
    alloc_is_ready = true;
}

static inline void count(size_t bytes)
{
    enum alloc_scope scope = alloc_scope_now;

    stat_add(STAT_alloc_start + scope, 1);
    stat_add(STAT_alloc_bytes, bytes);
    if (alloc_is_ready && scope != ALLOC_CONNECT && scope != ALLOC_START) {
        stat_add(STAT_alloc_steady, 1);
        if (alloc_traps)
            trap();
    }
}

static void trap(void)
{
    static const char message[] = "vanilla: VANILLA_ALLOC=trap: allocation on a request path:\n";
    void *frames[64];
    int n;

    alloc_traps = false;
    n = backtrace(frames, 64);
    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    backtrace_symbols_fd(frames, n, STDERR_FILENO);
    abort();
}

#ifdef ALLOC_HOOKS

static void hook_malloc(const volatile void *p, size_t size)
{
    (void)p;
    count(size);
}

static void hook_free(const volatile void *p)
{
    if (p != NULL)
        stat_add(STAT_alloc_frees, 1);
}

__attribute__((constructor)) static void hooks_install(void)
{
    (void)__sanitizer_install_malloc_and_free_hooks(hook_malloc, hook_free);
}

#elif !defined(VANILLA_LIBC_MALLOC) /* for tools that put themselves in the library's place */

/* NOLINTBEGIN(bugprone-reserved-identifier): they are the C library's. */
/* Its own, under the names that it keeps for whoever replaces the public ones. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
/* NOLINTEND(bugprone-reserved-identifier) */

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(n * size);
    return __libc_calloc(n, size);
}

void free(void *p)
{
    if (p == NULL)
        return;
    stat_add(STAT_alloc_frees, 1);
#ifndef NOFREE
    __libc_free(p);
#endif
}

void *realloc(void *p, size_t size)
{
    count(size);
#ifdef NOFREE
    if (p != NULL) {
        size_t had = malloc_usable_size(p);
        void *q = __libc_malloc(size);

        if (q != NULL)
            memcpy(q, p, had < size ? had : size);
        return q;
    }
#endif
    return __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

void *memalign(size_t alignment, size_t size)
{
    count(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **pp, size_t alignment, size_t size)
{
    void *p;

    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    p = memalign(alignment, size);
    if (p == NULL)
        return ENOMEM;
    *pp = p;
    return 0;
}

void *valloc(size_t size)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

#endif
