/* The Date field's format (RFC 9110 5.6.7). */
#ifndef VANILLA_WORKER_HTTP_DATE_H
#define VANILLA_WORKER_HTTP_DATE_H

#include <time.h>

#define HTTP_DATE_LEN 29

/* Writes t as IMF-fixdate, "Sun, 06 Nov 1994 08:49:37 GMT", without a NUL; no locale, no time zone, no libc state.
 * Years 0000 to 9999: what lies outside is written as the first or the last second of that range. */
void http_date(time_t t, char out[HTTP_DATE_LEN]);

#endif
