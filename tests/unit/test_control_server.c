/* The control socket: the lines it takes, and clients that are slow, many, mute or not allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <grp.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "master/control.c"

static struct event_base *base;
static struct control *control;
static char folder[32], path[64], why[256];
static enum control_command done_command;
static char done_argument[CONTROL_LINE_MAX];
static struct control_client *waiting;
static bool answer_later;

static void handle(void *context, struct control_client *client, enum control_command command, const char *argument)
{
    assert_ptr_equal(context, &base);
    done_command = command;
    snprintf(done_argument, sizeof done_argument, "%s", argument);
    if (answer_later)
        waiting = client;
    else
        control_answer(client, "ok\nline %d\n", 2);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test-ctl-XXXXXX");
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/control.sock", folder);
    answer_later = false;
    waiting = NULL;
    base = event_base_new();
    control = control_open(base, path, (gid_t)-1, handle, &base, why, sizeof why);
    return control == NULL;
}

static int teardown(void **state)
{
    (void)state;
    if (control != NULL)
        control_close(&control);
    event_base_free(base);
    unlink(path);
    return rmdir(folder);
}

static void turn(void)
{
    int i;

    for (i = 0; i < 4; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

static int client(void)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    strcpy(sun.sun_path, path);
    assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    turn();
    return fd;
}

static void say(int fd, const char *text, size_t len)
{
    assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
    turn();
}

/* The whole answer, after which the server has closed; NULL: no answer yet. */
static const char *answer(int fd)
{
    static char text[CONTROL_ANSWER_MAX + 1];
    size_t at = 0;
    ssize_t n;

    while ((n = read(fd, text + at, sizeof text - 1 - at)) > 0)
        at += (size_t)n;
    text[at] = '\0';
    if (n < 0 && errno == EAGAIN) {
        assert_int_equal(at, 0);
        return NULL;
    }
    return text;
}

static void refused(int fd)
{
    const char *text = answer(fd);

    assert_non_null(text);
    assert_int_equal(strncmp(text, "refused: ", 9), 0);
    assert_int_equal(text[strlen(text) - 1], '\n');
    close(fd);
}

static void test_parse(void **state)
{
    static const struct {
        const char *line;
        enum control_command want;
        const char *argument;
    } cases[] = {
        {"ping", CONTROL_ping, ""},
        {"version", CONTROL_version, ""},
        {"reload", CONTROL_reload, ""},
        {"drain", CONTROL_drain, ""},
        {"stop", CONTROL_stop, ""},
        {"stop now", CONTROL_stop, "now"},
        {"set read.max_inflight=8", CONTROL_set, "read.max_inflight=8"},
        {"", CONTROL_UNKNOWN, NULL},
        {" ", CONTROL_UNKNOWN, NULL},
        {"pin", CONTROL_UNKNOWN, NULL},
        {"pings", CONTROL_UNKNOWN, NULL},
        {"PING", CONTROL_UNKNOWN, NULL},
        {" ping", CONTROL_UNKNOWN, NULL},
        {"ping ", CONTROL_UNKNOWN, NULL},
        {"ping x", CONTROL_UNKNOWN, NULL},
        {"ping\r", CONTROL_UNKNOWN, NULL},
        {"set", CONTROL_UNKNOWN, NULL},
        {"set ", CONTROL_UNKNOWN, NULL},
    };
    char line[64];
    const char *argument;
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(line, cases[i].line);
        assert_int_equal(control_parse(line, &argument), cases[i].want);
        if (cases[i].argument != NULL)
            assert_string_equal(argument, cases[i].argument);
    }
}

static void test_socket_file(void **state)
{
    struct control *second;
    struct stat st;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    second = control_open(base, path, (gid_t)-1, handle, &base, why, sizeof why);
    assert_null(second);
    assert_non_null(strstr(why, "in use"));
    control_close(&control);
    assert_null(control);
    assert_int_not_equal(stat(path, &st), 0);
}

static void test_command_in_pieces(void **state)
{
    int fd = client();

    (void)state;
    done_command = CONTROL_UNKNOWN;
    say(fd, "stop ", 5);
    assert_null(answer(fd));
    say(fd, "no", 2);
    assert_int_equal(done_command, CONTROL_UNKNOWN);
    say(fd, "w\nignored", 9);
    assert_string_equal(answer(fd), "ok\nline 2\n");
    assert_int_equal(done_command, CONTROL_stop);
    assert_string_equal(done_argument, "now");
    close(fd);
}

