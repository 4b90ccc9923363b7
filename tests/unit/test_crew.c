/* A crew with real processes: deaths, back-off, giving up, draining, and workers that do not listen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>

#include "master/crew.c"

#include "master/runtime.h"
#include "master/signals.h"

static struct event_base *base;
static struct signals *signals;
static struct cpus cpus;
static struct privileges privileges;
static struct conf_listen address;
static struct conf conf;
static struct passed none;
static struct segment *segment;
static struct crew *crew;
static char folder[32];
static unsigned told_ready, told_over;
static bool told_broken;

/* What the next workers do: read in the child, which is a copy. */
static enum { OBEY, HANG, CRASH, FATAL, FATAL_FIRST, ENDS_WELL } manner;

int worker_run(const struct worker_args *args)
{
    struct pollfd command = {.fd = args->args_command_fd, .events = POLLIN};
    char octet;

    segment_attach(args->args_segment, args->args_slot, getpid(), args->args_cpu, args->args_generation);
    if (manner == FATAL || (manner == FATAL_FIRST && args->args_slot == 0))
        _exit(WORKER_EXIT_FATAL);
    if (manner == CRASH)
        _exit(WORKER_EXIT_FAILED);
    if (write(args->args_command_fd, "r", 1) != 1)
        _exit(99);
    if (manner == ENDS_WELL)
        _exit(WORKER_EXIT_OK);
    for (;;) {
        poll(&command, 1, -1);
        switch (read(args->args_command_fd, &octet, 1)) {
        case 0:
            _exit(WORKER_EXIT_OK); /* the master is gone */
        case 1:
            if (manner != HANG && (octet == WORKER_DRAIN || octet == WORKER_STOP))
                _exit(WORKER_EXIT_OK);
        }
    }
}

static void on_signal(void *context, int signo)
{
    int status;
    pid_t pid;

    (void)context;
    if (signo == SIGCHLD)
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            assert_true(crew_reap(crew, pid, status));
}

static void on_ready(void *context, unsigned workers)
{
    (void)context;
    assert_int_equal(told_ready, 0);
    told_ready = workers;
}

static void on_over(void *context, bool broken)
{
    (void)context;
    told_over++;
    told_broken = broken;
}

static int setup(void **state)
{
    struct sockaddr_in *in = (void *)&address.listen_sockaddr;
    char why[256];

    (void)state;
    memset(&conf, 0, sizeof conf);
    told_ready = told_over = 0;
    manner = OBEY;
    strcpy(folder, "/tmp/test-crew-XXXXXX");
    if (mkdtemp(folder) == NULL || cpus_read(&cpus, "") != 0)
        return -1;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.listen_sockaddr_len = sizeof *in;
    address.listen_address = "127.0.0.1:0";
    conf.conf_listen = &address;
    conf.conf_listen_n = 1;
    conf.conf_runtime_dir = folder;
    conf.conf_file = "vanilla.conf";
    conf.conf_timeouts.timeout_drain_ms = 10000;
    base = event_base_new();
    signals = signals_open(base, on_signal, NULL);
    segment = runtime_segment(&conf, 2, (gid_t)-1, why, sizeof why);
    if (base == NULL || signals == NULL || segment == NULL)
        return -1;
    crew = crew_new(&(struct crew_plan){.crew_base = base,
                                        .crew_conf = &conf,
                                        .crew_segment = segment,
                                        .crew_listeners = listeners_open(&conf, 2, &none, why, sizeof why),
                                        .crew_privileges = &privileges,
                                        .crew_cpus = &cpus,
                                        .crew_workers = 2,
                                        .crew_generation = 1,
                                        .crew_ready = on_ready,
                                        .crew_over = on_over});
    return crew == NULL;
}

static int teardown(void **state)
{
    char path[64];

    (void)state;
    crew_free(&crew);
    signals_close(&signals);
    event_base_free(base);
    segment_close(&segment);
    cpus_free(&cpus);
    snprintf(path, sizeof path, "%s/stats.shm", folder);
    unlink(path);
    return rmdir(folder);
}

/* Turns the loop until it is so; for ever where it never comes. */
#define UNTIL(condition)                                         \
    while (!(condition)) {                                       \
        assert_false(event_base_got_exit(base));                 \
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0); \
    }

static struct slot *slot(unsigned i)
{
    return &crew->crew_slots[i];
}

static void start(void)
{
    crew_start(crew);
    UNTIL(told_ready);
    assert_int_equal(told_ready, 2);
}

static bool exists(pid_t pid)
{
    return kill(pid, 0) == 0;
}

static void test_ready_then_drain(void **state)
{
    pid_t first = 0;

    (void)state;
    start();
    first = slot(0)->slot_pid;
    assert_int_not_equal(first, slot(1)->slot_pid);
    assert_false(told_over);
    crew_drain(crew);
    assert_null(crew->crew_plan.crew_listeners); /* nothing is queued from now on */
    crew_drain(crew);
    UNTIL(told_over);
    assert_false(told_broken);
    assert_false(exists(first));
    assert_int_equal(slot(0)->slot_state, SLOT_GONE);
    assert_int_equal(slot(0)->slot_status, 0);
}

