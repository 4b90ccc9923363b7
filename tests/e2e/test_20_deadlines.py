"""Deadlines are absolute: what dribbles in, and whatever else the connection does, does not move them."""
import resource
import select
import socket
import time

from client import Client, Closed, one, problem, until

SETTINGS = """
workers = 1;
timeouts = { header_ms = 1000; body_ms = 15000; body_rate = 1000; idle_ms = 1500; write_ms = 800; };
"""
ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/slow"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "query.s" ]; result = "value"; },
  { method = "POST"; path = "/slow"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "query.s" ]; result = "value"; },
  { method = "POST"; path = "/size"; sql = "SELECT length($1)"; params = [ "body=" ]; result = "value"; },
  { method = "GET";  path = "/big"; sql = "SELECT repeat('x', $1::int)"; params = [ "query.n" ]; result = "raw"; }
"""


def dribble(client, octets, pause=0.1):
    """Octet by octet, until the server has had enough; seconds that it took."""
    began = time.monotonic()
    for octet in octets:
        try:
            client.send(octet)
        except OSError:
            break
        if select.select([client.socket], [], [], pause)[0]:
            break
    return time.monotonic() - began


def test_dribbling_head_while_a_query_runs(shared):
    """The query's answer neither gives the head more time nor is lost by its end."""
    with Client(shared.port) as client:
        client.send("GET /slow?s=4 HTTP/1.1\r\nHost: x\r\n\r\nGET /pipeline HTTP/1.1\r\n")
        before = shared.total("timeout.header")
        began = time.monotonic()
        for octet in "X-Drip: " + "x" * 11:
            client.send(octet)
            time.sleep(0.1)
        until(lambda: shared.total("timeout.header") == before + 1, 3)
        assert time.monotonic() - began < 3.9           # while the query still runs
        assert client.read().body == b"1"
        problem(client.read(), 408)
        assert client.closes()


def test_answers_in_between_do_not_help(shared):
    with Client(shared.port) as client:
        for _ in range(3):                              # in time, each of them
            client.send("GET /pipeline HTTP/1.1\r\nHost: x\r\nX-Long: ")
            time.sleep(0.7)
            client.send("y\r\n\r\n")
            assert client.read().body == b"ok"
        client.send("GET /pipeline HTTP/1.1\r\nHost: x\r\nX-Long: ")
        assert 0.7 < dribble(client, "y" * 50) < 1.6
        problem(client.read(), 408)
        assert client.closes()


def test_octets_that_wait_for_us_are_not_late(shared):
    """While a POST before it runs we do not read on: that time is ours."""
    with Client(shared.port) as client:
        client.send("POST /slow?s=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /size HTTP/1.1\r\n")
        time.sleep(0.1)
        client.send("Host: x\r\nContent-Length: 3\r\n\r\nabc")
        turns = shared.total("loop.turns")
        assert client.read().body == b"1"
        assert client.read().body == b"3"
        assert shared.total("loop.turns") - turns < 300, "it spins while it waits"


def test_body_that_is_too_slow(shared):
    before = shared.total("timeout.body_rate")
    with Client(shared.port, timeout=20) as client:
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        took = dribble(client, "y" * 100, 0.2)
        assert 4.5 < took < 7, took                     # five octets per second, looked at after five
        problem(client.read(), 408)
        assert client.closes()
    assert shared.total("timeout.body_rate") == before + 1


def test_body_that_is_just_fast_enough(shared):
    with Client(shared.port, timeout=20) as client:
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
        for _ in range(60):
            client.send("y" * 150)
            time.sleep(0.1)
        assert client.read().body == b"9000"


def test_client_that_takes_nothing(shared):
    before = shared.total("timeout.write")
    with Client(shared.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(4):
            client.send("GET /big?n=4000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        began = time.monotonic()
        until(lambda: shared.total("timeout.write") == before + 1, 6)
        assert time.monotonic() - began > 0.7


def test_client_that_takes_it_slowly(shared):
    """Progress counts, not the end."""
    with Client(shared.port) as client:
        client.send("GET /big?n=8000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        got = 0
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            got += len(client.socket.recv(200000))
            time.sleep(0.1)
        while got < 8000000:
            piece = client.socket.recv(1 << 20)
            assert piece, "closed after %d octets" % got
            got += len(piece)
        assert got < 8000500


def test_lingering_ends(shared):
    """After a refusal what comes is dropped, for two seconds and no longer."""
    with Client(shared.port, timeout=10) as client:
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        problem(client.read(), 413)
        began = time.monotonic()
        try:
            while time.monotonic() - began < 8:
                client.send("y" * 10)
                time.sleep(0.05)
        except OSError:
            pass
        assert 1 < time.monotonic() - began < 5
    with Client(shared.port, timeout=10) as client:     # nor more than 16 MiB
        sent = 0
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
        problem(client.read(), 413)
        try:
            while sent < 200 << 20:
                client.socket.sendall(b"y" * 65536)
                sent += 65536
        except OSError:
            pass
        assert sent < 64 << 20
    assert one(shared.port, "GET", "/pipeline").status == 200


def test_thousands_that_dribble(server):
    """They cost little memory and nobody else's time."""
    count = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 1000)), hard))
    count = min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    running = server(ROUTES, settings="workers = 1; timeouts = { header_ms = 60000; };")
    slow = []
    try:
        for n in range(count):
            slow.append(socket.create_connection(("127.0.0.1", running.port)))
            slow[-1].send(b"G")
        with Client(running.port) as client:
            times = []
            for octet in b"ET /pipeline":
                for connection in slow:
                    connection.send(bytes([octet]))
                began = time.monotonic()
                assert client.get("/pipeline").body == b"ok"
                times.append(time.monotonic() - began)
            until(lambda: running.total("memory.buffers_used") < 64 * 4096)     # not one block for each
            assert sorted(times)[len(times) // 2] < 1
        for connection in slow[::100]:                  # and each of them is still understood
            connection.sendall(b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in slow:
            connection.close()


def test_head_longer_than_a_stub(shared):
    """Octet by octet, through every way of keeping them."""
    with Client(shared.port) as client:
        head = "GET /slow?s=0 HTTP/1.1\r\nHost: x\r\nX-Long: " + "y" * 300 + "\r\n\r\n"
        for octet in head + head:
            client.send(octet)
        assert client.read().body == b"1"
        assert client.read().body == b"1"
        client.send("\r\n" * 20 + head[:-1])
        time.sleep(0.2)
        client.send(head[-1])
        assert client.read().body == b"1"


def test_half_a_head_and_gone(shared):
    for leave in (Client.close, Client.reset):
        client = Client(shared.port)
        client.send("GET /pipe")
        time.sleep(0.1)
        leave(client)
    with Client(shared.port) as client:
        client.send("GET /pipe")
        time.sleep(0.1)
        client.socket.shutdown(socket.SHUT_WR)
        try:
            client.read()
        except Closed as closed:
            assert closed.rest == b""
    until(lambda: shared.total("http.connections") == 0, 5)
