#include "worker/pg/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_MAGIC 0x7e9e5a11u
#define BUCKETS 256u
#define FIELDS_MAX 1664u /* PostgreSQL's MaxTupleAttributeNumber */

enum builtin {
#define PG_TYPE(oid, name, kind) BUILTIN_##name,
#define PG_TYPE_ARRAY(oid, name, elem) BUILTIN_##name,
#include "worker/pg/types.def"
#undef PG_TYPE
#undef PG_TYPE_ARRAY
    BUILTINS
};

/* Only box and its arrays have another delimiter than the comma (pg_type.typdelim). */
#define DELIM(oid) ((oid) == 603 || (oid) == 1020 ? ';' : ',')

static const struct pg_type builtins[BUILTINS] = {
#define PG_TYPE(oid, name, kind) {(oid), (kind), DELIM(oid), #name, NULL, NULL, 0},
#define PG_TYPE_ARRAY(oid, name, elem) {(oid), PG_ARRAY, DELIM(oid), #name, &builtins[BUILTIN_##elem], NULL, 0},
#include "worker/pg/types.def"
#undef PG_TYPE
#undef PG_TYPE_ARRAY
};

const struct pg_type pg_type_other = {0, PG_OTHER, ',', "text", NULL, NULL, 0};

/* A type of this database.  The struct stays where it is for as long as the pg_types lives: descriptions of statements
 * point to it.  Something may refer to it before it is learnt; until then it is text. */
struct entry {
    struct pg_type entry_type;
    struct entry *entry_next;
    const struct pg_type *entry_base; /* a domain's base type; NULL: not a domain */
    bool entry_learnt;
    char *entry_name;
    struct pg_field *entry_fields;
    char *entry_field_names; /* what entry_fields' names point into */
    char *entry_spec;        /* what entry_fields were made of */
};

/* Strings that were replaced: somebody may still hold them. */
struct relic {
    struct relic *relic_next;
    void *relic_p;
};

struct pg_types {
    unsigned magic;
    struct entry *types_buckets[BUCKETS];
    struct relic *types_relics;
};

/* Everything is qualified, because a session's search_path is not ours.  UNION drops what was seen, so recursive types
 * end.  True arrays are told by their input function on every version: int2vector and oidvector, which have an element
 * type too, are built in. */
const char PG_TYPES_QUERY[] =
    "WITH RECURSIVE need(oid) AS ("
    "SELECT pg_catalog.unnest($1::pg_catalog.oid[]) "
    "UNION "
    "SELECT r.oid FROM need n JOIN pg_catalog.pg_type t ON t.oid = n.oid CROSS JOIN LATERAL ("
    "SELECT t.typbasetype WHERE t.typtype = 'd' "
    "UNION ALL SELECT t.typelem WHERE t.typinput = 'pg_catalog.array_in'::pg_catalog.regproc "
    "UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid "
    "AND a.attnum > 0 AND NOT a.attisdropped) r(oid)"
    "), down(oid, at) AS (" /* each type, then what its domain is over, and so on */
    "SELECT n.oid, n.oid FROM need n "
    "UNION "
    "SELECT d.oid, t.typbasetype FROM down d JOIN pg_catalog.pg_type t ON t.oid = d.at WHERE t.typtype = 'd'"
    "), base(oid, base) AS ("
    "SELECT d.oid, d.at FROM down d JOIN pg_catalog.pg_type t ON t.oid = d.at WHERE t.typtype <> 'd') "
    "SELECT t.oid::pg_catalog.text, b.base::pg_catalog.text, t.typname::pg_catalog.text, "
    "CASE WHEN t.typtype = 'd' THEN 'd' WHEN t.typtype = 'c' THEN 'c' WHEN e.oid IS NOT NULL THEN 'a' "
    "WHEN t.typname = 'hstore' AND EXISTS (SELECT 1 FROM pg_catalog.pg_cast c WHERE c.castsource = t.oid AND "
    "c.casttarget = 114 AND c.castmethod = 'f') THEN 'h' ELSE 'o' END, "
    "e.base::pg_catalog.text, t.typdelim::pg_catalog.text, "
    /* name:oid,name:oid in attribute order, the names as hexadecimal digits of their UTF-8 */
    "(SELECT pg_catalog.string_agg(pg_catalog.encode(pg_catalog.textsend(a.attname::pg_catalog.text), 'hex') || ':' || "
    "f.base::pg_catalog.text, ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a JOIN base f ON f.oid = a.atttypid "
    "WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) "
    "FROM need n JOIN pg_catalog.pg_type t ON t.oid = n.oid JOIN base b ON b.oid = t.oid LEFT JOIN base e ON "
    "e.oid = t.typelem AND t.typinput = 'pg_catalog.array_in'::pg_catalog.regproc";

