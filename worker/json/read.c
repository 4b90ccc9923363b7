#include "worker/json/read.h"

#include <stdint.h>

#include "worker/json/names.h"
#include "worker/json/scan.h"

#define DEPTH_MAX 64u
struct reader {
    const char *reader_p, *reader_end;
    uint64_t reader_objects;   /* bit d: what is open at depth d + 1 is an object */
    unsigned reader_depth;     /* how many arrays and objects are open */
    bool reader_escape;        /* of the last string: it has a backslash */
    bool reader_nul;           /* \u0000 was seen since this was cleared */
    const char *reader_string; /* the last string's content */
    size_t reader_string_len;
    struct json_member *reader_members; /* NULL: nothing is looked for */
    unsigned reader_members_n;
    struct json_names *reader_names;
    struct json_member *reader_member; /* whose value is being read; NULL: nobody's */
    const char *reader_value;          /* where it begins */
};

static const char *read_document(struct reader *r, enum json_kind *top);
static const char *read_name(struct reader *r);
static const char *read_string(struct reader *r);
static const char *read_escape(struct reader *r);
static const char *read_number(struct reader *r);
static const char *read_word(struct reader *r, const char *word, size_t len);
static void read_space(struct reader *r);
static uint32_t hex4(const char *p);
static enum json_kind kind_of(char c);
static void value_set(struct json_member *m, enum json_kind kind, const char *from, const char *to);

static const char why_empty[] = "is not JSON: it is empty";
static const char why_end[] = "is not JSON: it ends too early";
static const char why_value[] = "is not JSON: a value is missing or is none";
static const char why_number[] = "is not JSON: a number is malformed";

const char *json_check(struct slice doc, enum json_kind *kind, bool *has_nul)
{
    struct reader r = {.reader_p = doc.slice_p,
                       .reader_end = doc.slice_len > 0 ? doc.slice_p + doc.slice_len : doc.slice_p};
    enum json_kind k = JSON_ABSENT;
    const char *why = read_document(&r, &k);

    if (kind != NULL)
        *kind = k;
    if (has_nul != NULL)
        *has_nul = r.reader_nul;
    return why;
}

const char *json_read_object(struct slice doc, struct json_member *members, unsigned n)
{
    struct json_names names;
    struct reader r = {.reader_p = doc.slice_p,
                       .reader_end = doc.slice_len > 0 ? doc.slice_p + doc.slice_len : doc.slice_p,
                       .reader_members = members,
                       .reader_members_n = n,
                       .reader_names = &names};
    enum json_kind kind = JSON_ABSENT;
    const char *why;
    unsigned i;

    json_names_init(&names);
    for (i = 0; i < n; i++) {
        members[i].member_value = (struct slice){NULL, 0};
        members[i].member_kind = JSON_ABSENT;
        members[i].member_has_escape = members[i].member_has_nul = members[i].member_twice = false;
    }
    why = read_document(&r, &kind);
    if (why == NULL && kind != JSON_OBJECT)
        why = "is not a JSON object";
    return why;
}

/* RFC 8259, without recursion: a bit per level says what is open there. */
static const char *read_document(struct reader *r, enum json_kind *top)
{
    const char *why;
    bool first;

    if (r->reader_p == r->reader_end)
        return why_empty;
    if (r->reader_end - r->reader_p >= 3 && memcmp(r->reader_p, "\xef\xbb\xbf", 3) == 0)
        return "is not JSON: it begins with a byte order mark";
    read_space(r);
    if (r->reader_p == r->reader_end)
        return why_empty;
    *top = kind_of(*r->reader_p);
    if (*top != JSON_OBJECT)
        r->reader_names = NULL;

value:
    if (r->reader_p == r->reader_end)
        return why_end;
    if (r->reader_member != NULL && r->reader_depth == 1) {
        r->reader_value = r->reader_p;
        r->reader_nul = false;
    }
    switch (*r->reader_p) {
    case '{':
    case '[':
        if (r->reader_depth == DEPTH_MAX)
            return "is not accepted: JSON nested deeper than 64";
        r->reader_objects &= ~(1ull << r->reader_depth);
        r->reader_objects |= (uint64_t)(*r->reader_p == '{') << r->reader_depth;
        r->reader_depth++;
        r->reader_p++;
        first = true;
        goto next;
    case '"':
        why = read_string(r);
        break;
    case 't':
        why = read_word(r, "true", 4);
        break;
    case 'f':
        why = read_word(r, "false", 5);
        break;
    case 'n':
        why = read_word(r, "null", 4);
        break;
    default:
        why = read_number(r);
        break;
    }
    if (why != NULL)
        return why;

after:
    if (r->reader_member != NULL && r->reader_depth == 1) {
        struct json_member *m = r->reader_member;

        value_set(m, kind_of(*r->reader_value), r->reader_value, r->reader_p);
        m->member_has_escape = m->member_kind == JSON_STRING && r->reader_escape;
        m->member_has_nul = r->reader_nul;
        r->reader_member = NULL;
    }
    first = false;
    if (r->reader_depth == 0) {
        read_space(r);
        return r->reader_p == r->reader_end ? NULL : "is not JSON: something follows the value";
    }

next: /* the next member or element of what is open, or its end */
    read_space(r);
    if (r->reader_p == r->reader_end)
        return why_end;
    if (r->reader_objects >> (r->reader_depth - 1) & 1) {
        if (*r->reader_p == '}')
            goto close;
        if (!first) {
            if (*r->reader_p != ',')
                return "is not JSON: a comma or } is missing";
            r->reader_p++;
            read_space(r);
        }
        why = read_name(r);
        if (why != NULL)
            return why;
        goto value;
    }
    if (*r->reader_p == ']')
        goto close;
    if (!first) {
        if (*r->reader_p != ',')
            return "is not JSON: a comma or ] is missing";
        r->reader_p++;
        read_space(r);
    }
    goto value;

close:
    r->reader_p++;
    r->reader_depth--;
    goto after;
}

