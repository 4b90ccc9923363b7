"""The admin listener: /live, /ready, /metrics; it does not wait for the database and is never shed."""
from client import Client, one, problem, until

ROUTES = r"""
  { method = "GET"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; }
"""
FULL = """
pools = ( { name = "only"; conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; read_only = true; } );
"""


def test_pages(server):
    running = server(ROUTES)
    with Client(running.admin_port) as admin:
        for path in ("/live", "/ready", "/metrics"):
            answer = admin.get(path)
            assert answer.status == 200, path
            assert admin.request("HEAD", path).status == 200
        assert admin.get("/metrics").get("content-type").startswith("text/plain")
        problem(admin.get("/row"), 404)                  # the other listener's
        problem(admin.request("POST", "/live", b""), 405)
        for _ in range(50):
            assert admin.get("/metrics").status == 200
    problem(one(running.port, "GET", "/metrics"), 404)
    problem(one(running.port, "GET", "/live"), 404)


def test_they_answer_while_all_else_is_shed(server):
    running = server(ROUTES, FULL)
    with Client(running.port) as holder, Client(running.admin_port) as admin:
        holder.send_request("GET", "/sleep/1")
        until(lambda: running.stats()["pools"][0]["inflight"] == 1)
        problem(one(running.port, "GET", "/row"), 503)
        for path in ("/live", "/ready", "/metrics"):
            assert admin.get(path).status == 200
        assert holder.read().status == 200


def test_they_answer_when_connections_are_spent(server):
    running = server(ROUTES, settings="workers = 1; connections = 5;")
    clients = [Client(running.port) for _ in range(5)]
    try:
        for client in clients:
            assert client.get("/row").status == 200
        assert one(running.admin_port, "GET", "/live").status == 200
        assert one(running.admin_port, "GET", "/metrics").status == 200
    finally:
        for client in clients:
            client.close()


def test_not_ready_says_what_is_missing(server):
    running = server(ROUTES, FULL, conninfo="host=/nonexistent dbname=app", wait="/live")
    body = running.wait_for("/ready", status=503)
    assert b"only" in body
    assert one(running.admin_port, "GET", "/live").status == 200


def test_answers_are_complete_with_many_workers(server):
    running = server(ROUTES, settings="workers = 3;")
    for _ in range(30):
        for path in ("/live", "/ready", "/metrics"):
            assert one(running.admin_port, "GET", path).status == 200
