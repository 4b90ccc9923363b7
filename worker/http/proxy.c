#include "worker/http/proxy.h"

#include <arpa/inet.h>
#include <string.h>

#define V2_FIXED 16u
#define V2_CRC32C 3u /* PP2_TYPE_CRC32C */

static const char v2_signature[12] = {'\r', '\n', '\r', '\n', '\0', '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
static const char v1_signature[6] = {'P', 'R', 'O', 'X', 'Y', ' '};

static enum proxy_result v1_parse(const char *octets, size_t n, struct proxy_header *header);
static bool v1_addresses(const char *at, const char *end, struct proxy_header *header);
static bool v1_word(const char **at, const char *end, char *word, size_t size);
static bool v1_port(const char *word);
static enum proxy_result v2_parse(const char *octets, size_t n, struct proxy_header *header);
static bool v2_extensions(const unsigned char *header, size_t at, size_t end);
static uint32_t crc32c(const unsigned char *p, size_t n, size_t hole);
static bool begins(const char *octets, size_t n, const char *signature, size_t len);

enum proxy_result proxy_parse(const char *octets, size_t n, struct proxy_header *header)
{
    memset(header, 0, sizeof(*header));
    if (n == 0)
        return PROXY_MORE;
    if (begins(octets, n, v1_signature, sizeof(v1_signature)))
        return n < sizeof(v1_signature) ? PROXY_MORE : v1_parse(octets, n, header);
    if (begins(octets, n, v2_signature, sizeof(v2_signature)))
        return v2_parse(octets, n, header);
    return PROXY_BAD;
}

static bool begins(const char *octets, size_t n, const char *signature, size_t len)
{
    return memcmp(octets, signature, n < len ? n : len) == 0;
}

/* --- version 1: a line --- */

static enum proxy_result v1_parse(const char *octets, size_t n, struct proxy_header *header)
{
    size_t max = n < PROXY_V1_MAX ? n : PROXY_V1_MAX, len;
    const char *end = memchr(octets, '\r', max);

    for (len = 0; len < (end != NULL ? (size_t)(end - octets) : max); len++)
        if (octets[len] < ' ' || octets[len] > '~')
            return PROXY_BAD;
    if (end == NULL)
        return max < PROXY_V1_MAX ? PROXY_MORE : PROXY_BAD;
    if (len + 1 == n)
        return len + 1 < PROXY_V1_MAX ? PROXY_MORE : PROXY_BAD;
    if (end[1] != '\n' || len + 2 > PROXY_V1_MAX)
        return PROXY_BAD;
    header->proxy_len = (uint32_t)len + 2;
    return v1_addresses(octets + sizeof(v1_signature), end, header) ? PROXY_DONE : PROXY_BAD;
}

/* "TCP4 192.0.2.1 192.0.2.2 51000 443", "TCP6 ...", or "UNKNOWN" with anything behind it. */
static bool v1_addresses(const char *at, const char *end, struct proxy_header *header)
{
    char family[8], source[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN], from[8], to[8];
    struct in6_addr other;
    bool v4;

    if (!v1_word(&at, end, family, sizeof(family)))
        return false;
    if (strcmp(family, "UNKNOWN") == 0)
        return true;
    v4 = strcmp(family, "TCP4") == 0;
    if (!v4 && strcmp(family, "TCP6") != 0)
        return false;
    if (!v1_word(&at, end, source, sizeof(source)) || !v1_word(&at, end, target, sizeof(target)) ||
        !v1_word(&at, end, from, sizeof(from)) || !v1_word(&at, end, to, sizeof(to)) || at != end + 1 ||
        !v1_port(from) || !v1_port(to))
        return false;
    header->proxy_has_address = true;
    if (v4) {
        header->proxy_address.s6_addr[10] = header->proxy_address.s6_addr[11] = 0xff;
        return inet_pton(AF_INET, source, header->proxy_address.s6_addr + 12) == 1 &&
               inet_pton(AF_INET, target, &other) == 1;
    }
    return inet_pton(AF_INET6, source, &header->proxy_address) == 1 && inet_pton(AF_INET6, target, &other) == 1;
}

/* The word at *at, up to one space or the end; *at is behind that space then (end + 1 behind the last word). */
static bool v1_word(const char **at, const char *end, char *word, size_t size)
{
    const char *space;
    size_t len;

    if (*at >= end)
        return false;
    space = memchr(*at, ' ', (size_t)(end - *at));
    len = (size_t)((space != NULL ? space : end) - *at);
    if (len == 0 || len >= size)
        return false;
    memcpy(word, *at, len);
    word[len] = '\0';
    *at += len + 1;
    return true;
}

/* 0..65535 without leading zeros. */
static bool v1_port(const char *word)
{
    unsigned port = 0;
    const char *p;

    for (p = word; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || p - word > 4)
            return false;
        port = port * 10 + (unsigned)(*p - '0');
    }
    return port <= 65535 && (word[0] != '0' || word[1] == '\0');
}

