#include "conf/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_TAIL 8 /* room kept for "...", the closing of an object and the line's end */

enum log_sort {
    LOG_PLAIN, /* a file, or opened by ourselves without blocking */
    LOG_ASK,   /* a description that others share: asked with poll before each write */
    LOG_SOCKET /* journald's stream */
};

/* Where lines go. */
struct log_sink {
    const char *sink_path; /* NULL: stderr */
    int sink_fd;           /* -1: nowhere */
    enum log_sort sink_sort;
    bool sink_regular; /* a file proper: takes any length in one piece */
};

static struct {
    enum conf_log_level log_level;
    bool log_json;
    struct log_sink log_main, log_access;
    char log_who[24];
    uint64_t log_drops, log_drops_told;
} log_now = {.log_level = LOG_LEVEL_INFO,
             .log_main = {.sink_fd = STDERR_FILENO, .sink_sort = LOG_ASK},
             .log_access = {.sink_fd = -1}};

static int log_path_open(const char *path);
static int log_stderr_open(enum log_sort *sort);
static int log_sink_open(struct log_sink *sink, const char *where);
static int log_sink_reopen(struct log_sink *sink);
static void log_sink_close(struct log_sink *sink);
static ssize_t log_sink_write(const struct log_sink *sink, const char *p, size_t n);
static bool log_put(enum conf_log_level level, int64_t unix_ms, const char *message);
static char *log_escape(char *out, const char *end, const char *text, bool json);
static unsigned log_utf8(const unsigned char *s);

static const char *const log_level_names[] = {"error", "warn", "info", "debug"};

int log_open(const struct conf_log *conf)
{
    struct log_sink sink, access = {.sink_fd = -1};

    if (log_sink_open(&sink, conf->log_file) != 0)
        return -1;
    if (conf->log_access != NULL && strcmp(conf->log_access, "off") != 0 &&
        log_sink_open(&access, conf->log_access) != 0) {
        log_sink_close(&sink);
        return -2;
    }
    log_now.log_level = conf->log_level;
    log_now.log_json = conf->log_json;
    log_sink_close(&log_now.log_main);
    log_sink_close(&log_now.log_access);
    log_now.log_main = sink;
    log_now.log_access = access;
    return 0;
}

int log_reopen(void)
{
    int rc = log_sink_reopen(&log_now.log_main), why = errno;

    if (log_sink_reopen(&log_now.log_access) != 0 && rc == 0)
        return -2;
    errno = why;
    return rc;
}

void log_speaker(const char *who)
{
    snprintf(log_now.log_who, sizeof log_now.log_who, "%s", who);
}

int log_fd(void)
{
    return log_now.log_main.sink_fd == STDERR_FILENO ? -1 : log_now.log_main.sink_fd;
}

int log_access_fd(void)
{
    return log_now.log_access.sink_fd == STDERR_FILENO ? -1 : log_now.log_access.sink_fd;
}

bool log_access(void)
{
    return log_now.log_access.sink_fd >= 0;
}

