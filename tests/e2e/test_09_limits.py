"""Every limit has a status and a counter."""
import select
import socket

import pytest

from client import Client, Closed, one, problem, until
from conftest import kept

SETTINGS = """
workers = 1;
limits = { request_line = 1000; header_bytes = 2000; headers = 10; body_bytes = 5000; response_bytes = 100000; };
"""
HASTY = """
workers = 1;
timeouts = { header_ms = 400; body_ms = 400; idle_ms = 2000; write_ms = 600; drain_ms = 5000; };
"""
ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "POST"; path = "/size"; sql = "SELECT length($1)"; params = [ "body=" ]; result = "value"; },
  { method = "GET";  path = "/big"; sql = "SELECT repeat('x', $1::int) FROM generate_series(1, $2::int)";
    params = [ "query.n", "query.rows=1" ]; result = "rows"; }
"""


@pytest.fixture(scope="module")
def hasty(cluster):
    yield from kept(cluster, ROUTES, None, HASTY)


def counted(server, name, work):
    before = server.total(name)
    work()
    assert server.total(name) == before + 1, name


def refused(port, octets, status, closes=True):
    with Client(port) as client:
        client.send(octets)
        answer = client.read()
        problem(answer, status)
        if closes:
            assert "close" in answer.tokens("connection")
            assert client.closes()
    assert one(port, "GET", "/pipeline").status == 200


def test_request_line(shared):
    def line(length):
        start, end = "GET /pipeline?", " HTTP/1.1"
        return start + "x" * (length - len(start) - len(end)) + end + "\r\nHost: x\r\n\r\n"
    with Client(shared.port) as client:
        client.send(line(1000))
        assert client.read().status == 200
    counted(shared, "limit.request_line", lambda: refused(shared.port, line(1001), 414))
    counted(shared, "limit.request_line", lambda: refused(shared.port, "GET /" + "x" * 5000, 414))


def test_header_bytes(shared):
    def head(length):
        return "GET /pipeline HTTP/1.1\r\nHost: x\r\nX: " + "x" * (length - len("Host: x\r\nX: \r\n")) + "\r\n\r\n"
    with Client(shared.port) as client:
        client.send(head(2000))
        assert client.read().status == 200
    counted(shared, "limit.header_bytes", lambda: refused(shared.port, head(2001), 431))


def test_headers(shared):
    def head(count):
        return "GET /pipeline HTTP/1.1\r\nHost: x\r\n" + "X: y\r\n" * (count - 1) + "\r\n"
    with Client(shared.port) as client:
        client.send(head(10))
        assert client.read().status == 200
    counted(shared, "limit.headers", lambda: refused(shared.port, head(11), 431))


def test_body_bytes(shared):
    assert one(shared.port, "POST", "/size", body="x" * 5000).body == b"5000"
    start = "POST /size HTTP/1.1\r\nHost: x\r\n"
    counted(shared, "limit.body_bytes",
            lambda: refused(shared.port, start + "Content-Length: 5001\r\n\r\n", 413, closes=False))
    counted(shared, "limit.body_bytes", lambda: refused(
        shared.port, start + "Transfer-Encoding: chunked\r\n\r\n1389\r\n" + "x" * 5001 + "\r\n0\r\n\r\n", 413))
    counted(shared, "limit.body_bytes", lambda: refused(
        shared.port, start + "Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n", 413, closes=False))


def test_response_bytes(shared):
    with Client(shared.port) as client:
        assert client.get("/big?n=90000").status == 200
        counted(shared, "limit.response_bytes", lambda: problem(client.get("/big?n=100001"), 500))
        counted(shared, "limit.response_bytes", lambda: problem(client.get("/big?n=10&rows=100000"), 500))
        assert client.get("/big?n=1").status == 200


def test_other_refusals(shared):
    refused(shared.port, "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505)
    refused(shared.port, "POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501)
    refused(shared.port, "GET /pipeline HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", 417, closes=False)
    refused(shared.port, "GET /pipeline HTTP/1.1\r\n\r\n", 400)
    refused(shared.port, "GET /pipeline HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400)
    refused(shared.port, "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400)
    refused(shared.port, "FETCH /pipeline HTTP/1.1\r\nHost: x\r\n\r\n", 501, closes=False)


def test_bad_requests_are_counted(shared):
    counted(shared, "limit.bad_request", lambda: refused(shared.port, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400))


def test_expect_continue(shared):
    with Client(shared.port) as client:
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        while b"100" not in client.buffer:
            client.more()
        client.send("abc")
        assert client.read().body == b"3"
        assert [answer.status for answer in client.interim] == [100]


def test_head_that_does_not_end(hasty):
    def slow():
        with Client(hasty.port) as client:
            client.send("GET /pipeline HTTP/1.1\r\nHost:")
            problem(client.read(), 408)
            assert client.closes()
    counted(hasty, "timeout.header", slow)


def test_head_in_drips(hasty):
    """Octets that keep coming do not move the deadline."""
    with Client(hasty.port) as client:
        for octet in "GET /pipeline HTTP/1.1\r\nX-Drip: " + "x" * 500:
            client.send(octet)
            if select.select([client.socket], [], [], 0.02)[0]:
                break
        else:
            raise AssertionError("five hundred octets were taken, ten seconds long")
        problem(client.read(), 408)


def test_body_that_does_not_end(hasty):
    def slow():
        with Client(hasty.port) as client:
            client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
            problem(client.read(), 408)
            assert client.closes()
    counted(hasty, "timeout.body", slow)


def test_idle(hasty):
    before = hasty.total("timeout.idle")
    with Client(hasty.port) as idle, Client(hasty.port) as silent:
        assert idle.get("/pipeline").status == 200
        assert silent.closes()                          # without a word: there was no request
        assert idle.closes()
    assert hasty.total("timeout.idle") == before + 2


def test_client_that_does_not_read(hasty):
    def stubborn():
        with Client(hasty.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            try:
                for _ in range(200):
                    client.send("GET /big?n=90000 HTTP/1.1\r\nHost: x\r\n\r\n")
            except OSError:
                pass
            until(lambda: hasty.total("timeout.write") > before)
    before = hasty.total("timeout.write")
    counted(hasty, "timeout.write", stubborn)
    assert one(hasty.port, "GET", "/pipeline").status == 200


def test_more_connections_than_fit(server):
    running = server(ROUTES, settings="workers = 1; connections = 20;")
    clients = [Client(running.port) for _ in range(20)]
    try:
        for client in clients:
            assert client.get("/pipeline").status == 200
        with Client(running.port, timeout=2) as surplus:
            try:
                surplus.send_request("GET", "/pipeline")
                answer = surplus.read()
                assert answer.status == 503 and answer.get("retry-after")
            except (OSError, Closed):
                pass                                    # or left to wait, or turned away
        assert all(client.get("/pipeline").status == 200 for client in clients)
        total = running.stats()["total"]
        assert total["shed.connections"] + total["http.accept_paused"] >= 1
    finally:
        for client in clients:
            client.close()
    assert one(running.port, "GET", "/pipeline").status == 200


def test_buffer_budget_spent(server):
    """memory.buffers_mb is all there is: what does not fit is shed and counted, and the worker lives on."""
    running = server(ROUTES + """,
      { method = "POST"; path = "/big"; sql = "SELECT repeat('x', $1::int) FROM generate_series(1, $2::int)";
        params = [ "query.n", "query.rows=1" ]; result = "rows"; }""",
                     settings="workers = 1; memory = { buffers_mb = 1; };")
    with Client(running.port) as client:
        for target in ("/big?n=5000000", "/big?n=1000&rows=5000"):      # one row that is too large, rows that are too many
            answer = client.get(target)
            assert answer.status in (500, 503), answer.status
            assert (answer.get("retry-after") is not None) == (answer.status == 503)
            assert client.get("/big?n=1000").status == 200
        assert running.total("shed.buffers") >= 1
        # It may have written something: not the 503 that means "not run".
        problem(client.request("POST", "/big?n=1000&rows=5000", b""), 500)
        assert client.request("POST", "/big?n=1000", b"").status == 200
