#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/pg/reader.c"

#define SPACE 64u
#define LARGEST 20000u

static struct buffers *arena;
static struct reader_space space;

/* What came out, as text: type, length, sum of the octets; '-' for a message without its body. */
static char seen[4096];

static int setup(void **state)
{
    (void)state;
    arena = buffers_new(1 << 20);
    space.space_size = SPACE;
    space.space_data = malloc(SPACE);
    return arena == NULL || space.space_data == NULL;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(buffers_used(arena), 0);
    buffers_free(&arena);
    free(space.space_data);
    return 0;
}

static void note(const struct codec_message *m)
{
    unsigned sum = 0;

    for (size_t i = 0; m->message_body != NULL && i < m->message_len; i++)
        sum = sum * 31 + m->message_body[i];
    sprintf(seen + strlen(seen), "%c%zu%s%u ", m->message_type, m->message_len, m->message_body == NULL ? "-" : ":",
            sum);
}

/* Feeds n octets as a socket would hand them out in pieces of `step`, all of one piece in one turn of the loop. */
static enum reader_rc feed(struct reader *r, const unsigned char *p, size_t n, size_t step)
{
    struct codec_message m;
    enum reader_rc rc = READER_MORE;

    seen[0] = '\0';
    for (size_t at = 0; at < n; at += step) {
        size_t piece = n - at < step ? n - at : step, taken = 0;

        while (taken < piece) {
            size_t room, now;
            unsigned char *to = reader_begin(r, &room);

            assert_true(room > 0);
            now = piece - taken < room ? piece - taken : room;
            memcpy(to, p + at + taken, now);
            reader_add(r, now);
            taken += now;
            while ((rc = reader_next(r, &m)) == READER_MESSAGE)
                note(&m);
            if (rc == READER_BAD)
                return rc;
        }
        if (reader_park(r, &m))
            note(&m);
        memset(space.space_data, 0xee, SPACE); /* somebody else's by now */
    }
    return rc;
}

static size_t message(unsigned char *to, char type, size_t body)
{
    to[0] = (unsigned char)type;
    codec_put_be32(to + 1, (uint32_t)body + 4);
    for (size_t i = 0; i < body; i++)
        to[5 + i] = (unsigned char)(i * 7 + (unsigned char)type);
    return 5 + body;
}

/* A stream with small, middling, space-sized, large and too large messages. */
static size_t stream(unsigned char *to)
{
    static const size_t bodies[] = {0, 1,    3,           20, SPACE - 6,   SPACE - 5, SPACE - 4, 500,
                                    0, 9000, LARGEST - 5, 2,  LARGEST - 4, 30000,     0,         5};
    size_t n = 0;

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        n += message(to + n, (char)('A' + i), bodies[i]);
    return n;
}

static void whole_and_split_are_the_same(void **state)
{
    unsigned char *all = malloc(1 << 18);
    size_t n = stream(all);
    char wanted[sizeof seen];
    struct reader r;

    (void)state;
    reader_init(&r, &space, arena, LARGEST);
    assert_int_equal(feed(&r, all, n, n), READER_MORE);
    strcpy(wanted, seen);
    assert_non_null(strstr(wanted, "M19996-0 N30000-0 O0:0 ")); /* too large: skipped, still in step */
    assert_non_null(strstr(wanted, "K19995:"));                 /* just not too large */
    assert_int_equal(buffers_used(arena), 0);
    for (size_t step = 1; step < 200; step++) {
        assert_int_equal(feed(&r, all, n, step), READER_MORE);
        assert_string_equal(seen, wanted);
        assert_int_equal(buffers_used(arena), 0); /* nothing is held between messages */
    }
    free(all);
}

static void every_cut_is_the_same(void **state)
{
    unsigned char all[256], *end = all;
    char wanted[sizeof seen], first[sizeof seen];
    struct reader r;
    size_t n;

    (void)state;
    end += message(end, '2', 0);
    end += message(end, 'D', 31);
    end += message(end, 'D', 90);
    end += message(end, 'C', 9);
    end += message(end, 'Z', 1);
    n = (size_t)(end - all);
    reader_init(&r, &space, arena, LARGEST);
    (void)!feed(&r, all, n, n);
    strcpy(wanted, seen);
    for (size_t cut = 0; cut <= n; cut++) {
        (void)!feed(&r, all, cut, cut > 0 ? cut : 1);
        strcpy(first, seen);
        (void)!feed(&r, all + cut, n - cut, n - cut > 0 ? n - cut : 1);
        strcat(first, seen);
        assert_string_equal(first, wanted);
    }
    reader_reset(&r);
}

static void impossible_lengths_are_refused(void **state)
{
    static const uint32_t lengths[] = {0, 1, 2, 3, 0x80000000u, 0x80000001u, 0xfffffffeu, 0xffffffffu};
    struct reader r;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        unsigned char p[24] = {'D'};

        for (size_t step = 1; step <= sizeof p; step++) {
            reader_init(&r, &space, arena, LARGEST);
            codec_put_be32(p + 1, lengths[i]);
            assert_int_equal(feed(&r, p, sizeof p, step), READER_BAD);
            assert_string_equal(seen, "");
            reader_reset(&r);
        }
    }
}

