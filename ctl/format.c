#include "ctl/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

const char *format_bytes(char *to, uint64_t n)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)n / 1024;
    unsigned i = 0;

    if (n < 1024) {
        snprintf(to, FORMAT_MAX, "%" PRIu64 " B", n);
        return to;
    }
    while (v >= 1023.95 && i < 3) { /* what would print as 1024.0 */
        v /= 1024;
        i++;
    }
    snprintf(to, FORMAT_MAX, "%.1f %s", v, units[i]);
    return to;
}

const char *format_us(char *to, double us)
{
    if (us < 999.5)
        snprintf(to, FORMAT_MAX, "%.0fus", us);
    else if (us < 999995)
        snprintf(to, FORMAT_MAX, "%.2fms", us / 1000);
    else
        snprintf(to, FORMAT_MAX, "%.2fs", us / 1000000);
    return to;
}

const char *format_duration(char *to, uint64_t ns)
{
    uint64_t s = ns / 1000000000u;

    if (s < 60)
        snprintf(to, FORMAT_MAX, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(to, FORMAT_MAX, "%" PRIu64 "m %02us", s / 60, (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(to, FORMAT_MAX, "%" PRIu64 "h %02um", s / 3600, (unsigned)(s / 60 % 60));
    else
        snprintf(to, FORMAT_MAX, "%" PRIu64 "d %02uh %02um", s / 86400, (unsigned)(s / 3600 % 24),
                 (unsigned)(s / 60 % 60));
    return to;
}

const char *format_time(char *to, uint64_t realtime_ns)
{
    time_t s = (time_t)(realtime_ns / 1000000000u);
    struct tm tm;

    if (localtime_r(&s, &tm) == NULL || strftime(to, FORMAT_MAX, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(to, FORMAT_MAX, "%" PRIu64 " s after 1970", realtime_ns / 1000000000u);
    return to;
}

const char *format_ratio(char *to, uint64_t n, uint64_t per, int digits)
{
    if (per == 0 && n != 0)
        snprintf(to, FORMAT_MAX, "-");
    else
        snprintf(to, FORMAT_MAX, "%.*f", digits, per == 0 ? 0.0 : (double)n / (double)per);
    return to;
}

const char *format_rate(char *to, double per_second)
{
    snprintf(to, FORMAT_MAX, "%.*f", per_second > 0 && per_second < 99.95 ? 1 : 0, per_second);
    return to;
}
