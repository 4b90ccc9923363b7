"""PostgreSQL stopped, killed, starting up, out of connections, demoted; its backends terminated: each under load."""
import time

import pytest

from client import one, problem, until
from cluster import Cluster
from liar import Liar
from load import Load, calm

ROUTES = r"""
  { method = "GET";  path = "/text"; text = "ok"; },
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/slow"; sql = "SELECT 7 FROM pg_sleep(0.03)"; result = "value"; },
  { method = "POST"; path = "/count"; sql = "INSERT INTO counted (n) VALUES ($1) RETURNING 1"; params = [ "body.n" ]; result = "value"; },
  { method = "GET";  path = "/writes"; sql = "SELECT 1"; result = "value"; pool = "write"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 4; read_only = true; reconnect_max_ms = 300; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; reconnect_max_ms = 300; }
);
"""
TARGETS = {"/row/5": b"5", "/row/6": b"6", "/slow": b"7", ("POST", "/count", '{"n":1}'): b"1", "/text": b"ok"}
# What is confirmed is there after a crash: the tests' clusters do not wait for the disk otherwise.
TABLE = "CREATE TABLE counted (n int); GRANT ALL ON counted TO vanilla; ALTER ROLE vanilla SET synchronous_commit = on"


@pytest.fixture
def start(server, own_cluster):
    own_cluster.sql(TABLE)
    return lambda **more: server(ROUTES, POOLS, conninfo=own_cluster.conninfo, **more)


def sessions(cluster):
    return int(cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'vanilla'"))


def up(running):
    return sum(pool["up"] for pool in running.stats()["pools"])


def test_killed_and_restarted_five_times(start, own_cluster):
    running = start()
    with Load(running.port, TARGETS) as load:
        for _ in range(5):
            time.sleep(0.3)
            own_cluster.crash()
            time.sleep(0.2)
            own_cluster.start()
            running.wait_for("/ready")
        assert not load.well_within(1.0)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 502, 503}, load.seen
    assert max(load.times) < 12, "nobody waited for what is gone"      # statement_timeout and ten seconds
    until(lambda: calm(running))
    # Only a write may be left in doubt, and all that were confirmed are there.
    unsure = [code for _, code, target in load.codes if code == 502]
    assert all(isinstance(target, tuple) for _, code, target in load.codes if code == 502)
    confirmed = sum(code == 200 and isinstance(target, tuple) for _, code, target in load.codes)
    found = int(own_cluster.sql("SELECT count(*) FROM counted"))
    assert confirmed <= found <= confirmed + len(unsure), (found, confirmed, len(unsure))
    assert running.stats()["total"]["shed.pool_down"] <= load.seen.get(503, 0)


def test_stopped_politely(start, own_cluster):
    running = start()
    with Load(running.port, TARGETS) as load:
        for immediate in (False, True, False):
            time.sleep(0.3)
            own_cluster.stop(immediate=immediate)
            problem(one(running.port, "GET", "/row/1"), 503)
            own_cluster.start()
            running.wait_for("/ready")
        assert not load.well_within(1.0)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 502, 503}, load.seen
    until(lambda: calm(running))


def test_back_after_a_long_outage(server, own_cluster):
    """However long the pauses between attempts have become, one of them comes soon: left alone, the twelfth would come after
    100 s."""
    own_cluster.sql(TABLE)
    pools = POOLS.replace("reconnect_max_ms = 300;", "reconnect_max_ms = 120000;").replace("connections = 4", "connections = 1")
    running = server(ROUTES, pools, conninfo=own_cluster.conninfo)
    own_cluster.stop(immediate=True)
    with Load(running.port, {"/row/5": b"5", "/writes": b"1"}, clients=2, pause=0.02) as load:
        until(lambda: min(failures(running)) >= 12, timeout=40)
        own_cluster.start()
        assert not load.well_within(1.0)
        until(lambda: up(running) == 3)
    assert not load.strange and set(load.seen) == {200, 503}, (load.seen, load.strange[:5])


def test_backends_terminated_every_200_ms(start, own_cluster):
    running = start()
    busy = rounds = 0
    with Load(running.port, TARGETS) as load:
        while busy < 15 and rounds < 60:
            before = len(load.codes)
            time.sleep(0.2)
            rounds += 1
            busy += any(code == 200 and target != "/text" for _, code, target in load.codes[before:])
            until(lambda: sessions(own_cluster) <= 6)       # one that was terminated is there for a little longer
            own_cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla' "
                            "ORDER BY random() LIMIT 2")
        assert not load.well_within(1.0)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 502, 503}, load.seen
    assert busy == 15, (rounds, load.seen)
    until(lambda: calm(running))
    until(lambda: sessions(own_cluster) == 6)


