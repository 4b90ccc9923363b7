"""What fails says so: in the log, in the counters, in /ready, and in the answer's fields."""
import json

from client import one, problem, until
from process import http_get

ROUTES = r"""
  { method = "GET";  path = "/good"; sql = "SELECT 1"; result = "value"; },
  { method = "GET";  path = "/bad-default"; sql = "SELECT $1::int"; params = [ "query.n=many" ]; result = "value"; },
  { method = "GET";  path = "/no-table"; sql = "SELECT * FROM there_is_none"; result = "rows"; },
  { method = "GET";  path = "/two-rows"; sql = "SELECT generate_series(1, 2)"; result = "value"; },
  { method = "GET";  path = "/writes"; sql = "INSERT INTO items VALUES (-1, 'x') RETURNING id"; result = "value"; },
  { method = "GET";  path = "/raises"; sql = "SELECT 1 / (random() * 0)::int"; result = "value"; },
  { method = "GET";  path = "/unfit"; sql = "SELECT set_config('work_mem', $1, true)"; params = [ "query.v" ]; result = "value"; }
"""


def broken(server):
    return {(route["method"], route["path"]) for route in json.loads(http_get(server.admin_port, "/ready")[1])["broken"]}


def test_broken_routes_are_named_everywhere(server):
    running = server(ROUTES)
    wanted = {("GET", "/bad-default"), ("GET", "/no-table")}
    until(lambda: broken(running) == wanted)
    problem(one(running.port, "GET", "/bad-default"), 500)
    problem(one(running.port, "GET", "/no-table"), 500)
    assert one(running.port, "GET", "/good").status == 200
    until(lambda: {(route["method"], route["path"]) for route in running.stats()["routes"] if route["broken"]} == wanted)
    assert "GET /no-table is broken" in running.log()
    assert "the default of query.n is not a whole number" in running.log()


def test_a_failed_query_leaves_one_line(server):
    running = server(ROUTES)
    for _ in range(30):
        problem(one(running.port, "GET", "/two-rows"), 500)
    lines = [line for line in running.log().split("\n") if "GET /two-rows" in line]
    assert 1 <= len(lines) <= 10


def test_a_read_only_route_that_writes(server):
    """405 names the methods that are left (RFC 9110 15.5.6): none but OPTIONS here, as GET cannot do what it is for."""
    answer = one(server(ROUTES).port, "GET", "/writes")
    problem(answer, 405)
    assert "GET" not in answer.get("allow").replace(",", " ").split()


def test_titles_are_the_status_phrases(server):
    """about:blank: the title is the status's phrase (RFC 9457 4.2.1); what happened is the detail."""
    document = problem(one(server(ROUTES).port, "GET", "/raises"), 400)
    assert document["title"] == "Bad Request" and document["detail"] and document["sqlstate"] == "22012"
