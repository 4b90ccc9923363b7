/*
 * The log that the master and the workers write to: one line per call, one write(2) per line, nothing from the heap,
 * and never a wait: when stderr's reader is slow, the line is dropped and counted, and the next one says how many.
 */
#ifndef VANILLA_CONF_LOG_H
#define VANILLA_CONF_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"

#define LOG_LINE_MAX 2048 /* octets with the line's end; what is longer is cut and ends in "..." */

/* Opens the log that `conf` describes (its strings must live on); 0, or with errno and the log as it was -1, when it is
 * the file that cannot be opened, or -2, when it is the access log.  Before
 * the first log_open lines go to stderr, from LOG_LEVEL_INFO up, as text. */
int log_open(const struct conf_log *conf);

/* Opens a log file's path again, after its rotation; stderr stays.  0, or as log_open with the old file still in use,
 * -1 when it is both, which a worker that may not open the path can live with. */
int log_reopen(void);

/* Who speaks, before each message: "master", "worker 3".  The string is copied; "" for nobody. */
void log_speaker(const char *who);

/* Writes one line.  Octets that could forge lines or steer a terminal are escaped: control characters and what is not
 * UTF-8.  Keeps errno.  Formats with %s %d %u %c %x %p and their lengths only: those do not allocate in glibc. */
void log_write(enum conf_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The descriptor of the log's own file, which the master hands on to its workers; -1 when it writes to stderr. */
int log_fd(void);

/* The access log (log.access): whether there is one; its own descriptor, as log_fd.  It is opened by log_open and
 * reopened by log_reopen. */
bool log_access(void);
int log_access_fd(void);
/* Writes n octets of whole lines of at most PIPE_BUF each to it; the octets that were taken: fewer when its reader is
 * too slow.  Never waits. */
size_t log_access_write(const char *lines, size_t n);

/* Lines dropped by this process so far. */
uint64_t log_dropped(void);

/* A time in UTC, "2026-01-01T00:00:00.000Z"; octets written. */
size_t log_time(char out[64], int64_t unix_ms);

/* The line itself, as log_write makes it, without a write: its length.  `line` holds LOG_LINE_MAX octets. */
size_t log_render(char *line, enum conf_log_level level, int64_t unix_ms, const char *message);

#endif
