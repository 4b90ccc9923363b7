/* CPUs: the affinity of this process, and quotas of control groups in made-up trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "master/cpus.c"

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static char root[32];

/* Writes root/path, with the directories on its way. */
static void put(const char *path, const char *text)
{
    char full[512], *slash;
    FILE *f;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/test-cpus-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void test_no_control_groups(void **state)
{
    (void)state;
    assert_int_equal(cpus_quota(root), 0);
    put("/proc/self/cgroup", "0::/a\n");
    assert_int_equal(cpus_quota(root), 0);
    put("/proc/self/mountinfo", "30 23 0:26 / /proc rw - proc proc rw\n");
    assert_int_equal(cpus_quota(root), 0);
    put("/proc/self/mountinfo", V2_MOUNT);
    assert_int_equal(cpus_quota(root), 0);
}

static void test_v2_smallest_of_all_levels(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system.slice/vanilla.service\n");
    put("/proc/self/mountinfo", "29 1 0:2 / /proc rw - proc proc rw\n" V2_MOUNT);
    put("/sys/fs/cgroup/system.slice/vanilla.service/cpu.max", "max 100000\n");
    assert_int_equal(cpus_quota(root), 0);
    put("/sys/fs/cgroup/system.slice/vanilla.service/cpu.max", "400000 100000\n");
    assert_int_equal(cpus_quota(root), 4);
    put("/sys/fs/cgroup/system.slice/cpu.max", "250000 100000\n");
    assert_int_equal(cpus_quota(root), 3); /* 2.5, rounded up */
    put("/sys/fs/cgroup/cpu.max", "1 100000\n");
    assert_int_equal(cpus_quota(root), 1);
    put("/sys/fs/cgroup/cpu.max", "800000 100000\n");
    assert_int_equal(cpus_quota(root), 3);
}

static void test_v2_own_group_is_the_root(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/\n"); /* a container with a namespace of its own */
    put("/proc/self/mountinfo", V2_MOUNT);
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(cpus_quota(root), 2);
}

static void test_v2_part_of_the_hierarchy_mounted(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/docker/1234/inner\n");
    put("/proc/self/mountinfo", "30 23 0:26 /docker/1234 /sys/fs/my\\040cgroup ro - cgroup2 cgroup rw\n");
    put("/sys/fs/my cgroup/cpu.max", "500000 100000\n");
    put("/sys/fs/my cgroup/inner/cpu.max", "300000 100000\n");
    assert_int_equal(cpus_quota(root), 3);
    /* A group outside of the mounted part, one whose name only starts alike, and one above the namespace. */
    put("/proc/self/cgroup", "0::/elsewhere\n");
    assert_int_equal(cpus_quota(root), 5);
    put("/proc/self/cgroup", "0::/docker/12345/inner\n");
    assert_int_equal(cpus_quota(root), 5);
    put("/proc/self/cgroup", "0::/../other\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/my\\040cgroup ro - cgroup2 cgroup rw\n");
    assert_int_equal(cpus_quota(root), 5);
}

static void test_v1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:name=systemd:/x\n3:cpuset:/y\n2:cpu,cpuacct:/docker/1\n");
    put("/proc/self/mountinfo", "28 23 0:1 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" V1_MOUNT);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus_quota(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "110000\n");
    assert_int_equal(cpus_quota(root), 2);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
    assert_int_equal(cpus_quota(root), 1);
}

static void test_hybrid_takes_the_smaller(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "2:cpu:/\n0::/a\n");
    put("/proc/self/mountinfo", V1_MOUNT V2_MOUNT);
    put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    assert_int_equal(cpus_quota(root), 3);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus_quota(root), 2);
}

static void test_nonsense_sets_no_quota(void **state)
{
    static const char *const nonsense[] = {"",           "\n",         "100000\n", "-5 100000\n",
                                           "100000 0\n", "0 100000\n", "x y\n",    "9223372036854775807 1\n"};
    unsigned i;

    (void)state;
    put("/proc/self/cgroup", "\n::\n0::\n0::relative\nx\n0::/a\n");
    put("/proc/self/mountinfo", "\n - \nx - cgroup2\n" V2_MOUNT);
    for (i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        put("/sys/fs/cgroup/a/cpu.max", nonsense[i]);
        assert_int_equal(cpus_quota(root), 0);
    }
    put("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    assert_int_equal(cpus_quota(root), 2);
}

static void test_affinity_is_what_counts(void **state)
{
    struct cpus all, one;
    cpu_set_t before;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cpus_read(&all, root), 0);
    assert_int_equal(all.cpus_n, (unsigned)CPU_COUNT(&before));
    assert_int_equal(cpus_usable(&all), all.cpus_n);

    assert_int_equal(cpus_pin(cpus_of(&all, all.cpus_n - 1)), 0);
    assert_int_equal(cpus_read(&one, root), 0);
    assert_int_equal(one.cpus_n, 1);
    assert_int_equal(cpus_usable(&one), 1);
    assert_int_equal(cpus_of(&one, 0), all.cpus_ids[all.cpus_n - 1]);
    assert_int_equal(cpus_of(&one, 7), all.cpus_ids[all.cpus_n - 1]);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    cpus_free(&one);
    cpus_free(&all);
}

static void test_quota_cuts_but_never_adds(void **state)
{
    int ids[4] = {2, 3, 5, 8};
    struct cpus c = {.cpus_ids = ids, .cpus_n = 4};
    unsigned i;

    (void)state;
    assert_int_equal(cpus_usable(&c), 4);
    c.cpus_quota = 3;
    assert_int_equal(cpus_usable(&c), 3);
    c.cpus_quota = 9;
    assert_int_equal(cpus_usable(&c), 4);
    for (i = 0; i < 12; i++)
        assert_int_equal(cpus_of(&c, i), ids[i % 4]);
}

static void test_pin_to_a_cpu_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(cpus_pin(100000), -1);
    assert_int_equal(errno, EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_control_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v2_smallest_of_all_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v2_own_group_is_the_root, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v2_part_of_the_hierarchy_mounted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_v1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hybrid_takes_the_smaller, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonsense_sets_no_quota, setup, teardown),
        cmocka_unit_test_setup_teardown(test_affinity_is_what_counts, setup, teardown),
        cmocka_unit_test(test_quota_cuts_but_never_adds),
        cmocka_unit_test(test_pin_to_a_cpu_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
