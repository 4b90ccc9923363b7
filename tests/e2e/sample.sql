-- Sample data of `make run` and of the end-to-end tests; psql variable `rows`: how many items.  Always the same.
BEGIN;

CREATE TABLE items (
    id           integer PRIMARY KEY,
    name         text NOT NULL CHECK (name <> ''),
    category     text NOT NULL DEFAULT 'other',
    price        numeric(10, 2) NOT NULL CHECK (price >= 0),
    quantity     integer NOT NULL DEFAULT 0,
    active       boolean NOT NULL DEFAULT true,
    tags         jsonb NOT NULL DEFAULT '[]',
    rating_score numeric(2, 1),
    rating_count integer NOT NULL DEFAULT 0
);

INSERT INTO items
SELECT n,
       (ARRAY['Small', 'Plain', 'Quiet', 'Bright', 'Folding', 'Sturdy', 'Portable'])[n % 7 + 1] || ' ' ||
       (ARRAY['lamp', 'novel', 'kettle', 'racket', 'puzzle', 'jacket', 'spade', 'radio', 'atlas', 'teapot', 'kite'])[n % 11 + 1]
       || ' ' || n,
       (ARRAY['electronics', 'books', 'kitchen', 'sports', 'toys', 'clothing', 'garden', 'music'])[n % 8 + 1],
       (n::bigint * 7919 % 99900 + 99) / 100.0,
       n::bigint * 31 % 500,
       n % 5 <> 0,
       CASE n % 4
           WHEN 0 THEN '[]'::jsonb
           WHEN 1 THEN '["new"]'::jsonb
           WHEN 2 THEN '["sale", "popular"]'::jsonb
           ELSE jsonb_build_array('batch-' || n % 100, 'popular')
       END,
       (10 + n::bigint * 13 % 41) / 10.0,
       n::bigint * 17 % 1000
FROM generate_series(1, :rows) AS n;

CREATE INDEX items_category ON items (category, id);

CREATE TABLE fortune (
    id      integer PRIMARY KEY,
    message text NOT NULL
);

INSERT INTO fortune VALUES
    (1, 'A queue without a bound is a promise without a date.'),
    (2, 'Whoever measures twice may delete once.'),
    (3, 'The shortest comment is a good name.'),
    (4, 'You will find the bug in the line that you were sure of.'),
    (5, 'Today is a fine day to read the error message.'),
    (6, 'Tea first, then the migration.'),
    (7, '<script>alert("A fortune is text, not markup.");</script>'),
    (8, 'What nobody counts, nobody misses: until Monday.'),
    (9, 'A cache remembers everything except why.'),
    (10, 'Every timeout was once somebody''s optimism.'),
    (11, '急がば回れ。遠い道がいちばん近い。'),
    (12, 'Two backslashes \\ walk into a "string"; one comes out.');

GRANT SELECT, INSERT, UPDATE, DELETE ON items TO vanilla;
GRANT SELECT ON fortune TO vanilla;

COMMIT;

ANALYZE;
