/* The PROXY protocol's header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "worker/http/proxy.c"

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define V4_ADDRESSES "\xcb\x00\x71\x07\xc0\x00\x02\x01\xc7\x38\x00\x50"

/* What comes of the octets, the same however many of them are there at first. */
static enum proxy_result parse(const char *octets, size_t n, struct proxy_header *header)
{
    enum proxy_result whole = proxy_parse(octets, n, header), part;
    struct proxy_header h;

    for (size_t cut = 0; cut < n; cut++) {
        part = proxy_parse(octets, cut, &h);
        if (part == PROXY_MORE)
            continue;
        if (part != whole || (part == PROXY_DONE && (h.proxy_len != header->proxy_len || h.proxy_len > cut)))
            fail_msg("%zu of %zu octets: %d, not %d: %.60s", cut, n, part, whole, octets);
    }
    return whole;
}

static void assert_address(const struct proxy_header *h, const char *want)
{
    char text[INET6_ADDRSTRLEN];

    assert_true(h->proxy_has_address);
    assert_non_null(inet_ntop(AF_INET6, &h->proxy_address, text, sizeof text));
    assert_string_equal(text, want);
}

#define BAD(s)                                                      \
    do {                                                            \
        struct proxy_header bad;                                    \
        assert_int_equal(parse(s, sizeof(s) - 1, &bad), PROXY_BAD); \
    } while (0)

static void test_v1(void **state)
{
    static const char v4[] = "PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\nGET / ",
                      v6[] = "PROXY TCP6 2001:db8::7 ::1 0 65535\r\n", unknown[] = "PROXY UNKNOWN\r\n",
                      more[] = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n";
    struct proxy_header h;

    (void)state;
    assert_int_equal(parse(v4, sizeof v4 - 1, &h), PROXY_DONE);
    assert_int_equal(h.proxy_len, sizeof v4 - 1 - 6);
    assert_address(&h, "::ffff:203.0.113.7");
    assert_int_equal(parse(v6, sizeof v6 - 1, &h), PROXY_DONE);
    assert_address(&h, "2001:db8::7");
    assert_int_equal(parse(unknown, sizeof unknown - 1, &h), PROXY_DONE);
    assert_false(h.proxy_has_address);
    assert_int_equal(parse(more, sizeof more - 1, &h), PROXY_DONE);
    assert_false(h.proxy_has_address);
    assert_int_equal(parse(v4, 10, &h), PROXY_MORE);
}

static void test_v1_refused(void **state)
{
    char line[256] = "PROXY UNKNOWN ";
    struct proxy_header h;

    (void)state;
    BAD("PROXY\tTCP4 1.2.3.4 1.2.3.4 1 1\r\n");
    BAD("PROXX");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n");
    BAD("PROXY TCP4 1.2.3.4  1.2.3.4 1 1\r\n");
    BAD("PROXY  TCP4 1.2.3.4 1.2.3.4 1 1\r\n");
    BAD("PROXY TCP4 1.2.3 1.2.3.4 1 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 ::1 1 1\r\n");
    BAD("PROXY TCP4 01.2.3.4 1.2.3.4 1 1\r\n");
    BAD("PROXY TCP6 1.2.3.4 ::1 1 1\r\n");
    BAD("PROXY TCP6 ::1 ::g 1 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 -1 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n");
    BAD("PROXY TCP4 1.2.3.4 1.2.3.4 1 100000\r\n");
    BAD("PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n");
    BAD("PROXY \r\n");
    BAD("PROXY UNKNOWN \0\r\n");
    memset(line + 14, 'x', 200);
    memcpy(line + PROXY_V1_MAX - 2, "\r\n", 2);
    assert_int_equal(parse(line, PROXY_V1_MAX, &h), PROXY_DONE);
    memset(line + 14, 'x', 200);
    memcpy(line + PROXY_V1_MAX - 1, "\r\n", 2);
    assert_int_equal(parse(line, PROXY_V1_MAX + 1, &h), PROXY_BAD);
}

static void test_v2(void **state)
{
    static const char v4[] = V2 "\x21\x11\0\x0c" V4_ADDRESSES "GET ", local[] = V2 "\x20\0\0\x03xyz",
                      unix_[] = V2 "\x21\x31\0\xd8", unspec[] = V2 "\x21\0\0\0",
                      tlv[] = V2 "\x21\x11\0\x13" V4_ADDRESSES "\x04\0\x01_\x30\0\0";
    char v6[16 + 36] = V2 "\x21\x21\0\x24", large[16 + 216] = "";
    struct proxy_header h;

    (void)state;
    assert_int_equal(parse(v4, sizeof v4 - 1, &h), PROXY_DONE);
    assert_int_equal(h.proxy_len, 28);
    assert_address(&h, "::ffff:203.0.113.7");
    v6[16] = 0x20;
    v6[17] = 0x01;
    v6[31] = 9;
    assert_int_equal(parse(v6, sizeof v6, &h), PROXY_DONE);
    assert_address(&h, "2001::9");
    assert_int_equal(parse(local, sizeof local - 1, &h), PROXY_DONE);
    assert_int_equal(h.proxy_len, 19);
    assert_false(h.proxy_has_address);
    memcpy(large, unix_, sizeof unix_ - 1);
    assert_int_equal(parse(large, sizeof large, &h), PROXY_DONE);
    assert_false(h.proxy_has_address);
    assert_int_equal(parse(unspec, sizeof unspec - 1, &h), PROXY_DONE);
    assert_int_equal(parse(tlv, sizeof tlv - 1, &h), PROXY_DONE);
    assert_address(&h, "::ffff:203.0.113.7");
}

static void test_v2_refused(void **state)
{
    (void)state;
    BAD("\r\n\r\n\1");
    BAD("\r\n\r\n\0\r\nQUIT\r");
    BAD(V2 "\x11\x11\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x22\x11\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x21\x41\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x21\x13\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x21\x12\0\x0c" V4_ADDRESSES); /* datagrams */
    BAD(V2 "\x21\x10\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x21\x11\0\x0b" V4_ADDRESSES);
    BAD(V2 "\x21\x21\0\x0c" V4_ADDRESSES);
    BAD(V2 "\x21\x11\x08\x01" V4_ADDRESSES);
    BAD(V2 "\x21\x11\0\x0e" V4_ADDRESSES "\x04\0");
    BAD(V2 "\x21\x11\0\x10" V4_ADDRESSES "\x04\0\x02x");
}

static void test_v2_checksum(void **state)
{
    char header[] = V2 "\x21\x11\0\x13" V4_ADDRESSES "\x03\0\x04\0\0\0\0";
    size_t n = sizeof header - 1;
    struct proxy_header h;
    uint32_t sum;

    (void)state;
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9, 100), 0xe3069283u);
    sum = crc32c((const unsigned char *)header, n, n - 4);
    for (unsigned i = 0; i < 4; i++)
        header[n - 4 + i] = (char)(sum >> (24 - 8 * i));
    assert_int_equal(parse(header, n, &h), PROXY_DONE);
    header[20] ^= 1;
    assert_int_equal(parse(header, n, &h), PROXY_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1),         cmocka_unit_test(test_v1_refused),  cmocka_unit_test(test_v2),
        cmocka_unit_test(test_v2_refused), cmocka_unit_test(test_v2_checksum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
