#include "conf/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/assert.h"

struct memory_block {
    struct memory_block *block_next;
    max_align_t block_data[];
};

void *memory_get(struct memory *m, size_t n)
{
    struct memory_block *b = calloc(1, sizeof *b + n);

    if (b == NULL) {
        fprintf(stderr, "vanilla: no memory left while reading the configuration\n");
        exit(EXIT_FAILURE);
    }
    b->block_next = m->memory_blocks;
    m->memory_blocks = b;
    return b->block_data;
}

char *memory_text(struct memory *m, const char *s, size_t n)
{
    char *copy = memory_get(m, n + 1);

    memcpy(copy, s, n);
    return copy;
}

char *memory_format(struct memory *m, const char *format, ...)
{
    va_list ap;
    char *text;
    int n;

    va_start(ap, format);
    n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    AN(n >= 0);
    text = memory_get(m, (size_t)n + 1);
    va_start(ap, format);
    (void)vsnprintf(text, (size_t)n + 1, format, ap);
    va_end(ap);
    return text;
}

void memory_free(struct memory *m)
{
    struct memory_block *next;

    for (struct memory_block *b = m->memory_blocks; b != NULL; b = next) {
        next = b->block_next;
        free(b);
    }
    m->memory_blocks = NULL;
}
