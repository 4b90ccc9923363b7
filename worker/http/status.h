/* Status codes: reason phrases and ready-made status lines (RFC 9110 15). */
#ifndef VANILLA_WORKER_HTTP_STATUS_H
#define VANILLA_WORKER_HTTP_STATUS_H

#include "worker/mem/slice.h"

/* "HTTP/1.1 200 OK\r\n".  A code of 100 to 599 that is not in the table gets its number and its class's phrase; any
 * other number is answered as 500.  Static. */
struct slice http_status_line(unsigned status);
/* "OK": for the status line and for a problem's title.  Static, NUL-terminated behind the slice. */
struct slice http_status_reason(unsigned status);

#endif
