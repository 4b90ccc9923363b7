/* What helgrind shall not look at. */
#ifndef VANILLA_TESTS_PROFILE_HIDDEN_H
#define VANILLA_TESTS_PROFILE_HIDDEN_H

#include <stddef.h>

#if __has_include(<valgrind/helgrind.h>)
#include <valgrind/helgrind.h>
#endif

/* Memory that processes share by atomic words alone.  Helgrind knows of locks and takes such words for plain ones, each
 * of which would be a race to it; ThreadSanitizer judges them.  All else stays in its sight. */
static inline void hide_from_helgrind(const void *p, size_t n)
{
#ifdef VALGRIND_HG_DISABLE_CHECKING
    VALGRIND_HG_DISABLE_CHECKING(p, n);
#else
    (void)p;
    (void)n;
#endif
}

#endif
