/* What a worker is born with: descriptors, CPU, user, signals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>

#include "master/spawn.c"

#include "master/signals.h"

/* What the child saw, told through its command stream. */
struct birth {
    char birth_ready;
    int birth_fds, birth_stray; /* open beyond 0, 1, 2 and the arguments' */
    int birth_cpus, birth_cpu;
    unsigned birth_slot, birth_workers;
    uint64_t birth_generation;
    bool birth_listening, birth_admin, birth_blocked, birth_no_new_privileges, birth_gid_kept;
    bool birth_ignored[NSIG];
    uid_t birth_uid;
    int birth_groups;
};

static struct cpus cpus;
static struct privileges privileges;
static struct conf_listen address;
static struct conf conf;
static struct listeners *listeners;
static bool obey_eof;

int worker_run(const struct worker_args *args)
{
    static struct birth b;
    struct dirent *entry;
    struct sigaction action;
    sigset_t mask;
    cpu_set_t set;
    int value = 0, fd, s;
    socklen_t len = sizeof value;
    DIR *dir;

    b.birth_ready = 'r';
    b.birth_slot = args->args_slot;
    b.birth_workers = args->args_workers;
    b.birth_generation = args->args_generation;
    b.birth_listening = getsockopt(args->args_listen_fds[0], SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value;
    b.birth_admin = args->args_admin_fd >= 0;
    dir = opendir("/proc/self/fd");
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || (fd = atoi(entry->d_name)) == dirfd(dir) || fd >= getdtablesize())
            continue; /* the last: valgrind's own, above the limit */
        b.birth_fds++;
        b.birth_stray +=
            fd > 2 && fd != args->args_listen_fds[0] && fd != args->args_admin_fd && fd != args->args_command_fd;
    }
    if (dir != NULL)
        closedir(dir);
    sched_getaffinity(0, sizeof set, &set);
    b.birth_cpus = CPU_COUNT(&set);
    b.birth_cpu = CPU_ISSET((size_t)args->args_cpu, &set) ? args->args_cpu : -1;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (s = 1; s < NSIG; s++) {
        b.birth_blocked = b.birth_blocked || sigismember(&mask, s) == 1;
        b.birth_ignored[s] = sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    }
    b.birth_uid = getuid();
    b.birth_gid_kept = getgid() == 0;
    b.birth_groups = getgroups(0, NULL);
    b.birth_no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    if (write(args->args_command_fd, &b, sizeof b) != (ssize_t)sizeof b)
        _exit(99);
    if (obey_eof) {
        struct pollfd command = {.fd = args->args_command_fd, .events = POLLIN};
        char octet;

        poll(&command, 1, -1);
        _exit(read(args->args_command_fd, &octet, 1) == 0 ? 42 : 98);
    }
    _exit(7);
}

static int setup(void **state)
{
    struct sockaddr_in *in = (void *)&address.listen_sockaddr;
    struct passed none = {0};
    char why[256];

    (void)state;
    memset(&conf, 0, sizeof conf);
    memset(&privileges, 0, sizeof privileges);
    obey_eof = false;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.listen_sockaddr_len = sizeof *in;
    address.listen_address = "127.0.0.1:0";
    conf.conf_listen = &address;
    conf.conf_listen_n = 1;
    conf.conf_admin = address;
    conf.conf_file = "vanilla.conf";
    if (cpus_read(&cpus, "") != 0)
        return -1;
    listeners = listeners_open(&conf, 3, &none, why, sizeof why);
    return listeners == NULL;
}

static int teardown(void **state)
{
    (void)state;
    listeners_close(&listeners);
    cpus_free(&cpus);
    return 0;
}

static pid_t spawn(unsigned slot, int *fd)
{
    struct spawn_order order = {.order_conf = &conf,
                                .order_listeners = listeners,
                                .order_privileges = &privileges,
                                .order_slot = slot,
                                .order_workers = 3,
                                .order_cpu = cpus_of(&cpus, slot),
                                .order_generation = 5};
    pid_t pid = spawn_worker(&order, fd);

    assert_true(pid > 0);
    return pid;
}