static void the_largest_length_there_is_can_be_skipped(void **state)
{
    unsigned char p[5] = {'D', 0x40, 0, 0, 0}, rest[4096];
    struct reader r;

    (void)state;
    reader_init(&r, &space, arena, LARGEST);
    assert_int_equal(feed(&r, p, 5, 5), READER_MORE);
    assert_string_equal(seen, "D1073741820-0 ");
    memset(rest, 'D', sizeof rest);
    assert_int_equal(feed(&r, rest, sizeof rest, sizeof rest), READER_MORE);
    assert_string_equal(seen, "");
    assert_int_equal(r.reader_skip, 1073741820u - sizeof rest);
    reader_reset(&r);
}

static void no_buffer_skips_the_message_and_stays_in_step(void **state)
{
    unsigned char all[1024], *end = all;
    struct buf *hog[512];
    struct reader r;
    unsigned n = 0;

    (void)state;
    end += message(end, 'D', 40);
    end += message(end, 'D', 500);
    end += message(end, 'Z', 1);
    reader_init(&r, &space, arena, LARGEST);
    while (n < 512 && (hog[n] = buf_get(arena, 1)) != NULL)
        n++;
    (void)!feed(&r, all, (size_t)(end - all), 30); /* the first is parked unfinished: dropped; the second is large */
    assert_string_equal(seen, "D40-0 D500-0 Z1:90 ");
    while (n > 0)
        buf_put(arena, &hog[--n]);
    (void)!feed(&r, all, (size_t)(end - all), 30);
    assert_null(strchr(seen, '-'));
    reader_reset(&r);
}

static void a_reset_in_the_middle_gives_the_block_back(void **state)
{
    unsigned char all[10000];
    struct reader r;

    (void)state;
    (void)message(all, 'D', 9000);
    reader_init(&r, &space, arena, LARGEST);
    (void)!feed(&r, all, 5000, 5000);
    assert_true(buffers_used(arena) > 0);
    reader_reset(&r);
    assert_int_equal(buffers_used(arena), 0);
    (void)!feed(&r, all, 40, 40);
    reader_reset(&r);
    assert_int_equal(feed(&r, all, 9005, 1000), READER_MORE); /* nothing of before is left */
    assert_int_equal(strncmp(seen, "D9000:", 6), 0);
}

static void what_is_held_comes_again_with_what_is_behind_it(void **state)
{
    unsigned char all[200];
    size_t n = message(all, 'E', 30), n2 = message(all + n, 'Z', 1), room;
    struct codec_message m = {0};
    struct reader r;
    unsigned char *to;

    (void)state;
    reader_init(&r, &space, arena, LARGEST);
    to = reader_begin(&r, &room);
    memcpy(to, all, n);
    reader_add(&r, n);
    assert_int_equal(reader_next(&r, &m), READER_MESSAGE);
    assert_true(reader_hold(&r, &m));
    assert_int_equal(reader_next(&r, &m), READER_MORE);
    assert_false(reader_park(&r, &m));
    to = reader_begin(&r, &room);
    memcpy(to, all + n, n2);
    reader_add(&r, n2);
    assert_int_equal(reader_next(&r, &m), READER_MESSAGE);
    assert_int_equal(m.message_type, 'E');
    assert_int_equal(m.message_len, 30);
    assert_false(reader_hold(&r, &m)); /* there is something behind it */
    assert_int_equal(reader_next(&r, &m), READER_MESSAGE);
    assert_int_equal(m.message_type, 'Z');
    assert_false(reader_park(&r, &m));
}

static void without_a_buffer_nothing_is_held(void **state)
{
    unsigned char all[64], *to;
    size_t n = message(all, 'E', 30), room;
    struct codec_message m = {0};
    struct buf *hog[512];
    unsigned hogs = 0;
    struct reader r;

    (void)state;
    reader_init(&r, &space, arena, LARGEST);
    while (hogs < 512 && (hog[hogs] = buf_get(arena, 1)) != NULL)
        hogs++;
    to = reader_begin(&r, &room);
    memcpy(to, all, n);
    reader_add(&r, n);
    assert_int_equal(reader_next(&r, &m), READER_MESSAGE);
    assert_false(reader_hold(&r, &m));
    assert_false(reader_park(&r, &m));
    while (hogs > 0)
        buf_put(arena, &hog[--hogs]);
}

static void what_fills_the_space_is_not_held(void **state)
{
    unsigned char all[10000], *to;
    struct codec_message m = {0};
    struct reader r;
    size_t room;

    (void)state;
    for (unsigned large = 0; large < 2; large++) {
        size_t n = message(all, 'E', large ? 9000 : SPACE - 5), at = 0;

        reader_init(&r, &space, arena, LARGEST);
        while (at < n) {
            to = reader_begin(&r, &room);
            room = room < n - at ? room : n - at;
            memcpy(to, all + at, room);
            reader_add(&r, room);
            at += room;
            assert_int_equal(reader_next(&r, &m), at < n ? READER_MORE : READER_MESSAGE);
        }
        assert_false(reader_hold(&r, &m));
        assert_false(reader_park(&r, &m));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_and_split_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(every_cut_is_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(impossible_lengths_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_largest_length_there_is_can_be_skipped, setup, teardown),
        cmocka_unit_test_setup_teardown(no_buffer_skips_the_message_and_stays_in_step, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reset_in_the_middle_gives_the_block_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_held_comes_again_with_what_is_behind_it, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_buffer_nothing_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fills_the_space_is_not_held, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
