/* The listeners: one per worker, and nothing that is somebody else's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/un.h>

#include "master/listen.c"

static struct conf_listen addresses[4];
static struct conf conf;
static struct passed none;
static char folder[32], texts[5][64], why[512];

static void address(struct conf_listen *c, char *text, const char *written, uint16_t port)
{
    memset(c, 0, sizeof *c);
    c->listen_line = 7;
    c->listen_address = text;
    if (strncmp(written, "unix:", 5) == 0) {
        struct sockaddr_un *un = (void *)&c->listen_sockaddr;

        strcpy(text, written);
        un->sun_family = AF_UNIX;
        strcpy(un->sun_path, written + 5);
        c->listen_sockaddr_len = sizeof *un;
    } else if (*written == '[') {
        struct sockaddr_in6 *in = (void *)&c->listen_sockaddr;

        sprintf(text, "[::1]:%u", port);
        in->sin6_family = AF_INET6;
        in->sin6_addr = in6addr_loopback;
        in->sin6_port = htons(port);
        c->listen_sockaddr_len = sizeof *in;
    } else {
        struct sockaddr_in *in = (void *)&c->listen_sockaddr;

        sprintf(text, "127.0.0.1:%u", port);
        in->sin_family = AF_INET;
        in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        in->sin_port = htons(port);
        c->listen_sockaddr_len = sizeof *in;
    }
}

static void add(const char *written, uint16_t port)
{
    unsigned i = conf.conf_listen_n++;

    address(&addresses[i], texts[i], written, port);
}

static int setup(void **state)
{
    (void)state;
    memset(&conf, 0, sizeof conf);
    memset(&none, 0, sizeof none);
    conf.conf_file = "vanilla.conf";
    conf.conf_listen = addresses;
    strcpy(folder, "/tmp/test-listen-XXXXXX");
    strcpy(why, "nothing was said");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 got;
    socklen_t len = sizeof got;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&got, &len), 0);
    return ntohs(got.sin6_port);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static struct listeners *opened(unsigned workers)
{
    struct listeners *l = listeners_open(&conf, workers, &none, why, sizeof why);

    if (l == NULL)
        fail_msg("%s", why);
    return l;
}

static void refused(unsigned workers, const char *reason)
{
    assert_null(listeners_open(&conf, workers, &none, why, sizeof why));
    if (strstr(why, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, reason);
    assert_int_equal(strncmp(why, "vanilla.conf:7: ", 16), 0);
}

/* Connects, sees which worker's socket has it, and says so; -1: refused. */
static int lands_on(const struct listeners *l, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), rc, got = -1;
    unsigned w;

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rc = connect(fd, (struct sockaddr *)&in, sizeof in);
    for (w = 0; rc == 0 && w < l->listeners_workers; w++) {
        int accepted = listeners_slot(l, w)[0] >= 0 ? accept(listeners_slot(l, w)[0], NULL, NULL) : -1;

        if (accepted >= 0) {
            close(accepted);
            got = (int)w;
        }
    }
    close(fd);
    return got;
}

