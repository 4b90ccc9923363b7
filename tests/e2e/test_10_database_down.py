"""PostgreSQL is not there, goes away, comes back."""
import time

from client import Client, Closed, one, problem, until
from gate import GATE, Gate
from load import Load

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/row"; sql = "SELECT id FROM items WHERE id = 1"; result = "row"; },
  { method = "GET";  path = "/slow"; sql = "SELECT 1 FROM pg_sleep(60)"; result = "value"; },
  { method = "POST"; path = "/slow"; sql = "SELECT 1 FROM pg_sleep(60)"; result = "value"; },
  { method = "GET";  path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "POST"; path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "POST"; path = "/row"; sql = "SELECT id FROM items WHERE id = 1"; result = "row"; }
""".replace("GATE", GATE)
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 2; read_only = true; reconnect_max_ms = 200; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; reconnect_max_ms = 200; }
);
"""


def test_start_without(server, own_cluster):
    own_cluster.stop()
    running = server(ROUTES, POOLS, conninfo=own_cluster.conninfo, wait="/live")
    assert one(running.port, "GET", "/pipeline").body == b"ok"
    until(lambda: b"read" in running.wait_for("/ready", status=503))
    for method in ("GET", "POST"):
        answer = one(running.port, method, "/row")
        problem(answer, 503)
        assert answer.get("retry-after")
    assert running.total("shed.pool_down") == 2
    own_cluster.start()
    running.wait_for("/ready")
    assert one(running.port, "GET", "/row").body == b'{"id":1}'
    assert one(running.port, "POST", "/row").body == b'{"id":1}'


def test_host_that_does_not_exist(server):
    running = server(ROUTES, POOLS.replace("%(conninfo)s", "host=no-such-host.invalid dbname=app"), wait="/live")
    began = time.monotonic()
    assert one(running.port, "GET", "/pipeline").body == b"ok"
    problem(one(running.port, "GET", "/row"), 503)
    assert time.monotonic() - began < 4, "looking for a name blocked the loop"    # a resolver's first time-out is 5 s


def test_wrong_role(server, cluster):
    running = server(ROUTES, POOLS, conninfo=cluster.conninfo.replace("user=vanilla", "user=nobody_knows"), wait="/live")
    until(lambda: b"nobody_knows" in running.wait_for("/ready", status=503))
    problem(one(running.port, "GET", "/row"), 503)


def test_restart_under_load(server, own_cluster):
    """Each answer is 200, or 503 (not run), or 502 (outcome unknown), in step; afterwards all is well."""
    running = server(ROUTES, POOLS, conninfo=own_cluster.conninfo)
    with Load(running.port, {"/row": b'{"id":1}'}, clients=4) as load:
        def come(status, more):
            wanted = load.seen.get(status, 0) + more
            until(lambda: load.seen.get(status, 0) >= wanted)

        for immediate in (False, True):
            come(200, 20)
            own_cluster.stop(immediate=immediate)
            come(503, 20)
            own_cluster.start()
            running.wait_for("/ready")
        come(200, 20)
    assert not load.strange, load.strange[:5]
    assert set(load.seen) <= {200, 502, 503}, load.seen
    assert one(running.port, "GET", "/row").status == 200


def test_lost_while_it_runs(server, own_cluster):
    pools = POOLS.replace("reconnect_max_ms = 200;", "reconnect_max_ms = 200; statement_timeout_ms = 60000;")
    running = server(ROUTES, pools, conninfo=own_cluster.conninfo)
    held = "FROM pg_stat_activity WHERE query LIKE '%advisory%' AND state = 'active' AND usename = 'vanilla'"
    with Client(running.port) as reader, Client(running.port) as writer, Gate(own_cluster) as gate:
        reader.send_request("GET", "/held")
        writer.send_request("POST", "/held")
        until(lambda: own_cluster.sql("SELECT count(*) " + held).strip() == "2")
        assert own_cluster.sql("SELECT count(pg_terminate_backend(pid)) " + held).strip() == "2"
        answer = writer.read()
        problem(answer, 502)
        assert b"outcome unknown" in answer.body.lower()
        # Read-only: tried once more, on another connection.
        gate.open()
        assert reader.read().body == b"1"
    assert [pool["retried"] for pool in running.stats()["pools"]] == [1, 0]
    until(lambda: one(running.port, "GET", "/row").status == 200)


def test_statement_timeout(server, cluster):
    pools = POOLS.replace("reconnect_max_ms = 200;", "reconnect_max_ms = 200; statement_timeout_ms = 500;")
    running = server(ROUTES, pools)
    with Client(running.port) as reader, Client(running.port) as writer:
        reader.send_request("GET", "/slow")
        writer.send_request("POST", "/slow")
        for client in (reader, writer):
            assert problem(client.read(), 504)["sqlstate"] == "57014"
        until(lambda: reader.get("/row").status == 200)


def test_backend_killed_between_requests(server, own_cluster):
    running = server(ROUTES, POOLS, conninfo=own_cluster.conninfo)
    with Client(running.port) as client:
        for _ in range(5):
            own_cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
            running.wait_for("/ready")
            until(lambda: client.get("/row").status == 200)
            until(lambda: client.request("POST", "/row").status == 200)


def test_end_while_the_database_is_down(server, own_cluster):
    running = server(ROUTES, POOLS, conninfo=own_cluster.conninfo)
    own_cluster.stop(immediate=True)
    with Client(running.port) as client:
        try:
            client.get("/row")
        except Closed:
            raise AssertionError("no answer") from None
    assert running.stop() == 0
