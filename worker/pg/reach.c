/*
 * Code that a statement can reach, by the catalogue.
 *
 * A node is a name, or an OID with what it is of (":funcid 2077").  What a node may mean, in any schema, has sources:
 * bodies, whose words are names; and expressions that PostgreSQL keeps parsed (views, defaults, policies, ...), which
 * name what they use by OID.  So every name and OID in a source is a node, and so on.  A name that means something else
 * than what it is taken for leads too far, which costs a reset; nothing is locked, and no source is made into text by
 * functions that would lock it.
 *
 * What has no name where it is used (operators, casts) is taken to be in every statement, but for what is in C.  Code
 * in other languages than SQL and PL/pgSQL cannot be read: it may do anything, unless its author marked it as parallel
 * safe or restricted, which by the manual it must not be when it changes settings.  PostgreSQL's own functions are
 * known by their names.
 */
#include "worker/pg/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Regular expressions without a backslash, which standard_conforming_strings = off would take away. */
#define WORD(re) "[[:<:]](?:" re ")[[:>:]]"
#define SPACE "[[:space:]]*"
#define BLANK "(?:[[:space:]]|--[^\n]*\n|/[*](?:[^*]|[*]+[^*/])*[*]+/)" /* a comment is one, too */

/* Where a statement begins in a body, so that UPDATE ... SET does not count.  SET local .x sets local.x. */
#define BEGINS "(?:^|;|" WORD("begin|then|else|loop|atomic") ")" BLANK "*"
#define COMMANDS                                                                                                 \
    "(?:set[[:>:]](?!" BLANK "+(?:local|constraints|transaction)[[:space:]]+[^-./[:space:]])|do[[:>:]](?!" BLANK \
    "+nothing)|listen[[:>:]])"
/* Once there is a comment within a comment, what stands behind the end of any. */
#define NESTED "/[*](?:[^*]|[*]+[^*/])*/[*].*[*]/" SPACE WORD("set|do|listen|temp|temporary|hold")
/* Names that are enough: those in the last line run SQL that is a value. */
#define NAMES                                                                                                      \
    WORD("set_config|pg_settings|pg_(?:try_)?advisory_lock(?:_shared)?|pg_temp(?:_[0-9]+)?|"                       \
         "execute|(?:query|table|schema|database|cursor)_to_xml(?:schema|_and_xmlschema)?|xpath_table|ts_stat|ts_" \
         "rewrite")
/* INTO temp may name a table or a variable: when no other name follows. */
#define KIND WORD("temp|temporary")
#define TEMPORARY                                                                                               \
    WORD("create|replace")                                                                                      \
    BLANK "+(?:" WORD("global|local") BLANK "+)?" KIND "|" WORD("into") BLANK "+(?:" WORD("global|local") BLANK \
        "+)?" KIND BLANK "+(?!" WORD(NO_NAME) ")[^[:space:];,.()=:/-]"
#define NO_NAME                                                                                                \
    "as|default|from|using|where|select|with|values|overriding|order|group|having|union|limit|offset|for|set|" \
    "returning"
#define HOLD WORD("with") BLANK "+" WORD("hold")
#define CHANGES \
    BEGINS COMMANDS "|" NESTED "|" NAMES "|" TEMPORARY "|" HOLD "|u&\"" /* an identifier that cannot be read */

/* set_config for the transaction alone, in its plain form; but for a search_path that cannot be read: pg_temp in it
 * makes temporary tables of others.  One that can is looked at for pg_temp itself. */
#define LITERAL "''[^'']*''"
#define VALUE "(?:" LITERAL "|[[:alnum:]_.$]+)(?:::[[:alnum:]_.]+)?"
#define LOCALLY                                                                                                    \
    "set_config" SPACE "[(]" SPACE "(?:''search_path''" SPACE "," SPACE LITERAL "|(?!''search_path)" LITERAL SPACE \
    "," SPACE VALUE ")" SPACE "," SPACE "true" SPACE "[)]"

/* Event triggers hear of it. */
#define DEFINES BEGINS WORD("create|alter|drop|comment|grant|revoke|security|import|refresh|reindex")

/* What is run by a name that is a value cannot be read: where the author says that it is harmless, it is. */
#define WITHOUT_EXECUTE ", '" WORD("execute") "', '', 'gi')" /* the end of a regexp_replace */

/* The nodes in the source r: of a parsed expression its OIDs, of types those that are not PostgreSQL's own; of text its
 * words, what stands between double quotes (a name that begins with a colon gets a quote in front), and whether it
 * defines something while there are event triggers.  Not a class of letters, which would be ASCII's alone under
 * collation C. */
