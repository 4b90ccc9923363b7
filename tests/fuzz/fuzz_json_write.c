/*
 * JSON out of text that may be anything.  The first octet says what the rest is: a value's text, a DataRow's cells, or
 * a row of the catalogue.  Nothing is read out of bounds, and what is written is valid JSON where the type does not
 * splice what PostgreSQL vouches for.
 */
#include <stdint.h>
#include <stdlib.h>

#include "worker/json/read.h"
#include "worker/json/shape.h"
#include "worker/json/write.h"
#include "worker/mem/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OIDS 12u

static struct buffers *buffers;
static struct pg_types *types;
static struct json_shape *shapes[2];
/* text, int4[], text[], box[], timestamp, timestamptz, int2vector, bool, bytea, int2vector[], bool[], unknown */
static const uint32_t oids[OIDS] = {25, 1007, 1009, 1020, 1114, 1184, 22, 16, 17, 1006, 1000, 705};

static void set_up(void)
{
    static const char *const rows[][7] = {
        {"50000", "50000", "pair", "c", NULL, ",", "61:23,6222:25"},
        {"50001", "50001", "_pair", "a", "50000", ",", NULL},
        {"50002", "50002", "deep", "c", NULL, ",", "70:50000,7073:50001,62:1020,74:1184"},
        {"50003", "50003", "_deep", "a", "50002", ",", NULL},
        {"50004", "50004", "tree", "c", NULL, ",", "6b:50005"},
        {"50005", "50005", "_tree", "a", "50004", ",", NULL},
        {"50006", "50006", "hstore", "h", NULL, ",", NULL},
    };
    static const char *const names[2][6] = {{"a", "b.c", "b.d", "e", "f", "g"}, {"x.a", "b", "x.c", "d", "e", "x.y.f"}};
    const struct pg_type *list[6];
    char *why;
    unsigned i;

    buffers = buffers_new(64u << 20);
    types = pg_types_new();
    AN(buffers && types);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        AZ(pg_types_learn(types, rows[i], 7));
    list[0] = pg_types_find(types, 23);
    list[1] = pg_types_find(types, 25);
    list[2] = pg_types_find(types, 1700);
    list[3] = pg_types_find(types, 1184);
    list[4] = pg_types_find(types, 50000);
    list[5] = pg_types_find(types, 16);
    for (i = 0; i < 2; i++) {
        shapes[i] = json_shape_new(names[i], list, 6, &why);
        AN(shapes[i]);
    }
}

static char *taken(struct out *o)
{
    char *text = malloc(o->out_bytes + 1), *to = text;
    struct buf *b;

    AN(text);
    for (b = o->out_head; b != NULL; b = b->buf_next) {
        memcpy(to, b->buf_data + b->buf_start, b->buf_end - b->buf_start);
        to += b->buf_end - b->buf_start;
    }
    *to = '\0';
    return text;
}

/* Valid JSON, but that it may be nested deeper than the reader takes it. */
static void check_json(struct out *o)
{
    char *text = taken(o);
    const char *why;

    AN(o->out_error == OUT_OK);
    why = json_check((struct slice){text, o->out_bytes}, NULL, NULL);
    AN(why == NULL || strstr(why, "deeper") != NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct out o;
    char *copy;

    if (types == NULL)
        set_up();
    if (size == 0)
        return 0;
    copy = malloc(size - 1);
    AN(copy);
    memcpy(copy, data + 1, size - 1);
    out_init(&o, buffers, 0);
    if (data[0] < OIDS + 7) {
        json_write_value(&o, pg_types_find(types, data[0] < OIDS ? oids[data[0]] : 50000 + data[0] - OIDS), copy,
                         size - 1);
        check_json(&o);
    } else if (data[0] < OIDS + 9) {
        if (json_write_row(&o, shapes[data[0] - OIDS - 7], copy, size - 1, 6) == 0 &&
            memchr(copy, '1', size - 1) == NULL)
            AN(o.out_bytes > 10); /* numbers are taken as they are: 1abc would not be JSON */
    } else if (data[0] == OIDS + 9) {
        struct pg_types *learnt = pg_types_new();
        const char *columns[7] = {NULL};
        unsigned n = 0;
        size_t i;

        /* up to seven texts with a NUL behind each */
        for (i = 0; i + 1 < size && n < 7; n++) {
            size_t len = strnlen(copy + i, size - 1 - i);

            if (i + len == size - 1)
                break;
            columns[n] = len == 0 ? NULL : copy + i;
            i += len + 1;
        }
        AN(learnt);
        if (pg_types_learn(learnt, columns, 7) == 0 && pg_types_learn(learnt, columns, 7) != 0)
            abort();
        pg_types_free(&learnt);
    }
    out_reset(&o);
    AZ(buffers_used(buffers));
    free(copy);
    return 0;
}
