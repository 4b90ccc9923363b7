"""Requests that must wait for those before them: none is lost, none answered with another's answer, and nobody spins."""
import socket
import threading
import time

from client import Client, Closed, until
from gate import GATE

ROUTES = r"""
  { method = "GET";  path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; },
  { method = "POST"; path = "/held"; sql = "SELECT 2 FROM GATE"; result = "value"; },
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "POST"; path = "/length"; sql = "SELECT length($1)"; params = [ "body" ]; result = "value"; },
  { method = "GET";  path = "/echo"; sql = "SELECT $1::text || repeat('.', $2::int)"; params = [ "query.v", "query.n" ]; result = "value"; }
""".replace("GATE", GATE)

PATIENT = """
pools = ( { name = "write"; conninfo = "%(conninfo)s"; abandon_ms = 20000; statement_timeout_ms = 60000; } );
"""


def get(path):
    return b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()


def post(path, body, chunked=False):
    head = b"POST %s HTTP/1.1\r\nHost: x\r\n" % path.encode()
    if chunked:
        return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_bodies_of_held_requests(server):
    running = server(ROUTES)
    for chunked in (False, True):
        for size in (10, 3000, 5000, 70000):
            with Client(running.port) as client:
                client.send(get("/sleep/0.05") + post("/length", b"x" * size, chunked) + get("/pipeline")
                            + post("/length", b"y" * (size + 1), chunked) + get("/pipeline"))
                answers = [client.read().body for _ in range(5)]
                assert answers == [b"1", b"%d" % size, b"ok", b"%d" % (size + 1), b"ok"]


def wait(running, gate, client):
    """The query has been sent: half a second more of waiting takes no more turns than ticks."""
    until(lambda: sum(pool["inflight"] for pool in running.stats()["pools"]) == 1)
    turns = running.total("loop.turns")
    time.sleep(0.5)
    gate.open()
    assert client.read().status == 200
    assert running.total("loop.turns") - turns < 300


def test_waiting_does_not_spin(server, gate):
    running = server(ROUTES, settings="workers = 1;")
    gate.open()
    for first, behind in ((post("/held", b""), get("/pipeline")), (get("/held"), post("/length", b"abc")),
                          (get("/held"), get("/pipeline") * 200), (post("/held", b""), b"G")):
        gate.shut()
        with Client(running.port) as client:
            client.send(first + behind)
            wait(running, gate, client)


def test_a_half_closed_client_waits_without_a_spin(server, gate):
    running = server(ROUTES, settings="workers = 1;", pools=PATIENT)
    with Client(running.port) as client:
        client.send(post("/held", b""))
        client.socket.shutdown(socket.SHUT_WR)
        wait(running, gate, client)


def test_answers_are_one_s_own_when_buffers_run_out(server):
    """memory.buffers_mb = 1 and much more in flight: an answer is the right one, or a 503, or the connection ends."""
    running = server(ROUTES, settings="workers = 1; memory = { buffers_mb = 1; };")
    wrong, right = [], []

    def run(number):
        for turn in range(12):
            try:
                with Client(running.port) as client:
                    client.send(b"".join(get("/echo?v=%d-%d-%d-&n=%d" % (number, turn, k, k * 997 % 30000)) for k in range(20)))
                    for k in range(20):
                        answer = client.read()
                        if answer.status == 200:
                            mine = b'"%d-%d-%d-' % (number, turn, k) + b"." * (k * 997 % 30000) + b'"'
                            (right if answer.body == mine else wrong).append(answer.body[:40])
                        elif answer.status not in (500, 503):
                            wrong.append(answer.status)
            except (Closed, OSError):
                pass

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:5]
    assert right
    until(lambda: all(pool["inflight"] == 0 for pool in running.stats()["pools"]))
    with Client(running.port) as client:
        assert client.get("/pipeline").status == 200
