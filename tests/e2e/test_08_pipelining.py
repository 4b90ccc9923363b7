"""Pipelined requests are answered in order, however they arrive and however long each takes."""
import json
import random
import socket

import conftest
from client import Client, until

POOLS = conftest.POOLS.replace("queue_timeout_ms", "abandon_ms = 20000; queue_timeout_ms")
ROUTES = r"""
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/long"; text = "LONG"; },
  { method = "GET"; path = "/n/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET"; path = "/slow/{n}/{s}"; sql = "SELECT $1::int FROM pg_sleep($2::float8)"; params = [ "path.n", "path.s" ]; result = "value"; },
  { method = "POST"; path = "/n"; sql = "SELECT $1::int"; params = [ "body.n" ]; result = "value"; }
""".replace("LONG", "x" * 2000)


def request(target):
    return "GET %s HTTP/1.1\r\nHost: test\r\n\r\n" % target


def post(number):
    body = json.dumps({"n": number})
    return "POST /n HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_a_thousand_in_one_segment(client):
    client.send(request("/pipeline") * 1000)
    for _ in range(1000):
        assert client.read().body == b"ok"
    assert client.silent(0.05)


def test_a_thousand_rows_in_one_segment(client):
    client.send("".join(request("/n/%d" % n) for n in range(1000)))
    for n in range(1000):
        assert client.read().body == b"%d" % n


def test_fast_behind_slow(client):
    client.send(request("/slow/1/0.3") + request("/pipeline") + request("/n/2") + request("/slow/3/0.01")
                + request("/nowhere") + request("/n/x") + post(4) + request("/pipeline"))
    bodies = [client.read() for _ in range(8)]
    assert [answer.status for answer in bodies] == [200, 200, 200, 200, 404, 400, 200, 200]
    assert [bodies[i].body for i in (0, 1, 2, 3, 6, 7)] == [b"1", b"ok", b"2", b"3", b"4", b"ok"]


def test_mixed_load(client):
    chance = random.Random(1)
    wanted = []
    octets = []
    for n in range(300):
        kind = chance.randrange(10)
        if kind == 0:
            octets.append(request("/slow/%d/%.3f" % (n, chance.random() / 50)))
            wanted.append(b"%d" % n)
        elif kind < 5:
            octets.append(request("/n/%d" % n))
            wanted.append(b"%d" % n)
        elif kind < 7:
            octets.append(post(n))
            wanted.append(b"%d" % n)
        else:
            octets.append(request("/pipeline"))
            wanted.append(b"ok")
    data = "".join(octets)
    at = 0
    while at < len(data):                                # cut anywhere
        size = chance.randrange(1, 3000)
        client.send(data[at:at + size])
        at += size
    assert [client.read().body for _ in wanted] == wanted


def test_one_octet_per_segment(client):
    data = request("/n/5") + post(6) + request("/pipeline")
    for octet in data:
        client.send(octet)
    assert [client.read().body for _ in range(3)] == [b"5", b"6", b"ok"]


def test_every_cut(shared):
    data = request("/pipeline") + post(7)
    for cut in range(1, len(data)):
        with Client(shared.port) as client:
            client.send(data[:cut])
            client.send(data[cut:])
            assert (client.read().body, client.read().body) == (b"ok", b"7"), cut


def test_head_in_between(client):
    client.send(request("/n/1") + "HEAD /n/22 HTTP/1.1\r\nHost: test\r\n\r\n" + request("/n/3"))
    assert client.read().body == b"1"
    assert client.read("HEAD").get("content-length") == "2"
    assert client.read().body == b"3"


def test_close_ends_the_pipeline(shared):
    with Client(shared.port) as client:
        client.send(request("/n/1") + "GET /n/2 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" + request("/n/3"))
        assert client.read().body == b"1"
        assert client.read().body == b"2"
        assert client.closes()


def test_malformed_behind_good(shared):
    with Client(shared.port) as client:
        client.send(request("/slow/1/0.05") + "GET / HTTP/1.1\r\nBad Field: x\r\n\r\n" + request("/n/3"))
        assert client.read().body == b"1"
        assert client.read().status == 400
        assert client.closes()


def test_half_closed_client_gets_its_answers(shared):
    with Client(shared.port) as client:
        client.send(request("/slow/1/0.1") + request("/n/2"))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.read().body == b"1"
        assert client.read().body == b"2"
        assert client.closes()


def test_a_reader_that_is_slow(shared):
    until(lambda: shared.total("memory.buffers_used") == 0)
    with Client(shared.port) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.send(request("/long") * 3000)
        # More than the kernel takes: the rest waits in the worker.
        until(lambda: shared.total("memory.buffers_used") > 0)
        for _ in range(3000):
            assert client.read().body == b"x" * 2000