/* --- version 2: octets --- */

static enum proxy_result v2_parse(const char *octets, size_t n, struct proxy_header *header)
{
    static const uint8_t lengths[] = {0, 12, 36, 216}; /* of the addresses: unspecified, IPv4, IPv6, unix */
    const unsigned char *p = (const unsigned char *)octets;
    unsigned command, family, transport;
    size_t len;

    /* As soon as they are there, so that it does not matter how much comes at once. */
    if (n > 12 && (p[12] >> 4 != 2 || (p[12] & 0xf) > 1))
        return PROXY_BAD;
    if (n > 13 && (p[13] >> 4 > 3 || (p[13] & 0xf) > 2))
        return PROXY_BAD;
    if (n < V2_FIXED)
        return PROXY_MORE;
    len = (size_t)p[14] << 8 | p[15];
    if (len > PROXY_V2_MAX)
        return PROXY_BAD;
    if (n < V2_FIXED + len)
        return PROXY_MORE;
    command = p[12] & 0xf;
    family = p[13] >> 4;
    transport = p[13] & 0xf;
    header->proxy_len = (uint32_t)(V2_FIXED + len);
    if (command == 0) /* LOCAL: what follows is not to be looked at */
        return PROXY_DONE;
    if (transport != (family == 0 ? 0 : 1) || len < lengths[family]) /* a stream is what we have */
        return PROXY_BAD;
    if (family == 1) {
        header->proxy_has_address = true;
        header->proxy_address.s6_addr[10] = header->proxy_address.s6_addr[11] = 0xff;
        memcpy(header->proxy_address.s6_addr + 12, p + V2_FIXED, 4);
    } else if (family == 2) {
        header->proxy_has_address = true;
        memcpy(&header->proxy_address, p + V2_FIXED, 16);
    }
    if (family == 0) /* unspecified: neither addresses nor a reason to look for extensions */
        return PROXY_DONE;
    return v2_extensions(p, V2_FIXED + lengths[family], V2_FIXED + len) ? PROXY_DONE : PROXY_BAD;
}

/* Type, length, value, up to the end; a checksum among them must be right. */
static bool v2_extensions(const unsigned char *header, size_t at, size_t end)
{
    while (at < end) {
        size_t len;

        if (end - at < 3)
            return false;
        len = (size_t)header[at + 1] << 8 | header[at + 2];
        if (len > end - at - 3)
            return false;
        if (header[at] == V2_CRC32C) {
            const unsigned char *sum = header + at + 3;

            if (len != 4 || crc32c(header, end, at + 3) != ((uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 |
                                                            (uint32_t)sum[2] << 8 | (uint32_t)sum[3]))
                return false;
        }
        at += 3 + len;
    }
    return true;
}

/* CRC-32C of n octets, in which the four at `hole` count as zeros (RFC 4960, appendix B). */
static uint32_t crc32c(const unsigned char *p, size_t n, size_t hole)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= i - hole < 4 ? 0u : p[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1u)));
    }
    return ~crc;
}
