/* What the file's strings must be: valid UTF-8, and mostly free of control characters. */
#ifndef VANILLA_CONF_UTF8_H
#define VANILLA_CONF_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF. */
bool conf_utf8_valid(const char *s, size_t n);

/* Has s one of U+0000..U+001F or U+007F that is not in `but`? */
bool conf_utf8_has_control(const char *s, const char *but);

#endif
