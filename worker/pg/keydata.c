/* BackendKeyData, overheard in libpq's trace. */
#include "worker/pg/keydata.h"

#include <inttypes.h>
#include <string.h>

static ssize_t keydata_write(void *cookie, const char *p, size_t n);

void keydata_start(struct keydata *k, PGconn *pg)
{
    static const cookie_io_functions_t functions = {.write = keydata_write};

    memset(k, 0, sizeof *k);
    k->keydata_stream = fopencookie(k, "w", functions);
    if (k->keydata_stream == NULL)
        return;
    (void)setvbuf(k->keydata_stream, k->keydata_buffer, _IOFBF, sizeof k->keydata_buffer);
    PQtrace(pg, k->keydata_stream);
    PQsetTraceFlags(pg, PQTRACE_SUPPRESS_TIMESTAMPS);
}

void keydata_stop(struct keydata *k, PGconn *pg)
{
    if (k->keydata_stream == NULL)
        return;
    PQuntrace(pg);
    (void)fclose(k->keydata_stream);
    k->keydata_stream = NULL;
    explicit_bzero(k->keydata_buffer, sizeof k->keydata_buffer);
    explicit_bzero(k->keydata_line, sizeof k->keydata_line);
    k->keydata_found = k->keydata_found && k->keydata_pid == (uint32_t)PQbackendPID(pg);
}

/* Lines like "B<TAB>12<TAB>BackendKeyData<TAB> 4711 -123456"; longer ones than ours are not of interest. */
static ssize_t keydata_write(void *cookie, const char *p, size_t n)
{
    struct keydata *k = cookie;

    for (size_t i = 0; i < n; i++) {
        int32_t pid, key;

        if (p[i] != '\n') {
            if (k->keydata_line_n < sizeof k->keydata_line - 1)
                k->keydata_line[k->keydata_line_n++] = p[i];
            continue;
        }
        k->keydata_line[k->keydata_line_n] = '\0';
        k->keydata_line_n = 0;
        /* NOLINTNEXTLINE(cert-err34-c): libpq printed them with %d */
        if (sscanf(k->keydata_line, "B\t12\tBackendKeyData\t %" SCNd32 " %" SCNd32, &pid, &key) == 2) {
            k->keydata_found = true;
            k->keydata_pid = (uint32_t)pid;
            k->keydata_key = (uint32_t)key;
        }
    }
    return (ssize_t)n;
}