enum column { COLUMN_OID, COLUMN_BASE, COLUMN_NAME, COLUMN_CLASS, COLUMN_ELEM, COLUMN_DELIM, COLUMN_FIELDS, COLUMNS };

static const struct pg_type *builtin_find(uint32_t oid);
static struct entry *entry_find(const struct pg_types *t, uint32_t oid);
static struct entry *entry_get(struct pg_types *t, uint32_t oid);
static const struct pg_type *reference(struct pg_types *t, uint32_t oid);
static int learn_name(struct pg_types *t, struct entry *e, const char *name);
static int learn_fields(struct pg_types *t, struct entry *e, const char *fields);
static int relic_keep(struct pg_types *t, void *p);
static bool oid_read(const char **p, uint32_t *oid);
static bool oid_parse(const char *text, uint32_t *oid);
static int hex_digit(char c);

struct pg_types *pg_types_new(void)
{
    struct pg_types *t = calloc(1, sizeof(*t));

    if (t != NULL)
        t->magic = TYPES_MAGIC;
    return t;
}

void pg_types_free(struct pg_types **tp)
{
    struct pg_types *t = *tp;
    unsigned i;

    *tp = NULL;
    if (t == NULL)
        return;
    CHECK_OBJ(t, TYPES_MAGIC);
    for (i = 0; i < BUCKETS; i++) {
        while (t->types_buckets[i] != NULL) {
            struct entry *e = t->types_buckets[i];

            t->types_buckets[i] = e->entry_next;
            free(e->entry_name);
            free(e->entry_fields);
            free(e->entry_field_names);
            free(e->entry_spec);
            free(e);
        }
    }
    while (t->types_relics != NULL) {
        struct relic *r = t->types_relics;

        t->types_relics = r->relic_next;
        free(r->relic_p);
        free(r);
    }
    t->magic = 0;
    free(t);
}

const struct pg_type *pg_types_find(const struct pg_types *t, uint32_t oid)
{
    const struct pg_type *type = builtin_find(oid);
    const struct entry *e;

    CHECK_OBJ(t, TYPES_MAGIC);
    if (type != NULL)
        return type;
    e = entry_find(t, oid);
    if (e == NULL || !e->entry_learnt)
        return NULL;
    return e->entry_base != NULL ? e->entry_base : &e->entry_type;
}

bool pg_types_outdated;

bool pg_types_builtin(uint32_t oid)
{
    return builtin_find(oid) != NULL;
}

int pg_types_learn(struct pg_types *t, const char *const *columns, unsigned n)
{
    uint32_t oid, base, elem = 0;
    struct pg_type *type;
    struct entry *e;
    char class;

    CHECK_OBJ(t, TYPES_MAGIC);
    if (n != COLUMNS || columns[COLUMN_NAME] == NULL || columns[COLUMN_CLASS] == NULL ||
        !oid_parse(columns[COLUMN_OID], &oid) || !oid_parse(columns[COLUMN_BASE], &base))
        return -1;
    if (builtin_find(oid) != NULL)
        return 0;
    class = columns[COLUMN_CLASS][0];
    if (class == '\0' || strchr("acdho", class) == NULL || columns[COLUMN_CLASS][1] != '\0' ||
        (class == 'd') != (base != oid) || (class == 'a' && !oid_parse(columns[COLUMN_ELEM], &elem)))
        return -1;
    e = entry_get(t, oid);
    if (e == NULL || learn_name(t, e, columns[COLUMN_NAME]) != 0)
        return -1;
    type = &e->entry_type;
    if (class == 'd' && reference(t, base) == NULL)
        return -1;
    e->entry_base = class == 'd' ? reference(t, base) : NULL;
    type->type_kind = PG_OTHER;
    type->type_delim = ',';
    if (columns[COLUMN_DELIM] != NULL && columns[COLUMN_DELIM][0] != '\0')
        type->type_delim = columns[COLUMN_DELIM][0];
    type->type_elem = NULL;
    e->entry_learnt = true; /* whatever happens now, it can be used: as text */
    if (class == 'a') {
        type->type_elem = reference(t, elem);
        if (type->type_elem == NULL)
            return -1;
        type->type_kind = PG_ARRAY;
    } else if (class == 'c') {
        if (learn_fields(t, e, columns[COLUMN_FIELDS]) != 0)
            return -1;
        type->type_kind = PG_COMPOSITE;
    } else if (class == 'h') {
        type->type_kind = PG_HSTORE;
    }
    return 0;
}

