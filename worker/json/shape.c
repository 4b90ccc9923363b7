#include "worker/json/shape.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/json/scan.h"
#include "worker/json/write.h"

#define COLUMNS_MAX 1664u /* PostgreSQL's MaxTupleAttributeNumber */
#define STEP 16u          /* what is copied at a time, and how far a copy may run over its end */

/* The most that a row of len octets needs where no value needs more than its text, the 4 octets of its length and one
 * more: enough for quotes, `null`, `false` and the `:00` of a time zone. */
#define ROW_ROOM(shape, len) ((shape)->shape_fixed_len + (size_t)(len) + (shape)->shape_columns_n + 2 * (size_t)STEP)

/* A member of the object: a column's value, or an object in turn. */
struct node {
    char *node_name; /* as a JSON string with its quotes */
    struct node *node_first, *node_last, *node_next;
    int node_column; /* -1: an object */
};

/* The octets before the values, one after the other, and how long they were before each value. */
struct builder {
    FILE *builder_file;
    long *builder_at;
    unsigned *builder_columns;
    unsigned builder_n;
};

static char *node_add(struct node *root, const char *name, unsigned column);
static struct node *node_child(struct node *parent, const char *part, size_t len, bool *fresh);
static struct node *node_new(struct node *parent, char *name);
static void node_free(struct node *n);
static char *complain(const char *what, const char *name);
static void build(struct builder *b, const struct node *parent);
static struct json_shape *assemble(const struct builder *b, const char *text, const struct pg_type *const *types);
static int write_slowly(struct out *o, const struct json_shape *shape, unsigned from, char *row, const char *end);
static int write_by_index(struct out *o, const struct json_shape *shape, char *row, const char *end);
static bool cell_next(char **row, const char *end, char **cell, size_t *len);
static inline unsigned char *reserve(struct out *o, size_t n);
static inline unsigned char *put_value(unsigned char *w, enum pg_kind kind, const char *p, size_t len, const char *end);

struct json_shape *json_shape_new(const char *const *names, const struct pg_type *const *types, unsigned n, char **why)
{
    struct node root = {NULL, NULL, NULL, NULL, -1};
    struct builder b = {NULL, NULL, NULL, 0};
    struct json_shape *shape = NULL;
    char *text = NULL;
    size_t len;
    unsigned i;
    bool built;

    *why = NULL;
    if (n > COLUMNS_MAX)
        *why = complain("more columns than PostgreSQL can have", NULL);
    for (i = 0; i < n && *why == NULL; i++)
        *why = node_add(&root, names[i], i);
    if (*why == NULL) {
        b.builder_at = calloc(n + 1, sizeof(*b.builder_at));
        b.builder_columns = calloc(n + 1, sizeof(*b.builder_columns));
        b.builder_file = open_memstream(&text, &len);
        built = b.builder_at != NULL && b.builder_columns != NULL && b.builder_file != NULL;
        if (built) {
            build(&b, &root);
            b.builder_at[n] = ftell(b.builder_file);
        }
        if (b.builder_file != NULL && fclose(b.builder_file) == 0 && built && b.builder_n == n && text != NULL)
            shape = assemble(&b, text, types);
        if (shape == NULL)
            *why = complain("out of memory", NULL);
    }
    free(text);
    free(b.builder_at);
    free(b.builder_columns);
    node_free(root.node_first);
    return shape;
}

void json_shape_free(struct json_shape **sp)
{
    free(*sp);
    *sp = NULL;
}

/* The values are written into one reservation for the whole row.  What needs more room than ROW_ROOM counts on
 * (escapes, arrays, objects) goes through the general writer, and the rest of the row gets a new reservation. */
