#include "conf/statement.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum lexeme { LEXEME_END, LEXEME_WORD, LEXEME_QUOTED, LEXEME_STRING, LEXEME_PARAM, LEXEME_OTHER, LEXEME_BROKEN };

struct lexer {
    const char *lexer_p;     /* what comes next */
    const char *lexer_token; /* the token that was read last, and its octets */
    size_t lexer_len;
    struct statement *lexer_statement;
};

static enum lexeme lexer_next(struct lexer *x);
static enum lexeme lexer_string(struct lexer *x, bool escapes);
static enum lexeme lexer_dollar(struct lexer *x);
static bool lexer_skip_space(struct lexer *x);
static bool lexer_is(const struct lexer *x, const char *word);
static bool statement_check_first(struct lexer *x);
static bool statement_check_create(struct lexer x);
static bool statement_check_word(struct lexer *x);
static bool statement_check_set_config(struct lexer x);
static void statement_say(struct lexer *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool is_word_start(char c);
static bool is_word(char c);

bool statement_check(const char *sql, struct statement *st)
{
    struct lexer x = {.lexer_p = sql, .lexer_statement = st};
    bool first = true, ended = false;
    enum lexeme e;

    *st = (struct statement){.statement_why = ""};
    while ((e = lexer_next(&x)) != LEXEME_END) {
        if (e == LEXEME_BROKEN)
            return false;
        if (e == LEXEME_OTHER && *x.lexer_token == ';') {
            ended = !first;
            continue;
        }
        if (ended) {
            statement_say(&x, "is more than one statement; allowed: one");
            return false;
        }
        if (first && e == LEXEME_OTHER && *x.lexer_token == '(')
            continue;
        if (first && e == LEXEME_WORD && !statement_check_first(&x))
            return false;
        if (first)
            st->statement_calls = e == LEXEME_WORD && (lexer_is(&x, "CALL") || lexer_is(&x, "DO"));
        first = false;
        if ((e == LEXEME_WORD || e == LEXEME_QUOTED) && !statement_check_word(&x))
            return false;
        if (e == LEXEME_PARAM) {
            unsigned long n = x.lexer_len < 5 ? strtoul(x.lexer_token + 1, NULL, 10) : STATEMENT_PARAMS_MAX + 1;

            if (n < 1 || n > STATEMENT_PARAMS_MAX) {
                statement_say(&x, "uses %.*s; allowed: $1..$%u", x.lexer_len < 20 ? (int)x.lexer_len : 20,
                              x.lexer_token, STATEMENT_PARAMS_MAX);
                return false;
            }
            st->statement_params |= (uint64_t)1 << (n - 1);
        }
    }
    if (first)
        statement_say(&x, "has no statement in it; allowed: one");
    return !first;
}

/* --- what a statement must not be ----------------------------------------------------------------------------------
 */

/* Its first word, at the lexer. */
static bool statement_check_first(struct lexer *x)
{
    static const struct {
        const char *words, *why;
    } refused[] = {
        {" SET RESET DISCARD LOAD ", "changes the session that other requests use next"},
        {" BEGIN START COMMIT END ROLLBACK ABORT SAVEPOINT RELEASE ", "belongs to a transaction of several statements"},
        {" LISTEN UNLISTEN ", "subscribes the session, whose messages nobody would get"},
        {" PREPARE EXECUTE DEALLOCATE ", "is about prepared statements, which vanilla manages itself"},
        {" DECLARE CLOSE FETCH MOVE ", "is about cursors, which do not outlive their statement here"},
        {" COPY ", "switches the connection to another protocol"},
        {" LOCK ", "locks for its own transaction only, which ends with it"},
    };
    char word[24];

    if (x->lexer_len + 3 > sizeof word)
        return true;
    snprintf(word, sizeof word, " %.*s ", (int)x->lexer_len, x->lexer_token);
    for (char *p = word; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strstr(refused[i].words, word) != NULL) {
            statement_say(x, "is a %.*s, which %s; allowed: one statement that leaves the session as it found it",
                          (int)strlen(word) - 2, word + 1, refused[i].why);
            return false;
        }
    return !lexer_is(x, "CREATE") || statement_check_create(*x);
}

/* CREATE ... TEMP: what it makes stays in the session.  The lexer is a copy: this looks ahead. */
static bool statement_check_create(struct lexer x)
{
    while (lexer_next(&x) == LEXEME_WORD) {
        if (lexer_is(&x, "TEMP") || lexer_is(&x, "TEMPORARY")) {
            statement_say(&x, "makes something temporary, which stays in the session that other requests use next");
            return false;
        }
        if (!lexer_is(&x, "OR") && !lexer_is(&x, "REPLACE") && !lexer_is(&x, "GLOBAL") && !lexer_is(&x, "LOCAL"))
            break;
    }
    return true;
}

/* Functions that leave something in the session. */
static bool statement_check_word(struct lexer *x)
{
    static const char *const locks[] = {"pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock",
                                        "pg_try_advisory_lock_shared"};
    struct lexer ahead = *x;

    if (x->lexer_len < sizeof "set_config" - 1 || !lexer_skip_space(&ahead) || *ahead.lexer_p != '(')
        return true;
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++)
        if (lexer_is(x, locks[i])) {
            statement_say(x, "calls %s, whose lock stays with the session; allowed: the _xact_ functions", locks[i]);
            return false;
        }
    return !lexer_is(x, "set_config") || statement_check_set_config(ahead);
}

