"""The access log: a line for each answer, in order, whole, and never waited for."""
import json
import os
import re
import signal
import time

import pytest
from client import Client, one, until

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/items/{id}"; sql = "SELECT id, name FROM items WHERE id = $1"; params = [ "path.id" ]; result = "row"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "POST"; path = "/size"; sql = "SELECT length($1)"; params = [ "body" ]; result = "value"; }
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def log_of(server, tmp_path, format="json", more="", workers=1, **options):
    os.chmod(tmp_path, 0o777)
    path = os.path.join("/tmp", "vanilla-e2e-access-%d-%d" % (os.getpid(), time.monotonic_ns()))
    running = server(ROUTES, settings='workers = %d; log = { access = "%s"; format = "%s"; }; %s'
                                      % (workers, path, format, more), **options)
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


def test_no_buffer(server, tmp_path):
    """What is shed before its body was read has a line with all that is known of it."""
    running, path = log_of(server, tmp_path, more="memory = { buffers_mb = 1; };")
    try:
        with Client(running.port) as client:
            client.send("POST /size?x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
            answer = client.read()
        line = json.loads(*lines_of(path, 1))
    finally:
        os.unlink(path)
    assert answer.status == 503 and answer.get("retry-after")
    assert (line["method"], line["target"], line["status"], line["bytes"], line["route"]) == (
        "POST", "/size?x", 503, len(answer.body), "POST /size")
    assert running.total("shed.buffers") == 1


def test_text(server, tmp_path):
    running, path = log_of(server, tmp_path, "text")
    try:
        one(running.port, "GET", "/items/1", headers={"traceparent": TRACE})
        (line,) = lines_of(path, 1)
    finally:
        os.unlink(path)
    assert re.fullmatch(r'127\.0\.0\.1 - - \[[0-9TZ:.-]{24}\] "GET /items/1 HTTP/1\.1" 200 \d+ \d+ '
                        r'"GET /items/\{id\}" ' + TRACE, line), line


def abandoned(running, path, leave):
    """Five requests, the first of which runs for long; what they look like when their client has left."""
    counted = {name: running.total(name) for name in ("http.requests", "http.aborted", "http.status_4xx")}
    client = Client(running.port)
    client.send("".join("GET /sleep/30?n=%d HTTP/1.1\r\nHost: x\r\ntraceparent: %s\r\n\r\n" % (n, TRACE) for n in range(5)))
    until(lambda: running.stats()["pools"][0]["inflight"] == 5)
    leave(client)
    lines = lines_of(path, 5)
    assert running.total("http.requests") == counted["http.requests"] + 5
    assert running.total("http.aborted") == counted["http.aborted"] + 5
    assert running.total("http.status_4xx") == counted["http.status_4xx"]
    return lines


@pytest.mark.parametrize("leave", [Client.close, Client.reset])
def test_abandoned(server, own_cluster, tmp_path, leave):
    """As nginx has it: 499, in the log alone, for those whose client did not wait."""
    running, path = log_of(server, tmp_path, conninfo=own_cluster.conninfo)
    try:
        lines = [json.loads(line) for line in abandoned(running, path, leave)]
        one(running.port, "GET", "/pipeline")
        after = json.loads(lines_of(path, 6)[5])
    finally:
        os.unlink(path)
    assert sorted(line["target"] for line in lines) == ["/sleep/30?n=%d" % n for n in range(5)]
    assert all((line["method"], line["status"], line["abandoned"], line["bytes"], line["route"], line["traceparent"],
                line["client"]) == ("GET", 499, True, 0, "GET /sleep/{s}", TRACE, "127.0.0.1") for line in lines), lines
    assert all(line["duration_us"] > 0 for line in lines)
    assert after["status"] == 200 and "abandoned" not in after


def test_abandoned_as_text(server, own_cluster, tmp_path):
    running, path = log_of(server, tmp_path, "text", conninfo=own_cluster.conninfo)
    try:
        lines = abandoned(running, path, Client.reset)
    finally:
        os.unlink(path)
    for line in lines:
        assert re.fullmatch(r'127\.0\.0\.1 - - \[[0-9TZ:.-]{24}\] "GET /sleep/30\?n=\d HTTP/1\.1" 499 0 \d+ '
                            r'"GET /sleep/\{s\}" ' + TRACE, line), line


def test_answered_but_not_taken(server, own_cluster, tmp_path):
    """Those that were answered before their client left have their line already; those that were not begun have none."""
    running, path = log_of(server, tmp_path, conninfo=own_cluster.conninfo)
    try:
        client = Client(running.port)
        client.send("GET /sleep/30 HTTP/1.1\r\nHost: x\r\n\r\n" + "GET /pipeline HTTP/1.1\r\nHost: x\r\n\r\n" * 2
                    + "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /pipe")
        lines_of(path, 2)
        client.reset()
        lines = [json.loads(line) for line in lines_of(path, 3)]
    finally:
        os.unlink(path)
    assert [(line["target"], line["status"]) for line in lines] == [("/pipeline", 200), ("/pipeline", 200), ("/sleep/30", 499)]


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
