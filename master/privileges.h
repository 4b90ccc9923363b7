/*
 * Who the workers are.  Started as root: `user` and `group` of the configuration, or nobody; the master stays root, so
 * that it can reload, upgrade and bind.  Started as anybody else: the same user.
 */
#ifndef VANILLA_MASTER_PRIVILEGES_H
#define VANILLA_MASTER_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "conf/conf.h"

#define PRIVILEGES_GROUPS_MAX 256

struct privileges {
    bool privileges_drop;  /* the workers change to: */
    bool privileges_named; /* by the configuration, so the account is ours alone: core dumps are fine */
    uid_t privileges_uid;
    gid_t privileges_gid;
    gid_t privileges_groups[PRIVILEGES_GROUPS_MAX];
    int privileges_groups_n;
    char privileges_home[256]; /* where libpq looks for certificates and passwords */
    gid_t privileges_control;  /* the configured `group`, whose members may use the control socket; -1: none */
};

/* Looks the names up, once, in the master (no account file is read after the fork) and logs what follows from them.
 * 0, or -1 and `why` says which name is unknown. */
int privileges_find(struct privileges *p, const struct conf *conf, char *why, size_t why_len) MUSTCHECK;

/* In the child: becomes that user for good, and no exec can gain privileges.  0, or -1 with errno. */
int privileges_drop(const struct privileges *p) MUSTCHECK;

/* Gives a file that the master opened (a log) to the user of the workers, who will open it again; harmless when
 * nothing is dropped. */
void privileges_give(const struct privileges *p, int fd);

#endif
