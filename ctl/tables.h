/* The tables for people that several commands show. */
#ifndef VANILLA_CTL_TABLES_H
#define VANILLA_CTL_TABLES_H

#include "shm/segment.h"

void tables_server(const struct segment *s); /* one line: version, up since, generation, workers ready */
void tables_workers(const struct segment *s);
void tables_pools(const struct segment *s);
void tables_routes(const struct segment *s);

#endif
