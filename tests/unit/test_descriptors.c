/* The limit of open files: the sum, and what is done about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "master/descriptors.c"

static struct conf_pool pools[2] = {{.pool_connections = 10}, {.pool_connections = 3}};
static struct conf conf = {.conf_connections = 1000,
                           .conf_listen_n = 2,
                           .conf_admin = {.listen_address = "127.0.0.1:9180"},
                           .conf_pools = pools,
                           .conf_pools_n = 2};

static void test_sums(void **state)
{
    unsigned long one = descriptors_of_worker(&conf, 1), four = descriptors_of_worker(&conf, 4);

    (void)state;
    assert_int_equal(one,
                     DESCRIPTORS_RESERVE + 2 + 1 + (2 + 2 * 10) + (2 + 2 * 3) + 1000 + WORKER_SPARE + WORKER_ADMIN);
    assert_int_equal(one - four, 2 * (10 - 3) + 2 * (3 - 1)); /* the largest shares */
    conf.conf_connections++;
    assert_int_equal(descriptors_of_worker(&conf, 4), four + 1);
    conf.conf_connections--;
    assert_true(descriptors_of_master(&conf, 100) >= 100 * (2 + 1 + 1) + CONTROL_CLIENTS_MAX);
}

/* With any limit nobody's share is taken by another. */
static void test_divided(void **state)
{
    unsigned long need = descriptors_of_worker(&conf, 1), limit;
    struct worker_room room = descriptors_room(&conf, 1, need), before = {0};

    (void)state;
    assert_int_equal(room.room_connections, 1000);
    assert_int_equal(room.room_spare, WORKER_SPARE);
    assert_int_equal(room.room_admin, WORKER_ADMIN);
    assert_int_equal(room.room_others + 1000 + WORKER_SPARE + WORKER_ADMIN, need);
    for (limit = 0; limit < need + 100; limit++) {
        room = descriptors_room(&conf, 1, limit);
        assert_true(room.room_connections > 0 && room.room_spare > 0 && room.room_admin > 0);
        if (limit >= room.room_others + 3ul)
            assert_true(room.room_connections + room.room_spare + room.room_admin + room.room_others <= limit);
        assert_true(room.room_connections + 1 >= before.room_connections && room.room_spare >= before.room_spare);
        before = room;
    }
    room = descriptors_room(&conf, 1, need - 1);
    assert_int_equal(room.room_connections, 999);
    assert_int_equal(room.room_admin, WORKER_ADMIN);
    conf.conf_connections = 10;
    room = descriptors_room(&conf, 1, room.room_others + 10ul + 32 + 100);
    assert_int_equal(room.room_connections, 10);
    assert_true(room.room_admin >= 100); /* what clients do not want is not left over */
    conf.conf_connections = 1000;
    conf.conf_admin.listen_address = NULL;
    assert_int_equal(descriptors_room(&conf, 1, 500).room_admin, 0);
    assert_int_equal(descriptors_of_worker(&conf, 1), need - WORKER_ADMIN);
    conf.conf_admin.listen_address = "127.0.0.1:9180";
}

/* In a child of another user, with these limits: the soft limit afterwards; -1 where they cannot be set (valgrind). */
static long raised(rlim_t soft, rlim_t hard, bool root)
{
    struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
    int pair[2];
    long got = -1;
    pid_t pid;

    assert_int_equal(pipe(pair), 0);
    pid = fork();
    if (pid == 0) {
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
            if (!root && geteuid() == 0 && setuid(65533) != 0)
                _exit(1);
            descriptors_raise(&conf, 1);
            got = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (long)limit.rlim_cur : -3;
        }
        _exit(write(pair[1], &got, sizeof got) == (ssize_t)sizeof got ? 0 : 1);
    }
    close(pair[1]);
    if (read(pair[0], &got, sizeof got) != (ssize_t)sizeof got)
        got = -2;
    close(pair[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return got;
}

static void test_raised_to_what_is_needed(void **state)
{
    long need = (long)descriptors_of_worker(&conf, 1);

    (void)state;
    if (raised(100, 4096, false) == -1)
        skip();
    assert_int_equal(raised(100, 4096, false), need);
    assert_int_equal(raised(100, (rlim_t)need, false), need);
    assert_int_equal(raised(4000, 4096, false), 4000); /* more than enough stays */
}

static void test_hard_limit_too_low(void **state)
{
    (void)state;
    if (raised(100, 500, false) == -1)
        skip();
    assert_int_equal(raised(100, 500, false), 500);
    if (geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE) == 1)
        assert_int_equal(raised(100, 500, true), (long)descriptors_of_worker(&conf, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_raised_to_what_is_needed),
        cmocka_unit_test(test_hard_limit_too_low),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
