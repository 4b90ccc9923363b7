/* A main for fuzz targets without libFuzzer: runs the target on every file given.  Linked with one fuzz_*.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
            perror(argv[i]);
            return 1;
        }
        long size = ftell(f);
        if (size < 0 || fseek(f, 0, SEEK_SET) != 0) {
            perror(argv[i]);
            return 1;
        }
        uint8_t *data = malloc(size != 0 ? (size_t)size : 1);
        if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size) {
            fprintf(stderr, "%s: cannot read\n", argv[i]);
            return 1;
        }
        fclose(f);
        (void)LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
    }
    return 0;
}