static void test_a_killed_worker_is_replaced(void **state)
{
    pid_t old, other;
    int fd;

    (void)state;
    start();
    old = slot(0)->slot_pid;
    other = slot(1)->slot_pid;
    fd = listeners_slot(crew->crew_plan.crew_listeners, 0)[0];
    assert_int_equal(kill(old, SIGKILL), 0);
    UNTIL(slot(0)->slot_pid != old && slot(0)->slot_state == SLOT_READY);
    assert_int_equal(slot(1)->slot_pid, other);
    assert_int_equal(listeners_slot(crew->crew_plan.crew_listeners, 0)[0], fd); /* with the same queue */
    assert_int_equal(slot(0)->slot_backoff.backoff_young, 1);
    crew_stop(crew);
    UNTIL(told_over);
}

static void test_a_worker_that_leaves_uncalled_is_replaced(void **state)
{
    (void)state;
    manner = ENDS_WELL;
    crew_start(crew);
    UNTIL(slot(0)->slot_backoff.backoff_young >= 2);
    manner = OBEY;
    UNTIL(slot(0)->slot_state == SLOT_READY && slot(1)->slot_state == SLOT_READY);
    crew_stop(crew);
    UNTIL(told_over);
    assert_false(told_broken);
}

static void test_crash_loop_backs_off_and_can_be_ended(void **state)
{
    unsigned i;

    (void)state;
    manner = CRASH;
    crew_start(crew);
    UNTIL(slot(0)->slot_backoff.backoff_young >= 3 && slot(0)->slot_state == SLOT_WAITING);
    assert_int_equal(told_ready, 0);
    assert_true(evtimer_pending(slot(0)->slot_timer, NULL));
    crew_drain(crew);
    UNTIL(told_over);
    for (i = 0; i < 2; i++) {
        assert_int_equal(slot(i)->slot_state, SLOT_GONE);
        assert_false(evtimer_pending(slot(i)->slot_timer, NULL)); /* nobody starts any more */
    }
}

static void test_all_fatal_is_the_end(void **state)
{
    (void)state;
    manner = FATAL;
    crew_start(crew);
    UNTIL(told_over);
    assert_true(told_broken);
    assert_int_equal(told_ready, 0);
}

static void test_one_fatal_leaves_the_others(void **state)
{
    (void)state;
    manner = FATAL_FIRST;
    crew_start(crew);
    UNTIL(told_ready);
    assert_int_equal(told_ready, 1);
    assert_int_equal(slot(0)->slot_state, SLOT_BROKEN);
    assert_int_equal(listeners_slot(crew->crew_plan.crew_listeners, 0)[0], -1);
    assert_true(listeners_slot(crew->crew_plan.crew_listeners, 1)[0] >= 0);
    crew_drain(crew);
    UNTIL(told_over);
    assert_false(told_broken);
}

static void test_a_hung_worker_meets_its_deadline(void **state)
{
    (void)state;
    manner = HANG;
    start();
    conf.conf_timeouts.timeout_drain_ms = 10;
    crew_drain(crew);
    UNTIL(told_over);
    assert_true(WIFSIGNALED(slot(0)->slot_status));
    assert_int_equal(WTERMSIG(slot(0)->slot_status), SIGKILL);
}

static void test_stop_cuts_a_drain_short(void **state)
{
    (void)state;
    manner = HANG;
    start();
    conf.conf_timeouts.timeout_drain_ms = 1000000;
    crew_drain(crew);
    crew_stop(crew);
    UNTIL(told_over);
    assert_int_equal(WTERMSIG(slot(0)->slot_status), SIGKILL);
}

static void test_a_worker_that_dies_while_draining_is_not_replaced(void **state)
{
    (void)state;
    manner = HANG;
    start();
    crew_drain(crew);
    kill(slot(0)->slot_pid, SIGALRM);
    kill(slot(1)->slot_pid, SIGKILL);
    UNTIL(told_over);
    assert_int_equal(slot(0)->slot_state, SLOT_GONE);
}

static void test_strangers_are_not_ours(void **state)
{
    (void)state;
    start();
    assert_false(crew_reap(crew, 1, 0));
    assert_int_equal(slot(0)->slot_state, SLOT_READY);
    /* teardown kills what still runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ready_then_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_killed_worker_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_worker_that_leaves_uncalled_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crash_loop_backs_off_and_can_be_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_fatal_is_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_fatal_leaves_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_hung_worker_meets_its_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_cuts_a_drain_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_worker_that_dies_while_draining_is_not_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strangers_are_not_ours, setup, teardown),
    };

    signals_block();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