/* A name and its colon; at the top level, also whose it is. */
static const char *read_name(struct reader *r)
{
    const char *why, *name;
    bool has_escape;
    size_t len;
    unsigned i;

    if (r->reader_p == r->reader_end)
        return why_end;
    if (*r->reader_p != '"')
        return "is not JSON: a name in quotes is missing";
    why = read_string(r);
    if (why != NULL)
        return why;
    name = r->reader_string;
    len = r->reader_string_len;
    has_escape = r->reader_escape;
    read_space(r);
    if (r->reader_p == r->reader_end)
        return why_end;
    if (*r->reader_p != ':')
        return "is not JSON: a colon is missing";
    r->reader_p++;
    read_space(r);
    if (r->reader_depth > 1 || r->reader_names == NULL)
        return NULL;
    for (i = 0; i < r->reader_members_n; i++) {
        struct json_member *m = &r->reader_members[i];

        if (json_name_eq(name, len, has_escape, m->member_name, m->member_name_len)) {
            r->reader_member = m;
            break;
        }
    }
    why = json_names_add(r->reader_names, name, len, has_escape);
    if (why != NULL && r->reader_member != NULL && r->reader_member->member_kind != JSON_ABSENT)
        r->reader_member->member_twice = true;
    return why;
}

static const char *read_string(struct reader *r)
{
    const char *p = r->reader_p + 1, *end = r->reader_end, *why;

    r->reader_string = p;
    r->reader_escape = false;
    for (;;) {
        p += scan_clean(p, (size_t)(end - p));
        if (p == end)
            return why_end;
        if (*p == '"')
            break;
        if (*p != '\\')
            return (unsigned char)*p < 0x20 ? "is not JSON: a control character in a string" : "is not valid UTF-8";
        r->reader_escape = true;
        r->reader_p = p;
        why = read_escape(r);
        if (why != NULL)
            return why;
        p = r->reader_p;
    }
    r->reader_string_len = (size_t)(p - r->reader_string);
    r->reader_p = p + 1;
    return NULL;
}

/* One escape at reader_p, a pair of surrogates as one. */
static const char *read_escape(struct reader *r)
{
    const char *p = r->reader_p + 1;
    size_t left = (size_t)(r->reader_end - p);
    uint32_t c, low;

    if (left == 0)
        return why_end;
    r->reader_p = p + 1;
    switch (*p) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return NULL;
    case 'u':
        break;
    default:
        return "is not JSON: an unknown escape in a string";
    }
    if (left < 5)
        return why_end;
    c = hex4(p + 1);
    if (c > 0xffff)
        return "is not JSON: \\u without four hexadecimal digits";
    r->reader_p = p + 5;
    if (c == 0)
        r->reader_nul = true;
    if (c < 0xd800 || c > 0xdfff)
        return NULL;
    if (c > 0xdbff || left < 11 || p[5] != '\\' || p[6] != 'u')
        return "is not JSON: a lone surrogate in a string";
    low = hex4(p + 7);
    if (low < 0xdc00 || low > 0xdfff)
        return "is not JSON: a lone surrogate in a string";
    r->reader_p = p + 11;
    return NULL;
}

