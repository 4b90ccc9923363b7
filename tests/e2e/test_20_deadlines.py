"""Deadlines are absolute: what dribbles in, and whatever else the connection does, does not move them."""
import resource
import select
import socket
import time

import pytest

from client import Client, Closed, one, problem, until
from conftest import kept
from gate import GATE

HASTY = """
workers = 1;
timeouts = { header_ms = 2500; body_ms = 15000; body_rate = 1000; idle_ms = 2500; write_ms = 2500; };
"""
ROUTES = r"""
  { method = "GET";  path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "POST"; path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/row"; sql = "SELECT 1"; result = "value"; },
  { method = "POST"; path = "/size"; sql = "SELECT length($1)"; params = [ "body=" ]; result = "value"; },
  { method = "GET";  path = "/big"; sql = "SELECT repeat('x', $1::int)"; params = [ "query.n" ]; result = "raw"; }
""".replace("GATE", GATE)


@pytest.fixture(scope="module")
def hasty(cluster):
    yield from kept(cluster, ROUTES, None, HASTY)


def dribble(client, octets, pause=0.1):
    """Octet by octet, until the server has had enough: before all of them are sent, however often one is."""
    for octet in octets:
        client.send(octet)
        if select.select([client.socket], [], [], pause)[0]:
            return
    raise AssertionError("%d octets were taken" % len(octets))


def test_dribbling_head_while_a_query_runs(hasty, gate):
    """The query's answer neither gives the head more time nor is lost by its end."""
    before = hasty.total("timeout.header")
    with Client(hasty.port) as client:
        client.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\nGET /pipeline HTTP/1.1\r\nX-Drip: ")

        def late():
            client.send("x")
            return hasty.total("timeout.header") == before + 1
        until(late, 15, pause=0.1)                      # while the query still runs
        gate.open()
        assert client.read().body == b"1"
        problem(client.read(), 408)
        assert client.closes()


def test_answers_in_between_do_not_help(hasty):
    with Client(hasty.port) as client:
        for _ in range(3):                              # in time, each of them
            client.send("GET /pipeline HTTP/1.1\r\nHost: x\r\nX-Long: ")
            time.sleep(0.9)
            client.send("y\r\n\r\n")
            assert client.read().body == b"ok"
        client.send("GET /pipeline HTTP/1.1\r\nHost: x\r\nX-Long: ")
        dribble(client, "y" * 200)
        problem(client.read(), 408)
        assert client.closes()


def test_octets_that_wait_for_us_are_not_late(hasty, gate):
    """While a POST before it runs we do not read on: that time is ours."""
    with Client(hasty.port) as client:
        client.send("POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /size HTTP/1.1\r\n")
        time.sleep(0.1)
        client.send("Host: x\r\nContent-Length: 3\r\n\r\nabc")
        turns = hasty.total("loop.turns")
        time.sleep(2.8)
        gate.open()
        assert client.read().body == b"1"
        assert client.read().body == b"3"
        assert hasty.total("loop.turns") - turns < 300, "it spins while it waits"


def test_bodies_that_are_too_slow_or_just_fast_enough(hasty):
    """A thousand octets per second, looked at every five seconds."""
    before = hasty.total("timeout.body_rate")
    began = time.monotonic()
    with Client(hasty.port, timeout=20) as fast, Client(hasty.port, timeout=20) as slow, Client(hasty.port, timeout=20) as slowest:
        for client in (fast, slow, slowest):            # the body begins when the head has been read
            client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n")
            while b"100 Continue\r\n\r\n" not in client.buffer:
                client.more()
        fast.send("y" * 5001)
        slow.send("y" * 4900)
        dribble(slowest, "y" * 100, 0.2)                # no longer than body_ms would let it
        assert time.monotonic() - began > 2.5
        for client in (slowest, slow):
            problem(client.read(), 408)
            assert client.closes()
        fast.send("y" * 3999)
        assert fast.read().body == b"9000"
    assert hasty.total("timeout.body_rate") == before + 2


def test_client_that_takes_nothing(hasty):
    before = hasty.total("timeout.write")
    began = time.monotonic()
    with Client(hasty.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(4):
            client.send("GET /big?n=4000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: hasty.total("timeout.write") == before + 1)
        assert time.monotonic() - began > 1


def test_client_that_takes_it_slowly(hasty):
    """Progress counts, not the end, though it is so little that the kernel takes nothing from us meanwhile."""
    size = 15000000
    with Client(hasty.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100000)
        client.send("GET /big?n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % size)
        got = 0
        began = time.monotonic()
        while time.monotonic() - began < 3.5:
            got += len(client.socket.recv(20000))
            time.sleep(0.1)
        assert hasty.total("memory.buffers_used") > 1000000, "it is no longer being sent"
        while got < size:
            piece = client.socket.recv(1 << 20)
            assert piece, "closed after %d octets" % got
            got += len(piece)
        assert got < size + 500


def test_lingering_ends(shared):
    """After a refusal what comes is dropped, for two seconds and no longer."""
    began = time.monotonic()
    with Client(shared.port) as client:
        client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        problem(client.read(), 413)
        with pytest.raises(OSError):
            for _ in range(400):
                client.send("y" * 10)
                time.sleep(0.05)
        assert time.monotonic() - began > 1
    with Client(shared.port) as client:                 # nor more than 16 MiB
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
        head = "GET /row HTTP/1.1\r\nHost: x\r\nX-Long: " + "y" * 300 + "\r\n\r\n"
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
    until(lambda: shared.total("http.connections") == 0)
