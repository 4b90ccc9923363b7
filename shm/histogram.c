#include "shm/histogram.h"

#include "shm/assert.h"

uint64_t histogram_low(unsigned cell)
{
    unsigned shift;

    AN(cell < HISTOGRAM_CELLS);
    if (cell < 32)
        return cell;
    shift = cell / 32u - 1u;
    return (uint64_t)(cell % 32u + 32u) << shift;
}

uint64_t histogram_high(unsigned cell)
{
    AN(cell < HISTOGRAM_CELLS);
    if (cell < 32)
        return cell;
    return histogram_low(cell) + ((uint64_t)1 << (cell / 32u - 1u)) - 1;
}

uint64_t histogram_count(const uint64_t *cells)
{
    uint64_t n = 0;
    unsigned i;

    for (i = 0; i < HISTOGRAM_CELLS; i++)
        n += cells[i];
    return n;
}

double histogram_quantile(const uint64_t *cells, double q)
{
    uint64_t n = histogram_count(cells), rank, seen = 0;
    unsigned i;

    if (n == 0)
        return 0;
    if (!(q > 0))
        q = 0;
    if (q > 1)
        q = 1;
    /* The smallest rank that covers the share: ceil(q * n), at least the first record. */
    rank = (uint64_t)(q * (double)n);
    if ((double)rank < q * (double)n || rank == 0)
        rank++;
    if (rank > n)
        rank = n;
    for (i = 0; i < HISTOGRAM_CELLS - 1; i++) {
        seen += cells[i];
        if (seen >= rank)
            break;
    }
    return (double)(histogram_low(i) + histogram_high(i)) / 2;
}