/* set_config(name, value, is_local): is_local must be the word true.  The lexer stands before the bracket. */
static bool statement_check_set_config(struct lexer x)
{
    unsigned depth = 0, argument = 1;
    bool local = false, other = false;
    enum lexeme e;

    while ((e = lexer_next(&x)) != LEXEME_END && e != LEXEME_BROKEN) {
        const char c = *(e == LEXEME_OTHER ? x.lexer_token : "");

        depth += c == '(' || c == '[';
        depth -= c == ')' || c == ']';
        if (depth == 0)
            break;
        if (c == ',' && depth == 1) {
            argument++;
        } else if (argument == 3 && e == LEXEME_WORD && lexer_is(&x, "true") && !local) {
            local = true;
        } else if (argument == 3 && !(e == LEXEME_WORD && lexer_is(&x, "is_local")) && c != '=' && c != '>' &&
                   c != ':') {
            other = true; /* anything but is_local => true */
        }
    }
    if (local && !other)
        return true;
    statement_say(&x, "calls set_config, which changes the session that other requests use next; allowed: with true as "
                      "its third argument");
    return false;
}

static void statement_say(struct lexer *x, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(x->lexer_statement->statement_why, sizeof x->lexer_statement->statement_why, format, ap);
    va_end(ap);
}

/* --- tokens ----------------------------------------------------------------------------------------------------------
 */

/* LEXEME_BROKEN: statement_why says it. */
static enum lexeme lexer_next(struct lexer *x)
{
    const char *p;

    if (!lexer_skip_space(x))
        return LEXEME_BROKEN;
    p = x->lexer_token = x->lexer_p;
    x->lexer_len = 1;
    if (*p == '\0')
        return LEXEME_END;
    if (is_word_start(*p)) {
        while (is_word(*p))
            p++;
        x->lexer_len = (size_t)(p - x->lexer_token);
        x->lexer_p = p;
        if (*p == '\'' && x->lexer_len == 1 && strchr("eEbBxXnN", *x->lexer_token) != NULL)
            return lexer_string(x, (*x->lexer_token | 0x20) == 'e');
        return LEXEME_WORD;
    }
    if (*p >= '0' && *p <= '9') {
        while ((*p >= '0' && *p <= '9') || is_word_start(*p) || *p == '.')
            p++;
        x->lexer_len = (size_t)(p - x->lexer_token);
        x->lexer_p = p;
        return LEXEME_OTHER;
    }
    if (*p == '\'')
        return lexer_string(x, false);
    if (*p == '"') {
        do {
            p = strchr(p + 1, '"');
            if (p != NULL && p[1] == '"')
                p++;
            else
                break;
        } while (true);
        if (p == NULL) {
            statement_say(x, "has a \" that is never closed");
            return LEXEME_BROKEN;
        }
        x->lexer_token++;
        x->lexer_len = (size_t)(p - x->lexer_token);
        x->lexer_p = p + 1;
        return LEXEME_QUOTED;
    }
    if (*p == '$')
        return lexer_dollar(x);
    x->lexer_p = p + 1;
    return LEXEME_OTHER;
}

