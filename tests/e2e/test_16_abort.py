"""Clients that leave: with a FIN, with an RST, in the midst of everything."""
import random
import socket
import time

from client import Client, one, until

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "POST"; path = "/sleep"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "body" ]; result = "value"; },
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/big"; sql = "SELECT n, repeat('x', 100) AS x FROM generate_series(1, 50000) n"; result = "rows"; },
  { method = "POST"; path = "/body"; sql = "SELECT length($1)"; params = [ "body" ]; result = "value"; }
"""


def quiet(server):
    """Nothing of the clients that left remains."""
    def calm():
        stats = server.stats()
        return (stats["total"]["http.connections"] <= 1
                and all(pool["inflight"] == pool["waiting"] == 0 for pool in stats["pools"]))
    until(calm)


def test_leave_in_a_query(server):
    running = server(ROUTES)
    for leave in (Client.close, Client.reset):
        for _ in range(10):
            begun = running.total("http.requests")
            client = Client(running.port)
            client.send_request("GET", "/sleep/0.1")
            until(lambda: running.total("http.requests") > begun)  # a reset takes unread octets with it
            leave(client)
    for n in range(50):
        assert one(running.port, "GET", "/row/%d" % n).body == b"%d" % n
    quiet(running)
    assert running.total("http.aborted") >= 1


def test_a_long_query_is_cancelled(server, own_cluster):
    """A query that nobody waits for does not hold its connection."""
    running = server(ROUTES, conninfo=own_cluster.conninfo)
    for leave in (Client.close, Client.reset):
        client = Client(running.port)
        client.send_request("GET", "/sleep/20")
        until(lambda: running.stats()["pools"][0]["inflight"] == 1)
        leave(client)
        until(lambda: own_cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND "
                                      "query LIKE '%pg_sleep%' AND usename = 'vanilla'").strip() == "0", timeout=15)
    quiet(running)
    assert one(running.port, "GET", "/row/1").body == b"1"


def test_leaving_is_noticed_while_nothing_is_read(server):
    """Behind a request that changes something, and behind the last one of a connection, nothing is read: whoever leaves is
    noticed all the same."""
    running = server(ROUTES)
    for method, target, body, headers in (("POST", "/sleep", "20", ()), ("GET", "/sleep/20", None, (("Connection", "close"),)),
                                          ("POST", "/sleep", "20", (("Connection", "close"),))):
        for behind in ("", "GET /row/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 3):
            for leave in (Client.close, Client.reset):
                client = Client(running.port)
                client.send_request(method, target, body, headers)
                until(lambda: sum(pool["inflight"] for pool in running.stats()["pools"]) == 1)
                client.send(behind)
                time.sleep(0.05)
                leave(client)
                quiet(running)


def test_a_long_query_is_cancelled_though_more_was_asked(server, own_cluster):
    """What was sent behind it is not read while it runs, and so neither is the end of the connection."""
    running = server(ROUTES, conninfo=own_cluster.conninfo)
    post = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    for behind in (post, post + "GET /row/1 HT", "GET /row/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 200):
        for leave in (Client.close, Client.reset):
            client = Client(running.port)
            client.send("GET /sleep/20 HTTP/1.1\r\nHost: x\r\n\r\n" + behind)
            until(lambda: running.stats()["pools"][0]["inflight"] >= 1)
            leave(client)
            until(lambda: own_cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND "
                                          "query LIKE '%pg_sleep%' AND usename = 'vanilla'").strip() == "0", timeout=4)
    quiet(running)
    assert one(running.port, "GET", "/row/1").body == b"1"
    assert running.total("http.aborted") >= 6


def test_half_closed_and_a_long_row_of_queries(server):
    """abandon_ms is the time of each query: together they may take longer, whether they are held or not."""
    running = server(ROUTES)
    get, post = "GET /sleep/%s HTTP/1.1\r\nHost: x\r\n\r\n", "POST /sleep HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n0.4"
    for text, count in ((post * 5, 5), (get % "0.4" + post * 4, 5), (get % "0.7" + post + get % "0.7" + post, 4)):
        with Client(running.port) as client:
            client.send(text)
            client.socket.shutdown(socket.SHUT_WR)
            assert [client.read().status for _ in range(count)] == [200] * count
            assert client.closes()
    assert running.total("http.aborted") == 0


def test_leave_in_a_large_answer(server):
    running = server(ROUTES)
    for leave in (Client.close, Client.reset):
        for _ in range(5):
            client = Client(running.port)
            client.send_request("GET", "/big")
            client.socket.recv(1000)
            leave(client)
    quiet(running)
    answer = one(running.port, "GET", "/big")
    assert answer.status == 200 and len(answer.body) > 5000000


def test_leave_in_a_request(server):
    running = server(ROUTES)
    data = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n" + "x" * 30
    for leave in (Client.close, Client.reset):
        for cut in range(0, len(data), 3):
            client = Client(running.port)
            client.send(data[:cut])
            leave(client)
    quiet(running)
    assert one(running.port, "POST", "/body", body="abc").body == b"3"


def test_leave_with_a_pipeline_behind(server):
    chance = random.Random(2)
    running = server(ROUTES)
    for n in range(60):
        client = Client(running.port)
        targets = [chance.choice(("/pipeline", "/row/%d" % n, "/sleep/0.01", "/big", "/nowhere")) for _ in range(12)]
        client.send("".join("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target for target in targets))
        for _ in range(chance.randrange(4)):
            client.read()
        chance.choice((client.close, client.reset))()
    quiet(running)
    with Client(running.port) as client:
        for n in range(100):
            assert client.get("/row/%d" % n).body == b"%d" % n
