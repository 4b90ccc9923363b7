-- Types of its own for to_json_corpus.sql, one statement per line.
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"', 'very happy', 'null', 'привет');
CREATE DOMAIN positive AS int4 CHECK (value > 0);
CREATE DOMAIN more_positive AS positive CHECK (value > 10);
CREATE DOMAIN stamps AS timestamptz[];
CREATE TYPE pair AS (a int4, b text);
CREATE TYPE everything AS ("Id" int8, "a ""name""" text, price numeric(12,2), ratio float8, ok bool, at timestamptz, day date, doc jsonb, raw json, tags text[], m mood, p pair, ps pair[], d more_positive, ds stamps, boxes box[], "naïve" bytea, nothing int4);
CREATE TYPE empty_type AS ();
CREATE DOMAIN pair_domain AS pair CHECK ((value).a IS DISTINCT FROM 13);
CREATE DOMAIN pairs_domain AS pair_domain[];
CREATE TABLE dropped (id int4, gone text, name text);
ALTER TABLE dropped DROP COLUMN gone;
ALTER TABLE dropped ADD COLUMN later numeric DEFAULT 1.50;
INSERT INTO dropped VALUES (1, 'one'), (2, NULL);
CREATE EXTENSION IF NOT EXISTS hstore;
CREATE EXTENSION IF NOT EXISTS citext;
GRANT SELECT ON dropped TO PUBLIC;
