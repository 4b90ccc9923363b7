/* Small blocks for OpenSSL's records. */
#include "worker/pg/scraps.h"

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/mem/alloc.h"

#define SCRAP_BYTES 64u
#define SCRAPS 256u

union scrap {
    union scrap *scrap_next; /* free */
    max_align_t scrap_align;
    unsigned char scrap_octets[SCRAP_BYTES];
};

static union scrap scraps[SCRAPS];
static union scrap *scraps_free;

static void *scrap_malloc(size_t n, const char *file, int line);
static void *scrap_realloc(void *p, size_t n, const char *file, int line);
static void scrap_free(void *p, const char *file, int line);
static bool scrap_is(const void *p);

void scraps_install(void)
{
    static bool installed;

    if (installed || CRYPTO_set_mem_functions(scrap_malloc, scrap_realloc, scrap_free) != 1)
        return;
    installed = true;
    for (unsigned i = 0; i < SCRAPS; i++) {
        scraps[i].scrap_next = scraps_free;
        scraps_free = &scraps[i];
    }
}

static void *scrap_malloc(size_t n, const char *file, int line)
{
    union scrap *s = scraps_free;

    (void)file;
    (void)line;
    /* What is made with a connection lives as long: it would use all of them up. */
    if (s == NULL || n > SCRAP_BYTES || n == 0 || alloc_scope_now == ALLOC_START || alloc_scope_now == ALLOC_CONNECT)
        return n > 0 ? malloc(n) : NULL;
    scraps_free = s->scrap_next;
    return s;
}

static void *scrap_realloc(void *p, size_t n, const char *file, int line)
{
    void *to;

    if (p == NULL)
        return scrap_malloc(n, file, line);
    if (!scrap_is(p))
        return realloc(p, n);
    if (n <= SCRAP_BYTES)
        return p;
    to = malloc(n);
    if (to != NULL) {
        memcpy(to, p, SCRAP_BYTES);
        scrap_free(p, file, line);
    }
    return to;
}

static void scrap_free(void *p, const char *file, int line)
{
    union scrap *s = p;

    (void)file;
    (void)line;
    if (!scrap_is(p)) {
        free(p);
        return;
    }
    s->scrap_next = scraps_free;
    scraps_free = s;
}

static bool scrap_is(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)scraps && (uintptr_t)p < (uintptr_t)(scraps + SCRAPS);
}