static void test_lines_that_are_none(void **state)
{
    char line[CONTROL_LINE_MAX];
    int fd = client();

    (void)state;
    done_command = CONTROL_UNKNOWN;
    say(fd, "dance\n", 6);
    refused(fd);

    fd = client();
    say(fd, "ping\0x\n", 7);
    refused(fd);

    memset(line, 'x', sizeof line);
    fd = client();
    say(fd, line, sizeof line - 1);
    assert_null(answer(fd));
    say(fd, line, 1);
    refused(fd);
    assert_int_equal(done_command, CONTROL_UNKNOWN);

    /* the longest line there may be */
    memcpy(line, "set ", 4);
    line[sizeof line - 1] = '\n';
    fd = client();
    say(fd, line, sizeof line);
    assert_string_equal(answer(fd), "ok\nline 2\n");
    assert_int_equal(strlen(done_argument), CONTROL_LINE_MAX - 5);
    close(fd);
}

static void test_clients_that_leave(void **state)
{
    int fd, i;

    (void)state;
    for (i = 0; i < 3 * (int)CONTROL_CLIENTS_MAX; i++) { /* each gives its place back */
        fd = client();
        if (i % 2)
            say(fd, "pi", 2);
        close(fd);
        turn();
    }
    fd = client();
    say(fd, "ping\n", 5);
    assert_string_equal(answer(fd), "ok\nline 2\n");
    close(fd);
}

static void test_more_clients_than_places(void **state)
{
    int fds[CONTROL_CLIENTS_MAX];
    unsigned i;

    (void)state;
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++)
        fds[i] = client();
    refused(client());
    for (i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        assert_null(answer(fds[i]));
        say(fds[i], "ping\n", 5);
        assert_string_equal(answer(fds[i]), "ok\nline 2\n");
        close(fds[i]);
    }
}

static void test_mute_client_is_let_go(void **state)
{
    int fd = client();

    (void)state;
    say(fd, "pi", 2);
    event_base_loop(base, EVLOOP_ONCE); /* nothing else will happen: this is its time-out */
    refused(fd);
}

static void test_answers_that_come_later(void **state)
{
    int fd = client(), other;

    (void)state;
    answer_later = true;
    say(fd, "reload\n", 7);
    assert_null(answer(fd));
    assert_non_null(waiting);
    answer_later = false;
    other = client(); /* nobody waits for that */
    say(other, "ping\n", 5);
    assert_string_equal(answer(other), "ok\nline 2\n");
    close(other);
    control_answer(waiting, "ok\n");
    assert_string_equal(answer(fd), "ok\n");
    close(fd);

    fd = client();
    answer_later = true;
    say(fd, "reload\n", 7);
    close(fd); /* left before its answer */
    turn();
    control_answer(waiting, "ok\n");
    control_answer(waiting, "twice\n");
}

/* Another user asks, with these groups: 0 answered, 1 refused, 2 could not even connect. */
static int as_stranger(gid_t gid, gid_t other)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct sockaddr_un sun = {.sun_family = AF_UNIX};
        char text[128] = "";
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(sun.sun_path, path);
        if (setgroups(1, &other) != 0 || setgid(gid) != 0 || setuid(65533) != 0)
            _exit(3);
        if (connect(fd, (struct sockaddr *)&sun, sizeof sun) != 0)
            _exit(2);
        if (send(fd, "ping\n", 5, MSG_NOSIGNAL) < 0)
            _exit(1); /* turned away already */
        _exit(read(fd, text, sizeof text - 1) > 0 && strncmp(text, "ok\n", 3) == 0 ? 0 : 1);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) /* the server is this process */
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_who_is_let_in(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(as_stranger(65533, 65533), 2); /* the mode of the file */
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(as_stranger(65533, 65533), 1); /* and where that is opened by hand, SO_PEERCRED */
    assert_int_equal(as_stranger(0, 65533), 1);
    control_close(&control);
    control = control_open(base, path, 65500, handle, &base, why, sizeof why);
    assert_non_null(control);
    assert_int_equal(as_stranger(65533, 65533), 2);
    assert_int_equal(as_stranger(65500, 65533), 0);
    assert_int_equal(as_stranger(65533, 65500), 0);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(as_stranger(65533, 65533), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test_setup_teardown(test_socket_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_command_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clients_that_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_clients_than_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mute_client_is_let_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_that_come_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_is_let_in, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