int json_write_row(struct out *o, const struct json_shape *shape, char *row, size_t len, unsigned columns)
{
    const struct json_shape_column *c = shape->shape_columns, *last = c + shape->shape_columns_n;
    const char *end = row + len;
    unsigned char *start, *w;

    if (columns != shape->shape_columns_n)
        return -1;
    if (!shape->shape_in_order)
        return write_by_index(o, shape, row, end);
    start = w = reserve(o, ROW_ROOM(shape, len));
    if (w == NULL)
        return write_slowly(o, shape, 0, row, end);
    for (; c < last; c++) {
        size_t left = (size_t)(end - row), n;
        unsigned char *next;
        uint32_t be;

        if (__builtin_expect(left < 4, 0))
            goto bad;
        memcpy(&be, row, 4);
        n = be32toh(be);
        row += 4;
        memcpy(w, c->column_prefix, STEP);
        if (__builtin_expect(c->column_prefix_len > STEP, 0))
            memcpy(w, c->column_prefix, c->column_prefix_len);
        w += c->column_prefix_len;
        if (__builtin_expect(n > left - 4, 0)) {
            if (n != UINT32_MAX) /* -1 */
                goto bad;
            memcpy(w, "null", 4);
            w += 4;
            continue;
        }
        next = put_value(w, c->column_type->type_kind, row, n, end);
        if (__builtin_expect(next == NULL, 0)) {
            out_commit(o, (size_t)(w - start));
            json_write_value(o, c->column_type, row, n);
            start = next = reserve(o, ROW_ROOM(shape, (size_t)(end - row) - n));
            if (next == NULL)
                return write_slowly(o, shape, (unsigned)(c - shape->shape_columns) + 1, row + n, end);
        }
        w = next;
        row += n;
    }
    if (row != end)
        goto bad;
    memcpy(w, shape->shape_tail, STEP);
    if (__builtin_expect(shape->shape_tail_len > STEP, 0))
        memcpy(w, shape->shape_tail, shape->shape_tail_len);
    w += shape->shape_tail_len;
    out_commit(o, (size_t)(w - start));
    return 0;
bad:
    out_commit(o, (size_t)(w - start));
    return -1;
}

/* Puts a dotted name into the tree; returns NULL, or what is wrong. */
static char *node_add(struct node *root, const char *name, unsigned column)
{
    struct node *parent = root, *n;
    const char *part = name, *dot;
    size_t len;
    bool fresh;

    for (;;) {
        dot = strchr(part, '.');
        len = dot == NULL ? strlen(part) : (size_t)(dot - part);
        if (len == 0)
            return complain(*name == '\0' ? "a column has no name" : "an empty part in the column name", name);
        n = node_child(parent, part, len, &fresh);
        if (n == NULL)
            return complain("out of memory", NULL);
        if (dot == NULL)
            break;
        if (n->node_column >= 0)
            return complain("a value and an object at once: a prefix of the column name is itself a column", name);
        parent = n;
        part = dot + 1;
    }
    if (!fresh)
        return n->node_column >= 0 ? complain("two columns with the name", name)
                                   : complain("a value and an object at once: other columns nest below the name", name);
    n->node_column = (int)column;
    return NULL;
}

/* The child of that name, which is made where there is none; NULL: out of memory. */
static struct node *node_child(struct node *parent, const char *part, size_t len, bool *fresh)
{
    char *quoted = calloc(1, 6 * len + 3);
    struct node *n;

    if (quoted == NULL)
        return NULL;
    json_quote(quoted, part, len);
    for (n = parent->node_first; n != NULL; n = n->node_next) {
        if (strcmp(n->node_name, quoted) == 0) {
            free(quoted);
            *fresh = false;
            return n;
        }
    }
    *fresh = true;
    return node_new(parent, quoted);
}

/* Takes the name. */
static struct node *node_new(struct node *parent, char *name)
{
    struct node *n = calloc(1, sizeof(*n));

    if (n == NULL) {
        free(name);
        return NULL;
    }
    n->node_name = name;
    n->node_column = -1;
    if (parent->node_last == NULL)
        parent->node_first = n;
    else
        parent->node_last->node_next = n;
    parent->node_last = n;
    return n;
}

/* Frees n, what is below it and what comes after it. */
static void node_free(struct node *n)
{
    while (n != NULL) {
        struct node *next = n->node_next;

        node_free(n->node_first);
        free(n->node_name);
        free(n);
        n = next;
    }
}

static char *complain(const char *what, const char *name)
{
    char *why;

    if (name == NULL || *name == '\0')
        return strdup(what);
    return asprintf(&why, "%s: \"%s\"", what, name) < 0 ? NULL : why;
}

static void build(struct builder *b, const struct node *parent)
{
    const struct node *n;

    fputc('{', b->builder_file);
    for (n = parent->node_first; n != NULL; n = n->node_next) {
        fprintf(b->builder_file, "%s%s:", n == parent->node_first ? "" : ",", n->node_name);
        if (n->node_column < 0) {
            build(b, n);
        } else {
            b->builder_columns[b->builder_n] = (unsigned)n->node_column;
            b->builder_at[b->builder_n++] = ftell(b->builder_file);
        }
    }
    fputc('}', b->builder_file);
}

