#include "conf/literal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/options.h"

/* What was read last: a comma, an equals sign and so on decide what may follow. */
enum token {
    TOKEN_START,
    TOKEN_NAME,
    TOKEN_EQUALS,
    TOKEN_COMMA,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_VALUE,
    TOKEN_SEMICOLON
};

struct scan {
    const char *scan_p, *scan_end;
    int scan_line;
    enum token scan_last;
    bool scan_last_string; /* scan_last is a string */
    const char *scan_name; /* the latest, of scan_name_n octets */
    int scan_name_n;
    unsigned scan_depth;
    char scan_open[LITERAL_DEPTH_MAX]; /* the brackets that are open, and their lines */
    int scan_open_line[LITERAL_DEPTH_MAX];
    bool scan_broken;
    struct report *scan_report;
    struct literals *scan_literals;
};

static void scan_token(struct scan *s);
static void scan_broken(struct scan *s, int line, const char *what);
static bool scan_comment(struct scan *s);
static void scan_string(struct scan *s);
static void scan_word(struct scan *s);
static void scan_number(struct scan *s);
static void scan_bracket_open(struct scan *s);
static void scan_bracket_close(struct scan *s);
static void scan_before_value(struct scan *s, const char *what);
static void scan_equals_missing(struct scan *s, const char *article, const char *before, int n);
static bool scan_in_list(const struct scan *s);
static size_t scan_digits(const char *p, const char *end);
static size_t scan_exponent(const char *p, const char *end);
static bool is_hex(char c);
static void literals_add(struct literals *l, struct literal literal);
static unsigned literals_walk(const struct literals *l, config_setting_t *setting, unsigned next, bool apply);

int literals_scan(struct literals *l, const char *text, size_t n, struct report *r)
{
    struct scan s = {.scan_p = text, .scan_end = text + n, .scan_line = 1, .scan_report = r, .scan_literals = l};

    unsigned before = r->report_errors;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        report_error(r, 1, "a byte order mark; allowed: UTF-8 without one");
        return -1;
    }
    while (s.scan_p < s.scan_end && !s.scan_broken)
        scan_token(&s);
    for (; s.scan_depth > 0 && !s.scan_broken; s.scan_depth--)
        report_error(r, s.scan_open_line[s.scan_depth - 1], "this %c is never closed", s.scan_open[s.scan_depth - 1]);
    return r->report_errors != before ? -1 : 0;
}

void literals_apply(const struct literals *l, config_setting_t *root)
{
    /* Only when both saw the same scalars; they always have, but nothing may depend on it. */
    if (literals_walk(l, root, 0, false) == l->literals_n)
        (void)literals_walk(l, root, 0, true);
}

void literals_report(const struct literals *l, struct report *r)
{
    for (unsigned i = 0; i < l->literals_n; i++)
        if (l->literals_array[i].literal_wraps)
            report_error(r, l->literals_array[i].literal_line, "a number that is too big for any setting");
}

void literals_free(struct literals *l)
{
    free(l->literals_array);
    *l = (struct literals){0};
}

/* Reads white space, a comment or a token at scan_p, and moves it by at least one octet. */
static void scan_token(struct scan *s)
{
    char c = *s->scan_p;

    if (c == '\n')
        s->scan_line++;
    if (strchr(" \t\n\r\f", c) != NULL && c != '\0') {
        s->scan_p++;
    } else if (scan_comment(s)) {
        return;
    } else if (c == '"') {
        scan_string(s);
    } else if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '*') {
        scan_word(s);
    } else if ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.') {
        scan_number(s);
    } else if (c == '(' || c == '[' || c == '{') {
        scan_bracket_open(s);
    } else if (c == ')' || c == ']' || c == '}') {
        scan_bracket_close(s);
    } else if (c == '=' || c == ':' || c == ',' || c == ';') {
        if ((c == '=' || c == ':') && s->scan_last != TOKEN_NAME)
            scan_broken(s, s->scan_line, "an equals sign without a name before it; allowed: NAME = VALUE;");
        if (c == ',' && s->scan_last == TOKEN_COMMA)
            scan_broken(s, s->scan_line, "two commas in a row; allowed: one between two elements");
        s->scan_last = c == ',' ? TOKEN_COMMA : c == ';' ? TOKEN_SEMICOLON : TOKEN_EQUALS;
        s->scan_p++;
    } else if (c == '@') {
        scan_broken(s, s->scan_line, "@include is not supported; allowed: everything in one file");
    } else if (c == '\0' || (unsigned char)c >= 0x80 || (unsigned char)c < 0x20) {
        scan_broken(s, s->scan_line, "an octet that is not text; allowed outside of strings: ASCII");
    } else if (c == '\'') {
        scan_broken(s, s->scan_line, "a single quote outside of a string; strings are in double quotes");
    } else {
        report_error(s->scan_report, s->scan_line, "syntax error at '%c'", c);
        s->scan_broken = true;
    }
}

/* After this nothing behind it would make sense. */
static void scan_broken(struct scan *s, int line, const char *what)
{
    report_error(s->scan_report, line, "%s", what);
    s->scan_broken = true;
}