#define BETWEEN_WORDS "[]\t\n\v\f\r !\"#%&''()*+,./:;<=>?@^`{|}~[-]+"
#define NODES                                                                                             \
    "(SELECT m.m[1] FROM pg_catalog.regexp_matches(CASE WHEN r.parsed THEN r.src END,"                    \
    " ':(?:(?:funcid|opfuncid|aggfnoid|winfnoid|relid) [0-9]+|(?:func)?resulttype [0-9]{5,}"              \
    "|consttype [0-9]{5,})', 'g') m(m)"                                                                   \
    " UNION ALL"                                                                                          \
    " SELECT x.x FROM pg_catalog.unnest(pg_catalog.regexp_split_to_array("                                \
    "CASE WHEN NOT r.parsed THEN pg_catalog.lower(r.src) END, '" BETWEEN_WORDS "')) x(x) WHERE x.x <> ''" \
    " UNION ALL"                                                                                          \
    " SELECT pg_catalog.concat(CASE WHEN x.x LIKE ':%' THEN '\"' END,"                                    \
    " pg_catalog.replace(x.x, pg_catalog.chr(1), '\"')) FROM pg_catalog.unnest("                          \
    "pg_catalog.string_to_array(CASE WHEN NOT r.parsed AND pg_catalog.strpos(r.src, '\"') > 0"            \
    " THEN pg_catalog.replace(r.src, '\"\"', pg_catalog.chr(1)) END, '\"')) x(x)"                         \
    " WHERE x.x <> '' AND pg_catalog.length(x.x) < 256"                                                   \
    " UNION ALL"                                                                                          \
    " SELECT ':ddl 0' WHERE CASE WHEN NOT r.parsed AND EXISTS (SELECT 1 FROM pg_catalog.pg_event_trigger" \
    " e WHERE e.evtenabled <> 'D') THEN r.src ~* '" DEFINES "' END)"

/* Sources of the function p in the language l: its body, that of BEGIN ATOMIC (from version 14 on), defaults and an
 * aggregate's functions; its types; a SET clause for search_path with pg_temp, in which a body may create: nothing does
 * harm behind others, as the manual has it for SECURITY DEFINER, unless it does so itself.  Below 16384
 * (FirstNormalObjectId) it is PostgreSQL's own. */
#define FUNCTION                                                                                    \
    "SELECT CASE WHEN p.oid < 16384 THEN p.proname::pg_catalog.text"                                \
    " WHEN l.lanname NOT IN ('sql', 'plpgsql')"                                                     \
    " THEN CASE WHEN p.prokind <> 'a' AND p.proparallel = 'u' THEN 'execute' END"                   \
    " WHEN p.proparallel = 'u' THEN p.prosrc"                                                       \
    " ELSE pg_catalog.regexp_replace(p.prosrc" WITHOUT_EXECUTE " END, false"                        \
    " UNION ALL"                                                                                    \
    " SELECT pg_catalog.concat_ws(' ', CASE WHEN l.lanname = 'sql' THEN pg_catalog.to_jsonb(p) ->>" \
    " 'prosqlbody' END, p.proargdefaults::pg_catalog.text,"                                         \
    " (SELECT pg_catalog.format(':funcid %s :funcid %s :funcid %s :funcid %s :funcid %s',"          \
    " a.aggtransfn::pg_catalog.oid, a.aggfinalfn::pg_catalog.oid, a.aggmtransfn::pg_catalog.oid,"   \
    " a.aggminvtransfn::pg_catalog.oid, a.aggmfinalfn::pg_catalog.oid)"                             \
    " FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid AND p.prokind = 'a')), true"          \
    " WHERE p.oid >= 16384"                                                                         \
    " UNION ALL"                                                                                    \
    " SELECT pg_catalog.string_agg(' :resulttype ' || x.x, ''), true FROM pg_catalog.unnest("       \
    "p.proargtypes::pg_catalog.oid[] || p.proallargtypes || p.prorettype) x(x)"                     \
    " WHERE p.oid >= 16384 AND x.x >= 16384"                                                        \
    " UNION ALL"                                                                                    \
    " SELECT x.x, false FROM pg_catalog.unnest(p.proconfig) x(x) WHERE p.oid >= 16384"              \
    " AND x.x ~* CASE WHEN p.prosrc ~* '" WORD("create|into") "' THEN 'search_path=.*pg_temp'"      \
                                                              " ELSE 'search_path=[ \"]*pg_temp' END"

/* Sources of the relation c: rules (a view's as well), triggers (with the tables that foreign keys write to, which is
 * done by RI_FKey_cascade_del and its like), columns' defaults and types, checks, policies, expressions of indexes and
 * of partitions, partitions and heirs. */
