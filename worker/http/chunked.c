/*
 * chunked-body = *chunk last-chunk trailer-section CRLF (RFC 9112 7.1), strictly: CRLF is the only line end, a size is
 * hexadecimal digits and nothing else, white space is allowed around the ';' and '=' of an extension only (the
 * grammar's BWS), so not at the end of a line, and trailers are held to the grammar of fields.
 */
#include "worker/http/chunked.h"

#include <string.h>

#include "worker/http/octet.h"

enum {
    SIZE_FIRST, /* the size's first digit */
    SIZE,       /* a further digit, white space, ';' or CR */
    SIZE_SPACE, /* behind white space: ';' only */
    EXT_NAME_FIRST,
    EXT_NAME,
    EXT_NAME_SPACE, /* '=' or ';' */
    EXT_VALUE_FIRST,
    EXT_TOKEN,
    EXT_QUOTED,
    EXT_QUOTED_PAIR,
    EXT_VALUE_END, /* behind a quoted string: white space, ';' or CR */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST, /* a trailer's first octet, or the CR of the end */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    FAILED
};

static enum http_chunked_result refuse(struct http_chunked *c, const char *why);
static bool is_space(char ch);
static bool is_text(char ch);

enum http_chunked_result http_chunked(struct http_chunked *c, const char *in, size_t len, size_t *consumed, char *out,
                                      size_t *out_len, uint64_t max_body, uint32_t max_trailer)
{
    const char *at = in, *end = in + len, *why = NULL;
    char *to = out;
    unsigned state = c->chunked_state;
    enum http_chunked_result result = CHUNKED_MORE;

    while (at < end && why == NULL && result == CHUNKED_MORE) {
        if (state == DATA) {
            size_t n = (size_t)(end - at) < c->chunked_left ? (size_t)(end - at) : (size_t)c->chunked_left;
            if (to != at)
                memmove(to, at, n);
            to += n;
            at += n;
            c->chunked_total += n;
            if ((c->chunked_left -= n) == 0)
                state = DATA_CR;
            continue;
        }
        char ch = *at++;
        bool overhead = state >= SIZE_SPACE && state < SIZE_LF && ch != '\r'; /* of an extension */
        switch (state) {
        case SIZE_FIRST:
            if (!octet_is(ch, OCTET_HEX)) {
                why = "a chunk's size is missing or not hexadecimal";
                break;
            }
            c->chunked_left = octet_hex(ch);
            if (c->chunked_left > max_body - c->chunked_total)
                result = CHUNKED_TOO_LARGE;
            state = SIZE;
            break;
        case SIZE:
            if (octet_is(ch, OCTET_HEX)) {
                overhead = c->chunked_left == 0; /* a leading zero, or what is behind one */
                if (c->chunked_left > (max_body - c->chunked_total) >> 4 ||
                    (c->chunked_left << 4 | octet_hex(ch)) > max_body - c->chunked_total)
                    result = CHUNKED_TOO_LARGE;
                c->chunked_left = c->chunked_left << 4 | octet_hex(ch);
                break;
            }
            if (ch != '\r')
                overhead = true;
            if (ch == '\r')
                state = SIZE_LF;
            else if (ch == ';')
                state = EXT_NAME_FIRST;
            else if (is_space(ch))
                state = SIZE_SPACE;
            else
                why = "a chunk's size is not hexadecimal";
            break;
        case SIZE_SPACE:
            if (ch == ';')
                state = EXT_NAME_FIRST;
            else if (!is_space(ch))
                why = "white space behind a chunk's size";
            break;
        case EXT_NAME_FIRST:
            if (octet_is(ch, OCTET_TOKEN))
                state = EXT_NAME;
            else if (!is_space(ch))
                why = "a chunk extension without a name";
            break;
        case EXT_NAME:
        case EXT_NAME_SPACE:
            if (ch == ';')
                state = EXT_NAME_FIRST;
            else if (ch == '=')
                state = EXT_VALUE_FIRST;
            else if (is_space(ch))
                state = EXT_NAME_SPACE;
            else if (state == EXT_NAME && ch == '\r')
                state = SIZE_LF;
            else if (state == EXT_NAME_SPACE || !octet_is(ch, OCTET_TOKEN))
                why = "a malformed chunk extension";
            break;
        case EXT_VALUE_FIRST:
            if (ch == '"')
                state = EXT_QUOTED;
            else if (octet_is(ch, OCTET_TOKEN))
                state = EXT_TOKEN;
            else if (!is_space(ch))
                why = "a chunk extension without a value behind its '='";
            break;
        case EXT_TOKEN:
        case EXT_VALUE_END:
            if (ch == ';')
                state = EXT_NAME_FIRST;
            else if (ch == '\r')
                state = SIZE_LF;
            else if (is_space(ch))
                state = SIZE_SPACE;
            else if (state == EXT_VALUE_END || !octet_is(ch, OCTET_TOKEN))
                why = "a malformed chunk extension";
            break;
        case EXT_QUOTED:
            if (ch == '"')
                state = EXT_VALUE_END;
            else if (ch == '\\')
                state = EXT_QUOTED_PAIR;
            else if (!is_text(ch))
                why = "a control octet in a chunk extension";
            break;
        case EXT_QUOTED_PAIR:
            state = EXT_QUOTED;
            if (!is_text(ch))
                why = "a control octet in a chunk extension";
            break;
        case SIZE_LF:
            if (ch != '\n')
                why = "a lone CR behind a chunk's size";
            state = c->chunked_left != 0 ? DATA : TRAILER_FIRST;
            break;
        case DATA_CR:
            if (ch != '\r')
                why = "a chunk's data is not followed by CRLF";
            state = DATA_LF;
            break;
        case DATA_LF:
            if (ch != '\n')
                why = "a chunk's data is not followed by CRLF";
            state = SIZE_FIRST;
            break;
        case TRAILER_FIRST:
            overhead = ch != '\r';
            if (ch == '\r')
                state = END_LF;
            else if (octet_is(ch, OCTET_TOKEN))
                state = TRAILER_NAME;
            else
                why = "a malformed trailer";
            break;
        case TRAILER_NAME:
            overhead = true;
            if (ch == ':')
                state = TRAILER_VALUE;
            else if (!octet_is(ch, OCTET_TOKEN))
                why = "a malformed trailer";
            break;
        case TRAILER_VALUE:
            overhead = true;
            if (ch == '\r')
                state = TRAILER_LF;
            else if (!is_text(ch))
                why = "a control octet in a trailer";
            break;
        case TRAILER_LF:
            overhead = true;
            if (ch != '\n')
                why = "a lone CR in a trailer";
            state = TRAILER_FIRST;
            break;
        case END_LF:
            if (ch != '\n')
                why = "a lone CR behind the trailers";
            else
                result = CHUNKED_DONE;
            break;
        default:
            why = "the body failed before";
            break;
        }
        if (overhead && why == NULL && c->chunked_overhead++ >= max_trailer)
            why = "too many chunk extensions and trailers";
    }
    *consumed = (size_t)(at - in);
    *out_len += (size_t)(to - out);
    c->chunked_state = (uint8_t)state;
    return why != NULL ? refuse(c, why) : result;
}

static enum http_chunked_result refuse(struct http_chunked *c, const char *why)
{
    c->chunked_state = FAILED;
    c->chunked_why = why;
    return CHUNKED_ERROR;
}

static bool is_space(char ch)
{
    return ch == ' ' || ch == '\t';
}

static bool is_text(char ch)
{
    return !octet_is_control(ch);
}
