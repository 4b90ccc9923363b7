#include "worker/http/octet.h"

#define T OCTET_TOKEN
#define P OCTET_PATH
#define Q OCTET_QUERY
#define R OCTET_REG_NAME
#define X OCTET_HEX

/* Paths hold what RFC 3986 allows and nothing else.  Queries may also hold [ ] { } | ^ ` \ : browsers send them
 * unescaped (WHATWG URL, "query percent-encode set"), people write ?filter[name]=x, and a query is opaque to framing
 * and to routing. */
const uint8_t octet_classes[256] = {
    ['0' ... '9'] = T | P | Q | R | X | OCTET_DIGIT,
    ['A' ... 'F'] = T | P | Q | R | X,
    ['G' ... 'Z'] = T | P | Q | R,
    ['a' ... 'f'] = T | P | Q | R | X,
    ['g' ... 'z'] = T | P | Q | R,
    ['-'] = T | P | Q | R,
    ['.'] = T | P | Q | R,
    ['_'] = T | P | Q | R,
    ['~'] = T | P | Q | R,
    ['!'] = T | P | Q | R,
    ['$'] = T | P | Q | R,
    ['&'] = T | P | Q | R,
    ['\''] = T | P | Q | R,
    ['*'] = T | P | Q | R,
    ['+'] = T | P | Q | R,
    ['('] = P | Q | R,
    [')'] = P | Q | R,
    [','] = P | Q | R,
    [';'] = P | Q | R,
    ['='] = P | Q | R,
    ['%'] = T | P | Q,
    [':'] = P | Q,
    ['@'] = P | Q,
    ['/'] = P | Q,
    ['?'] = Q,
    ['#'] = T,
    ['^'] = T | Q,
    ['`'] = T | Q,
    ['|'] = T | Q,
    ['['] = Q,
    [']'] = Q,
    ['{'] = Q,
    ['}'] = Q,
    ['\\'] = Q,
};
