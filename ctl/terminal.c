#include "ctl/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t terminal_signal;

static void terminal_on_signal(int number);

void terminal_set(struct terminal *t)
{
    struct sigaction action;
    struct termios raw;

    memset(&action, 0, sizeof(action));
    action.sa_handler = terminal_on_signal; /* without SA_RESTART: poll ends */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    memset(t, 0, sizeof(*t));
    t->terminal_out = isatty(STDOUT_FILENO) == 1;
    t->terminal_in = t->terminal_out && tcgetattr(STDIN_FILENO, &t->terminal_old) == 0;
    if (t->terminal_in) {
        raw = t->terminal_old;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* Ctrl-Z would leave the terminal like this */
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    if (t->terminal_out)
        fputs("\033[?1049h\033[?25l\033[2J", stdout);
}

bool terminal_wait(const struct terminal *t, unsigned ms)
{
    struct pollfd p = {.fd = t->terminal_in ? STDIN_FILENO : -1, .events = POLLIN};
    struct timespec start, now;
    long passed = 0;
    char key;

    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (terminal_signal == 0 && passed < (long)ms) {
        if (poll(&p, 1, (int)((long)ms - passed)) > 0 &&
            (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 3))
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    }
    return terminal_signal == 0;
}

void terminal_reset(const struct terminal *t)
{
    if (t->terminal_out)
        fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (t->terminal_in)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->terminal_old);
}

static void terminal_on_signal(int number)
{
    terminal_signal = number;
}
