"""Functions that change their session: nobody who comes after them notices, and nobody who calls none of them pays."""
import re
import time

import pytest

from client import Client, one, problem, until
from liar import BOUND, DONE, READY, ROW, Liar, error, message
from load import Load, calm

POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; queue_timeout_ms = 10000; connections = 2; read_only = true; },
  { name = "write"; conninfo = "%(conninfo)s"; queue_timeout_ms = 10000; connections = 2; }
);
"""
ONE = POOLS.replace("connections = 2", "connections = 1")
SCHEMA = """
CREATE ROLE other; GRANT other TO vanilla; GRANT pg_read_all_settings TO vanilla;
CREATE TABLE shadowed (name text); INSERT INTO shadowed VALUES ('right');
CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.shadowed (name text); INSERT INTO elsewhere.shadowed VALUES ('wrong');
GRANT ALL ON SCHEMA elsewhere TO vanilla, other;
CREATE FUNCTION look() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'elsewhere', false); RETURN 1; END $$;
CREATE FUNCTION memory() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET work_mem = '64kB'; RETURN 1; END $$;
CREATE FUNCTION role() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET ROLE other; RETURN 1; END $$;
CREATE FUNCTION reported() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET DateStyle = German; SET TimeZone = 'Asia/Tokyo'; RETURN 1; END $$;
CREATE FUNCTION lock() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(1); RETURN 1; END $$;
CREATE FUNCTION held() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(2); RAISE 'no' USING ERRCODE = '22012'; END $$;
CREATE FUNCTION hidden() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN CREATE TEMP TABLE shadowed AS SELECT 'wrong'::text AS name; RETURN 1; END $$;
CREATE FUNCTION hasty() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET statement_timeout = '1ms'; RETURN 1; END $$;
CREATE FUNCTION writable() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET default_transaction_read_only = off; RETURN 1; END $$;
CREATE FUNCTION barred() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET default_transaction_read_only = on; RETURN 1; END $$;
CREATE FUNCTION made(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; RETURN 1; END $$;
CREATE FUNCTION nested() RETURNS int LANGUAGE sql AS $$ SELECT public.look() + public.memory() - 1 $$;
CREATE FUNCTION parsed() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT nested(); END;
CREATE VIEW seen AS SELECT nested() AS n;
CREATE VIEW bare AS SELECT length(set_config('work_mem', '64kB', false)) - 3 AS n;
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.nested(); RETURN new; END $$;
CREATE TABLE watched (n int); CREATE TRIGGER watch BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION fired();
CREATE TABLE filled (n int, m int DEFAULT nested());
CREATE TABLE fenced (n int CHECK (public.nested() = 1));
CREATE TABLE hedged (n int); INSERT INTO hedged VALUES (1);
CREATE POLICY hedge ON hedged USING (public.nested() = 1); ALTER TABLE hedged ENABLE ROW LEVEL SECURITY;
CREATE TABLE roots (n int PRIMARY KEY); CREATE TABLE leaves (n int REFERENCES roots ON DELETE CASCADE);
CREATE FUNCTION fell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.nested(); RETURN old; END $$;
CREATE TRIGGER fall BEFORE DELETE ON leaves FOR EACH ROW EXECUTE FUNCTION fell();
CREATE TABLE parted (n int) PARTITION BY RANGE (n); CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TRIGGER watch BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION fired();
CREATE DOMAIN checked AS int CHECK (public.nested() = 1);
CREATE AGGREGATE gathered (int) (sfunc = gather, stype = int);
CREATE DOMAIN filling AS int DEFAULT public.nested(); CREATE TABLE presets (n int, m filling);
CREATE TYPE pair AS (n checked); CREATE DOMAIN pairs AS pair[]; CREATE TABLE several (n checked[], m pairs);
CREATE VIEW paired AS SELECT (('(' || n || ')')::pair).n AS n FROM generate_series(1, 1) AS n;
CREATE FUNCTION taken(n checked) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION given() RETURNS checked LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION outward(OUT n checked) LANGUAGE plpgsql AS $$ BEGIN n := 1; END $$;
CREATE FUNCTION tabled() RETURNS TABLE (n checked) LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION sure(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM public.nested(); RETURN 1; END $$;
CREATE TABLE sorted (n int); CREATE INDEX ON sorted (public.sure(n));
CREATE TABLE sifted (n int); CREATE INDEX ON sifted (n) WHERE public.sure(n) = 1;
CREATE TABLE listed (n int) PARTITION BY LIST (public.sure(n)); CREATE TABLE list PARTITION OF listed FOR VALUES IN (1);
CREATE FUNCTION emptied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.nested(); RETURN NULL; END $$;
CREATE TABLE stems (n int PRIMARY KEY); CREATE TABLE twigs (n int REFERENCES stems);
CREATE TRIGGER clear BEFORE TRUNCATE ON twigs FOR EACH STATEMENT EXECUTE FUNCTION emptied();
CREATE VIEW settings AS SELECT * FROM pg_settings;
CREATE TABLE ruled (n int); CREATE RULE rule AS ON INSERT TO ruled DO INSTEAD UPDATE pg_settings SET setting = '64kB' WHERE name = 'work_mem';
CREATE FUNCTION atomic() RETURNS void LANGUAGE sql BEGIN ATOMIC UPDATE pg_settings SET setting = '64kB' WHERE name = 'work_mem'; END;
CREATE FUNCTION inside() RETURNS int LANGUAGE plpgsql SET search_path = pg_temp AS
  $$ BEGIN CREATE TABLE shadowed AS SELECT 'wrong'::text AS name; RETURN 1; END $$;
CREATE FUNCTION behind() RETURNS int LANGUAGE plpgsql SET search_path = nowhere, pg_temp AS
  $$ BEGIN CREATE TABLE shadowed AS SELECT 'wrong'::text AS name; RETURN 1; END $$;
CREATE FUNCTION variable() RETURNS int LANGUAGE plpgsql AS $$ DECLARE path text := 'pg_' || 'temp'; BEGIN
  PERFORM set_config('search_path', path, true); CREATE TABLE shadowed AS SELECT 'wrong'::text AS name; RETURN 1; END $$;
CREATE FUNCTION remarked() RETURNS int LANGUAGE plpgsql AS $$ BEGIN /* a /* b */ c */ SET search_path = elsewhere; RETURN 1; END $$;
CREATE FUNCTION spaced() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET local .x = 'y'; RETURN 1; END $$;
CREATE FUNCTION amid() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN CREATE /* /* a */ b */ TEMP TABLE shadowed AS SELECT 'wrong'::text AS name; RETURN 1; END $$;
CREATE FUNCTION into_one() RETURNS int LANGUAGE sql AS $$ SELECT 'wrong'::text AS name INTO TEMP shadowed; SELECT 1 $$;
CREATE FUNCTION "quo""ted"() RETURNS int LANGUAGE sql AS 'SELECT public.nested()';
CREATE FUNCTION ":colon"() RETURNS int LANGUAGE sql AS 'SELECT public.nested()';
GRANT ALL ON ALL TABLES IN SCHEMA public, elsewhere TO vanilla, other;
"""
SCHEMA = SCHEMA.replace("CREATE AGGREGATE", """CREATE FUNCTION gather(a int, b int) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN RETURN public.nested(); END $$;
CREATE AGGREGATE""")
STATE = """concat_ws(' ', current_setting('search_path'), current_setting('work_mem'), current_user, session_user,
  current_setting('statement_timeout'), current_setting('default_transaction_read_only'), date '2024-02-13',
  current_setting('TimeZone'), (SELECT name FROM shadowed),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))"""
RIGHT = '"\\"$user\\", public 4MB vanilla vanilla 5s %s 2024-02-13 UTC right 0"'
HARMLESS = r"""
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/state"; sql = "SELECT %(state)s"; result = "value"; },
  { method = "POST"; path = "/state"; sql = "SELECT %(state)s"; result = "value"; }
""" % {"state": STATE}
CALLS = ("look", "memory", "role", "reported", "lock", "nested", "parsed")
READS = {**{name: "SELECT public.%s()" % name for name in CALLS + ("writable",)}, "seen": "SELECT n FROM public.seen",
         "bare": "SELECT n FROM bare", "hedged": "SELECT n FROM hedged", "domain": "SELECT 1::checked", "gathered": "SELECT gathered(1)",
         "made": "SELECT made('SET work_mem = 65')", "shout": "SELECT PUBLIC.LOOK()", "paired": "SELECT n FROM paired",
         "taken": "SELECT taken(1)", "given": "SELECT given()", "outward": "SELECT outward()", "tabled": "SELECT n FROM tabled()",
         "remarked": "SELECT remarked()", "spaced": "SELECT spaced()", "quoted": r'SELECT \"quo\"\"ted\"()', "colon": r'SELECT \":colon\"()',
         "xml": "SELECT least(length(table_to_xml('seen', true, false, '')::text), 1)"}
MAKERS = ("inside", "behind", "variable", "amid", "into_one")     # of temporary tables
WRITES = {**{name: "SELECT public.%s()" % name for name in CALLS + ("hidden", "barred")},
          "watched": "INSERT INTO watched VALUES (1) RETURNING n", "filled": "INSERT INTO filled VALUES (1) RETURNING n",
          "fenced": "INSERT INTO fenced VALUES (1) RETURNING n", "parted": "INSERT INTO parted VALUES (1) RETURNING n",
          "roots": "WITH gone AS (DELETE FROM roots) SELECT 1", "do": "DO $$BEGIN SET work_mem = 65; END$$",
          "presets": "INSERT INTO presets (n) VALUES (1) RETURNING n", "several": "INSERT INTO several (n) SELECT ARRAY[1] RETURNING 1",
          "pairs": "INSERT INTO several (m) SELECT ARRAY[ROW(1)::pair] RETURNING 1", "sorted": "INSERT INTO sorted VALUES (1) RETURNING n",
          "sifted": "INSERT INTO sifted VALUES (1) RETURNING n", "listed": "INSERT INTO listed VALUES (1) RETURNING n",
          "list": "INSERT INTO list VALUES (1) RETURNING n", "stems": "TRUNCATE stems CASCADE",
          "settings": "UPDATE settings SET setting = '64kB' WHERE name = 'work_mem'", "ruled": "INSERT INTO ruled VALUES (1)",
          "atomic": "SELECT atomic()", **{name: "SELECT %s()" % name for name in MAKERS}}
SILENT = ("do", "stems", "settings", "ruled", "atomic")      # they return nothing


def routes(reads, writes=(), more=HARMLESS):
    """A route for each: GET on the pool that reads, POST on the one that writes."""
    one_of = '  { method = "%s"; path = "/%s"; sql = "%s"; result = "%s"; },\n'
    return ("".join(one_of % ("GET", name, sql, "value") for name, sql in dict(reads).items())
            + "".join(one_of % ("POST", name, sql, "none" if name in SILENT else "value") for name, sql in dict(writes).items()) + more)


def noticed(running):
    """Of which routes the log says that they may change their session."""
    return set(re.findall(r"pool \w+: (\w+ /\S*) may change its session", running.log()))


def resets(running):
    return sum(pool["resets"] for pool in running.stats()["pools"])


def states(running):
    """What the next ones find, on every connection."""
    for _ in range(6):
        assert one(running.port, "GET", "/state").body.decode() == RIGHT % "on"
        assert one(running.port, "POST", "/state").body.decode() == RIGHT % "off"


@pytest.fixture
def running(server, own_cluster):
    own_cluster.sql(SCHEMA)
    own_cluster.sql("INSERT INTO roots VALUES (1); INSERT INTO leaves VALUES (1)")
    return server(routes(READS, WRITES), POOLS, conninfo=own_cluster.conninfo)


def test_whoever_comes_after(running, own_cluster):
    """One after the other: each leaves its session as it was, whatever leads to the change."""
    assert noticed(running) == {"GET /" + name for name in READS} | {"POST /" + name for name in WRITES}
    states(running)
    for method, names in (("GET", READS), ("POST", WRITES)):
        for name in names:
            for _ in range(3):
                answer = one(running.port, method, "/" + name)
                assert answer.status == (204 if name in SILENT else 200) and answer.body in (b"1", b""), (name, answer.body)
                states(running)
    pools = running.stats()["pools"]
    assert sum(pool["resets"] for pool in pools) == 3 * (len(READS) + len(WRITES))
    assert sum(pool["disconnects"] for pool in pools) == 0, "what PostgreSQL reports is set back like the rest"
    assert own_cluster.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").strip() == "0"


def test_under_load(running, own_cluster):
    """Neighbours in the same turns and on the same connections; those who reach nothing of the kind share their Syncs."""
    right = {"/state": (RIGHT % "on").encode(), ("POST", "/state", "{}"): (RIGHT % "off").encode(), "/row/5": b"5", "/row/6": b"6"}
    targets = {**{"/" + name: b"1" for name in READS}, **right,
               **{("POST", "/" + name, "{}"): b"1" for name in WRITES if name not in SILENT + MAKERS}}
    with Load(running.port, targets, clients=12) as load, Client(running.port) as client:
        for _ in range(40):
            client.send("".join("GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % ("look" if n % 7 == 3 else "state") for n in range(40)))
            for n in range(40):
                assert client.read().body == (b"1" if n % 7 == 3 else right["/state"])
        until(lambda: min(pool["resets"] - more for pool, more in zip(running.stats()["pools"], (40, 0))) > 60, timeout=60)
    assert set(load.seen) == {200} and not load.strange, (load.seen, load.strange[:3])
    states(running)
    until(lambda: calm(running))
    read, write = running.stats()["pools"]
    assert read["disconnects"] + write["disconnects"] == 0
    assert own_cluster.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").strip() == "0"


def test_sync_batching_goes_on(server, own_cluster):
    """Between the resets as without them, however long a statement takes."""
    own_cluster.sql(SCHEMA)
    running = server(routes({"look": READS["look"]}), POOLS.replace("read_only = true;", "read_only = true; batch_us = 1000000;"),
                     conninfo=own_cluster.conninfo)
    with Client(running.port) as client:
        for _ in range(20):
            client.send("".join("GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % ("look" if n == 20 else "row/5") for n in range(40)))
            assert all(client.read().status == 200 for n in range(40))
    (read, _) = running.stats()["pools"]
    assert read["resets"] == 20 and read["syncs"] * 2 < read["queries"] == 800, read


def test_an_error_resets_as_well(server, own_cluster):
    """What is rolled back are settings; a lock of the session's is not."""
    own_cluster.sql(SCHEMA)
    running = server(routes({"held": "SELECT held()"}, {"held": "SELECT held()"}), POOLS, conninfo=own_cluster.conninfo)
    for method in ("GET", "POST") * 3:
        assert problem(one(running.port, method, "/held"), 400)["sqlstate"] == "22012"
        states(running)
    assert resets(running) == 6


def test_clients_that_leave(server, own_cluster):
    """While such a query runs: it is cancelled, and should the cancel be late and hit the reset, the connection is replaced."""
    own_cluster.sql(SCHEMA)
    slow = {"slow": "SELECT look() + lock() FROM pg_sleep(20)", "soon": "SELECT look() + lock() - 1 FROM pg_sleep(0.1)"}
    running = server(routes(slow, slow), POOLS, conninfo=own_cluster.conninfo)
    targets = {"/state": (RIGHT % "on").encode(), ("POST", "/state", "{}"): (RIGHT % "off").encode()}
    with Load(running.port, targets, clients=4) as load:
        for n in range(30):
            client = Client(running.port)
            client.send_request("GET" if n % 2 else "POST", "/slow" if n % 3 else "/soon")
            time.sleep(0.06)
            client.reset()
            time.sleep(0.06)
    assert set(load.seen) <= {200, 503} and not load.strange, (load.seen, load.strange[:3])
    until(lambda: calm(running), timeout=15)
    until(lambda: one(running.port, "GET", "/state").status == one(running.port, "POST", "/state").status == 200)
    states(running)
    until(lambda: own_cluster.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").strip() == "0")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_time_for_the_reset(server, own_cluster, method):
    """The millisecond that a function leaves to its session is for RESET ALL alone; should that not do, the connection is
    replaced, and those behind it are asked elsewhere."""
    own_cluster.sql(SCHEMA)
    running = server(routes({"hasty": "SELECT hasty()"}, {"hasty": "SELECT hasty()"}), POOLS, conninfo=own_cluster.conninfo)
    targets = {"/state": (RIGHT % "on").encode(), ("POST", "/state", "{}"): (RIGHT % "off").encode()}
    with Load(running.port, targets, clients=6) as load:
        for _ in range(100):
            assert one(running.port, method, "/hasty").status in (200, 503)
    assert set(load.seen) <= {200, 503} and not load.strange, (load.seen, load.strange[:3])
    until(lambda: one(running.port, "GET", "/state").status == one(running.port, "POST", "/state").status == 200)
    states(running)


def test_all_settings_come_back(server, own_cluster):
    """To what the connection string and the pool said, not to the server's or the role's defaults."""
    own_cluster.sql(SCHEMA)
    own_cluster.sql("ALTER ROLE vanilla SET work_mem = '9MB'; ALTER ROLE other SET work_mem = '7MB'; CREATE ROLE first; GRANT first TO vanilla; "
                    "GRANT ALL ON ALL TABLES IN SCHEMA public TO first")
    change = "; ".join("SET %s" % each for each in (
        "DateStyle = German", "bytea_output = escape", "extra_float_digits = 0", "IntervalStyle = sql_standard", "statement_timeout = 77777",
        "default_transaction_read_only = on", "plan_cache_mode = force_custom_plan", "client_encoding = LATIN1", "enable_sort = off",
        "application_name = changed", "jit = on", "lock_timeout = 9", "SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "ROLE other", "my.own = 1"))
    own_cluster.sql("CREATE FUNCTION upset() RETURNS int LANGUAGE plpgsql AS $$ BEGIN %s; RETURN 1; END $$" % change)
    everything = ("SELECT concat(current_user, json_object_agg(name, setting ORDER BY name) FILTER (WHERE name !~ '^(transaction|plpgsql)'), "
                  "current_setting('my.own', true)) FROM pg_settings")
    running = server(routes({}, {"upset": "SELECT upset()", "everything": everything}), ONE.replace(
        'connections = 1; }', 'connections = 1; plan = "generic"; }').replace("%(conninfo)s", "%(conninfo)s options='-c role=first -c enable_seqscan=off'"),
        conninfo=own_cluster.conninfo)
    before = one(running.port, "POST", "/everything").body
    assert b"force_generic_plan" in before and b"first" in before[:7] and b"5000" in before
    for _ in range(3):
        assert one(running.port, "POST", "/upset").body == b"1"
        after = one(running.port, "POST", "/everything").body
        assert after == before, [(a, b) for a, b in zip(before.split(b","), after.split(b",")) if a != b]
    assert sum(pool["disconnects"] for pool in running.stats()["pools"]) == 0


def test_the_harmless(server, own_cluster):
    """What only looks as if it might is not taken for it."""
    own_cluster.sql(SCHEMA)
    own_cluster.sql("""
CREATE EXTENSION pg_trgm;
CREATE FUNCTION renamed() RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF true THEN UPDATE shadowed -- the only one
  SET name = name; END IF; /* SET x; */ RETURN 1; END $$;
CREATE FUNCTION locally() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET LOCAL work_mem = '64kB'; PERFORM set_config('my.own', 'x', true);
  PERFORM pg_advisory_xact_lock(1); RETURN 1; END $$;
CREATE FUNCTION fixed() RETURNS int LANGUAGE plpgsql SET search_path = elsewhere AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION promised(what text) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ DECLARE n int; BEGIN EXECUTE what INTO n; RETURN n; END $$;
CREATE FUNCTION plain() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;
CREATE TABLE temp (n int); CREATE FUNCTION into_temp() RETURNS int LANGUAGE plpgsql AS
  $$ DECLARE temp int; BEGIN SELECT 1 INTO temp; SELECT 1 INTO temp FROM shadowed; RETURN temp; END $$;
CREATE FUNCTION secured() RETURNS int LANGUAGE plpgsql SET search_path = elsewhere, pg_temp AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION led() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('search_path', 'elsewhere', true); RETURN 1; END $$;
CREATE DOMAIN natural_number AS int DEFAULT 1 CHECK (VALUE > 0);
CREATE TABLE typed (n natural_number, m natural_number[], l int4range); CREATE INDEX ON typed (abs(n)) WHERE n > 0;
CREATE VIEW viewed AS SELECT name, similarity(name, 'x') FROM shadowed;
CREATE TABLE counted (n serial PRIMARY KEY, m int DEFAULT 1 CHECK (m > 0))""")
    own_cluster.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO vanilla; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO vanilla")
    reads = {"fixed": "SELECT fixed()", "locally": "SELECT locally()", "promised": "SELECT promised('SELECT 1')", "plain": "SELECT plain()",
             "secured": "SELECT secured()", "led": "SELECT led()", "into_temp": "SELECT into_temp()",
             "viewed": "SELECT count(*) FROM viewed", "similar": "SELECT count(*) FROM shadowed WHERE 'a' % name OR name <> ''"}
    writes = {"renamed": "SELECT renamed()", "counted": "INSERT INTO counted (m) VALUES (1) ON CONFLICT (n) DO UPDATE SET m = 1 RETURNING m",
              "updated": "UPDATE shadowed SET name = name RETURNING 1", "temp": "INSERT INTO temp VALUES (1) RETURNING n",
              "typed": "INSERT INTO typed (m) VALUES ('{1}') RETURNING 1", "config": "SELECT length(set_config('my.own', 'x', true))"}
    running = server(routes(reads, writes), POOLS, conninfo=own_cluster.conninfo)
    for method, names in (("GET", reads), ("POST", writes)):
        for name in names:
            assert one(running.port, method, "/" + name).body == b"1", name
    states(running)
    assert noticed(running) == set() and resets(running) == 0


def test_what_has_no_name(server, own_cluster):
    """A range's and an operator class's functions, and those of event triggers, which hear of what is defined."""
    own_cluster.sql(SCHEMA)
    own_cluster.sql("""
CREATE FUNCTION gap(a int, b int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM public.sure(1); RETURN a - b; END $$;
CREATE TYPE wide AS RANGE (subtype = int, subtype_diff = gap); CREATE TABLE ranged (n wide);
CREATE FUNCTION heard() RETURNS event_trigger LANGUAGE plpgsql AS
  $$ BEGIN IF session_user = 'vanilla' THEN PERFORM public.nested(); END IF; END $$;
CREATE EVENT TRIGGER hear ON ddl_command_end EXECUTE FUNCTION heard();
CREATE FUNCTION defines() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DROP TABLE IF EXISTS made; CREATE TABLE made (n int); RETURN 1; END $$;
GRANT ALL ON SCHEMA public TO vanilla; GRANT ALL ON ranged TO vanilla""")
    writes = {"ranged": "INSERT INTO ranged VALUES ('[1,2)') RETURNING 1", "defines": "SELECT defines()",
              "created": "SELECT n AS created FROM generate_series(1, 1) AS n"}
    running = server(routes({}, writes), POOLS, conninfo=own_cluster.conninfo)
    assert noticed(running) == {"POST /ranged", "POST /defines"}
    for name in writes:
        assert one(running.port, "POST", "/" + name).body == b"1"
        states(running)
    own_cluster.sql("""DROP EVENT TRIGGER hear; CREATE TYPE mood AS ENUM ('bad', 'good');
CREATE FUNCTION compare(a mood, b mood) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM public.sure(1); RETURN enum_cmp(a, b); END $$;
CREATE OPERATOR CLASS moods FOR TYPE mood USING btree AS OPERATOR 1 < (anyenum, anyenum), OPERATOR 2 <= (anyenum, anyenum),
  OPERATOR 3 = (anyenum, anyenum), OPERATOR 4 >= (anyenum, anyenum), OPERATOR 5 > (anyenum, anyenum), FUNCTION 1 compare(mood, mood)""")
    again = server(routes({"one": "SELECT 1"}), POOLS, conninfo=own_cluster.conninfo)
    assert "GET /one" in noticed(again), "which index is used is not known"


def test_a_function_replaced(server, own_cluster):
    """It is looked at again whenever statements are prepared."""
    own_cluster.sql(SCHEMA)
    own_cluster.sql("CREATE FUNCTION turned() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    running = server(routes({"turned": "SELECT turned()"}), POOLS, conninfo=own_cluster.conninfo)
    assert one(running.port, "GET", "/turned").body == b"1" and noticed(running) == set()
    own_cluster.sql("CREATE OR REPLACE FUNCTION turned() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET work_mem = '64kB'; RETURN 1; END $$; "
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
    until(lambda: noticed(running) == {"GET /turned"})
    until(lambda: one(running.port, "GET", "/turned").body == b"1")
    until(lambda: one(running.port, "POST", "/state").status == 200)
    states(running)


def test_always_and_never(server, own_cluster):
    own_cluster.sql(SCHEMA)
    reads, writes = {"memory": "SELECT memory()"}, {"memory": "SELECT memory()"}
    pools = ONE.replace("read_only = true;", 'read_only = true; reset = "always";').replace("connections = 1; }", 'connections = 1; reset = "never"; }')
    running = server(routes(reads, writes), pools, conninfo=own_cluster.conninfo)
    assert one(running.port, "GET", "/memory").body == one(running.port, "POST", "/memory").body == b"1"
    assert one(running.port, "GET", "/state").body.decode() == RIGHT % "on"
    assert one(running.port, "POST", "/state").body.decode() == (RIGHT % "off").replace("4MB", "64kB")
    read, write = running.stats()["pools"]
    assert read["resets"] == read["queries"] == 2 and write["resets"] == 0 and noticed(running) == set()


def test_the_catalogue_cannot_be_asked(server, own_cluster):
    """Then every statement may have changed its session; the pool serves."""
    own_cluster.sql(SCHEMA)
    own_cluster.sql("REVOKE SELECT ON pg_proc FROM PUBLIC")
    running = server(routes({"look": "SELECT look()"}), POOLS, conninfo=own_cluster.conninfo)
    assert "permission denied" in running.log() and running.log().count("is not known") == 2     # once for each pool
    assert one(running.port, "GET", "/look").body == b"1"
    states(running)
    assert resets(running) == 13


LIES = {
    "an error": error("57014") + READY,
    "a fatal one": error("57P01", severity=b"FATAL"),
    "nothing, and the end": None,
    "a transaction": DONE + message(b"Z", b"T"),
    "garbage": b"\xff\x00garbage\r\n" * 20,
    "a result of the extended protocol": BOUND + ROW + DONE + READY,
    "ready twice": DONE + READY + READY,
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_reset_that_goes_wrong(server, lie):
    """The connection is replaced; the answer before it was right, and so is the next."""
    reset = POOLS.replace("connections = 2;", 'connections = 2; reset = "always"; reconnect_max_ms = 100;')
    with Liar() as liar:
        running = server(r"""
          { method = "GET";  path = "/n"; sql = "SELECT 7 AS n"; result = "value"; },
          { method = "POST"; path = "/n"; sql = "SELECT 7 AS n"; result = "value"; }""", reset, conninfo=liar.conninfo)
        for method in ("GET", "POST"):
            assert one(running.port, method, "/n").body == b"7"
            before = sum(pool["disconnects"] for pool in running.stats()["pools"])
            liar.lie_at_reset(LIES[lie])
            assert one(running.port, method, "/n").body == b"7"
            until(lambda: sum(pool["disconnects"] for pool in running.stats()["pools"]) == before + 1)
            until(lambda: one(running.port, method, "/n").status == 200)
            assert one(running.port, method, "/n").body == b"7"
        until(lambda: calm(running))
