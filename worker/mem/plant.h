/*
 * Planted leaks, for the proof that the profiling harnesses see what they claim to see (tests/profile/plants.py).  In a
 * build with PLANT=1, the environment's VANILLA_PLANT says which are on: words out of `request`, `connection`,
 * `queued`, and `freed`, with which a planted allocation is freed at once and so no leak.  In every other build there
 * is nothing.
 */
#ifndef VANILLA_WORKER_MEM_PLANT_H
#define VANILLA_WORKER_MEM_PLANT_H

#ifdef VANILLA_PLANT

#include <stdlib.h>
#include <string.h>

#define PLANT_BYTES 16u

extern void *volatile plant_last; /* so that no compiler sees through it */

/* A macro, so that the allocation's line and its caller are those of the place where it is planted. */
#define PLANT(what)                                                       \
    do {                                                                  \
        const char *plant_wanted = getenv("VANILLA_PLANT");               \
        if (plant_wanted != NULL && strstr(plant_wanted, what) != NULL) { \
            plant_last = malloc(PLANT_BYTES);                             \
            if (strstr(plant_wanted, "freed") != NULL)                    \
                free(plant_last);                                         \
        }                                                                 \
    } while (0)

#else

#define PLANT(what) ((void)0)

#endif

#endif
