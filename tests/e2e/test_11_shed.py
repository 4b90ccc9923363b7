"""A full pool sheds at once, with the status that the operator chose, and every shed is counted by its cause."""
import os
import re
import select
import signal
import threading

from client import Client, one, problem, until
from gate import GATE

ROUTES = r"""
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "GET"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; },
  { method = "GET"; path = "/own"; sql = "SELECT 1"; result = "value"; shed_status = 429; },
  { method = "GET"; path = "/optimistic"; sql = "SELECT 1"; result = "value"; shed_status = 204; },
  { method = "GET"; path = "/other"; sql = "SELECT 1"; result = "value"; pool = "second"; },
  { method = "GET"; path = "/other-held"; sql = "SELECT 1 FROM GATE"; result = "value"; pool = "second"; },
  { method = "GET"; path = "/third"; sql = "SELECT 1"; result = "value"; pool = "third"; },
  { method = "GET"; path = "/third-held"; sql = "SELECT 1 FROM GATE"; result = "value"; pool = "third"; }
""".replace("GATE", GATE)
FULL = """
pools = (
  { name = "read";   conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; read_only = true;
    statement_timeout_ms = 60000; },
  { name = "second"; conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; read_only = true;
    shed_status = 529; statement_timeout_ms = 60000; },
  { name = "third";  conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 2; queue_timeout_ms = 500;
    read_only = true; statement_timeout_ms = 60000; }
);
"""
SETTINGS = "workers = 1; shed = { status = 507; retry_after = 3; };"


def busy(server, pool):
    def full():
        (found,) = [each for each in server.stats()["pools"] if each["name"] == pool]
        return found["inflight"] == 1
    until(full)


def test_statuses(server, gate):
    running = server(ROUTES, FULL, SETTINGS)
    with Client(running.port) as holder, Client(running.port) as second, Client(running.port) as client:
        holder.send_request("GET", "/held")
        second.send_request("GET", "/other-held")
        busy(running, "read")
        busy(running, "second")
        answer = client.get("/row")                      # shed.status of the file
        problem(answer, 507)
        assert answer.get("retry-after") == "3"
        answer = client.get("/own")                      # the route's own
        problem(answer, 429)
        assert answer.get("retry-after") == "3"
        answer = client.get("/other")                    # the pool's own
        problem(answer, 529)
        answer = client.get("/optimistic")
        assert (answer.status, answer.body) == (204, b"")
        assert client.get("/pipeline").body == b"ok"     # what needs no database does not care
        assert client.get("/nowhere").status == 404
        gate.open()
        assert holder.read().body == b"1"
        assert second.read().body == b"1"
        assert client.get("/row").status == 200
    stats = running.stats()
    assert stats["total"]["shed.pool_full"] == 4
    assert {pool["name"]: pool["shed"] for pool in stats["pools"]} == {"read": 3, "second": 1, "third": 0}
    assert {route["path"]: route["shed"] for route in stats["routes"] if route["shed"]} == {
        "/row": 1, "/own": 1, "/other": 1, "/optimistic": 1}
    # Times are those of what was served: a shed takes none.
    assert {route["path"]: route["timed"] for route in stats["routes"] if route["requests"] != route["timed"]} == {
        "/row": 1, "/own": 0, "/other": 0, "/optimistic": 0}
    until(lambda: "shed " in running.log())              # at once; the rest after ten seconds, or at the end
    running.check_steady()
    assert running.stop() == 0
    told = re.findall(r"shed (\d+) requests?(?: since the last such line)?: pool_full (\d+)", running.log())
    assert len(told) <= 2 and sum(int(n) for n, _ in told) == sum(int(n) for _, n in told) == 4


def test_queue_and_its_timeout(server, gate):
    running = server(ROUTES, FULL, SETTINGS)
    (worker,) = running.workers()
    clients = [Client(running.port) for _ in range(5)]
    try:
        clients[0].send_request("GET", "/third-held")
        busy(running, "third")
        os.kill(worker, signal.SIGSTOP)                 # so that it finds all of them there at once
        try:
            for client in clients[1:]:
                client.send_request("GET", "/third")
        finally:
            os.kill(worker, signal.SIGCONT)
        answers = [client.read() for client in clients[1:]]
        assert [answer.status for answer in answers] == [507] * 4
        total = running.stats()["total"]
        assert (total["shed.pool_full"], total["shed.queue_timeout"]) == (2, 2)
        gate.open()
        assert clients[0].read().status == 200
        assert clients[1].get("/third").status == 200
    finally:
        for client in clients:
            client.close()