static bool scan_comment(struct scan *s)
{
    const char *p = s->scan_p, *end = s->scan_end;
    int line = s->scan_line;

    if (*p == '#' || (*p == '/' && end - p >= 2 && p[1] == '/')) {
        while (p < end && *p != '\n')
            p++;
        s->scan_p = p;
        return true;
    }
    if (*p != '/' || end - p < 2 || p[1] != '*')
        return false;
    for (p += 2; end - p >= 2 && (p[0] != '*' || p[1] != '/'); p++)
        if (*p == '\n')
            s->scan_line++;
    if (end - p < 2)
        scan_broken(s, line, "this /* is never closed"); /* libconfig would drop the rest of the file */
    s->scan_p = p + 2;
    return true;
}

/* gcc's analyzer loses sight of the list behind scan_literals. */
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
static void scan_string(struct scan *s)
{
    const char *p = s->scan_p + 1, *end = s->scan_end;
    bool joins = s->scan_last == TOKEN_VALUE && s->scan_last_string; /* "a" "b" is one string */
    int line = s->scan_line;

    if (joins && scan_in_list(s))
        scan_broken(s, line, "two strings without a comma between them");
    else if (!joins)
        scan_before_value(s, "string");
    for (; p < end && *p != '"'; p++) {
        if (*p == '\n')
            s->scan_line++;
        if (*p == '\0')
            report_error(s->scan_report, s->scan_line, "a NUL octet in a string");
        if (*p != '\\' || end - p < 2)
            continue;
        if ((p[1] == 'x' || p[1] == 'X') && end - p >= 4 && p[2] == '0' && p[3] == '0')
            report_error(s->scan_report, s->scan_line, "\\x00 in a string; allowed: \\x01..\\xff");
        if (p[1] == '"' || p[1] == '\\')
            p++;
    }
    if (p >= end)
        scan_broken(s, line, "this string is never closed");
    s->scan_p = p + 1;
    if (!joins)
        literals_add(s->scan_literals, (struct literal){.literal_line = line});
    s->scan_last = TOKEN_VALUE;
    s->scan_last_string = true;
}

