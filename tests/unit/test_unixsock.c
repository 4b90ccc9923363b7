/* Unix sockets: a live one is respected, a dead one replaced, anything else left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>

#include "master/unixsock.c"

static char folder[32], path[64], why[256];

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-unix-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/s", folder);
    strcpy(why, "nothing was said");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int listen_here(mode_t mode, struct unixsock_id *id)
{
    return unixsock_listen(path, mode, (gid_t)-1, 8, id, why, sizeof why);
}

static int client(void)
{
    struct sockaddr_un sun;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    unixsock_name(&sun, path);
    if (connect(fd, (struct sockaddr *)&sun, sizeof sun) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void test_absent_path(void **state)
{
    struct unixsock_id id;
    struct stat st;
    mode_t mask = umask(077);
    int fd, c, accepted;

    (void)state;
    assert_int_equal(unixsock_check(path, why, sizeof why), 0);
    assert_int_not_equal(lstat(path, &st), 0);
    fd = listen_here(0666, &id);
    umask(mask);
    assert_true(fd >= 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0666); /* whatever the umask */
    assert_int_equal(st.st_ino, id.unixsock_ino);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    c = client();
    assert_true(c >= 0);
    accepted = accept(fd, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    close(c);
    close(fd);
}

static void test_live_socket_is_respected(void **state)
{
    struct unixsock_id id, second;
    int fd = listen_here(0666, &id), c;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(unixsock_check(path, why, sizeof why), -1);
    assert_non_null(strstr(why, "in use"));
    assert_int_equal(listen_here(0666, &second), -1);
    c = client(); /* it still is the first one's */
    assert_true(c >= 0);
    close(c);
    close(fd);
}

static void test_live_socket_with_a_full_queue_is_respected(void **state)
{
    struct unixsock_id id;
    int fd = unixsock_listen(path, 0666, (gid_t)-1, 1, &id, why, sizeof why), clients[64], n = 0;
    struct sockaddr_un sun;

    (void)state;
    assert_true(fd >= 0);
    unixsock_name(&sun, path);
    for (;;) {
        clients[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(clients[n], (struct sockaddr *)&sun, sizeof sun) != 0)
            break;
        assert_true(++n < 64);
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(unixsock_check(path, why, sizeof why), -1);
    assert_non_null(strstr(why, "in use"));
    for (; n >= 0; n--)
        close(clients[n]);
    close(fd);
}

static void test_dead_socket_is_replaced(void **state)
{
    struct unixsock_id dead, id;
    int fd = listen_here(0666, &dead), c;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(client(), -1);
    assert_int_equal(unixsock_check(path, why, sizeof why), 0);
    fd = listen_here(0660, &id);
    assert_true(fd >= 0);
    c = client();
    assert_true(c >= 0);
    close(c);
    close(fd);
}

static void test_other_files_are_left_alone(void **state)
{
    struct unixsock_id id;
    struct stat st;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(listen_here(0666, &id), -1);
    assert_non_null(strstr(why, "not a socket"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 8);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/nonexistent", path), 0);
    assert_int_equal(listen_here(0666, &id), -1);
    assert_non_null(strstr(why, "not a socket"));

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(listen_here(0666, &id), -1);
    assert_int_equal(rmdir(path), 0);
}

static void test_datagram_socket_is_somebody_elses(void **state)
{
    struct unixsock_id id;
    struct sockaddr_un sun;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    (void)state;
    unixsock_name(&sun, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    assert_int_equal(listen_here(0666, &id), -1);
    assert_non_null(strstr(why, "another type"));
    close(fd);
}

static void test_path_length(void **state)
{
    char longest[UNIXSOCK_PATH_MAX + 2];
    struct unixsock_id id;
    int fd;

    (void)state;
    snprintf(longest, sizeof longest, "%s/", folder);
    memset(longest + strlen(longest), 'x', sizeof longest - strlen(longest));
    longest[UNIXSOCK_PATH_MAX + 1] = '\0';
    assert_int_equal(strlen(longest), UNIXSOCK_PATH_MAX + 1);
    assert_int_equal(unixsock_check(longest, why, sizeof why), -1);
    assert_non_null(strstr(why, "108 octets"));
    longest[UNIXSOCK_PATH_MAX] = '\0';
    assert_int_equal(unixsock_check(longest, why, sizeof why), 0);
    fd = unixsock_listen(longest, 0666, (gid_t)-1, 8, &id, why, sizeof why);
    assert_true(fd >= 0);
    assert_int_equal(unixsock_check(longest, why, sizeof why), -1);
    unixsock_remove(longest, &id);
    close(fd);
    assert_int_not_equal(access(longest, F_OK), 0);
}

static void test_missing_directory(void **state)
{
    struct unixsock_id id;

    (void)state;
    assert_int_equal(unixsock_listen("/nonexistent/s", 0666, (gid_t)-1, 8, &id, why, sizeof why), -1);
    assert_string_equal(why, strerror(ENOENT));
}

static void test_only_our_own_file_is_removed(void **state)
{
    struct unixsock_id id, successor;
    int fd = listen_here(0666, &id), other;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    other = listen_here(0666, &successor); /* somebody took the path over */
    assert_true(other >= 0);
    unixsock_remove(path, &id);
    assert_int_equal(access(path, F_OK), 0);
    unixsock_remove(path, &successor);
    assert_int_not_equal(access(path, F_OK), 0);
    unixsock_remove(path, &successor); /* twice does no harm */
    close(fd);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_absent_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_live_socket_is_respected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_live_socket_with_a_full_queue_is_respected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead_socket_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_datagram_socket_is_somebody_elses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_path_length, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_our_own_file_is_removed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