/* One block: the shape, its columns, the text of prefixes and tail, and STEP octets that copies may run into. */
static struct json_shape *assemble(const struct builder *b, const char *text, const struct pg_type *const *types)
{
    unsigned n = b->builder_n, i;
    size_t len = (size_t)b->builder_at[n];
    struct json_shape *shape = calloc(1, sizeof(*shape) + n * sizeof(*shape->shape_columns) + len + STEP);
    char *copy;

    if (shape == NULL)
        return NULL;
    shape->shape_columns = (struct json_shape_column *)(shape + 1);
    copy = (char *)(shape->shape_columns + n);
    memcpy(copy, text, len);
    shape->shape_columns_n = n;
    shape->shape_in_order = true;
    shape->shape_fixed_len = (uint32_t)len;
    for (i = 0; i < n; i++) {
        struct json_shape_column *c = &shape->shape_columns[i];
        long from = i == 0 ? 0 : b->builder_at[i - 1];

        c->column_prefix = copy + from;
        c->column_prefix_len = (uint32_t)(b->builder_at[i] - from);
        c->column_index = b->builder_columns[i];
        c->column_type = types[c->column_index];
        if (c->column_index != i)
            shape->shape_in_order = false;
    }
    shape->shape_tail = copy + (n == 0 ? 0 : b->builder_at[n - 1]);
    shape->shape_tail_len = (uint32_t)(copy + len - shape->shape_tail);
    return shape;
}

/* Columns from `from` on, each by itself: for rows that do not fit into one reservation. */
static int write_slowly(struct out *o, const struct json_shape *shape, unsigned from, char *row, const char *end)
{
    unsigned i;

    for (i = from; i < shape->shape_columns_n; i++) {
        const struct json_shape_column *c = &shape->shape_columns[i];
        char *cell;
        size_t n;

        if (!cell_next(&row, end, &cell, &n))
            return -1;
        out_write(o, c->column_prefix, c->column_prefix_len);
        json_write_value(o, c->column_type, cell, n);
    }
    if (row != end)
        return -1;
    out_write(o, shape->shape_tail, shape->shape_tail_len);
    return 0;
}

/* When objects gather columns that are not neighbours: first where the cells are, then as above. */
static int write_by_index(struct out *o, const struct json_shape *shape, char *row, const char *end)
{
    char *cells[COLUMNS_MAX];
    size_t lengths[COLUMNS_MAX];
    unsigned i;

    AN(shape->shape_columns_n <= COLUMNS_MAX);
    for (i = 0; i < shape->shape_columns_n; i++)
        if (!cell_next(&row, end, &cells[i], &lengths[i]))
            return -1;
    if (row != end)
        return -1;
    for (i = 0; i < shape->shape_columns_n; i++) {
        const struct json_shape_column *c = &shape->shape_columns[i];

        out_write(o, c->column_prefix, c->column_prefix_len);
        json_write_value(o, c->column_type, cells[c->column_index], lengths[c->column_index]);
    }
    out_write(o, shape->shape_tail, shape->shape_tail_len);
    return 0;
}

/* The next cell of a DataRow; cell is NULL for NULL.  False when the row is cut off. */
static bool cell_next(char **row, const char *end, char **cell, size_t *len)
{
    size_t left = (size_t)(end - *row);
    uint32_t be;

    if (left < 4)
        return false;
    memcpy(&be, *row, 4);
    *len = be32toh(be);
    *cell = *row + 4;
    if (*len == UINT32_MAX) { /* -1 */
        *row += 4;
        *cell = NULL;
        *len = 0;
        return true;
    }
    if (*len > left - 4)
        return false;
    *row += 4 + *len;
    return true;
}

/* A reservation that is a guess from above must not make an error: NULL when it would not fit. */
static inline unsigned char *reserve(struct out *o, size_t n)
{
    if (n > OUT_RESERVE_MAX || (o->out_limit != 0 && o->out_bytes + n > o->out_limit))
        return NULL;
    return out_reserve(o, n);
}

/* len < STEP octets, without a call and without running over anything. */
static inline void put_few(unsigned char *w, const char *p, size_t len)
{
    if (len >= 8) {
        memcpy(w + len - 8, p + len - 8, 8);
        memcpy(w, p, 8);
    } else if (len >= 4) {
        memcpy(w + len - 4, p + len - 4, 4);
        memcpy(w, p, 4);
    } else if (len > 0) {
        w[len - 1] = (unsigned char)p[len - 1];
        w[len / 2] = (unsigned char)p[len / 2];
        w[0] = (unsigned char)p[0];
    }
}

