"""The access log: a line for each answer, in order, whole, and never waited for."""
import json
import os
import re
import signal
import time

from client import Client, one, until

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/items/{id}"; sql = "SELECT id, name FROM items WHERE id = $1"; params = [ "path.id" ]; result = "row"; },
  { method = "POST"; path = "/size"; sql = "SELECT length($1)"; params = [ "body" ]; result = "value"; }
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def log_of(server, tmp_path, format="json", more="", workers=1):
    os.chmod(tmp_path, 0o777)
    path = os.path.join("/tmp", "vanilla-e2e-access-%d-%d" % (os.getpid(), time.monotonic_ns()))
    running = server(ROUTES, settings='workers = %d; log = { access = "%s"; format = "%s"; }; %s'
                                      % (workers, path, format, more))
    return running, path


def lines_of(path, count):
    def read():
        with open(path, encoding="ascii") as file:
            lines = file.read().split("\n")[:-1]
        return lines if len(lines) >= count else None
    lines = until(read)
    assert len(lines) == count, lines
    return lines


def test_json(server, tmp_path):
    running, path = log_of(server, tmp_path)
    try:
        with Client(running.port) as client:
            client.get("/pipeline")
            size = len(client.get("/items/1?a=b", traceparent=TRACE).body)
            client.get("/items/x%22y")
            client.request("POST", "/size", b"abc")
            client.request("HEAD", "/pipeline")
            client.get("/nowhere", traceparent=TRACE.upper())
        with Client(running.port) as client:
            client.send(b"GET /\xe4\" HTTP/1.1\r\nHost: x\r\n\r\n")
            client.read()
        lines = [json.loads(line) for line in lines_of(path, 7)]
    finally:
        os.unlink(path)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert all(line["client"] == "127.0.0.1" and line["duration_us"] >= 0 for line in lines)
    short = [(line.get("method"), line.get("target"), line["status"], line["bytes"], line.get("route")) for line in lines]
    assert short[0] == ("GET", "/pipeline", 200, 2, "GET /pipeline")
    assert short[1] == ("GET", "/items/1?a=b", 200, size, "GET /items/{id}")
    assert short[2][:3] == ("GET", "/items/x%22y", 400)
    assert short[3] == ("POST", "/size", 200, 1, "POST /size")
    assert short[4] == ("HEAD", "/pipeline", 200, 0, "GET /pipeline")
    assert short[5][:3] == ("GET", "/nowhere", 404) and short[5][4] is None
    assert short[6][2] == 400
    assert [line.get("traceparent") for line in lines[:6]] == [None, TRACE, None, None, None, None]


def test_text(server, tmp_path):
    running, path = log_of(server, tmp_path, "text")
    try:
        one(running.port, "GET", "/items/1", headers={"traceparent": TRACE})
        (line,) = lines_of(path, 1)
    finally:
        os.unlink(path)
    assert re.fullmatch(r'127\.0\.0\.1 - - \[[0-9TZ:.-]{24}\] "GET /items/1 HTTP/1\.1" 200 \d+ \d+ '
                        r'"GET /items/\{id\}" ' + TRACE, line), line


def test_all_of_many(server, tmp_path):
    """Pipelined, over two workers: none lost, none torn, all in order of their connection."""
    running, path = log_of(server, tmp_path, workers=2)
    try:
        clients = [Client(running.port) for _ in range(8)]
        for client in clients:
            client.send("".join("GET /pipeline?c=%d&n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % (clients.index(client), n)
                                for n in range(200)))
        for client in clients:
            assert all(client.read().body == b"ok" for _ in range(200))
            client.close()
        seen = {}
        for line in lines_of(path, 1600):
            c, n = map(int, re.search(r"c=(\d+)&n=(\d+)", json.loads(line)["target"]).groups())
            assert n == seen.get(c, 0)
            seen[c] = n + 1
        assert running.total("log.dropped") == 0
    finally:
        os.unlink(path)


def test_opened_again(server, tmp_path):
    running, path = log_of(server, tmp_path)
    try:
        one(running.port, "GET", "/pipeline?first")
        lines_of(path, 1)
        os.rename(path, path + ".1")
        running.send(signal.SIGUSR1)
        until(lambda: os.path.exists(path))

        def moved():
            one(running.port, "GET", "/pipeline?second")
            time.sleep(0.1)
            return os.path.getsize(path) > 0
        until(moved)
    finally:
        for name in (path, path + ".1"):
            if os.path.exists(name):
                os.unlink(name)


def test_slow_reader(server, tmp_path):
    """A pipe that nobody empties: requests are served, lines dropped and counted."""
    path = "/tmp/vanilla-e2e-fifo-%d" % os.getpid()
    os.mkfifo(path)
    os.chmod(path, 0o666)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        running = server(ROUTES, settings='workers = 1; log = { access = "%s"; };' % path)
        with Client(running.port) as client:
            for _ in range(20):
                client.send("GET /pipeline?%s HTTP/1.1\r\nHost: x\r\n\r\n" % ("x" * 1000) * 20)
                assert all(client.read().body == b"ok" for _ in range(20))
        assert running.total("log.dropped") > 0
        text = b""
        while True:
            try:
                piece = os.read(reader, 1 << 20)
            except BlockingIOError:
                break
            text += piece
        assert all(json.loads(line)["status"] == 200 for line in text.split(b"\n")[:-1])
    finally:
        os.close(reader)
        os.unlink(path)
