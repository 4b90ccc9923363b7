/*
 * The secret key that a CancelRequest needs.  libpq has it and does not tell: PQcancel, the only one to use it, blocks.
 * But libpq's trace prints BackendKeyData; so while a connection is made, the trace goes through here.  Without a key
 * (another libpq may print otherwise) queries are not cancelled and statement_timeout has to do.
 */
#ifndef VANILLA_WORKER_PG_KEYDATA_H
#define VANILLA_WORKER_PG_KEYDATA_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct keydata {
    FILE *keydata_stream;
    char keydata_buffer[512], keydata_line[96];
    size_t keydata_line_n;
    bool keydata_found;
    uint32_t keydata_pid, keydata_key;
};

/* Begins to listen, right after PQconnectStartParams; forgets what it knew. */
void keydata_start(struct keydata *k, PGconn *pg);
/* The connection is made (or is about to be finished): stops listening.  keydata_found says whether it is for pg's
 * backend.  Passwords may have gone by: what was buffered is wiped. */
void keydata_stop(struct keydata *k, PGconn *pg);

#endif