static void born(int fd, struct birth *b)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&ready, 1, -1), 1);
    assert_int_equal(read(fd, b, sizeof *b), sizeof *b);
}

static void ended(pid_t pid, int want)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), want);
}

static void test_arguments_and_descriptors(void **state)
{
    int stray = dup2(STDERR_FILENO, 777), fd;
    struct birth b;
    pid_t pid;

    (void)state;
    assert_int_equal(stray, 777); /* without close-on-exec, as somebody careless left it */
    pid = spawn(1, &fd);
    born(fd, &b);
    ended(pid, 7);
    assert_int_equal(b.birth_ready, 'r');
    assert_int_equal(b.birth_slot, 1);
    assert_int_equal(b.birth_workers, 3);
    assert_int_equal(b.birth_generation, 5);
    assert_true(b.birth_listening);
    assert_true(b.birth_admin);
    assert_int_equal(b.birth_stray, 0);
    assert_in_range(b.birth_fds, 3, 6);
    assert_int_equal(b.birth_cpus, 1);
    assert_int_equal(b.birth_cpu, cpus_of(&cpus, 1));
    assert_true(b.birth_no_new_privileges);
    close(fd);
    close(stray);
}

static void test_signals(void **state)
{
    static const int ignored[] = {SIGPIPE, SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
    struct birth b;
    unsigned i;
    int fd, s;
    sigset_t mask;
    pid_t pid;

    (void)state;
    signal(SIGALRM, SIG_IGN); /* inherited from whoever started us */
    pid = spawn(0, &fd);
    signal(SIGALRM, SIG_DFL);
    born(fd, &b);
    ended(pid, 7);
    assert_false(b.birth_blocked);
    for (i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        assert_true(b.birth_ignored[ignored[i]]);
        b.birth_ignored[ignored[i]] = false;
    }
    for (s = 1; s < NSIG; s++)
        assert_false(b.birth_ignored[s]);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    assert_true(sigismember(&mask, SIGTERM)); /* the master's own mask is as it was */
    assert_false(sigismember(&mask, SIGSEGV));
    close(fd);
}

/* Siblings do not hold each other's streams: each EOF is the master's alone. */
static void test_eof_reaches_each_worker(void **state)
{
    struct birth b;
    pid_t first, second;
    int one, two;

    (void)state;
    obey_eof = true;
    first = spawn(0, &one);
    second = spawn(1, &two);
    born(one, &b);
    born(two, &b);
    close(one);
    ended(first, 42);
    assert_int_equal(waitpid(second, NULL, WNOHANG), 0);
    close(two);
    ended(second, 42);
}

static void test_becomes_another_user(void **state)
{
    struct birth b;
    pid_t pid;
    int fd;

    (void)state;
    if (geteuid() != 0)
        skip();
    privileges.privileges_drop = true;
    privileges.privileges_uid = 65533;
    privileges.privileges_gid = 65532;
    privileges.privileges_groups[0] = 65532;
    privileges.privileges_groups_n = 1;
    pid = spawn(0, &fd);
    born(fd, &b);
    ended(pid, 7);
    assert_int_equal(b.birth_uid, 65533);
    assert_false(b.birth_gid_kept);
    assert_int_equal(b.birth_groups, 1);
    assert_true(b.birth_no_new_privileges);
    assert_int_equal(geteuid(), 0);
    close(fd);
}

/* A user that cannot be taken on must not mean that the worker runs as who we are. */
static void test_no_worker_where_the_user_cannot_be_changed(void **state)
{
    pid_t pid, master;
    int fd, status;

    (void)state;
    privileges.privileges_drop = true;
    privileges.privileges_uid = privileges.privileges_gid = 65532;
    privileges.privileges_groups_n = 0;
    master = fork();
    if (master == 0) {
        if ((geteuid() == 0 && setuid(65533) != 0) || (pid = spawn(0, &fd)) <= 0 || waitpid(pid, &status, 0) != pid)
            _exit(1);
        _exit(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_FATAL ? 0 : 2);
    }
    ended(master, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_arguments_and_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eof_reaches_each_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_becomes_another_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_worker_where_the_user_cannot_be_changed, setup, teardown),
    };

    signals_block();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