size_t log_access_write(const char *lines, size_t n)
{
    size_t done = 0;

    while (done < n) {
        size_t piece = n - done;
        ssize_t wrote;

        if (piece > PIPE_BUF && !log_now.log_access.sink_regular) { /* so that lines of several workers do not mix */
            const char *end = memrchr(lines + done, '\n', PIPE_BUF);

            AN(end != NULL);
            piece = (size_t)(end + 1 - (lines + done));
        }
        wrote = log_sink_write(&log_now.log_access, lines + done, piece);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    return done;
}

uint64_t log_dropped(void)
{
    return log_now.log_drops;
}

void log_write(enum conf_log_level level, const char *format, ...)
{
    char message[LOG_LINE_MAX];
    int keep = errno;
    struct timespec now;
    int64_t unix_ms;
    va_list ap;
    uint64_t missing;

    if (level > log_now.log_level)
        return;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    clock_gettime(CLOCK_REALTIME, &now);
    unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;

    if (!log_put(level, unix_ms, message)) {
        log_now.log_drops++;
    } else if ((missing = log_now.log_drops - log_now.log_drops_told) > 0) {
        snprintf(message, sizeof message, "%llu log lines before this one were dropped: the log's reader is too slow",
                 (unsigned long long)missing);
        if (log_put(LOG_LEVEL_WARN, unix_ms, message))
            log_now.log_drops_told += missing;
    }
    errno = keep;
}

/* One write(2), whole or not at all as far as we are concerned: a pipe takes up to PIPE_BUF octets so. */
static bool log_put(enum conf_log_level level, int64_t unix_ms, const char *message)
{
    char line[LOG_LINE_MAX];

    return log_sink_write(&log_now.log_main, line, log_render(line, level, unix_ms, message)) > 0;
}

static ssize_t log_sink_write(const struct log_sink *sink, const char *p, size_t n)
{
    struct pollfd ask = {.fd = sink->sink_fd, .events = POLLOUT};
    ssize_t wrote;

    if (sink->sink_sort == LOG_SOCKET)
        return send(sink->sink_fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sink->sink_sort == LOG_ASK && poll(&ask, 1, 0) != 1)
        return -1;
    do {
        wrote = write(sink->sink_fd, p, n);
    } while (wrote < 0 && errno == EINTR);
    return wrote;
}

size_t log_render(char *line, enum conf_log_level level, int64_t unix_ms, const char *message)
{
    const char *end = line + LOG_LINE_MAX - LOG_TAIL;
    char *at = line;
    int n;

    if (log_now.log_json)
        at = stpcpy(at, "{\"time\":\"");
    at += log_time(at, unix_ms);
    n = snprintf(at, (size_t)(end - at),
                 log_now.log_json ? "\",\"level\":\"%s\",\"pid\":%ld,\"who\":\"%s\",\"msg\":\"" : " %-5s [%ld] %s%s",
                 log_level_names[level], (long)getpid(), log_now.log_who, log_now.log_who[0] != '\0' ? ": " : "");
    AN(n > 0 && n < end - at);
    at = log_escape(at + n, end, message, log_now.log_json);
    at = stpcpy(at, log_now.log_json ? "\"}\n" : "\n");
    return (size_t)(at - line);
}

/* "2026-01-01T00:00:00.000Z"; gmtime would read the time zone's file. The days-to-date sum is the usual one of the
 * proleptic Gregorian calendar, counted in eras of 400 years from 1 March of the year 0. */
size_t log_time(char out[64], int64_t unix_ms)
{
    int64_t s = unix_ms / 1000, days = s / 86400 + 719468;
    unsigned in_day = (unsigned)(s % 86400), era = (unsigned)(days / 146097), doe = (unsigned)(days % 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    unsigned day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = yoe + era * 400 + (month <= 2);

    return (size_t)snprintf(out, 64, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day, in_day / 3600,
                            in_day / 60 % 60, in_day % 60, (unsigned)(unix_ms % 1000));
}

/* Appends text, escaped, up to `end`; what does not fit is cut and ends in "..." (LOG_TAIL holds that). */
static char *log_escape(char *out, const char *end, const char *text, bool json)
{
    const unsigned char *s = (const unsigned char *)text;
    char one[8];
    unsigned n;

    for (; *s != '\0'; s += n) {
        size_t len;

        n = log_utf8(s);
        if (n > 1 || (n == 1 && *s >= 0x20 && *s != 0x7f && !(json && (*s == '"' || *s == '\\')))) {
            memcpy(one, s, n);
            len = n;
        } else if (json && n == 1 && (*s == '"' || *s == '\\')) {
            len = (size_t)snprintf(one, sizeof one, "\\%c", *s);
        } else if (json) {
            len = (size_t)snprintf(one, sizeof one, "\\u%04x", n == 1 ? *s : 0xfffdu);
        } else {
            len = (size_t)snprintf(one, sizeof one, "\\x%02x", *s);
        }
        n = n == 0 ? 1 : n;
        if (len > (size_t)(end - out))
            return stpcpy(out, "...");
        memcpy(out, one, len);
        out += len;
    }
    *out = '\0';
    return out;
}

/* Length of the UTF-8 character at s (RFC 3629: shortest form, no surrogates), 0 for anything else and for the C1
 * control characters, which terminals obey. */
static unsigned log_utf8(const unsigned char *s)
{
    unsigned c, n, i;

    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    c = s[0] & (0xffu >> (n + 1));
    for (i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < 0xa0 || (n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    return n;
}

/* O_NONBLOCK: the path may be a FIFO. */
static int log_path_open(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

/* O_NONBLOCK on stderr itself would surprise all who share its description, the operator's shell among them. A pipe or
 * a terminal can be opened anew; a file never blocks that long and keeps one offset for all who write; a socket is told
 * for each send. */
static int log_stderr_open(enum log_sort *sort)
{
    struct stat st;
    int fd;

    *sort = LOG_ASK;
    if (fstat(STDERR_FILENO, &st) != 0)
        return -1;
    if (S_ISSOCK(st.st_mode)) {
        *sort = LOG_SOCKET;
    } else if (S_ISREG(st.st_mode)) {
        *sort = LOG_PLAIN;
    } else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
        fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd >= 0) {
            *sort = LOG_PLAIN;
            return fd;
        }
    }
    return STDERR_FILENO;
}

static int log_sink_open(struct log_sink *sink, const char *where)
{
    bool file = where != NULL && strcmp(where, "stderr") != 0;
    struct stat st;

    *sink = (struct log_sink){.sink_path = file ? where : NULL, .sink_sort = LOG_PLAIN};
    sink->sink_fd = file ? log_path_open(where) : log_stderr_open(&sink->sink_sort);
    if (sink->sink_fd < 0)
        return -1;
    sink->sink_regular = fstat(sink->sink_fd, &st) == 0 && S_ISREG(st.st_mode);
    return 0;
}

static int log_sink_reopen(struct log_sink *sink)
{
    struct log_sink anew;

    if (sink->sink_fd < 0 || sink->sink_path == NULL)
        return 0;
    if (log_sink_open(&anew, sink->sink_path) != 0)
        return -1;
    /* The number stays: the loop has made room for the descriptors that it may see, and this is none of them. */
    if (dup3(anew.sink_fd, sink->sink_fd, O_CLOEXEC) < 0) {
        log_sink_close(&anew);
        return -1;
    }
    close(anew.sink_fd);
    sink->sink_regular = anew.sink_regular;
    return 0;
}

static void log_sink_close(struct log_sink *sink)
{
    if (sink->sink_fd >= 0 && sink->sink_fd != STDERR_FILENO)
        close(sink->sink_fd);
    sink->sink_fd = -1;
}
