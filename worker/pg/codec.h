/*
 * PostgreSQL's wire protocol, version 3, as far as the extended query protocol needs it (manual, "Message Formats").
 * Frontend messages are prebuilt where they can be; backend messages come from reader.h in one piece and are taken
 * apart here.  Integers are in network order.
 */
#ifndef VANILLA_WORKER_PG_CODEC_H
#define VANILLA_WORKER_PG_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shm/assert.h"
#include "worker/pg/pool.h"

static inline uint32_t codec_be32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}

static inline uint16_t codec_be16(const unsigned char *p)
{
    uint16_t v;

    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}

static inline void codec_put_be32(unsigned char *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}

/* One backend message: its type and its body, the length word left out. */
struct codec_message {
    unsigned char message_type;
    unsigned char *message_body; /* NULL: too large or no buffer for it, its octets are skipped */
    size_t message_len;
};

/* What ends a query's messages: Bind's "all results in text format", Execute of the unnamed portal without a row
 * limit, and Sync; behind a pooler a Describe of that portal before the Execute. */
#define CODEC_EXECUTE "\0\0E\0\0\0\x09\0\0\0\0\0"
#define CODEC_EXECUTE_LEN 12u
#define CODEC_SYNC "S\0\0\0\x04"
#define CODEC_SYNC_LEN 5u
#define CODEC_DESCRIBE_EXECUTE_SYNC "\0\0D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"
#define CODEC_DESCRIBE_LEN 7u
#define CODEC_EXECUTE_SYNC CODEC_EXECUTE "S\0\0\0\x04"

/* A simple Query that makes a session what it was when it began: DISCARD ALL without its loss of prepared statements,
 * in a transaction of its own.  Settings come first, lest one of them end the rest; RESET ROLE behind SESSION
 * AUTHORIZATION, which some versions take for SET ROLE NONE. */
#define CODEC_RESET_SQL                                                            \
    "RESET ALL;SET SESSION AUTHORIZATION DEFAULT;RESET ROLE;CLOSE ALL;UNLISTEN *;" \
    "SELECT pg_catalog.pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP"
#define CODEC_RESET "Q\0\0\0\x9a" CODEC_RESET_SQL "\0"
#define CODEC_RESET_LEN 155u

/* Bind of statement `name` to the unnamed portal, up to the parameter values; its length word (at octet 1) is 0.
 * Returns how many octets were written: 10 + strlen(name) <= size. */
unsigned codec_bind_prefix(unsigned char *to, size_t size, const char *name);
/* Parse of the unnamed statement, whole: to be freed by the caller; NULL when memory is out. */
unsigned char *codec_parse(const char *sql, size_t *len) MUSTCHECK;
/* Parse, Bind and Execute of a statement that has no parameters, likewise. */
unsigned char *codec_statement(const char *sql, size_t *len) MUSTCHECK;
/* CancelRequest: 16 octets. */
void codec_cancel(unsigned char to[16], uint32_t pid, uint32_t key);

/* The fields of an ErrorResponse or NoticeResponse; they point into the body, NUL-terminated, NULL when not sent. */
struct codec_error {
    struct pg_error error_public;
    const char *error_severity; /* not localized: ERROR, FATAL, PANIC, WARNING, ... */
    const char *error_routine;  /* the C function that reported it */
    const char *error_context;  /* localized: what it was doing, a line for each level */
};
/* Returns 0, or -1 when the body does not hold together. */
int codec_error(const struct codec_message *m, struct codec_error *e) MUSTCHECK;
/* FATAL or PANIC: the server closes the connection after it. */
bool codec_error_fatal(const struct codec_error *e);
/* Of an error at Bind: the number of the parameter whose value it is about, which its context has as $n in every
 * language; 0: not known. */
unsigned codec_error_parameter(const struct codec_error *e);
/* The prepared statement is not what it was (0A000 of RevalidateCachedQuery) or is gone (26000): prepare it again. */
bool codec_error_stale(const struct codec_error *e);
/* Whether it says, at Bind, that the statement makes no sense, as it did when it was prepared: something was dropped or
 * is of another type now, or the session looks for it elsewhere (class 42 but for privileges, and 3F000). */
bool codec_error_changed(const struct codec_error *e);

#endif
