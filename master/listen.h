/*
 * The listening sockets, made by the master and inherited by the workers: for each TCP address of `listen` and `admin`
 * one SO_REUSEPORT socket per worker, so that the kernel deals connections out and a worker's successor finds its
 * predecessor's queue; for a Unix path, or a socket that the service manager passed, one that all workers share.
 * An IPv6 address never takes IPv4 (IPV6_V6ONLY): "0.0.0.0:80" and "[::]:80" stand side by side.
 */
#ifndef VANILLA_MASTER_LISTEN_H
#define VANILLA_MASTER_LISTEN_H

#include <stdbool.h>

#include "conf/conf.h"
#include "master/passed.h"
#include "master/unixsock.h"

#define LISTENERS_MAGIC 0x115711d5u
#define LISTEN_BACKLOG_MAX 4096

struct listeners_path {    /* a socket file that we made */
    const char *path_name; /* NULL: none */
    struct unixsock_id path_id;
};

struct listeners {
    unsigned magic;
    const struct conf *listeners_conf;
    unsigned listeners_workers, listeners_n; /* sockets per worker: those of `listen`, then that of `admin`, if any */
    int *listeners_fds;                      /* listeners_workers rows of listeners_n; -1: closed */
    struct listeners_path *listeners_paths;  /* listeners_n */
};

/* First checks every address and changes nothing when one is taken: with SO_REUSEPORT a second server of the same user
 * would share the port without a word.  NULL, and `why` says "FILE:LINE: listen ADDRESS: ..."; the caller owns the
 * result, `conf` lives longer. */
struct listeners *listeners_open(const struct conf *conf, unsigned workers, struct passed *passed, char *why,
                                 size_t why_len) MUSTCHECK;

/* Closes all sockets and removes the socket files that are still ours. */
void listeners_close(struct listeners **lp);

/* Closes one worker's sockets, so that the kernel deals no more connections to them. */
void listeners_close_slot(struct listeners *l, unsigned slot);

/* The conf_listen_n sockets of one worker, and its admin socket (-1: none). */
const int *listeners_slot(const struct listeners *l, unsigned slot);
int listeners_admin(const struct listeners *l, unsigned slot);

/* The addresses, "0.0.0.0:8080, unix:/run/x, admin 127.0.0.1:9180", with the ports that the kernel chose for 0. */
void listeners_describe(const struct listeners *l, char *text, size_t text_len);

#endif
