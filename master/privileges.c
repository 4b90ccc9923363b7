#include "master/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"

#define PRIVILEGES_NOBODY "nobody"

static int privileges_lookup(struct privileges *p, const struct conf *conf, char *why, size_t why_len);

int privileges_find(struct privileges *p, const struct conf *conf, char *why, size_t why_len)
{
    memset(p, 0, sizeof *p);
    p->privileges_control = (gid_t)-1;
    if (geteuid() == 0)
        return privileges_lookup(p, conf, why, why_len);
    if (conf->conf_user != NULL || conf->conf_group != NULL)
        log_write(LOG_LEVEL_WARN,
                  "`user` and `group` are ignored: only root can change to them; the workers run as "
                  "uid %ld, as the master does",
                  (long)geteuid());
    return 0;
}

int privileges_drop(const struct privileges *p)
{
    if (p->privileges_drop) {
        if (setgroups((size_t)p->privileges_groups_n, p->privileges_groups) != 0 ||
            setresgid(p->privileges_gid, p->privileges_gid, p->privileges_gid) != 0 ||
            setresuid(p->privileges_uid, p->privileges_uid, p->privileges_uid) != 0)
            return -1;
        if (setenv("HOME", p->privileges_home, 1) != 0)
            return -1;
        /* A change of user turns core dumps and ptrace by the same user off.  Both are welcome when the account is ours
         * alone; `nobody` is everybody's, and the worker's memory holds passwords. */
        if (p->privileges_named && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
            return -1;
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void privileges_give(const struct privileges *p, int fd)
{
    struct stat st;

    if (!p->privileges_drop || fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    if (st.st_uid != p->privileges_uid && fchown(fd, p->privileges_uid, (gid_t)-1) != 0)
        log_write(LOG_LEVEL_WARN, "the log file cannot be given to the workers' user: %s", strerror(errno));
}

static int privileges_lookup(struct privileges *p, const struct conf *conf, char *why, size_t why_len)
{
    const char *name = conf->conf_user != NULL ? conf->conf_user : PRIVILEGES_NOBODY;
    const struct passwd *user;
    const struct group *group;

    errno = 0;
    user = getpwnam(name);
    if (user == NULL) {
        snprintf(why, why_len, "%s: user \"%s\": %s%s", conf->conf_file, name,
                 errno != 0 ? strerror(errno) : "there is no such user",
                 conf->conf_user != NULL ? "" : " (a server started as root without `user` runs its workers as that)");
        return -1;
    }
    p->privileges_gid = user->pw_gid;
    if (conf->conf_group != NULL) {
        group = getgrnam(conf->conf_group);
        if (group == NULL) {
            snprintf(why, why_len, "%s: group \"%s\": there is no such group", conf->conf_file, conf->conf_group);
            return -1;
        }
        p->privileges_gid = p->privileges_control = group->gr_gid;
    }
    p->privileges_drop = true;
    p->privileges_named = conf->conf_user != NULL;
    p->privileges_uid = user->pw_uid;
    snprintf(p->privileges_home, sizeof p->privileges_home, "%s", user->pw_dir != NULL ? user->pw_dir : "/");
    p->privileges_groups_n = PRIVILEGES_GROUPS_MAX;
    if (getgrouplist(name, p->privileges_gid, p->privileges_groups, &p->privileges_groups_n) < 0) {
        snprintf(why, why_len, "%s: user \"%s\": member of more than %d groups", conf->conf_file, name,
                 PRIVILEGES_GROUPS_MAX);
        return -1;
    }
    if (conf->conf_user == NULL)
        log_write(LOG_LEVEL_WARN,
                  "started as root without `user` in %s: the workers run as \"%s\" (uid %ld), which is also who "
                  "PostgreSQL's peer authentication sees",
                  conf->conf_file, name, (long)p->privileges_uid);
    else if (p->privileges_uid == 0)
        log_write(LOG_LEVEL_WARN, "`user` is root: the workers, which read what the network sends, run as root");
    return 0;
}
