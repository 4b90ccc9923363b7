"""What a statement can do to its neighbours and to those after it, and what PostgreSQL's errors become."""
import json
import threading
import time

import psycopg2
import pytest

from client import Client, one, problem, until
from gate import Gate
from load import Load, calm

POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 2; read_only = true; statement_timeout_ms = 30000; queue_timeout_ms = 20000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; statement_timeout_ms = 30000; queue_timeout_ms = 20000; }
);
"""
ROUTES = r"""
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/divide/{n}"; sql = "SELECT 100 / $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET";  path = "/changing"; sql = "SELECT * FROM changing"; result = "row"; },
  { method = "GET";  path = "/typed/{id}"; sql = "SELECT name FROM changing WHERE id = $1"; params = [ "path.id" ]; result = "value"; },
  { method = "GET";  path = "/keyed/{k}"; sql = "SELECT n FROM keyed WHERE k = $1"; params = [ "path.k" ]; result = "value"; },
  { method = "POST"; path = "/keyed/{k}"; sql = "UPDATE keyed SET n = n + 1, t = $2 WHERE k = $1 RETURNING n";
    params = [ "path.k", "query.t=1" ]; result = "value"; },
  { method = "GET";  path = "/parts"; sql = "SELECT whole FROM assembled"; result = "row"; },
  { method = "POST"; path = "/new"; sql = "INSERT INTO limits (id, kind, parent, span) VALUES ($1, $2, $3, int4range($4, $5)) RETURNING id";
    params = [ "body.id", "body.kind=a", "body.parent=0", "body.from=0", "body.to=0" ]; result = "value"; },
  { method = "POST"; path = "/code/{code}"; sql = "SELECT raise_code($1)"; params = [ "path.code" ]; result = "none"; },
  { method = "POST"; path = "/secret"; sql = "SELECT 1 FROM secret"; result = "none"; },
  { method = "POST"; path = "/lock/{id}"; sql = "UPDATE locked SET n = n + 1 WHERE id = $1"; params = [ "path.id" ]; result = "none"; },
  { method = "POST"; path = "/both/{a}/{b}"; sql = "SELECT lock_both($1, $2)"; params = [ "path.a", "path.b" ]; result = "none"; },
  { method = "POST"; path = "/step/{id}"; sql = "SELECT step($1)"; params = [ "path.id" ]; result = "none"; },
  { method = "POST"; path = "/settings"; sql = "SELECT change_settings()"; result = "none"; },
  { method = "POST"; path = "/path"; sql = "SELECT change_path()"; result = "none"; },
  { method = "GET";  path = "/found"; sql = "SELECT count(*) FROM locked"; result = "value"; pool = "write"; },
  { method = "GET";  path = "/when"; sql = "SELECT timestamptz '2024-02-03 04:05:06+00' AS at, current_setting('search_path') AS path"; result = "row"; pool = "write"; },
  { method = "POST"; path = "/call/{code}"; sql = "CALL keep_and_fail($1)"; params = [ "path.code" ]; result = "none"; },
  { method = "GET";  path = "/kept"; sql = "SELECT count(*) FROM later"; result = "value"; },
  { method = "POST"; path = "/deferred"; sql = "INSERT INTO later VALUES ($1)"; params = [ "body.id" ]; result = "none"; },
  { method = "POST"; path = "/nap"; sql = "SELECT 1 FROM pg_sleep(30)"; result = "none"; },
  { method = "GET";  path = "/writing"; sql = "SELECT nextval('limits_seq')"; result = "value"; }
"""
SCHEMA = """
CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents VALUES (0);
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE limits (id int PRIMARY KEY, kind text NOT NULL CHECK (kind <> 'bad'), parent int REFERENCES parents,
                     span int4range, EXCLUDE USING gist (span WITH &&));
