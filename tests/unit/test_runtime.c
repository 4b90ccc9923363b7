/* The runtime directory: what may be had, and what is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/runtime.c"

static char folder[32], dir[512], why[512];
static struct conf conf;

static int setup(void **state)
{
    (void)state;
    memset(&conf, 0, sizeof conf);
    strcpy(folder, "/tmp/test-run-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(dir, sizeof dir, "%s/run", folder);
    conf.conf_file = "vanilla.conf";
    conf.conf_runtime_dir = dir;
    strcpy(why, "nothing was said");
    return 0;
}

static int teardown(void **state)
{
    char path[PATH_MAX];

    (void)state;
    runtime_control_path(&conf, path);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", dir, CONTROL_SEGMENT);
    unlink(path);
    rmdir(dir);
    return rmdir(folder);
}

static void refused(const char *reason)
{
    assert_int_equal(runtime_check(&conf, why, sizeof why), -1);
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, reason);
    assert_int_equal(strncmp(why, "vanilla.conf: runtime_dir ", 26), 0);
}

static void test_made_when_absent(void **state)
{
    mode_t mask = umask(077);
    struct stat st;
    bool made;

    (void)state;
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    assert_int_not_equal(stat(dir, &st), 0); /* the check changes nothing */
    assert_int_equal(runtime_make(&conf, &made, why, sizeof why), 0);
    umask(mask);
    assert_true(made);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(runtime_make(&conf, &made, why, sizeof why), 0);
    assert_false(made);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700); /* the operator's choice */
    strcat(dir, "/");
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
}

static void test_parent_must_exist(void **state)
{
    bool made;

    (void)state;
    snprintf(dir, sizeof dir, "%s/a/b", folder);
    refused("exists");
    assert_int_equal(runtime_make(&conf, &made, why, sizeof why), -1);
    assert_false(made);
    snprintf(dir, sizeof dir, "%s/a///", folder);
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    strcpy(dir, "relative-and-absent");
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    strcpy(dir, "/absent-in-the-root");
    if (geteuid() == 0)
        assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    strcpy(dir, "/dev/null/run");
    refused("Not a directory");
}

static void test_not_a_directory(void **state)
{
    FILE *f = fopen(dir, "w");

    (void)state;
    assert_non_null(f);
    fclose(f);
    refused("not a directory");
    assert_int_equal(unlink(dir), 0);
}

static void test_path_length(void **state)
{
    size_t len;

    (void)state;
    snprintf(dir, sizeof dir, "%s/%0150d", folder, 0);
    refused("too long");
    len = UNIXSOCK_PATH_MAX - strlen("/control.sock");
    dir[len] = '\0';
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    strcat(dir, "0");
    refused("too long");
}

static void test_control_socket_that_answers_or_is_dead(void **state)
{
    struct unixsock_id id;
    char path[PATH_MAX];
    struct stat st;
    int fd;

    (void)state;
    assert_int_equal(mkdir(dir, 0755), 0);
    runtime_control_path(&conf, path);
    fd = unixsock_listen(path, 0660, (gid_t)-1, 8, &id, why, sizeof why);
    assert_true(fd >= 0);
    refused("in use");
    close(fd);
    assert_int_equal(runtime_check(&conf, why, sizeof why), 0);
    assert_int_equal(lstat(path, &st), 0); /* still there: the check changes nothing */
    assert_int_equal(unlink(path), 0);
    fclose(fopen(path, "w"));
    refused("not a socket");
}

static void test_segment(void **state)
{
    struct conf_pool pools[] = {{.pool_name = "read", .pool_max_inflight = 32}};
    struct conf_route routes[] = {
        {.route_method = METHOD_GET, .route_path = "/a", .route_handler = HANDLER_SQL},
        {.route_method = METHOD_POST, .route_path = "/b", .route_handler = HANDLER_TEXT},
    };
    struct segment *s;
    struct stat st;
    char path[PATH_MAX];
    bool made;

    (void)state;
    conf.conf_pools = pools;
    conf.conf_pools_n = 1;
    conf.conf_routes = routes;
    conf.conf_routes_n = 2;
    assert_null(runtime_segment(&conf, 2, (gid_t)-1, why, sizeof why));
    assert_non_null(strstr(why, "stats.shm"));
    assert_int_equal(runtime_make(&conf, &made, why, sizeof why), 0);
    s = runtime_segment(&conf, 2, (gid_t)-1, why, sizeof why);
    assert_non_null(s);
    segment_close(&s);
    if (geteuid() == 0) {
        s = runtime_segment(&conf, 2, 65500, why, sizeof why);
        assert_non_null(s);
        snprintf(path, sizeof path, "%s/%s", dir, CONTROL_SEGMENT);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_gid, 65500);
        assert_int_equal(st.st_mode & 07777, 0640);
        segment_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_when_absent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parent_must_exist, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path_length, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_socket_that_answers_or_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_segment, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
