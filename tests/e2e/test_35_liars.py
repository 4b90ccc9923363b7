"""A PostgreSQL that speaks badly, and a way to it that delays, trickles and cuts: the connection is replaced, the loop does
not spin, what others ask is answered."""
import os
import struct
import time

import pytest

from client import Client, one, until
from liar import BOUND, DONE, READY, ROW, Liar, Proxy, error, message
from load import Load, calm

ROUTES = r"""
  { method = "GET";  path = "/text"; text = "ok"; },
  { method = "GET";  path = "/n"; sql = "SELECT 7 AS n"; result = "value"; },
  { method = "POST"; path = "/n"; sql = "SELECT 7 AS n"; result = "value"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 2; read_only = true; reconnect_max_ms = 100; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 1; reconnect_max_ms = 100; }
);
"""


def processor_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spins(running, worker, seconds):
    """Whether the loop turns far more often than it has reason to; or uses up half of the time, within one turn or many."""
    before, turns, began = processor_seconds(worker), running.total("loop.turns"), time.monotonic()
    time.sleep(seconds)
    turns, used, took = running.total("loop.turns") - turns, processor_seconds(worker) - before, time.monotonic() - began
    return turns > 1000 * took or used > took / 2


LIES = {
    "half a message and nothing more": BOUND + ROW[:7],
    "half a message and the end": None,
    "two errors in a row": error("22012") + error("22012"),
    "an error for nobody": BOUND + ROW + DONE + READY + error("XX000"),
    "garbage": b"\xff\x00garbage\r\n" * 20,
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a length of 2 GiB": BOUND + b"D" + struct.pack(">I", 0x7fffffff) + b"x" * 100,
    "a length of 4 GiB": BOUND + b"D" + struct.pack(">I", 0xffffffff),
    "a length of 3": BOUND + b"D" + struct.pack(">I", 3),
    "a row without an end": BOUND + message(b"D", b"\0\x01" + struct.pack(">I", 100) + b"7") + DONE + READY,
    "a row of other columns": BOUND + message(b"D", b"\0\x02\0\0\0\x017\0\0\0\x017") + DONE + READY,
    "rows before the bind": ROW + DONE + READY,
    "two ends": BOUND + ROW + DONE + DONE + READY,
    "ready twice": BOUND + ROW + DONE + READY + READY,
    "ready in a transaction": BOUND + ROW + DONE + message(b"Z", b"T"),
    "COPY": BOUND + message(b"G", b"\0\0\0"),
    "an error without a code": message(b"E", b"Mnothing else\0\0"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_lie(server, lie):
    with Liar() as liar:
        # A silent one ends with the statement's time and ten seconds: here the liar hangs up before.
        running = server(ROUTES, POOLS, conninfo=liar.conninfo)
        (worker,) = running.workers()
        assert one(running.port, "GET", "/n").body == b"7"
        for method in ("GET", "POST"):
            liar.lie(LIES[lie])
            if lie == "half a message and nothing more":
                with Load(running.port, {"/text": b"ok"}, clients=1, pause=0.02):
                    with Client(running.port) as client:
                        client.send_request(method, "/n")
                        until(lambda: not liar.lies)
                        assert not spins(running, worker, 0.7)
                        liar.cut()
                        answer = client.read()
            else:
                answer = one(running.port, method, "/n")
            assert answer.status in (200, 400, 500, 502, 503), answer.status
            if answer.status == 200:
                assert answer.body == b"7"
            until(lambda: one(running.port, "GET", "/n").body == b"7" and one(running.port, "POST", "/n").body == b"7")
            assert not spins(running, worker, 0.2)
        until(lambda: calm(running))


def test_a_pooler_that_is_not_called_one(server):
    """pgbouncer refuses the startup parameter `options`: the log says what is meant."""
    with Liar("08P01", "unsupported startup parameter: options") as liar:
        running = server(ROUTES, POOLS, conninfo=liar.conninfo, wait="/live")
        until(lambda: "pooler = true" in running.log())
        assert one(running.port, "GET", "/n").status == 503


def test_a_proxy_that_delays_trickles_and_cuts(server, own_cluster):
    with Proxy(own_cluster) as proxy:
        running = server(ROUTES, POOLS, conninfo=proxy.conninfo)
        with Load(running.port, {"/n": b"7", ("POST", "/n", "{}"): b"7", "/text": b"ok"}, clients=4) as load:
            time.sleep(0.3)
            proxy.delay = 0.02
            time.sleep(0.5)
            proxy.delay, proxy.piece = 0.0, 3
            time.sleep(0.7)
            proxy.piece = 1 << 16
            for _ in range(5):
                proxy.cut()
                time.sleep(0.3)
            assert not load.well_within(1.0)
        assert not load.strange, load.strange[:5]
        assert set(load.seen) <= {200, 502, 503}, load.seen
        assert all(isinstance(target, tuple) for _, code, target in load.codes if code == 502)
        until(lambda: calm(running))


def test_a_frozen_way(server, own_cluster):
    """Nothing comes back at all for a while: others are served, waiting ends in time."""
    pools = POOLS.replace("reconnect_max_ms", "queue = 4; max_inflight = 2; queue_timeout_ms = 100; reconnect_max_ms")
    with Proxy(own_cluster) as proxy:
        running = server(ROUTES, pools, conninfo=proxy.conninfo)
        with Load(running.port, {"/n": b"7", "/text": b"ok"}, clients=8, pause=0.01) as load:
            time.sleep(0.2)
            proxy.frozen = True
            time.sleep(1)
            assert one(running.port, "GET", "/text").status == 200
            proxy.frozen = False
            assert not load.well_within(0.6)
        assert set(load.seen) <= {200, 503} and not load.strange, (load.seen, load.strange[:3])


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_transaction_left_open(server, own_cluster, method):
    """vanilla refuses a BEGIN in its file, so that the way to PostgreSQL makes one of something harmless: its connection is
    replaced, nobody else is inside of that transaction, and none stays open."""
    with Proxy(own_cluster) as proxy:
        proxy.swap[b"SELECT 8 AS opens"] = b"BEGIN            "
        running = server(ROUTES + """,
          { method = "%s"; path = "/opens"; sql = "SELECT 8 AS opens"; result = "none"; }
          """ % method, POOLS, conninfo=proxy.conninfo)
        targets = {"/n": b"7", ("POST", "/n", "{}"): b"7"}
        with Load(running.port, targets, clients=3) as load:
            def opened():
                one(running.port, method, "/opens")
                return sum(pool["disconnects"] for pool in running.stats()["pools"]) >= 5
            until(opened, timeout=30, pause=0.05)
        assert not load.strange, load.strange[:5]
        assert set(load.seen) <= {200, 502, 503}, load.seen
        assert all(isinstance(target, tuple) for _, code, target in load.codes if code == 502)   # behind it, and rolled back
        until(lambda: calm(running))
        until(lambda: own_cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'").strip() == "0")