/* A name, or true or false. */
static void scan_word(struct scan *s)
{
    const char *p = s->scan_p;
    size_t n = 0;

    while (p + n < s->scan_end && p[n] != '\0' &&
           strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_*", p[n]) != NULL)
        n++;
    s->scan_p = p + n;
    if ((n == 4 && strncasecmp(p, "true", n) == 0) || (n == 5 && strncasecmp(p, "false", n) == 0)) {
        scan_before_value(s, "value");
        literals_add(s->scan_literals, (struct literal){.literal_line = s->scan_line});
        s->scan_last = TOKEN_VALUE;
        s->scan_last_string = false;
        return;
    }
    if (s->scan_last == TOKEN_EQUALS || scan_in_list(s)) {
        report_error(s->scan_report, s->scan_line, "a bare word, %.*s; allowed: \"%.*s\" in double quotes",
                     n < 64 ? (int)n : 64, p, n < 64 ? (int)n : 64, p);
        s->scan_broken = true;
    } else if (s->scan_last == TOKEN_NAME) {
        scan_equals_missing(s, "", p, n < 64 ? (int)n : 64);
        s->scan_broken = true;
    }
    s->scan_name = p;
    s->scan_name_n = n < 64 ? (int)n : 64;
    s->scan_last = TOKEN_NAME;
}
#pragma GCC diagnostic pop

/* As libconfig's scanner takes them: the longest of an integer, 0xHEX, both with L or LL behind, and a fraction. */
static void scan_number(struct scan *s)
{
    const char *p = s->scan_p, *q = p, *end = s->scan_end;
    struct literal literal = {.literal_line = s->scan_line};
    size_t digits;
    int base = 10;

    scan_before_value(s, "number");
    if (end - p >= 3 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && is_hex(p[2])) {
        base = 16;
        for (q += 2; q < end && is_hex(*q); q++)
            continue;
    } else {
        q += *q == '+' || *q == '-';
        digits = scan_digits(q, end);
        q += digits;
        if (q < end && *q == '.') {
            base = 0;
            q += 1 + scan_digits(q + 1, end);
            q += scan_exponent(q, end);
        } else if (digits == 0) {
            scan_broken(s, s->scan_line, "a sign without a number behind it");
        } else if (scan_exponent(q, end) != 0) {
            base = 0;
            q += scan_exponent(q, end);
        }
    }
    if (base != 0) {
        bool is_long = q < end && *q == 'L';

        errno = 0;
        literal.literal_is_int = true;
        literal.literal_value = strtoll(p, NULL, base); /* the text ends in a NUL, and never in a digit */
        literal.literal_wraps =
            errno == ERANGE || (!is_long && (literal.literal_value < INT_MIN || literal.literal_value > INT_MAX));
        for (int i = 0; i < 2 && q < end && *q == 'L'; i++)
            q++;
    }
    s->scan_p = q;
    literals_add(s->scan_literals, literal);
    s->scan_last = TOKEN_VALUE;
    s->scan_last_string = false;
}

static void scan_bracket_open(struct scan *s)
{
    scan_before_value(s, "bracket");
    if (s->scan_depth == LITERAL_DEPTH_MAX) {
        scan_broken(s, s->scan_line, "brackets too deep in each other; allowed: 16 levels");
        return;
    }
    s->scan_open[s->scan_depth] = *s->scan_p++;
    s->scan_open_line[s->scan_depth++] = s->scan_line;
    s->scan_last = TOKEN_OPEN;
}

static void scan_bracket_close(struct scan *s)
{
    const char c = *s->scan_p++;
    const char *open = c == ')' ? "(" : c == ']' ? "[" : "{";

    if (s->scan_depth == 0 || s->scan_open[s->scan_depth - 1] != *open) {
        if (s->scan_depth == 0)
            report_error(s->scan_report, s->scan_line, "a %c that closes nothing", c);
        else
            report_error(s->scan_report, s->scan_line, "a %c where the %c of line %d is still open", c,
                         s->scan_open[s->scan_depth - 1], s->scan_open_line[s->scan_depth - 1]);
        s->scan_broken = true;
        return;
    }
    if (s->scan_last == TOKEN_COMMA && c != '}') {
        report_error(s->scan_report, s->scan_line, "a comma before the closing %c; allowed: commas between elements",
                     c);
        s->scan_broken = true;
    } else if (s->scan_last == TOKEN_EQUALS) {
        scan_broken(s, s->scan_line, "a value is missing after the equals sign");
    }
    s->scan_depth--;
    s->scan_last = TOKEN_CLOSE;
}

/* Is there something missing before a value that begins here? */
static void scan_before_value(struct scan *s, const char *what)
{
    bool after_value = s->scan_last == TOKEN_VALUE || s->scan_last == TOKEN_CLOSE;

    if (s->scan_broken || s->scan_last == TOKEN_EQUALS)
        return;
    if (scan_in_list(s) && after_value)
        report_error(s->scan_report, s->scan_line, "a comma is missing before this %s", what);
    else if (!scan_in_list(s) && s->scan_last == TOKEN_NAME)
        scan_equals_missing(s, "this ", what, (int)strlen(what));
    else if (!scan_in_list(s))
        report_error(s->scan_report, s->scan_line, "a %s without a name; allowed: NAME = VALUE;", what);
    else
        return;
    s->scan_broken = true;
}

/* A directive of another server's may be neither written nor named as ours are. */
static void scan_equals_missing(struct scan *s, const char *article, const char *before, int n)
{
    const struct option *o;
    bool known = false;

    for (unsigned i = 0; !known && (o = options_row(i)) != NULL; i++)
        known = strlen(o->option_name) == (size_t)s->scan_name_n &&
                strncasecmp(o->option_name, s->scan_name, (size_t)s->scan_name_n) == 0;
    report_error(s->scan_report, s->scan_line,
                 "an equals sign is missing between %.*s and %s%.*s; allowed: NAME = VALUE;%s", s->scan_name_n,
                 s->scan_name, article, n, before, known ? "" : " and that is not a setting's name");
}

static bool scan_in_list(const struct scan *s)
{
    return s->scan_depth > 0 && s->scan_open[s->scan_depth - 1] != '{';
}

static size_t scan_digits(const char *p, const char *end)
{
    size_t n = 0;

    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

/* The length of e+9 at p; 0 when there is none, or not a whole one. */
static size_t scan_exponent(const char *p, const char *end)
{
    size_t n, digits;

    if (p >= end || (*p != 'e' && *p != 'E'))
        return 0;
    n = 1 + (p + 1 < end && (p[1] == '+' || p[1] == '-'));
    digits = scan_digits(p + n, end);
    return digits != 0 ? n + digits : 0;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void literals_add(struct literals *l, struct literal literal)
{
    if (l->literals_n == l->literals_size) {
        unsigned size = l->literals_size * 2 + 64;
        struct literal *more = realloc(l->literals_array, size * sizeof *more);

        if (more == NULL) {
            fprintf(stderr, "vanilla: no memory left while reading the configuration\n");
            exit(EXIT_FAILURE);
        }
        l->literals_array = more;
        l->literals_size = size;
    }
    l->literals_array[l->literals_n++] = literal;
}

/* Goes over the scalars of the tree in the order of the file; returns how many literals they and the `next` ones before
 * them are. */
static unsigned literals_walk(const struct literals *l, config_setting_t *setting, unsigned next, bool apply)
{
    const struct literal *literal;
    int type = config_setting_type(setting);

    if (config_setting_is_aggregate(setting)) {
        for (int i = 0; i < config_setting_length(setting); i++)
            next = literals_walk(l, config_setting_get_elem(setting, (unsigned)i), next, apply);
        return next;
    }
    if (!apply)
        return next + 1;
    literal = &l->literals_array[next];
    if (config_setting_name(setting) == NULL)
        setting->line = (unsigned)literal->literal_line;
    if (literal->literal_is_int && (type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64)) {
        setting->type = CONFIG_TYPE_INT64;
        setting->value.llval = literal->literal_value;
    }
    return next + 1;
}