/* len octets from p to w, which may be run over by less than STEP; nothing at or behind `end` is read. */
static inline unsigned char *put_octets(unsigned char *w, const char *p, size_t len, const char *end)
{
    if (len > STEP) {
        memcpy(w, p, len);
    } else if (__builtin_expect(end - p >= (long)STEP, 1)) {
        memcpy(w, p, STEP);
    } else {
        put_few(w, p, len);
    }
    return w + len;
}

/* The same for what must be clean inside a JSON string; NULL when it is not. */
static inline unsigned char *put_clean(unsigned char *w, const char *p, size_t len, const char *end)
{
#ifdef __SSE2__
    unsigned char *from = w;
    size_t left = len;
    __m128i x;

    for (; left >= STEP; left -= STEP, w += STEP, p += STEP) {
        x = _mm_loadu_si128((const __m128i *)(const void *)p);
        if (__builtin_expect(scan_mask(x) != 0, 0))
            goto careful;
        _mm_storeu_si128((__m128i *)(void *)w, x);
    }
    if (left > 0) {
        const void *at = p;

        if (__builtin_expect(end - p < (long)STEP, 0)) { /* looked at where it went */
            put_few(w, p, left);
            at = w;
        }
        x = _mm_loadu_si128((const __m128i *)at);
        if (__builtin_expect((scan_mask(x) & ((1u << left) - 1)) != 0, 0))
            goto careful;
        _mm_storeu_si128((__m128i *)(void *)w, x);
    }
    return from + len;
careful:
    if (scan_clean(p, left) != left)
        return NULL;
    memcpy(w, p, left);
    return w + left;
#else
    return scan_clean(p, len) == len ? put_octets(w, p, len, end) : NULL;
#endif
}

static inline unsigned char *put_string(unsigned char *w, const char *p, size_t len, const char *end)
{
    *w++ = '"';
    w = put_clean(w, p, len, end);
    if (w != NULL)
        *w++ = '"';
    return w;
}

/* `2024-02-29 12:34:56.5+01` as write_timestamp has it; NULL for what is less usual. */
static inline unsigned char *put_timestamp(unsigned char *w, const char *p, size_t len, bool zone, const char *end)
{
    unsigned char *next;

    if (len < 19 || p[10] != ' ' || *p < '0' || *p > '9')
        return NULL;
    next = put_string(w, p, len, end);
    if (next == NULL)
        return NULL;
    w[11] = 'T';
    if (!zone)
        return next;
    if (p[len - 3] != '+' && p[len - 3] != '-')
        return NULL;
    memcpy(next - 1, ":00\"", 4);
    return next + 3;
}

/* One value into a reservation; NULL: it needs the general writer, and what was written does not count.  At most len +
 * 5 octets and STEP beyond. */
static inline unsigned char *put_value(unsigned char *w, enum pg_kind kind, const char *p, size_t len, const char *end)
{
    switch (kind) {
    case PG_INT2:
    case PG_INT4:
    case PG_INT8:
    case PG_FLOAT4:
    case PG_FLOAT8:
    case PG_NUMERIC: /* see write_number in write.c */
        if (len > 0 && ((p[0] >= '0' && p[0] <= '9') || (p[0] == '-' && len > 1 && p[1] >= '0' && p[1] <= '9')))
            return put_octets(w, p, len, end);
        return put_string(w, p, len, end);
    case PG_BOOL:
        if (len != 1 || (*p != 't' && *p != 'f'))
            return NULL;
        memcpy(w, *p == 't' ? "true " : "false", 5);
        return w + (*p == 't' ? 4 : 5);
    case PG_TEXT:
    case PG_UUID:
    case PG_DATE:
    case PG_OID:
        return put_string(w, p, len, end);
    case PG_OTHER:
        return len > 0 ? put_string(w, p, len, end) : NULL;
    case PG_TIMESTAMP:
        return put_timestamp(w, p, len, false, end);
    case PG_TIMESTAMPTZ:
        return put_timestamp(w, p, len, true, end);
    case PG_JSON:
    case PG_JSONB:
        return len > 0 && scan_ascii(p, len) == len ? put_octets(w, p, len, end) : NULL;
    case PG_BYTEA:
    case PG_ARRAY:
    case PG_COMPOSITE:
    case PG_HSTORE:
        break;
    }
    return NULL;
}