/* '...', at its first quote; `escapes`: E'...', where a backslash takes the next character with it. */
static enum lexeme lexer_string(struct lexer *x, bool escapes)
{
    const char *p = x->lexer_p + 1;

    for (;; p++) {
        if (*p == '\0') {
            statement_say(x, "has a ' that is never closed");
            return LEXEME_BROKEN;
        }
        if ((escapes && *p == '\\' && p[1] != '\0') || (*p == '\'' && p[1] == '\'')) {
            p++;
        } else if (*p == '\'') {
            size_t space = strspn(p + 1, " \t\n\r\f\v");

            /* Strings with a line end between them are one, and what begins with E goes on with it. */
            if (p[1 + space] != '\'' || strcspn(p + 1, "\n\r") >= space)
                break;
            p += 1 + space;
        }
    }
    x->lexer_p = p + 1;
    return LEXEME_STRING;
}

/* $1, $$...$$, $tag$...$tag$, or a lone $. */
static enum lexeme lexer_dollar(struct lexer *x)
{
    const char *p = x->lexer_p + 1, *close;
    char tag[64];
    size_t n;

    if (*p >= '0' && *p <= '9') {
        p += strspn(p, "0123456789");
        x->lexer_len = (size_t)(p - x->lexer_token);
        x->lexer_p = p;
        return LEXEME_PARAM;
    }
    if (is_word_start(*p))
        while (is_word(*p) && *p != '$')
            p++;
    x->lexer_p = x->lexer_token + 1;
    if (*p != '$')
        return LEXEME_OTHER;
    n = (size_t)(p + 1 - x->lexer_token);
    if (n >= sizeof tag) {
        statement_say(x, "has a dollar quote with a tag of more than 60 letters");
        return LEXEME_BROKEN;
    }
    memcpy(tag, x->lexer_token, n);
    tag[n] = '\0';
    close = strstr(p + 1, tag);
    if (close == NULL) {
        statement_say(x, "has a %s that is never closed", tag);
        return LEXEME_BROKEN;
    }
    x->lexer_p = close + n;
    return LEXEME_STRING;
}

/* White space and comments, which nest; false: one of them never ends. */
static bool lexer_skip_space(struct lexer *x)
{
    const char *p = x->lexer_p;

    for (;;) {
        p += strspn(p, " \t\n\r\f\v");
        if (p[0] == '-' && p[1] == '-') {
            p += strcspn(p, "\n\r");
        } else if (p[0] == '/' && p[1] == '*') {
            unsigned depth = 1;

            for (p += 2; depth > 0 && *p != '\0'; p++) {
                if (p[0] == '/' && p[1] == '*') {
                    depth++;
                    p++;
                } else if (p[0] == '*' && p[1] == '/') {
                    depth--;
                    p++;
                }
            }
            if (depth > 0) {
                statement_say(x, "has a /* that is never closed");
                return false;
            }
        } else {
            break;
        }
    }
    x->lexer_p = p;
    return true;
}

/* Is the word that was read last this one?  Case does not count. */
static bool lexer_is(const struct lexer *x, const char *word)
{
    return strlen(word) == x->lexer_len && strncasecmp(x->lexer_token, word, x->lexer_len) == 0;
}

static bool is_word_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_word(char c)
{
    return is_word_start(c) || (c >= '0' && c <= '9') || c == '$';
}
