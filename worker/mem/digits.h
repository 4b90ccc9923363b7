/* A number's decimal digits. */
#ifndef VANILLA_WORKER_MEM_DIGITS_H
#define VANILLA_WORKER_MEM_DIGITS_H

#include <stdint.h>

#include "worker/mem/slice.h"

#define DIGITS_MAX 20u /* of 64 bits */

/* Those of v, somewhere in `room`; valid as long as that. */
static inline struct slice digits_of(char room[DIGITS_MAX], uint64_t v)
{
    unsigned at = DIGITS_MAX;

    do {
        room[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return (struct slice){room + at, DIGITS_MAX - at};
}

#endif
