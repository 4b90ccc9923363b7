"""The admin listener: /live, /ready, /metrics; it does not wait for the database and is never shed."""
import socket

from client import Client, Closed, one, problem, until
from gate import GATE

ROUTES = r"""
  { method = "GET"; path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; }
""".replace("GATE", GATE)
FULL = """
pools = ( { name = "only"; conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; read_only = true;
            statement_timeout_ms = 60000; } );
"""


def greedy(running):
    """A client that asks for much and reads nothing."""
    client = Client(running.admin_port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    return client


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


def test_they_answer_while_all_else_is_shed(server, gate):
    running = server(ROUTES, FULL)
    with Client(running.port) as holder, Client(running.admin_port) as admin:
        holder.send_request("GET", "/held")
        until(lambda: running.stats()["pools"][0]["inflight"] == 1)
        problem(one(running.port, "GET", "/row"), 503)
        for path in ("/live", "/ready", "/metrics"):
            assert admin.get(path).status == 200
        gate.open()
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


def test_idle_connections_make_way(server):
    """256 are served at a time: the one that has been idle for longest leaves for a new one, nobody else does."""
    running = server(ROUTES, settings="workers = 1; timeouts = { header_ms = 60000; };")
    busy = Client(running.admin_port, timeout=30)
    busy.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 300)     # and does not read yet
    silent, half, asked, more = [], [], [], []
    for n in range(85):
        silent.append(Client(running.admin_port))
        half.append(Client(running.admin_port))
        half[n].send("GET /live HTTP/1.1\r\nHo")
        asked.append(Client(running.admin_port))
        assert asked[n].get("/live").status == 200
    turns = running.total("loop.turns")
    until(lambda: running.total("loop.turns") > turns + 2)      # idle is as of a tick
    assert asked[0].get("/live").status == 200          # it is not the oldest any more
    try:
        for path in ("/live", "/ready", "/metrics"):
            assert one(running.admin_port, "GET", path).status == 200
        for n in range(10):
            more.append(Client(running.admin_port))
            assert more[n].get("/live").status == 200
        assert silent[0].closes() and half[0].closes()
        assert asked[0].get("/live").status == asked[84].get("/live").status == 200
        half[84].send("st: x\r\n\r\n")
        assert half[84].read().status == 200
        for _ in range(256):
            more.append(Client(running.admin_port))
        assert more[-1].get("/live").status == 200
        assert asked[84].closes() and silent[84].closes()
        assert [busy.read().status for _ in range(300)] == [200] * 300
        assert busy.get("/live").status == 200
    finally:
        for client in (busy, *silent, *half, *asked, *more):
            client.close()
    assert "refused" not in running.log()
    assert running.total("shed.connections") == 0


def test_many_at_once(server):
    """A request that has arrived is answered, though its connection is the oldest and others wait for its place."""
    running = server(ROUTES)
    clients = [Client(running.admin_port) for _ in range(256)]
    try:
        assert clients[-1].get("/live").status == 200
        for client in clients:
            client.send_request("GET", "/live")
        with Client(running.admin_port) as last:
            assert last.get("/live").status == 200
            assert [client.read().status for client in clients] == [200] * 256
    finally:
        for client in clients:
            client.close()


def test_all_are_being_answered(server):
    """The only case in which one is turned away: at once, and the log has a line."""
    running = server(ROUTES, settings="workers = 1;", wrapper=("prlimit", "--nofile=64"))
    busy = []
    try:
        for _ in range(64):
            busy.append(greedy(running))
            if busy[-1].socket.recv(12, socket.MSG_PEEK) != b"HTTP/1.1 200":
                break
        problem(busy.pop().read(), 503)
        assert len(busy) < 32
        busy.pop(0).reset()

        def served():                                   # when it is seen that the first has left
            try:
                return one(running.admin_port, "GET", "/live").status == 200
            except (OSError, Closed):
                return False
        until(served)
        assert running.log().count("every connection is being answered") == 1
    finally:
        for client in busy:
            client.reset()
    assert one(running.admin_port, "GET", "/ready").status == 200


def test_nothing_here_counts_as_the_pools(server):
    """Answers that found no buffer, as many as they are: those of the admin listener are its own."""
    running = server(ROUTES)
    clients = []
    try:
        for _ in range(64):
            clients.append(greedy(running))
        for path in ("/live", "/ready", "/metrics"):
            assert one(running.admin_port, "GET", path).status == 200
        assert [pool["shed"] for pool in running.stats()["pools"]] == [0, 0]
    finally:
        for client in clients:
            client.reset()


def test_buffers_are_left_for_the_short_ones(server):
    """Where /metrics is so long, and so few read it, that there is no buffer for one more: /live and /ready have theirs."""
    many = ", ".join('{ method = "GET"; path = "/text/%d"; text = "ok"; }' % n for n in range(1500))
    running = server(ROUTES + ", " + many, settings="workers = 1;")
    assert len(one(running.admin_port, "GET", "/metrics").body) > 2 << 20
    clients = []
    try:
        until(lambda: clients.append(greedy(running)) or one(running.admin_port, "GET", "/metrics").status == 503, 60)
        for path in ("/live", "/ready"):
            assert one(running.admin_port, "GET", path).status == 200
        assert [pool["shed"] for pool in running.stats()["pools"]] == [0, 0]
    finally:
        for client in clients:
            client.reset()
    until(lambda: one(running.admin_port, "GET", "/metrics").status == 200)
