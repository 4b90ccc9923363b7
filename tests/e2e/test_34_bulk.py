"""Parameters and results larger than any buffer, and clients that read slowly."""
import json
import threading
import time

from client import Client, one, until
from load import Load, calm

ROUTES = r"""
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "POST"; path = "/echo"; sql = "SELECT $1::text"; params = [ "body" ]; result = "raw"; },
  { method = "POST"; path = "/length"; sql = "SELECT length($1)"; params = [ "body.text" ]; result = "value"; },
  { method = "GET";  path = "/big/{seed}"; sql = "SELECT repeat(chr(97 + $1::int % 26), 1048576)"; params = [ "path.seed" ]; result = "raw"; },
  { method = "GET";  path = "/many"; sql = "SELECT n, repeat('x', 1024) AS x FROM generate_series(1, 100000) n"; result = "rows"; },
  { method = "GET";  path = "/text"; text = "ok"; },
  { method = "GET";  path = "/other"; sql = "SELECT 7"; result = "value"; pool = "write"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 24; read_only = true; statement_timeout_ms = 60000; queue_timeout_ms = 60000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; statement_timeout_ms = 60000; queue_timeout_ms = 60000; }
);
"""
SETTINGS = """workers = 1; limits = { body_bytes = 2097152; response_bytes = 134217728; }; memory = { buffers_mb = %d; };"""


def memory_of(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        (line,) = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def test_large_parameter(server):
    running = server(ROUTES, POOLS, SETTINGS % 64)
    with Client(running.port) as client:
        for size in (200 * 1024, 1 << 20, 7, 2000000):
            answer = client.post_json("/length", '{"text":"%s"}'.encode() % ("ä" * (size // 2)).encode())
            assert answer.body == b"%d" % (size // 2)


def test_eight_megabytes_both_ways_pipelined(server):
    """The answers are not read before all is sent: neither side's buffers hold what is under way."""
    running = server(ROUTES, POOLS, SETTINGS % 64)
    bodies = [bytes([97 + n]) * (1 << 20) for n in range(8)]
    with Client(running.port, timeout=30) as client:
        def send():
            for body in bodies:
                client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.3)
        for body in bodies:
            answer = client.read()
            assert answer.status == 200 and answer.body == body
        sender.join()
        client.send("".join("GET /big/%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(8)))
        for n in range(8):
            answer = client.read()
            assert answer.status == 200 and answer.body == bytes([97 + n]) * (1 << 20)
    until(lambda: calm(running))


def test_slow_readers_of_a_large_result(server):
    """20 readers of 4 KiB per 100 ms want 100 MiB each, and there are 24 MiB of buffers: what does not fit is refused and
    counted, memory stays within the budget, other routes stay fast."""
    running = server(ROUTES, POOLS, SETTINGS % 24)
    (worker,) = running.workers()
    stop, seen = threading.Event(), []

    def read_slowly():
        client = Client(running.port, timeout=30)
        client.send_request("GET", "/many")
        client.socket.settimeout(0.3)
        while not stop.wait(0.1):
            try:
                seen.append(client.socket.recv(4096)[:12])
            except TimeoutError:
                continue
            except OSError:
                break
        client.close()

    readers = [threading.Thread(target=read_slowly) for _ in range(20)]
    before = memory_of(worker)
    for reader in readers:
        reader.start()
    most = 0
    with Load(running.port, {"/row/5": b"5", "/text": b"ok", "/row/6": b"6", "/other": b"7"}, clients=3, pause=0.005) as load:
        began = time.monotonic()
        while time.monotonic() < began + 4 or (load.seen.get(200, 0) <= 20 and time.monotonic() < began + 60):
            most = max(most, memory_of(worker))
            time.sleep(0.1)
    stop.set()
    for reader in readers:
        reader.join()
    assert not load.strange, load.strange[:3]
    assert set(load.seen) <= {200, 503}, load.seen
    assert load.seen[200] > 20, load.seen
    assert {code for _, code, target in load.codes if target in ("/text", "/other")} == {200}, "what is small has buffers left"
    quick = sorted(load.times)
    assert quick[len(quick) // 2] < 5, quick[len(quick) // 2]       # the machine is busy with two gigabytes of rows
    assert most - before < (24 + 8) << 20, (before, most)
    total = running.stats()["total"]
    assert total["memory.buffers_peak"] < total["memory.buffers_total"] * 15 // 16, "the last eighth is not for what is large"
    assert b"HTTP/1.1 500" not in seen
    until(lambda: calm(running), timeout=60)
    assert one(running.port, "GET", "/row/1").status == 200


def test_many_rows_arrive_whole(server):
    running = server(ROUTES, POOLS, SETTINGS % 256)
    answer = one(running.port, "GET", "/many")
    rows = json.loads(answer.body)
    assert len(rows) == 100000 and rows[-1] == {"n": 100000, "x": "x" * 1024}