static const char *read_number(struct reader *r)
{
    const char *p = r->reader_p, *end = r->reader_end;

    if (*p != '-' && (*p < '0' || *p > '9'))
        return why_value;
    if (*p == '-')
        p++;
    if (p == end || *p < '0' || *p > '9')
        return why_number;
    if (*p == '0')
        p++;
    else
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    if (p < end && *p == '.') {
        p++;
        if (p == end || *p < '0' || *p > '9')
            return why_number;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || *p < '0' || *p > '9')
            return why_number;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
    }
    if (p < end && ((*p >= '0' && *p <= '9') || *p == '.' || *p == '+' || *p == '-'))
        return why_number;
    r->reader_p = p;
    return NULL;
}

static const char *read_word(struct reader *r, const char *word, size_t len)
{
    if ((size_t)(r->reader_end - r->reader_p) < len || memcmp(r->reader_p, word, len) != 0)
        return why_value;
    r->reader_p += len;
    return NULL;
}

static void read_space(struct reader *r)
{
    const char *p = r->reader_p;

    while (p < r->reader_end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    r->reader_p = p;
}

struct slice json_string_next(const char **at, const char *end, char scratch[4])
{
    const char *p = *at, *backslash;
    struct slice run = {p, 0};
    uint32_t c;

    if (p == end)
        return run;
    if (*p != '\\') {
        backslash = memchr(p, '\\', (size_t)(end - p));
        *at = backslash != NULL ? backslash : end;
        run.slice_len = (size_t)(*at - p);
        return run;
    }
    run.slice_p = scratch;
    run.slice_len = 1;
    *at = p + 2;
    switch (p[1]) {
    case 'b':
        scratch[0] = '\b';
        return run;
    case 'f':
        scratch[0] = '\f';
        return run;
    case 'n':
        scratch[0] = '\n';
        return run;
    case 'r':
        scratch[0] = '\r';
        return run;
    case 't':
        scratch[0] = '\t';
        return run;
    case 'u':
        break;
    default:
        scratch[0] = p[1];
        return run;
    }
    c = hex4(p + 2);
    *at = p + 6;
    if (c >= 0xd800 && c <= 0xdbff) { /* the string was checked: its low half follows */
        c = 0x10000 + ((c - 0xd800) << 10) + (hex4(p + 8) - 0xdc00);
        *at = p + 12;
        scratch[0] = (char)(0xf0 | c >> 18);
        scratch[1] = (char)(0x80 | (c >> 12 & 0x3f));
        scratch[2] = (char)(0x80 | (c >> 6 & 0x3f));
        scratch[3] = (char)(0x80 | (c & 0x3f));
        run.slice_len = 4;
    } else if (c >= 0x800) {
        scratch[0] = (char)(0xe0 | c >> 12);
        scratch[1] = (char)(0x80 | (c >> 6 & 0x3f));
        scratch[2] = (char)(0x80 | (c & 0x3f));
        run.slice_len = 3;
    } else if (c >= 0x80) {
        scratch[0] = (char)(0xc0 | c >> 6);
        scratch[1] = (char)(0x80 | (c & 0x3f));
        run.slice_len = 2;
    } else {
        scratch[0] = (char)c;
    }
    return run;
}

bool json_array_next(struct slice array, size_t *at, struct slice *value, enum json_kind *kind)
{
    const char *p = array.slice_p + (*at == 0 ? 1 : *at), *end = array.slice_p + array.slice_len - 1; /* its bracket */
    struct json_member m;
    const char *from;
    unsigned depth = 0;

    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t' || *p == ','))
        p++;
    if (p >= end)
        return false;
    from = p;
    for (; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                if (*p == '\\')
                    p++;
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if (*p == ']' || *p == '}') {
            depth--;
        } else if (depth == 0 && (*p == ',' || *p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
            break;
        }
    }
    *at = (size_t)(p - array.slice_p);
    value_set(&m, kind_of(*from), from, p);
    *value = m.member_value;
    *kind = m.member_kind;
    return true;
}

/* Four hexadecimal digits; above 0xffff when they are none. */
static uint32_t hex4(const char *p)
{
    uint32_t v = 0;
    unsigned i;

    for (i = 0; i < 4; i++) {
        char c = p[i];

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return UINT32_MAX;
    }
    return v;
}

/* By its first octet. */
static enum json_kind kind_of(char c)
{
    switch (c) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

static void value_set(struct json_member *m, enum json_kind kind, const char *from, const char *to)
{
    bool string = kind == JSON_STRING;

    m->member_kind = kind;
    m->member_value.slice_p = from + string;
    m->member_value.slice_len = (size_t)(to - from) - 2 * (size_t)string;
}
