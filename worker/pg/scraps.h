/*
 * Small blocks for OpenSSL.  It allocates 40 octets or so for each TLS record that it reads or writes, and frees them
 * at once; from here they come out of a handful of blocks that are there from the start, so that a query over TLS calls
 * the allocator as little as one over a plain socket: not at all.  What OpenSSL allocates while a connection is made
 * comes from malloc as ever.
 */
#ifndef VANILLA_WORKER_PG_SCRAPS_H
#define VANILLA_WORKER_PG_SCRAPS_H

/* Puts itself between OpenSSL and malloc; before OpenSSL is used for the first time, else it has no effect. */
void scraps_install(void);

#endif
