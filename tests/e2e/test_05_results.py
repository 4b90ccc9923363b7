"""result = row, rows, value, none, raw: no row, NULL, too many; routes that are wrong."""
import json

import pytest
from client import Client, one, problem, until

NUMBERS = "FROM generate_series(1, $1::int) n"
ROUTES = r"""
  { method = "GET"; path = "/row";    sql = "SELECT n %(from)s"; params = [ "query.n" ]; result = "row"; },
  { method = "GET"; path = "/rows";   sql = "SELECT n %(from)s"; params = [ "query.n" ]; result = "rows"; },
  { method = "GET"; path = "/value";  sql = "SELECT nullif(n, 2) %(from)s WHERE $1 <> 2 OR n = 2"; params = [ "query.n" ]; result = "value"; },
  { method = "GET"; path = "/none";   sql = "SELECT n %(from)s"; params = [ "query.n" ]; result = "none"; },
  { method = "GET"; path = "/raw";    sql = "SELECT $1::text WHERE $1 <> 'nothing'"; params = [ "query.t" ]; result = "raw"; },
  { method = "GET"; path = "/null";   sql = "SELECT NULL::text"; result = "raw"; },
  { method = "GET"; path = "/html";   sql = "SELECT '<p>' || message || '</p>' FROM fortune WHERE id = 11"; result = "raw";
    content_type = "text/html; charset=utf-8"; },
  { method = "GET"; path = "/json";   sql = "SELECT '{\"a\": 1}'::json"; result = "raw"; content_type = "application/json"; },
  { method = "GET"; path = "/date";   sql = "SELECT date '2024-02-29'"; result = "raw"; },
  { method = "GET"; path = "/two";    sql = "SELECT 1 AS a, 2 AS b"; result = "value"; },
  { method = "GET"; path = "/two-raw"; sql = "SELECT 'a' AS a, 'b' AS b"; result = "raw"; }
""" % {"from": NUMBERS}


def test_row(client):
    problem(client.get("/row?n=0"), 404)
    assert client.get("/row?n=1").body == b'{"n":1}'
    problem(client.get("/row?n=2"), 500)
    problem(client.get("/row?n=2000"), 500)
    assert client.get("/row?n=1").body == b'{"n":1}'


def test_value(client):
    problem(client.get("/value?n=0"), 404)
    assert client.get("/value?n=1").body == b"1"
    assert client.get("/value?n=2").body == b"null"
    problem(client.get("/value?n=3"), 500)


def test_none(client):
    for n in (0, 1, 3, 5000):
        answer = client.get("/none?n=%d" % n)
        assert (answer.status, answer.body) == (204, b"")


def test_raw(client):
    problem(client.get("/raw?t=nothing"), 404)
    answer = client.get("/raw?t=a%22b%0A")
    assert (answer.status, answer.body) == (200, b'a"b\n')
    assert answer.get("content-type") == "text/plain; charset=utf-8"
    assert client.get("/raw?t=").body == b""
    assert client.get("/null").body == b"" and client.get("/null").status == 200
    answer = client.get("/html")
    assert answer.get("content-type") == "text/html; charset=utf-8"
    assert answer.body.decode().startswith("<p>\u6025")
    assert client.get("/json").body == b'{"a": 1}'
    assert client.get("/date").body == b"2024-02-29"


def test_more_columns_than_one(client):
    problem(client.get("/two"), 500)
    problem(client.get("/two-raw"), 500)


@pytest.mark.parametrize("route", [
    r'sql = "SELEC 1"; result = "value"',
    r'sql = "SELECT no_such_column FROM items"; result = "rows"',
    r'sql = "SELECT 1 AS a, 2 AS a"; result = "row"',
    r'sql = "SELECT 1 AS a, 2 AS \"a.b\""; result = "row"',
    r'sql = "SELECT 1 AS \"a.\""; result = "row"',
])
def test_broken_route(server, route):
    running = server('{ method = "GET"; path = "/broken"; %s; },\n{ method = "GET"; path = "/good"; sql = "SELECT 1";'
                     ' result = "value"; }' % route, wait="/live")
    # Named there; and what is well is served.
    until(lambda: b"/broken" in one(running.admin_port, "GET", "/ready").body)
    problem(one(running.port, "GET", "/broken"), 500)
    # Its neighbour on the same connections does not suffer.
    with Client(running.port) as client:
        for _ in range(20):
            assert client.get("/good").body == b"1"
            problem(client.get("/broken"), 500)


def test_a_route_that_gets_well(server, own_cluster):
    running = server('{ method = "GET"; path = "/later"; sql = "SELECT n FROM later"; result = "rows"; }',
                     conninfo=own_cluster.conninfo, wait="/live")
    until(lambda: b"/later" in one(running.admin_port, "GET", "/ready").body)
    problem(one(running.port, "GET", "/later"), 500)
    own_cluster.sql("CREATE TABLE later AS SELECT 1 AS n; GRANT SELECT ON later TO vanilla;")
    own_cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
    until(lambda: b"/later" not in one(running.admin_port, "GET", "/ready").body)
    # It may be well before the old connections are gone.
    until(lambda: one(running.port, "GET", "/later").body == b'[{"n":1}]')


def test_a_plan_that_becomes_invalid(server, own_cluster):
    own_cluster.sql("CREATE TABLE shape AS SELECT 1 AS n; GRANT SELECT ON shape TO vanilla;")
    running = server('{ method = "GET"; path = "/"; sql = "SELECT * FROM shape"; result = "rows"; }',
                     conninfo=own_cluster.conninfo)
    with Client(running.port) as client:
        assert client.get("/").body == b'[{"n":1}]'
        own_cluster.sql("ALTER TABLE shape ADD m text DEFAULT 'x'")
        assert client.get("/").body == b'[{"n":1,"m":"x"}]'
        own_cluster.sql("ALTER TABLE shape ALTER n TYPE text USING n::text")
        for _ in range(10):
            assert json.loads(client.get("/").body) == [{"n": "1", "m": "x"}]