def test_all_backends_terminated(server, own_cluster):
    """One is made anew at once, and who comes meanwhile waits for it: nobody is shed."""
    own_cluster.sql(TABLE)
    pools = POOLS.replace("reconnect_max_ms = 300;", "queue_timeout_ms = 10000;")
    running = server(ROUTES, pools, conninfo=own_cluster.conninfo)
    with Load(running.port, TARGETS) as load:
        for times in range(1, 6):
            before = len(load.codes)
            own_cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
            until(lambda n=6 * times: sum(pool["connects"] for pool in running.stats()["pools"]) == n + 6)
            until(lambda n=before: len(load.codes) > n + 100)
    assert not load.strange, load.strange[:5]
    assert all(code == 200 or (code == 502 and isinstance(target, tuple)) for _, code, target in load.codes), load.seen
    assert running.stats()["total"]["shed.pool_down"] == 0


def test_out_of_connections(server):
    """53300: the pool takes what it gets, says so, and has the rest when there is room."""
    with Cluster(max_connections=8) as small:      # three of them for the superuser
        small.load_sample(10)
        small.sql(TABLE)
        began = time.monotonic()
        running = server(ROUTES, POOLS.replace("= 300;", "= 2000;"), conninfo=small.conninfo, wait="/live")
        until(lambda: up(running) == 5)
        with Load(running.port, {"/row/5": b"5", "/text": b"ok"}, clients=4) as load:
            until(lambda: sum(failures(running)) >= 3)
            until(lambda: sessions(small) <= 6)
            time.sleep(max(0, began + 3 - time.monotonic()))
        assert set(load.seen) == {200} and not load.strange, (load.seen, load.strange)
        assert "too many clients" in running.log() or "remaining connection slots" in running.log()
        # Not an attempt after the other (ten per second): backed off, soon by a second at the least.
        assert sum(failures(running)) < 12 + (time.monotonic() - began), failures(running)


def failures(running):
    return [pool["connect_failures"] for pool in running.stats()["pools"]]


def test_role_with_a_connection_limit(start, own_cluster):
    own_cluster.sql("ALTER ROLE vanilla CONNECTION LIMIT 3")
    running = start(wait="/live")
    until(lambda: sum(pool["up"] for pool in running.stats()["pools"]) == 3)
    with Load(running.port, {"/text": b"ok", "/row/5": None}, clients=4) as load:
        until(lambda: load.seen.get(200, 0) > 20)
        own_cluster.sql("ALTER ROLE vanilla CONNECTION LIMIT -1")
        until(lambda: sum(pool["up"] for pool in running.stats()["pools"]) == 6)
        assert not load.well_within(0.6)
    assert set(load.seen) <= {200, 503} and not load.strange


def test_starting_up(server):
    """57P03 is what a server says that is not ready yet: the attempts go on, and the first that works is soon."""
    with Liar(greeting="57P03") as liar:
        began = time.monotonic()
        running = server(ROUTES.replace("/writes", "/w"), POOLS.replace("= 300;", "= 2000;"), conninfo=liar.conninfo, wait="/live")
        until(lambda: "starting up" in running.log())
        problem(one(running.port, "GET", "/row/1"), 503)
        assert one(running.port, "GET", "/text").status == 200
        time.sleep(max(0, began + 2.5 - time.monotonic()))
        before = liar.connections
        # Six connections, soon backed off by a second at the least, but for one of each pool: not by more than 200 ms.
        assert before < 36 + (time.monotonic() - began) * (6 / 1 + 2 / 0.2), before
        until(lambda: liar.connections > before)


def test_demoted_to_read_only(start, own_cluster):
    """25006 on the pool that writes: 503 (not run), the connection is replaced; reading goes on; 405 never."""
    running = start()
    with Load(running.port, TARGETS) as load:
        time.sleep(0.3)
        own_cluster.sql("ALTER SYSTEM SET default_transaction_read_only = on")
        own_cluster.sql("SELECT pg_reload_conf()")
        until(lambda: one(running.port, "POST", "/count", body='{"n":2}').status == 503)
        before = len(load.codes)
        until(lambda: len(load.codes) > before + 100)
        assert one(running.port, "GET", "/row/9").status == 200
        own_cluster.sql("SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only")
        own_cluster.sql("SELECT pg_reload_conf()")
        until(lambda: one(running.port, "POST", "/count", body='{"n":2}').status == 200)
        assert not load.well_within(1.0)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 503}, load.seen
    assert all(isinstance(target, tuple) for _, code, target in load.codes if code != 200)
    until(lambda: calm(running))
