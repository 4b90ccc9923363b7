#include "ctl/screen.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static unsigned screen_environment(const char *name, unsigned otherwise);

unsigned screen_columns(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    return screen_environment("COLUMNS", 132);
}

unsigned screen_lines(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0)
        return w.ws_row;
    return screen_environment("LINES", 50);
}

static unsigned screen_environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    long v = text != NULL ? strtol(text, NULL, 10) : 0;

    return v > 0 && v < 10000 ? (unsigned)v : otherwise;
}