CREATE SEQUENCE limits_seq;
CREATE TABLE locked (id int PRIMARY KEY, n int); INSERT INTO locked VALUES (1, 0), (2, 0);
CREATE TABLE secret (id int); CREATE TABLE later (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE changing (id int, name text); INSERT INTO changing VALUES (1, 'one');
CREATE TABLE keyed (k int, n int, t text); INSERT INTO keyed VALUES (1, 0, '1');
CREATE TYPE part AS (a int, b text); CREATE TABLE assembled (whole part); INSERT INTO assembled VALUES (ROW(1, 'x'));
CREATE FUNCTION raise_code(code text) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = 'raised'; END $$;
CREATE FUNCTION lock_both(a int, b int) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN UPDATE locked SET n = n + 1 WHERE id = a; PERFORM pg_advisory_xact_lock_shared(1); UPDATE locked SET n = n + 1 WHERE id = b; END $$;
CREATE FUNCTION step(a int) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN UPDATE locked SET n = n + 1 WHERE id = a; PERFORM pg_advisory_xact_lock_shared(1); END $$;
CREATE FUNCTION change_settings() RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN PERFORM set_config('DateStyle', 'German', false); PERFORM set_config('search_path', 'nowhere', false);
     PERFORM set_config('bytea_output', 'escape', false); END $$;
CREATE FUNCTION change_path() RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN PERFORM set_config('search_path', 'nowhere', false); END $$;
CREATE PROCEDURE keep_and_fail(code text) LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO later VALUES (nextval('limits_seq')); COMMIT; RAISE EXCEPTION USING ERRCODE = code, MESSAGE = 'raised'; END $$;
CREATE PROCEDURE open_end() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO vanilla; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO vanilla;
REVOKE ALL ON secret FROM vanilla;
"""


@pytest.fixture
def running(server, own_cluster):
    own_cluster.sql(SCHEMA)
    return server(ROUTES, POOLS, conninfo=own_cluster.conninfo)


def test_one_bad_query_in_a_batch(running):
    """Its neighbours are answered, rightly and once."""
    with Client(running.port) as client:
        for bad in range(0, 40, 7):
            client.send("".join("GET /divide/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (0 if n == bad else n + 1) for n in range(40)))
            for n in range(40):
                answer = client.read()
                if n == bad:
                    assert problem(answer, 400)["sqlstate"] == "22012"
                else:
                    assert answer.status == 200 and answer.body == b"%d" % (100 // (n + 1))
    with Load(running.port, {"/divide/0": None, "/row/5": b"5", "/row/6": b"6", "/row/7": b"7"}) as load:
        until(lambda: min(load.seen.get(code, 0) for code in (200, 400)) > 100, timeout=30)
    assert not load.strange and set(load.seen) == {200, 400}, (load.seen, load.strange)
    assert all(target == "/divide/0" for _, code, target in load.codes if code == 400)


@pytest.mark.parametrize("change,body", [
    ("ALTER TABLE changing ADD COLUMN more int DEFAULT 5", b'{"id":1,"name":"one","more":5}'),
    ("ALTER TABLE changing ALTER COLUMN id TYPE text USING 'n' || id", b'{"id":"n1","name":"one"}'),
    ("BEGIN; DROP TABLE changing; CREATE TABLE changing (id int, other bool); INSERT INTO changing VALUES (2, true); "
     "GRANT ALL ON changing TO vanilla; COMMIT", b'{"id":2,"other":true}'),
])
def test_ddl_under_load(running, own_cluster, change, body):
    old = b'{"id":1,"name":"one"}'
    with Load(running.port, {"/changing": None, "/row/5": b"5"}) as load:
        time.sleep(0.3)
        assert one(running.port, "GET", "/changing").body == old
        own_cluster.sql(change)
        until(lambda: one(running.port, "GET", "/changing").body == body)
        assert not load.well_within(0.6)
    assert not load.strange, load.strange[:5]
    failed = sum(code != 200 for _, code, _ in load.codes)
    assert failed <= 2, ("one failed answer per connection at the most", load.seen)
    assert one(running.port, "GET", "/changing").body == body


def test_a_parameter_of_another_type(running, own_cluster):
    """What is refused without a round trip is refused by a type that may be out of date: that is found out within a second
    or two, by a value that does not fit as by one that does, and for all connections."""
    assert one(running.port, "GET", "/typed/1").body == b'"one"'
    assert problem(one(running.port, "GET", "/typed/n1"), 400)["parameter"] == "path.id"
    own_cluster.sql("ALTER TABLE changing ALTER COLUMN id TYPE text USING 'n' || id")
    until(lambda: one(running.port, "GET", "/typed/n1").status == 200)
    for _ in range(8):
        assert one(running.port, "GET", "/typed/n1").body == b'"one"'
    own_cluster.sql("ALTER TABLE changing ALTER COLUMN id TYPE int USING substr(id, 2)::int")
    with Load(running.port, {"/typed/1": None, "/row/5": b"5"}) as load:
        until(lambda: one(running.port, "GET", "/typed/1").body == b'"one"')
        assert not load.well_within(0.6)
    assert not load.strange, load.strange[:5]


def test_bad_values_beside_good_ones_raise_no_doubt(running):
    """Whoever sends nonsense all the time does not make the statements be prepared again and again."""
    assert one(running.port, "GET", "/typed/1").status == 200
    for _ in range(10):
        before = running.total("alloc.connect")
        with Load(running.port, {"/typed/1": b'"one"', "/typed/x": None}, clients=4) as load:
            time.sleep(1.5)
        assert set(load.seen) == {200, 400} and not load.strange, (load.seen, load.strange[:3])
        looked = running.total("alloc.connect") != before
        # When no good one comes for a second there is doubt, and rightly so: that was a round of another story.
        good = [when for when, code, _ in load.codes if code == 200]
        if max(after - when for when, after in zip(good, good[1:])) < 0.3 and good[-1] - good[0] > 1.3:
            break
    assert not looked, "libpq has been at work"


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("change", [
    "ALTER TABLE keyed ALTER k TYPE text",
    "BEGIN; ALTER TABLE keyed RENAME TO keyed_old; CREATE TABLE keyed (k text, n int, t text); INSERT INTO keyed VALUES ('1', 0, '1'); "
    "GRANT ALL ON keyed TO vanilla; COMMIT", "ALTER TABLE keyed ALTER t TYPE int USING t::int"])
def test_ddl_with_many_in_flight(server, own_cluster, connections, change):
    """PostgreSQL refuses all that wait on a connection, before it runs them: each is asked again, reads and writes alike."""
    own_cluster.sql(SCHEMA)
    running = server(ROUTES, POOLS.replace("connections = 2", "connections = %d" % connections), conninfo=own_cluster.conninfo)
    targets = {"/keyed/1": None, ("POST", "/keyed/1", "{}"): None}
    with Load(running.port, targets, clients=32) as load:
        time.sleep(0.3)
        own_cluster.sql(change)
        before = len(load.codes)
        until(lambda: len(load.codes) > before + 100, timeout=30)
        assert not load.well_within(0.6)
    assert not load.strange, load.strange[:5]
    failed = [code for _, code, _ in load.codes if code >= 300]
    assert len(failed) <= 1, (load.seen, failed[:5])
    assert load.seen[200] > 100 and own_cluster.sql("SELECT n > 0 FROM keyed").strip() == "t"


@pytest.mark.parametrize("queue", [0, 256])
def test_ddl_without_a_pause(server, own_cluster, queue):
    """Connections meet different moments of it.  What one brings is never read by what another was told: each value says
    which column it is of."""
    own_cluster.sql("CREATE TABLE named (a text DEFAULT 'a', b text DEFAULT 'b'); INSERT INTO named DEFAULT VALUES; "
                    "GRANT ALL ON named TO vanilla")
    running = server('  { method = "GET"; path = "/named"; sql = "SELECT * FROM named"; result = "row"; }\n',
                     POOLS.replace("connections = 2; read_only", "connections = 4; queue = %d; read_only" % queue),
                     conninfo=own_cluster.conninfo)
    wrong, seen, stop = [], {}, threading.Event()

    def read():
        with Client(running.port) as client:
            while not stop.is_set():
                answer = client.get("/named")
                seen[answer.status] = seen.get(answer.status, 0) + 1
                if answer.status == 200 and any(name != value for name, value in json.loads(answer.body).items()):
                    wrong.append(answer.body)

    readers = [threading.Thread(target=read) for _ in range(16)]
    for reader in readers:
        reader.start()
    for n in range(12):
        time.sleep(0.15)
        own_cluster.sql("ALTER TABLE named ADD c text DEFAULT 'c'; ALTER TABLE named DROP a; ALTER TABLE named ADD a text DEFAULT 'a'; "
                        "ALTER TABLE named DROP c;" if n % 2 == 0 else
                        "ALTER TABLE named DROP b; ALTER TABLE named ADD b text DEFAULT 'b'")
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[:5]
    assert set(seen) == {200}, seen
    until(lambda: calm(running))


def test_a_composite_type_changes(running, own_cluster):
    with Load(running.port, {"/parts": None, "/row/5": b"5"}) as load:
        time.sleep(0.2)
        assert one(running.port, "GET", "/parts").body == b'{"whole":{"a":1,"b":"x"}}'
        own_cluster.sql("ALTER TYPE part ADD ATTRIBUTE c int")
        until(lambda: one(running.port, "GET", "/parts").body == b'{"whole":{"a":1,"b":"x","c":null}}', timeout=20)
        assert not load.well_within(0.6)
    assert all(target == "/parts" for _, code, target in load.codes if code != 200)


def test_constraints(running):
    assert one(running.port, "POST", "/new", body='{"id":1,"from":1,"to":5}').status == 200
    for body, status, state in (('{"id":1}', 409, "23505"), ('{"id":2,"kind":"bad"}', 400, "23514"),
                                ('{"id":3,"kind":null}', 400, "23502"), ('{"id":4,"parent":9}', 409, "23503"),
                                ('{"id":5,"from":2,"to":3}', 409, "23P01"), ('{"id":6,"from":5,"to":2}', 400, "22000")):
        answer = one(running.port, "POST", "/new", body=body)
        assert problem(answer, status)["sqlstate"] == state, answer.body
    assert one(running.port, "POST", "/deferred", body='{"id":1}').status == 204
    assert problem(one(running.port, "POST", "/deferred", body='{"id":1}'), 409)["sqlstate"] == "23505"  # at the commit
    assert problem(one(running.port, "POST", "/secret"), 403)["sqlstate"] == "42501"
    for method in ("GET", "HEAD"):
        answer = one(running.port, method, "/writing")
        assert answer.status == 405 and answer.get("allow") == "OPTIONS", answer.fields     # HEAD does what GET does
    assert problem(one(running.port, "GET", "/writing"), 405)["sqlstate"] == "25006"


def test_every_sqlstate_of_the_table(running):
    for code, status, again in (("22003", 400, False), ("23502", 400, False), ("23514", 400, False), ("23505", 409, False),
                                ("23503", 409, False), ("23P01", 409, False), ("42501", 403, False), ("57014", 504, False),
                                ("40001", 409, True), ("40P01", 409, True), ("53100", 503, True), ("57P05", 503, True),
                                ("08006", 503, True), ("P0001", 400, False), ("42P01", 500, False), ("XX000", 500, False),
                                ("ZZ999", 500, False)):
        answer = one(running.port, "POST", "/code/" + code)
        assert problem(answer, status)["sqlstate"] == code, answer.body
        assert (answer.get("retry-after") is not None) == again, code
    assert running.total("shed.pool_down") == 0, "an error of PostgreSQL's is not a shed"


def test_a_procedure_that_commits_and_fails(running):
    """What it has committed stays: no answer says that it may simply be sent again."""
    for n, (code, status) in enumerate((("53100", 502), ("57P05", 502), ("08006", 502), ("25006", 502), ("40001", 502), ("40P01", 502),
                                        ("23505", 409), ("P0001", 400), ("57014", 504), ("XX000", 500), ("0A000", 500))):
        answer = one(running.port, "POST", "/call/" + code)
        problem(answer, status)
        assert answer.get("retry-after") is None, code
        assert one(running.port, "GET", "/kept").body == b"%d" % (n + 1), "run once, not again"
    assert running.total("shed.pool_down") == 0
    assert "the server is read-only" in running.log() and "may have committed before" in running.log()


def test_lock_wait_ends_with_the_statement_timeout(server, own_cluster):
    own_cluster.sql(SCHEMA)
    running = server(ROUTES, POOLS.replace("statement_timeout_ms = 30000", "statement_timeout_ms = 500"), conninfo=own_cluster.conninfo)
    holder = psycopg2.connect(host=own_cluster.socket_dir, dbname="app", user="postgres")
    holder.cursor().execute("UPDATE locked SET n = 0 WHERE id = 1")
    began = time.monotonic()
    assert problem(one(running.port, "POST", "/lock/1"), 504)["sqlstate"] == "57014"
    assert time.monotonic() - began > 0.499
    holder.rollback()
    until(lambda: one(running.port, "POST", "/lock/1").status == 204)
    holder.close()


def one_of_two_fails(running, cluster, targets, state):
    """Both are in the middle of it at the same time: one is through, the other is told to come again."""
    clients = [Client(running.port) for _ in targets]
    with Gate(cluster):
        for client, target in zip(clients, targets):
            client.send_request("POST", target)
        until(lambda: cluster.sql("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted").strip() == "2")
    answers = [client.read() for client in clients]
    for client in clients:
        client.close()
    answers.sort(key=lambda answer: answer.status)
    assert answers[0].status == 204
    assert problem(answers[1], 409)["sqlstate"] == state and answers[1].get("retry-after")


def test_deadlock(running, own_cluster):
    own_cluster.sql("ALTER SYSTEM SET deadlock_timeout = '50ms'; ")
    own_cluster.sql("SELECT pg_reload_conf()")
    one_of_two_fails(running, own_cluster, ("/both/1/2", "/both/2/1"), "40P01")


def test_serialization_failure(server, own_cluster):
    own_cluster.sql(SCHEMA)
    own_cluster.sql("ALTER ROLE vanilla SET default_transaction_isolation = 'repeatable read'")
    running = server(ROUTES, POOLS, conninfo=own_cluster.conninfo)
    one_of_two_fails(running, own_cluster, ("/step/1", "/step/1"), "40001")
    assert own_cluster.sql("SELECT n FROM locked WHERE id = 1").strip() == "1"


def test_session_settings_changed(server, own_cluster):
    """Where no session is reset (test_39_sessions.py): PostgreSQL tells of most settings, and the connection is replaced."""
    own_cluster.sql(SCHEMA)
    running = server(ROUTES, POOLS.replace("connections = 2;", 'connections = 2; reset = "never";'), conninfo=own_cluster.conninfo)
    right = one(running.port, "GET", "/when").body
    for _ in range(8):
        until(lambda: one(running.port, "POST", "/settings").status == 204)
        until(lambda: one(running.port, "GET", "/when").status == 200)
        assert one(running.port, "GET", "/when").body == right
    # Of search_path it does not tell; but what is not found any more is looked for anew, in a fresh session.
    for _ in range(2):
        answer = one(running.port, "POST", "/path")
        assert answer.status in (204, 503), answer.body
        assert one(running.port, "GET", "/found").body == b"2"
        time.sleep(1.1)     # once a second for each connection


def test_clients_that_leave(running):
    """Half of them leave while their query runs: nobody sees a 57014 that is not his, and the slots are free again."""
    stop = threading.Event()

    def leave():
        while not stop.is_set():
            client = Client(running.port)
            client.send_request("GET", "/sleep/1")
            time.sleep(0.05)
            client.reset()
            time.sleep(0.2)

    leavers = [threading.Thread(target=leave) for _ in range(1)]
    with Load(running.port, {"/row/5": b"5", "/row/6": b"6", "/sleep/0.01": b"1"}, clients=4) as load:
        for thread in leavers:
            thread.start()
        time.sleep(2)
        stop.set()
        for thread in leavers:
            thread.join()
        before = load.seen.get(200, 0)
        until(lambda: load.seen.get(200, 0) > before + 50)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 503}, load.seen
    until(lambda: calm(running))
    assert "57014" not in json.dumps(running.stats())


def test_all_that_was_abandoned_is_cancelled(server, own_cluster):
    """Three long statements behind each other on the only connection, and all their clients leave: each is cancelled when
    its turn comes, so that the connection is free long before they would have ended."""
    pools = POOLS.replace("connections = 2; statement_timeout_ms = 30000", "connections = 1; statement_timeout_ms = 60000")
    own_cluster.sql(SCHEMA)
    running = server(ROUTES, pools, conninfo=own_cluster.conninfo)
    clients = [Client(running.port) for _ in range(3)]
    for client in clients:
        client.send_request("POST", "/nap")
    until(lambda: any(pool["inflight"] == 3 for pool in running.stats()["pools"]))
    began = time.monotonic()
    for client in clients:
        client.reset()
    until(lambda: calm(running), timeout=20)        # the first would not even have ended
    # PostgreSQL signals twice for each, so that one may end two; what does not end within 100 ms is cancelled again.
    assert 2 <= sum(pool["cancelled"] for pool in running.stats()["pools"]) <= 3 + (time.monotonic() - began) / 0.1
    assert one(running.port, "POST", "/lock/1").status == 204
