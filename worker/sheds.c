#include "worker/sheds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shm/stats.h"

static const struct {
    enum stat_worker cause_counter;
    const char *cause_name;
} sheds_causes[SHEDS_CAUSES] = {
    {STAT_shed_pool_full, "pool_full"}, {STAT_shed_queue_timeout, "queue_timeout"}, {STAT_shed_pool_down, "pool_down"},
    {STAT_shed_buffers, "buffers"},     {STAT_shed_connections, "connections"},
};

void sheds_start(struct sheds *s)
{
    s->sheds_told_ns = 0;
    for (unsigned i = 0; i < SHEDS_CAUSES; i++)
        s->sheds_told[i] = stats.stats_worker[sheds_causes[i].cause_counter];
}

bool sheds_tell(struct sheds *s, uint64_t now_ns, bool end, char line[SHEDS_LINE_MAX])
{
    uint64_t since[SHEDS_CAUSES], sum = 0;
    size_t n;

    for (unsigned i = 0; i < SHEDS_CAUSES; i++) {
        since[i] = stats.stats_worker[sheds_causes[i].cause_counter] - s->sheds_told[i];
        sum += since[i];
    }
    if (sum == 0 || (!end && s->sheds_told_ns != 0 && now_ns - s->sheds_told_ns < SHEDS_PAUSE_S * UINT64_C(1000000000)))
        return false;
    n = (size_t)snprintf(line, SHEDS_LINE_MAX, "shed %" PRIu64 " request%s%s:", sum, sum == 1 ? "" : "s",
                         s->sheds_told_ns != 0 ? " since the last such line" : "");
    for (unsigned i = 0; i < SHEDS_CAUSES; i++)
        if (since[i] != 0) {
            n += (size_t)snprintf(line + n, SHEDS_LINE_MAX - n, " %s %" PRIu64, sheds_causes[i].cause_name, since[i]);
            s->sheds_told[i] += since[i];
        }
    s->sheds_told_ns = now_ns;
    return true;
}