static const struct pg_type *builtin_find(uint32_t oid)
{
    size_t low = 0, high = BUILTINS;

    while (low < high) {
        size_t at = (low + high) / 2;

        if (builtins[at].type_oid == oid)
            return &builtins[at];
        if (builtins[at].type_oid < oid)
            low = at + 1;
        else
            high = at;
    }
    return NULL;
}

static struct entry *entry_find(const struct pg_types *t, uint32_t oid)
{
    struct entry *e = t->types_buckets[oid % BUCKETS];

    while (e != NULL && e->entry_type.type_oid != oid)
        e = e->entry_next;
    return e;
}

static struct entry *entry_get(struct pg_types *t, uint32_t oid)
{
    struct entry *e = entry_find(t, oid);

    if (e != NULL)
        return e;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return NULL;
    e->entry_type = pg_type_other;
    e->entry_type.type_oid = oid;
    e->entry_next = t->types_buckets[oid % BUCKETS];
    t->types_buckets[oid % BUCKETS] = e;
    return e;
}

/* What an element, a field or a domain's base is to point to; rows may come in any order. */
static const struct pg_type *reference(struct pg_types *t, uint32_t oid)
{
    const struct pg_type *type = builtin_find(oid);
    struct entry *e;

    if (type != NULL)
        return type;
    e = entry_get(t, oid);
    if (e == NULL)
        return NULL;
    return e->entry_base != NULL ? e->entry_base : &e->entry_type;
}

static int learn_name(struct pg_types *t, struct entry *e, const char *name)
{
    char *copy;

    if (e->entry_name != NULL && strcmp(e->entry_name, name) == 0)
        return 0;
    copy = strdup(name);
    if (copy == NULL)
        return -1;
    if (relic_keep(t, e->entry_name) != 0) {
        free(copy);
        return -1;
    }
    e->entry_name = copy;
    e->entry_type.type_name = copy;
    return 0;
}

static int learn_fields(struct pg_types *t, struct entry *e, const char *fields)
{
    struct pg_field *list;
    unsigned n = 0, i;
    const char *p;
    char *names, *spec, *to;

    if (fields == NULL)
        fields = "";
    if (e->entry_spec != NULL && strcmp(e->entry_spec, fields) == 0)
        return 0;
    if (*fields != '\0') {
        n = 1;
        for (p = fields; *p != '\0'; p++)
            n += *p == ',';
    }
    if (n > FIELDS_MAX)
        return -1;
    list = calloc(n + 1, sizeof(*list));
    names = malloc(strlen(fields) + 1);
    spec = strdup(fields);
    if (list == NULL || names == NULL || spec == NULL)
        goto bad;
    p = fields;
    to = names;
    for (i = 0; i < n; i++) {
        uint32_t oid;

        list[i].field_name = to;
        while (hex_digit(p[0]) >= 0 && hex_digit(p[1]) >= 0) {
            *to = (char)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
            if (*to++ == '\0')
                goto bad;
            p += 2;
        }
        *to++ = '\0'; /* in place of the colon */
        if (*p++ != ':' || !oid_read(&p, &oid) || *p != (i + 1 < n ? ',' : '\0'))
            goto bad;
        p++;
        list[i].field_type = reference(t, oid);
        if (list[i].field_type == NULL)
            goto bad;
    }
    if (relic_keep(t, e->entry_field_names) != 0)
        goto bad;
    e->entry_field_names = NULL;
    if (relic_keep(t, e->entry_fields) != 0)
        goto bad;
    free(e->entry_spec);
    e->entry_spec = spec;
    e->entry_field_names = names;
    e->entry_fields = list;
    e->entry_type.type_fields = list;
    e->entry_type.type_fields_n = n;
    return 0;
bad:
    free(list);
    free(names);
    free(spec);
    return -1;
}

static int relic_keep(struct pg_types *t, void *p)
{
    struct relic *r;

    if (p == NULL)
        return 0;
    r = malloc(sizeof(*r));
    if (r == NULL)
        return -1;
    r->relic_p = p;
    r->relic_next = t->types_relics;
    t->types_relics = r;
    return 0;
}

static bool oid_read(const char **p, uint32_t *oid)
{
    unsigned long v;
    char *end;

    if (**p < '0' || **p > '9')
        return false;
    errno = 0;
    v = strtoul(*p, &end, 10);
    if (errno != 0 || v == 0 || v > UINT32_MAX)
        return false;
    *p = end;
    *oid = (uint32_t)v;
    return true;
}

static bool oid_parse(const char *text, uint32_t *oid)
{
    return text != NULL && oid_read(&text, oid) && *text == '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}