static void test_each_worker_has_its_own(void **state)
{
    struct listeners *l;
    unsigned w, i;

    (void)state;
    add("127.0.0.1", 0);
    add("[::1]", 0);
    l = opened(3);
    assert_int_equal(l->listeners_n, 2);
    for (w = 0; w < 3; w++) {
        for (i = 0; i < 2; i++) {
            int fd = listeners_slot(l, w)[i];

            assert_int_equal(port_of(fd), port_of(listeners_slot(l, 0)[i])); /* port 0: the same for all */
            assert_int_equal(option(fd, SOL_SOCKET, SO_REUSEPORT), 1);
            assert_int_equal(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
            assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        }
        assert_int_equal(option(listeners_slot(l, w)[1], IPPROTO_IPV6, IPV6_V6ONLY), 1);
        assert_int_equal(listeners_admin(l, w), -1);
    }
    listeners_close(&l);
    assert_null(l);
}

static void test_admin(void **state)
{
    struct listeners *l;
    char text[256], want[256];

    (void)state;
    add("127.0.0.1", 0);
    address(&conf.conf_admin, texts[4], "127.0.0.1", 0);
    l = opened(2);
    assert_true(listeners_admin(l, 0) >= 0);
    assert_int_not_equal(listeners_admin(l, 0), listeners_admin(l, 1));
    assert_int_equal(port_of(listeners_admin(l, 0)), port_of(listeners_admin(l, 1)));
    listeners_describe(l, text, sizeof text);
    snprintf(want, sizeof want, "127.0.0.1:%u, admin 127.0.0.1:%u", port_of(listeners_slot(l, 0)[0]),
             port_of(listeners_admin(l, 0)));
    assert_string_equal(text, want);
    listeners_describe(l, text, 5); /* cut, not overrun */
    assert_string_equal(text, "127.");
    listeners_close(&l);
}

static void test_port_in_use(void **state)
{
    struct listeners *first, *l;
    uint16_t port;

    (void)state;
    add("127.0.0.1", 0);
    first = opened(1); /* with SO_REUSEPORT, and of the same user: bind alone would let us share it */
    port = port_of(listeners_slot(first, 0)[0]);
    conf.conf_listen_n = 0;
    add("127.0.0.1", port);
    refused(2, "in use");
    assert_int_equal(lands_on(first, port), 0);
    listeners_close(&first);
    l = opened(2); /* and once it is gone, at once, whatever waits in TIME_WAIT */
    assert_int_not_equal(lands_on(l, port), -1);
    listeners_close(&l);
}

static void test_nothing_is_touched_when_one_is_refused(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char written[64];
    struct listeners *first;
    struct stat before, after;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    snprintf(written, sizeof written, "unix:%s/s", folder);
    strcpy(un.sun_path, written + 5);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    close(fd); /* a dead one, which would be replaced */
    assert_int_equal(stat(un.sun_path, &before), 0);

    add("127.0.0.1", 0);
    first = opened(1);
    conf.conf_listen_n = 0;
    add(written, 0);
    add("127.0.0.1", port_of(listeners_slot(first, 0)[0]));
    refused(1, "in use");
    assert_int_equal(stat(un.sun_path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    listeners_close(&first);
    assert_int_equal(unlink(un.sun_path), 0);
}

static void test_unix_is_shared_and_removed(void **state)
{
    char written[64];
    struct listeners *l;
    struct stat st;

    (void)state;
    snprintf(written, sizeof written, "unix:%s/s", folder);
    add(written, 0);
    l = opened(2);
    assert_int_equal(stat(written + 5, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0666);
    assert_int_not_equal(listeners_slot(l, 0)[0], listeners_slot(l, 1)[0]);
    refused(1, "in use");
    listeners_close(&l);
    assert_int_not_equal(stat(written + 5, &st), 0);
}

static void test_unix_paths_that_are_refused(void **state)
{
    char written[64], longer[200];
    int fd;

    (void)state;
    snprintf(written, sizeof written, "unix:%s/f", folder);
    fd = open(written + 5, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    add(written, 0);
    refused(1, "not a socket");
    assert_int_equal(unlink(written + 5), 0);

    snprintf(longer, sizeof longer, "unix:%s/%0100d", folder, 0);
    addresses[0].listen_address = longer; /* its sockaddr could not hold all of it */
    refused(1, "107");
}

static void test_the_same_address_twice(void **state)
{
    struct listeners *l;
    uint16_t port;

    (void)state;
    add("127.0.0.1", 0);
    add("127.0.0.1", 0);
    l = opened(1); /* two ports of the kernel's choice */
    port = port_of(listeners_slot(l, 0)[0]);
    assert_int_not_equal(port, port_of(listeners_slot(l, 0)[1]));
    listeners_close(&l);
    conf.conf_listen_n = 0;
    add("127.0.0.1", port);
    address(&conf.conf_admin, texts[4], "127.0.0.1", port);
    refused(1, "admin 127.0.0.1");
    assert_non_null(strstr(why, "twice"));
}

static void test_address_of_another_machine(void **state)
{
    (void)state;
    add("127.0.0.1", 8080);
    ((struct sockaddr_in *)(void *)&addresses[0].listen_sockaddr)->sin_addr.s_addr = inet_addr("192.0.2.1");
    refused(1, "no interface");
}

static void test_closing_one_workers_sockets(void **state)
{
    struct listeners *l;
    uint16_t port;
    int i;

    (void)state;
    add("127.0.0.1", 0);
    l = opened(3);
    port = port_of(listeners_slot(l, 0)[0]);
    listeners_close_slot(l, 0);
    listeners_close_slot(l, 2);
    assert_int_equal(listeners_slot(l, 0)[0], -1);
    for (i = 0; i < 50; i++)
        assert_int_equal(lands_on(l, port), 1); /* no connection goes to a queue that nobody reads */
    listeners_close_slot(l, 1);
    assert_int_equal(lands_on(l, port), -1);
    listeners_close(&l);
}

static void test_passed_socket_is_used_by_all(void **state)
{
    struct passed p = {.passed_n = 1};
    struct listeners *l, *other;
    uint16_t port;
    int fd;

    (void)state;
    add("127.0.0.1", 0);
    other = opened(1);
    fd = dup(listeners_slot(other, 0)[0]); /* what the manager holds, and hands on */
    port = port_of(fd);
    p.passed_fds[0] = fd;
    conf.conf_listen_n = 0;
    add("127.0.0.1", port);
    l = listeners_open(&conf, 2, &p, why, sizeof why); /* though the port is in use: it is ours */
    assert_non_null(l);
    assert_int_equal(p.passed_fds[0], -1);
    assert_int_equal(port_of(listeners_slot(l, 0)[0]), port);
    assert_int_equal(port_of(listeners_slot(l, 1)[0]), port);
    assert_int_equal(option(listeners_slot(l, 1)[0], SOL_SOCKET, SO_ACCEPTCONN), 1);
    listeners_close(&l);
    listeners_close(&other);
}

static void test_passed_socket_is_closed_when_another_is_refused(void **state)
{
    struct passed p = {.passed_n = 1};
    struct listeners *holder, *first;

    (void)state;
    add("127.0.0.1", 0);
    holder = opened(1);
    first = opened(1);
    p.passed_fds[0] = dup(listeners_slot(first, 0)[0]);
    conf.conf_listen_n = 0;
    add("127.0.0.1", port_of(listeners_slot(first, 0)[0]));
    add("127.0.0.1", port_of(listeners_slot(holder, 0)[0]));
    assert_null(listeners_open(&conf, 2, &p, why, sizeof why));
    assert_non_null(strstr(why, "in use"));
    assert_int_equal(p.passed_fds[0], -1);
    listeners_close(&holder);
    listeners_close(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_worker_has_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_admin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_port_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_touched_when_one_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unix_is_shared_and_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unix_paths_that_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_same_address_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_address_of_another_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_one_workers_sockets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passed_socket_is_used_by_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passed_socket_is_closed_when_another_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