def test_counters_equal_what_clients_saw(server):
    pools = """pools = ( { name = "read"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 2; queue = 3;
                           queue_timeout_ms = 20; read_only = true; } );"""
    running = server('{ method = "GET"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; '
                     'params = [ "path.s" ]; result = "value"; }', pools)
    seen, lock = {}, threading.Lock()
    with Client(running.port) as client:                # some of each, however fast the others are
        client.send("GET /sleep/0.1 HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
        for _ in range(60):
            status = client.read().status
            seen[status] = seen.get(status, 0) + 1

    def load(seed):
        mine = {}
        with Client(running.port) as client:
            for n in range(60):
                answer = client.get("/sleep/%.3f" % ((seed * 7 + n) % 11 / 1000))
                mine[answer.status] = mine.get(answer.status, 0) + 1
                assert (answer.get("retry-after") is not None) == (answer.status == 503)
        with lock:
            for status, count in mine.items():
                seen[status] = seen.get(status, 0) + count

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {200, 503}, seen
    assert sum(seen.values()) == 17 * 60
    stats = running.stats()
    total = stats["total"]
    assert total["shed.pool_full"] + total["shed.queue_timeout"] == seen[503]
    assert total["http.requests"] == 17 * 60
    assert total["http.status_2xx"] == seen[200] and total["http.status_5xx"] == seen[503]
    assert stats["pools"][0]["shed"] == stats["routes"][0]["shed"] == seen[503]
    assert stats["routes"][0]["requests"] == 17 * 60
    until(lambda: running.stats()["pools"][0]["inflight"] == running.stats()["pools"][0]["waiting"] == 0)


NO_BUFFERS = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/own"; sql = "SELECT 1 FROM GATE"; result = "value"; shed_status = 429; },
  { method = "GET";  path = "/pools"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "PUT";  path = "/pools"; sql = "SELECT 1"; result = "value"; pool = "read"; },
  { method = "POST"; path = "/write"; sql = "SELECT 1 FROM GATE"; result = "none"; pool = "write"; }
""".replace("GATE", GATE)
NO_BUFFERS_POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; read_only = true; shed_status = 529;
    statement_timeout_ms = 60000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 0; statement_timeout_ms = 60000; }
);
"""


def told(crowd):
    """Those who have an answer, or the end."""
    poll = select.poll()
    for client in crowd:
        poll.register(client.socket, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(0)}
    return [client for client in crowd if client.socket.fileno() in ready]


def spend_buffers(running):
    """Heads that do not end, until there is no buffer left.  -> the clients that hold them, and some that saw a shed."""
    crowd = []
    while len(told(crowd)) < 3:
        crowd.append(Client(running.port))
        crowd[-1].send("GET /pipeline HTTP/1.1\r\nX: " + "y" * 3000)
        if len(crowd) > 250:
            select.select([crowd[-1].socket], [], [], 0.1)
    return crowd


def test_statuses_and_counts_without_a_buffer(server, gate):
    """Not even a head can be had: the status is still the route's, else the pool's; what is counted is what was seen."""
    running = server(NO_BUFFERS, NO_BUFFERS_POOLS,
                     SETTINGS + " memory = { buffers_mb = 1; }; connections = 1000; timeouts = { header_ms = 60000; };")
    seen = 0
    for method, target, pool, status in (("GET", "/own", "read", 429), ("GET", "/pools", "read", 529),
                                         ("HEAD", "/pools", "read", 529), ("POST", "/write", "write", 500)):
        before = running.stats()["total"]
        with Client(running.port) as client, Client(running.port) as other:
            client.send_request(method, target, None if method != "POST" else "")
            busy(running, pool)
            other.send_request("GET", "/pipeline")
            assert other.read().status == 200
            crowd = spend_buffers(running)
            until(lambda: len(told(crowd)) == running.total("shed.buffers") - seen)
            client.send_request("GET", "/pipeline")     # there is no buffer to read it, and it may be read later
            gate.open()
            answer = client.read(method)
            if method == "HEAD":
                assert (answer.status, answer.body) == (status, b"")
            else:
                problem(answer, status)
            assert (answer.get("retry-after") == "3") == (status != 500)
            assert client.closes()
            sheds = told(crowd)
            for each in sheds:
                problem(each.read(), 507)
            for each in crowd:
                each.close()
        gate.shut()
        seen += len(sheds) + (status != 500)
        until(lambda: running.total("memory.buffers_used") < 100000)
        total = running.stats()["total"]
        assert total["shed.buffers"] == seen, target
        assert total["limit.buffers"] - before["limit.buffers"] == (status == 500)
    stats = running.stats()
    assert {route["method"] + route["path"]: route["shed"] for route in stats["routes"] if route["shed"]} == {
        "GET/own": 1, "GET/pools": 2}
    assert [each["shed"] for each in stats["pools"]] == [3, 0]


def test_no_buffer_for_a_body(server, gate):
    """It is told in its turn, with its route's status, and those before it are answered."""
    running = server(NO_BUFFERS, NO_BUFFERS_POOLS, SETTINGS + " memory = { buffers_mb = 1; };")
    with Client(running.port) as client:
        client.send("GET /pools HTTP/1.1\r\nHost: x\r\n\r\nPUT /pools HTTP/1.1\r\nHost: x\r\nContent-Length: 1048000\r\n\r\n")
        busy(running, "read")
        assert client.silent(0.1)
        gate.open()
        client.socket.settimeout(10)
        assert client.read().status == 200
        problem(client.read(), 529)
        assert client.closes()
    stats = running.stats()
    assert stats["total"]["shed.buffers"] == stats["pools"][0]["shed"] == 1
    assert [(route["method"], route["shed"]) for route in stats["routes"] if route["shed"]] == [("PUT", 1)]


def test_pipelined_requests_shed_in_order(server):
    running = server(ROUTES, FULL, SETTINGS)
    with Client(running.port) as client:
        client.send("".join("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target
                            for target in ("/sleep/0.2", "/row", "/pipeline", "/own")))
        assert [client.read().status for _ in range(4)] == [200, 507, 200, 429]
        assert one(running.port, "GET", "/row").status == 200