#define RELATION                                                                                                      \
    "SELECT pg_catalog.concat(x.ev_qual, x.ev_action), true FROM pg_catalog.pg_rewrite x WHERE x.ev_class = c.oid"    \
    " UNION ALL"                                                                                                      \
    " SELECT pg_catalog.concat(x.tgqual, ' :funcid ', x.tgfoid, CASE WHEN x.tgfoid IN (1646, 1647, 1650, 1651,"       \
    " 1652, 1653) THEN pg_catalog.concat(' :relid ', x.tgconstrrelid) END), true"                                     \
    " FROM pg_catalog.pg_trigger x WHERE x.tgrelid = c.oid"                                                           \
    " UNION ALL"                                                                                                      \
    " SELECT x.adbin::pg_catalog.text, true FROM pg_catalog.pg_attrdef x WHERE x.adrelid = c.oid"                     \
    " UNION ALL"                                                                                                      \
    " SELECT ':resulttype ' || x.atttypid, true FROM pg_catalog.pg_attribute x"                                       \
    " WHERE x.attrelid = c.oid AND x.attnum > 0 AND x.atttypid >= 16384"                                              \
    " UNION ALL"                                                                                                      \
    " SELECT x.conbin::pg_catalog.text, true FROM pg_catalog.pg_constraint x WHERE x.conrelid = c.oid"                \
    " UNION ALL"                                                                                                      \
    " SELECT pg_catalog.concat(x.polqual, x.polwithcheck), true FROM pg_catalog.pg_policy x WHERE x.polrelid = c.oid" \
    " UNION ALL"                                                                                                      \
    " SELECT pg_catalog.concat(x.indexprs, x.indpred), true FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid"      \
    " UNION ALL"                                                                                                      \
    " SELECT x.partexprs::pg_catalog.text, true FROM pg_catalog.pg_partition_ancestors(c.oid) a(a)"                   \
    " JOIN pg_catalog.pg_partitioned_table x ON x.partrelid = a.a"                                                    \
    " UNION ALL"                                                                                                      \
    " SELECT ':relid ' || x.inhrelid, true FROM pg_catalog.pg_inherits x WHERE x.inhparent = c.oid"

/* Sources of the type d: a domain's checks, default and base, an array's elements, a composite's columns, a range's
 * functions. */
#define TYPE                                                                                                          \
    "SELECT x.conbin::pg_catalog.text, true FROM pg_catalog.pg_constraint x"                                          \
    " WHERE x.conrelid = 0 AND x.contypid = d.oid"                                                                    \
    " UNION ALL"                                                                                                      \
    " SELECT d.typdefaultbin::pg_catalog.text, true"                                                                  \
    " UNION ALL"                                                                                                      \
    " SELECT ':resulttype ' || x.x, true FROM (VALUES (d.typbasetype), (d.typelem)) x(x) WHERE x.x >= 16384"          \
    " UNION ALL"                                                                                                      \
    " SELECT ':resulttype ' || x.atttypid, true FROM pg_catalog.pg_attribute x"                                       \
    " WHERE x.attrelid = d.typrelid AND x.attnum > 0 AND x.atttypid >= 16384"                                         \
    " UNION ALL"                                                                                                      \
    " SELECT pg_catalog.format(':resulttype %s :funcid %s :funcid %s', x.rngsubtype, x.rngcanonical::pg_catalog.oid," \
    " x.rngsubdiff::pg_catalog.oid), true FROM pg_catalog.pg_range x WHERE x.rngtypid = d.oid"

/* Functions that are called by a word: TRUNCATE ... CASCADE's on any table, and those of event triggers. */
#define BY_WORD                                                                         \
    "SELECT ':funcid ' || x.tgfoid AS src, true AS parsed FROM pg_catalog.pg_trigger x" \
    " WHERE t.name = 'cascade' AND (x.tgtype::pg_catalog.int4 & 32) <> 0"               \
    " UNION ALL"                                                                        \
    " SELECT ':funcid ' || x.evtfoid, true FROM pg_catalog.pg_event_trigger x"          \
    " WHERE t.kind = ':ddl' AND x.evtenabled <> 'D'"

#define C " COLLATE pg_catalog.\"C\""

