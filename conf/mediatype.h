/* What a Content-Type may hold: text/html; charset=utf-8 */
#ifndef VANILLA_CONF_MEDIATYPE_H
#define VANILLA_CONF_MEDIATYPE_H

#include <stdbool.h>

/* RFC 9110 section 5.6.2: the characters of a token. */
#define MEDIATYPE_TOKEN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"

/* RFC 9110 section 8.3.1: type "/" subtype *( OWS ";" OWS parameter ).  s has no control characters. */
bool mediatype_valid(const char *s);

#endif
