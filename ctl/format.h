/* Figures for people.  Each function fills a buffer of FORMAT_MAX octets and returns it. */
#ifndef VANILLA_CTL_FORMAT_H
#define VANILLA_CTL_FORMAT_H

#include <stdint.h>

#define FORMAT_MAX 48

const char *format_bytes(char *to, uint64_t n);                           /* "512 B", "4.0 KiB", "64.0 MiB" */
const char *format_us(char *to, double us);                               /* "85us", "1.25ms", "3.20s" */
const char *format_duration(char *to, uint64_t ns);                       /* "12s", "3m 04s", "2d 03h 04m" */
const char *format_time(char *to, uint64_t realtime_ns);                  /* "2031-05-06 07:08:09", local */
const char *format_ratio(char *to, uint64_t n, uint64_t per, int digits); /* n / per; "-" when per is 0 and n is not */
const char *format_rate(char *to, double per_second);                     /* "0", "3.2", "12345" */

#endif