const char PG_REACH_QUERY[] =
    "WITH RECURSIVE given(n, sql) AS MATERIALIZED ("
    "SELECT s.n, s.sql FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY s(sql, n)"
    "), reached(node, src, parsed) AS ("
    "SELECT (':' || g.n)" C ", pg_catalog.regexp_replace(g.sql" WITHOUT_EXECUTE C ", false FROM given g"
    " UNION ALL" /* what has no name */
    " (SELECT ':*', pg_catalog.string_agg(' :funcid ' || p.oid, ''), true FROM ("
    "SELECT o.oprcode::pg_catalog.oid FROM pg_catalog.pg_operator o WHERE o.oid >= 16384"
    " UNION SELECT x.castfunc FROM pg_catalog.pg_cast x WHERE x.oid >= 16384"
    " UNION SELECT x.amproc::pg_catalog.oid FROM pg_catalog.pg_amproc x WHERE x.oid >= 16384) i(oid)"
    " JOIN pg_catalog.pg_proc p ON p.oid = i.oid JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    " WHERE l.lanname NOT IN ('c', 'internal') HAVING pg_catalog.count(*) > 0)"
    " UNION"
    " SELECT t.node, o.src" C ", o.parsed FROM (SELECT DISTINCT w.node,"
    " CASE WHEN w.node LIKE ':%' THEN '' ELSE pg_catalog.ltrim(w.node, '\"') END::pg_catalog.name AS name,"
    " CASE WHEN w.node LIKE ':%' THEN pg_catalog.split_part(w.node, ' ', 1) END AS kind,"
    " CASE WHEN w.node LIKE ':%' THEN pg_catalog.split_part(w.node, ' ', 2) END::pg_catalog.oid AS oid"
    " FROM reached r CROSS JOIN LATERAL " NODES " w(node)) t"
    " CROSS JOIN LATERAL ("
    "SELECT f.src, f.parsed FROM ("
    "SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.proname = t.name AND p.oid >= 16384"
    " UNION ALL SELECT t.oid WHERE t.kind IN (':funcid', ':opfuncid', ':aggfnoid', ':winfnoid')) k(oid)"
    " CROSS JOIN LATERAL (SELECT * FROM pg_catalog.pg_proc p WHERE p.oid = k.oid OFFSET 0) p" /* by its index */
    " JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    " CROSS JOIN LATERAL (" FUNCTION ") f(src, parsed)"
    " UNION ALL"
    " SELECT f.src, f.parsed FROM ("
    "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname = t.name"
    " UNION ALL SELECT t.oid WHERE t.kind = ':relid') c(oid)"
    " CROSS JOIN LATERAL (" RELATION ") f(src, parsed) WHERE c.oid >= 16384"
    " UNION ALL"
    " SELECT f.src, f.parsed FROM ("
    "SELECT d.oid FROM pg_catalog.pg_type d WHERE d.typname = t.name"
    " UNION ALL SELECT t.oid WHERE t.kind LIKE ':%type') k(oid)"
    " CROSS JOIN LATERAL (SELECT * FROM pg_catalog.pg_type d WHERE d.oid = k.oid AND d.oid >= 16384 OFFSET 0) d"
    " CROSS JOIN LATERAL (" TYPE ") f(src, parsed)"
    " UNION ALL " BY_WORD ") o WHERE o.src <> ''"
    "), leads(node, there) AS MATERIALIZED ("
    "SELECT DISTINCT r.node, w.node FROM reached r CROSS JOIN LATERAL " NODES " w(node)"
    "), changes(node) AS ("
    "(SELECT r.node FROM reached r WHERE NOT r.parsed AND r.src ~* '" CHANGES "' AND (r.src ~* '[[:<:]]pg_temp'"
    " OR pg_catalog.regexp_replace(r.src, '" LOCALLY "', '', 'gi') ~* '" CHANGES "')"
    " UNION ALL" /* whose rules call set_config, and who updates it may have it by OID */
    " SELECT ':relid ' || c.oid FROM pg_catalog.pg_class c WHERE c.relname = 'pg_settings' AND c.oid < 16384)"
    " UNION"
    " SELECT l.node FROM changes x JOIN leads l ON l.there = x.node"
    ") SELECT g.n,"
    " (SELECT pg_catalog.ltrim(pg_catalog.min(l.there), '\"') FROM leads l JOIN changes x ON x.node = l.there WHERE "
    "l.node = ':' || g.n)"
    " FROM given g WHERE EXISTS (SELECT 1 FROM changes x WHERE x.node IN (':*', ':' || g.n))";

char *reach_statements(struct pg_statement *const *statements, unsigned n)
{
    char *list = NULL;
    size_t list_n = 0;
    FILE *f = open_memstream(&list, &list_n);

    if (f == NULL)
        return NULL;
    fputc('{', f);
    for (unsigned i = 0; i < n; i++) {
        fputs(i > 0 ? ",\"" : "\"", f);
        for (const char *p = statements[i]->statement_sql; *p != '\0'; p++) {
            if (*p == '"' || *p == '\\')
                fputc('\\', f);
            fputc(*p, f);
        }
        fputc('"', f);
    }
    fputc('}', f);
    if (fclose(f) != 0) {
        free(list);
        return NULL;
    }
    return list;
}

bool reach_said(const PGresult *r, unsigned n, const char **through)
{
    char number[16];

    *through = NULL;
    if (r == NULL)
        return true;
    snprintf(number, sizeof number, "%u", n);
    for (int row = 0; row < PQntuples(r); row++)
        if (strcmp(PQgetvalue(r, row, 0), number) == 0) {
            if (!PQgetisnull(r, row, 1))
                *through = PQgetvalue(r, row, 1);
            return true;
        }
    return false;
}
