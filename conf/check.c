#include "conf/check.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/pools.h"

static void check_paths(const struct reader *rd, const config_setting_t *root);
static void check_path(const struct reader *rd, enum option_group table, const config_setting_t *group,
                       const char *name, const char *words);
static void check_folder(const struct reader *rd, const config_setting_t *member, const char *name, const char *path);
static void check_account(const struct reader *rd, const config_setting_t *root, const char *name, bool there);
static void check_memory(const struct reader *rd, const config_setting_t *root, const struct conf *conf);
static void check_shares(const struct reader *rd, const config_setting_t *root, const struct conf *conf);
static const config_setting_t *check_where(const config_setting_t *root, const char *group, const char *name);

void conf_check(const struct reader *rd, const config_setting_t *root, const struct conf *conf)
{
    const config_setting_t *shed = options_member(OPTION_TOP, root, "shed");

    if (shed != NULL)
        shed_status_check(rd, OPTION_SHED, shed, "status");
    check_paths(rd, root);
    if (options_member(OPTION_TOP, root, "user") != NULL)
        check_account(rd, root, "user", getpwnam(conf->conf_user) != NULL);
    if (options_member(OPTION_TOP, root, "group") != NULL)
        check_account(rd, root, "group", getgrnam(conf->conf_group) != NULL);
    if (rd->reader_report->report_errors != 0)
        return; /* what follows may follow from them */
    check_memory(rd, root, conf);
    check_shares(rd, root, conf);
    if (conf->conf_routes_n == 0)
        report_warning(rd->reader_report, check_where(root, "routes", NULL),
                       "there are no routes: every answer will be 404");
}

static void check_paths(const struct reader *rd, const config_setting_t *root)
{
    const config_setting_t *log = options_member(OPTION_TOP, root, "log");

    check_path(rd, OPTION_TOP, root, "runtime_dir", "");
    if (log != NULL) {
        check_path(rd, OPTION_LOG, log, "file", "stderr");
        check_path(rd, OPTION_LOG, log, "access", "off stderr");
    }
}

/* An absolute path, or where there are words one of them or any path: "stdout" is more likely meant to be a word. */
static void check_path(const struct reader *rd, enum option_group table, const config_setting_t *group,
                       const char *name, const char *words)
{
    const config_setting_t *member = options_member(table, group, name);
    const char *s = member != NULL ? config_setting_get_string(member) : "/";

    for (const char *w = words; *w != '\0'; w += strcspn(w, " "), w += *w == ' ')
        if (strcspn(w, " ") == strlen(s) && memcmp(w, s, strlen(s)) == 0)
            return;
    if (*words == '\0' && *s != '/')
        report_setting(rd->reader_report, member, "%s is \"%.128s\"; allowed: an absolute path", name, s);
    else if (*words != '\0' && strpbrk(s, "/.") == NULL)
        report_setting(rd->reader_report, member, "%s is \"%.128s\"; allowed: a path, with a / or a . in it, or %s",
                       name, s, words);
    else if (*words != '\0')
        check_folder(rd, member, name, s);
}

/* A log file is made when it is not there; its folder is not. */
static void check_folder(const struct reader *rd, const config_setting_t *member, const char *name, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? strndup(path, slash != path ? (size_t)(slash - path) : 1) : NULL;
    struct stat st;

    if (folder != NULL && stat(folder, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
        report_setting(rd->reader_report, member,
                       "%s is \"%.128s\", and there is no folder %.128s; allowed: one that is there", name, path,
                       folder);
    else if (folder != NULL && stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        report_setting(rd->reader_report, member,
                       "%s is \"%.128s\", and %.128s is not a folder; allowed: one that is there", name, path, folder);
    free(folder);
}

/* Only root can change to another user; to others the setting means nothing, but the file may be for root. */
static void check_account(const struct reader *rd, const config_setting_t *root, const char *name, bool there)
{
    const config_setting_t *member = config_setting_get_member(root, name);

    if (there)
        return;
    if (geteuid() == 0)
        report_setting(rd->reader_report, member, "%s is \"%.64s\"; allowed: one that is there", name,
                       config_setting_get_string(member));
    else
        report_warning(rd->reader_report, member, "there is no %s \"%.64s\" here; root could not start this", name,
                       config_setting_get_string(member));
}

/* One request at each limit should find room: its head and body as they came, and its answer. */
static void check_folder(const struct reader *rd, const config_setting_t *member, const char *name, const char *path);
static void check_account(const struct reader *rd, const config_setting_t *root, const char *name, bool there);
static void check_memory(const struct reader *rd, const config_setting_t *root, const struct conf *conf)
{
    unsigned long long one = (unsigned long long)conf->conf_limits.limit_request_line +
                             conf->conf_limits.limit_header_bytes + conf->conf_limits.limit_body_bytes +
                             conf->conf_limits.limit_response_bytes;
    unsigned long long all = (unsigned long long)conf->conf_memory.memory_buffers_mb << 20;

    if (one > all)
        report_warning(rd->reader_report, check_where(root, "memory", "buffers_mb"),
                       "memory.buffers_mb is %u, but one request and its answer may take %llu octets by limits: some "
                       "will be shed that the limits allow",
                       conf->conf_memory.memory_buffers_mb, one);
}

/* Each worker has one connection of each pool at least: with few connections and many workers that is more than asked.
 */
static void check_shares(const struct reader *rd, const config_setting_t *root, const struct conf *conf)
{
    for (unsigned i = 0; i < conf->conf_pools_n; i++)
        if (conf->conf_pools[i].pool_connections < conf->conf_workers)
            report_warning(rd->reader_report, config_setting_get_elem(config_setting_get_member(root, "pools"), i),
                           "the pool has %u connections for %u workers: each opens one, %u in all",
                           conf->conf_pools[i].pool_connections, conf->conf_workers, conf->conf_workers);
}

/* Where a setting (NULL: none) of a group stands, or the group, or the file. */
static const config_setting_t *check_where(const config_setting_t *root, const char *group, const char *name)
{
    const config_setting_t *g = config_setting_get_member(root, group), *s = NULL;

    if (g != NULL && name != NULL)
        s = config_setting_get_member(g, name);
    return s != NULL ? s : g != NULL ? g : root;
}
