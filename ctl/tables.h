/* The tables for people that several commands show. */
#ifndef VANILLA_CTL_TABLES_H
#define VANILLA_CTL_TABLES_H

#include "shm/segment.h"

void tables_server(const struct segment *s); /* one line: version, up since, generation, workers ready */
void tables_workers(const struct segment *s);
void tables_pools(const struct segment *s);
void tables_pools_more(const struct segment *s); /* what tables_pools has no column for and is not zero */
void tables_shares(const struct segment *s);     /* what each worker has of each pool */
void tables_routes(const struct segment *s);

#endif
