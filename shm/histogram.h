/* A log-linear histogram of microseconds, at most 1.6 % off: 32 cells per power of two; one writer, any readers.  (16
 * cells would be off by 1/33, a hair over the 3 % that we promise.) */
#ifndef VANILLA_SHM_HISTOGRAM_H
#define VANILLA_SHM_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_CELLS 768u /* up to 2^28 us (four minutes); the last cell takes all above */

struct histogram {
    uint64_t histogram_sum; /* microseconds */
    uint64_t histogram_cells[HISTOGRAM_CELLS];
};

/* Which cell a value belongs to: below 32 its own, then 32 per octave. */
static inline unsigned histogram_cell(uint64_t us)
{
    unsigned shift, cell;

    if (us < 32)
        return (unsigned)us;
    shift = (unsigned)(63 - __builtin_clzll(us)) - 5u;
    cell = shift * 32u + (unsigned)(us >> shift);
    return cell < HISTOGRAM_CELLS ? cell : HISTOGRAM_CELLS - 1;
}

static inline void histogram_record(struct histogram *h, uint64_t us)
{
    uint64_t *cell = &h->histogram_cells[histogram_cell(us)];

    __atomic_store_n(cell, *cell + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&h->histogram_sum, h->histogram_sum + us, __ATOMIC_RELAXED);
}

/* The smallest and the largest value of a cell, us; the last cell's largest is where its own octave ends. */
uint64_t histogram_low(unsigned cell);
uint64_t histogram_high(unsigned cell);

/* How many records `cells` (HISTOGRAM_CELLS sums) holds. */
uint64_t histogram_count(const uint64_t *cells);

/* The value (middle of its cell, us) that a share q (0..1) of the records of `cells` (HISTOGRAM_CELLS sums) does not
 * exceed; 0 when there are none. */
double histogram_quantile(const uint64_t *cells, double q);

#endif
