/* Text on its way to whoever takes it, in pieces of a few hundred octets; nothing is allocated. */
#ifndef VANILLA_SHM_SINK_H
#define VANILLA_SHM_SINK_H

#include <stddef.h>
#include <stdint.h>

struct sink {
    void (*sink_write)(void *arg, const char *p, size_t n);
    void *sink_arg;
    size_t sink_len;
    char sink_text[1024];
};

void sink_open(struct sink *k, void (*write)(void *arg, const char *p, size_t n), void *arg);
/* Hands over what is left. */
void sink_close(struct sink *k);

void sink_octets(struct sink *k, const char *p, size_t n);
void sink_string(struct sink *k, const char *s);
/* Several strings, up to a NULL. */
void sink_strings(struct sink *k, ...) __attribute__((sentinel));
void sink_number(struct sink *k, uint64_t v);
void sink_signed(struct sink *k, int64_t v);
/* v / 10^decimals with that many decimals, 1 to 9: sink_fixed(k, 1500, 3) is "1.500". */
void sink_fixed(struct sink *k, uint64_t v, unsigned decimals);

/* The inside of a JSON string (RFC 8259, section 7), of a Prometheus label's value, of a Prometheus HELP line.  Octets
 * that are not UTF-8 become U+FFFD. */
void sink_json(struct sink *k, const char *s);
void sink_label(struct sink *k, const char *s);
void sink_help(struct sink *k, const char *s);

#endif
