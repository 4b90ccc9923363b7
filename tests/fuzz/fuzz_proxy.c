/* The PROXY header: the same result however it is cut, and never more taken than was there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/http/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_header whole, part;
    enum proxy_result result;
    char *octets;

    if (size > 4096)
        size = 4096;
    octets = malloc(size != 0 ? size : 1); /* of that very size: a sanitizer sees a read behind it */
    AN(octets != NULL);
    if (size != 0)
        memcpy(octets, data, size);
    result = proxy_parse(octets, size, &whole);
    free(octets);
    AN(result == PROXY_MORE || result == PROXY_DONE || result == PROXY_BAD);
    if (result == PROXY_DONE)
        AN(whole.proxy_len <= size && whole.proxy_len >= 15);
    if (result == PROXY_MORE)
        AN(size < 16 + PROXY_V2_MAX);
    for (size_t cut = 0; cut < size; cut += 1 + cut / 32) {
        enum proxy_result early;

        octets = malloc(cut != 0 ? cut : 1);
        AN(octets != NULL);
        if (cut != 0)
            memcpy(octets, data, cut);
        early = proxy_parse(octets, cut, &part);
        free(octets);
        if (early == PROXY_MORE)
            continue;
        AN(early == result);
        if (early == PROXY_DONE)
            AN(part.proxy_len == whole.proxy_len && part.proxy_has_address == whole.proxy_has_address &&
               memcmp(&part.proxy_address, &whole.proxy_address, sizeof(part.proxy_address)) == 0);
        break;
    }
    return 0;
}
