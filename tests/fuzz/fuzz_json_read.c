/* The JSON reader: whatever it accepts can be walked, and its two entrances agree. */
#include <stdint.h>
#include <stdlib.h>

#include "worker/json/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unescapes a string; returns whether a NUL is in it. */
static bool walk_string(struct slice s)
{
    const char *p = s.slice_p, *end = p + s.slice_len;
    bool nul = false;
    char scratch[4];
    struct slice run;
    size_t total = 0;

    while ((run = json_string_next(&p, end, scratch)).slice_len > 0) {
        total += run.slice_len;
        nul = nul || memchr(run.slice_p, '\0', run.slice_len) != NULL;
        AN(p <= end);
    }
    AN(p == end && total <= s.slice_len);
    return nul;
}

static void walk_array(struct slice array, unsigned depth)
{
    struct slice value;
    enum json_kind kind, again;
    size_t at = 0;

    AN(depth <= 64);
    while (json_array_next(array, &at, &value, &kind)) {
        AN(value.slice_p > array.slice_p && value.slice_p + value.slice_len < array.slice_p + array.slice_len);
        if (kind == JSON_STRING) {
            walk_string(value);
            continue;
        }
        AZ(json_check(value, &again, NULL));
        AN(again == kind);
        if (kind == JSON_ARRAY)
            walk_array(value, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice doc = {(const char *)data, size};
    struct json_member members[] = {{.member_name = "a", .member_name_len = 1},
                                    {.member_name = "", .member_name_len = 0},
                                    {.member_name = "\xc3\xbc\"\\", .member_name_len = 4}};
    enum json_kind kind = JSON_ABSENT;
    bool nul = false;
    const char *why = json_check(doc, &kind, &nul), *why_object = json_read_object(doc, members, 3);
    unsigned i;

    if (why != NULL) {
        AN(why_object);
        return 0;
    }
    AN(kind != JSON_ABSENT);
    if (kind != JSON_OBJECT) {
        AN(why_object);
        if (kind == JSON_ARRAY) {
            while (*doc.slice_p != '[') {
                doc.slice_p++;
                doc.slice_len--;
            }
            while (doc.slice_p[doc.slice_len - 1] != ']')
                doc.slice_len--;
            walk_array(doc, 1);
        }
        return 0;
    }
    for (i = 0; i < 3 && why_object == NULL; i++) {
        const struct json_member *m = &members[i];
        bool escape = false;

        if (m->member_kind == JSON_ABSENT)
            continue;
        AN(m->member_value.slice_p > doc.slice_p &&
           m->member_value.slice_p + m->member_value.slice_len < doc.slice_p + doc.slice_len);
        AN(nul || !m->member_has_nul);
        if (m->member_kind == JSON_STRING) {
            escape = memchr(m->member_value.slice_p, '\\', m->member_value.slice_len) != NULL;
            AN(walk_string(m->member_value) == m->member_has_nul);
        } else {
            enum json_kind again;
            bool again_nul;

            AZ(json_check(m->member_value, &again, &again_nul));
            AN(again == m->member_kind && again_nul == m->member_has_nul);
        }
        AN(escape == m->member_has_escape);
        if (m->member_kind == JSON_ARRAY)
            walk_array(m->member_value, 1);
    }
    return 0;
}
