/* Who the workers are, by configuration and by who started the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/wait.h>

#include "master/privileges.c"

static struct conf conf;
static struct privileges p;
static char why[256];

static int setup(void **state)
{
    (void)state;
    memset(&conf, 0, sizeof conf);
    conf.conf_file = "vanilla.conf";
    return 0;
}

#define AS_ROOT()       \
    if (geteuid() != 0) \
    skip()

static void test_nobody_by_default(void **state)
{
    (void)state;
    AS_ROOT();
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), 0);
    assert_true(p.privileges_drop);
    assert_false(p.privileges_named);
    assert_int_equal(p.privileges_uid, getpwnam("nobody")->pw_uid);
    assert_int_equal(p.privileges_gid, getpwnam("nobody")->pw_gid);
    assert_int_equal(p.privileges_control, (gid_t)-1);
}

static void test_user_and_group(void **state)
{
    (void)state;
    AS_ROOT();
    conf.conf_user = "daemon";
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), 0);
    assert_true(p.privileges_named);
    assert_int_equal(p.privileges_uid, getpwnam("daemon")->pw_uid);
    assert_int_equal(p.privileges_gid, getpwnam("daemon")->pw_gid);
    conf.conf_group = "mail";
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), 0);
    assert_int_equal(p.privileges_gid, getgrnam("mail")->gr_gid);
    assert_int_equal(p.privileges_control, getgrnam("mail")->gr_gid);
    assert_int_equal(p.privileges_groups[0], getgrnam("mail")->gr_gid);
    assert_in_range(p.privileges_groups_n, 1, PRIVILEGES_GROUPS_MAX);
}

static void test_unknown_names(void **state)
{
    (void)state;
    AS_ROOT();
    conf.conf_user = "no-such-user";
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), -1);
    assert_string_equal(why, "vanilla.conf: user \"no-such-user\": there is no such user");
    conf.conf_user = "daemon";
    conf.conf_group = "no-such-group";
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), -1);
    assert_string_equal(why, "vanilla.conf: group \"no-such-group\": there is no such group");
}

/* In a child: 0 when all is as it should be. */
static void in_child(int (*check)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(check());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int dropped(void)
{
    uid_t r, e, s;
    gid_t groups[PRIVILEGES_GROUPS_MAX];
    int i, n;

    if (privileges_drop(&p) != 0)
        return 1;
    if (getresuid(&r, &e, &s) != 0 || r != p.privileges_uid || e != r || s != r)
        return 2;
    if (getresgid(&r, &e, &s) != 0 || r != p.privileges_gid || e != r || s != r)
        return 3;
    n = getgroups(PRIVILEGES_GROUPS_MAX, groups);
    for (i = 0; i < n; i++)
        if (groups[i] == 0)
            return 4;
    if (setuid(0) == 0 || setgid(0) == 0)
        return 5; /* no way back */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 6;
    return prctl(PR_GET_DUMPABLE) == p.privileges_named ? 0 : 7;
}

static void test_dropped_for_good(void **state)
{
    (void)state;
    AS_ROOT();
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), 0);
    in_child(dropped);
    conf.conf_user = "daemon";
    assert_int_equal(privileges_find(&p, &conf, why, sizeof why), 0);
    in_child(dropped);
    assert_int_equal(geteuid(), 0);
}

static int ordinary(void)
{
    if (geteuid() == 0 && setuid(65533) != 0)
        return 1;
    conf.conf_user = "no-such-user"; /* ignored, with a warning */
    conf.conf_group = "no-such-group";
    if (privileges_find(&p, &conf, why, sizeof why) != 0 || p.privileges_drop || p.privileges_control != (gid_t)-1)
        return 2;
    if (privileges_drop(&p) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 3;
    return 0;
}

static void test_started_as_somebody(void **state)
{
    (void)state;
    in_child(ordinary);
}

static void test_logs_are_given_to_the_workers(void **state)
{
    char path[] = "/tmp/test-privileges-XXXXXX";
    struct stat st;
    int fd, pair[2];

    (void)state;
    AS_ROOT();
    fd = mkstemp(path);
    assert_true(fd >= 0);
    memset(&p, 0, sizeof p);
    p.privileges_uid = 65533;
    privileges_give(&p, fd); /* nothing is dropped */
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_uid, 0);
    p.privileges_drop = true;
    privileges_give(&p, fd);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_uid, 65533);
    assert_int_equal(st.st_gid, 0);
    privileges_give(&p, -1);
    assert_int_equal(pipe(pair), 0);
    privileges_give(&p, pair[1]); /* a terminal or a pipe is somebody else's */
    assert_int_equal(fstat(pair[1], &st), 0);
    assert_int_equal(st.st_uid, 0);
    close(pair[0]);
    close(pair[1]);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_by_default, setup),   cmocka_unit_test_setup(test_user_and_group, setup),
        cmocka_unit_test_setup(test_unknown_names, setup),       cmocka_unit_test_setup(test_dropped_for_good, setup),
        cmocka_unit_test_setup(test_started_as_somebody, setup), cmocka_unit_test(test_logs_are_given_to_the_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
