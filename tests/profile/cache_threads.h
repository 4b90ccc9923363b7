/* The protocol of the response cache under threads. */
#ifndef VANILLA_TESTS_PROFILE_CACHE_THREADS_H
#define VANILLA_TESTS_PROFILE_CACHE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Each writer stores at least that many answers, while readers look for them; prints what it saw.  True: nobody ever
 * found an answer that is not whole, not the key's, or too old; and some were found. */
bool cache_threads_hold(uint64_t turns);

#endif
