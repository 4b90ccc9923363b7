/* A segment in a directory of its own, for the tests of shm/ and ctl/: 2 workers, 2 pools, 3 routes. */
#ifndef VANILLA_TESTS_SAMPLE_SEGMENT_H
#define VANILLA_TESTS_SAMPLE_SEGMENT_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/segment.h"
#include "shm/version.h"

struct sample {
    char sample_dir[64], sample_path[128];
    struct segment *sample_segment;
};

static const char *const sample_pools[] = {"read", "write"};
static const unsigned sample_max_inflight[] = {32, 4};
static const char *const sample_methods[] = {"GET", "GET", "POST"};
static const char *const sample_paths[] = {"/items/{id}", "/pipeline", "/it\"em\\s"};
static const int sample_route_pools[] = {0, -1, 1};

static inline struct segment_shape sample_shape(void)
{
    struct segment_shape shape = {
        2, 2, 3, sample_pools, sample_max_inflight, sample_methods, sample_paths, sample_route_pools, VANILLA_VERSION};

    return shape;
}

static inline void sample_new(struct sample *sample)
{
    struct segment_shape shape = sample_shape();

    snprintf(sample->sample_dir, sizeof(sample->sample_dir), "/tmp/vanilla-unit-XXXXXX");
    AN(mkdtemp(sample->sample_dir) != NULL);
    snprintf(sample->sample_path, sizeof(sample->sample_path), "%s/stats.shm", sample->sample_dir);
    sample->sample_segment = segment_create(sample->sample_path, &shape);
    AN(sample->sample_segment != NULL);
}

static inline void sample_free(struct sample *sample)
{
    segment_close(&sample->sample_segment);
    unlink(sample->sample_path);
    AZ(rmdir(sample->sample_dir));
}

/* Text that a report or a table writes. */
struct sample_text {
    char text_octets[1 << 20];
    size_t text_len;
};

static inline void sample_write(void *arg, const char *p, size_t n)
{
    struct sample_text *text = arg;

    AN(text->text_len + n < sizeof(text->text_octets));
    __builtin_memcpy(text->text_octets + text->text_len, p, n);
    text->text_len += n;
    text->text_octets[text->text_len] = '\0';
}

#endif
