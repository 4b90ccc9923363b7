#include "conf/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *source_read_fd(int fd, size_t *n, struct report *r);

char *source_read(const char *file, size_t *n, struct report *r)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    char *text = NULL;

    if (fd < 0) {
        report_error(r, 0, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        report_error(r, 0, "is a directory; allowed: a file");
    else
        text = source_read_fd(fd, n, r);
    close(fd);
    return text;
}

static char *source_read_fd(int fd, size_t *n, struct report *r)
{
    char *text = malloc(SOURCE_BYTES_MAX + 3);
    size_t have = 0;
    ssize_t got = 1;

    if (text == NULL) {
        report_error(r, 0, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    while (got != 0 && have <= SOURCE_BYTES_MAX) {
        got = read(fd, text + have, SOURCE_BYTES_MAX + 1 - have);
        if (got < 0 && errno != EINTR)
            break;
        have += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        report_error(r, 0, "cannot be read: %s", strerror(errno));
    else if (have > SOURCE_BYTES_MAX)
        report_error(r, 0, "is larger than a configuration can be; allowed: %u octets", SOURCE_BYTES_MAX);
    else if (have == 0)
        report_error(r, 1, "the file is empty; allowed: settings, at least pools and routes");
    else {
        text[have++] = '\n';
        text[have] = '\0';
        *n = have;
        return text;
    }
    free(text);
    return NULL;
}
