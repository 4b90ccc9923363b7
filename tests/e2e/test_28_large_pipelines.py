"""One client's share of the buffers: whatever it asks for at once, and however little it reads, others get theirs."""
import socket
import time

import pytest
from client import Client, one, problem, until
from gate import Gate

MIB = 1 << 20
ROUTES = r"""
  { method = "GET";  path = "/large/{kib}"; sql = "SELECT $1::int AS kib, n, repeat('x', 1000) AS x FROM generate_series(1, $1::int) n";
    params = [ "path.kib" ]; result = "rows"; },
  { method = "GET";  path = "/share/{kib}"; sql = "SELECT $1::int AS kib, n, repeat('x', 1000) AS x FROM generate_series(1, $1::int) n";
    params = [ "path.kib" ]; result = "rows"; share = true; },
  { method = "GET";  path = "/write/{kib}"; sql = "SELECT $1::int AS kib, n, repeat('x', 1000) AS x FROM generate_series(1, $1::int) n";
    params = [ "path.kib" ]; result = "rows"; pool = "write"; },
  { method = "GET";  path = "/raw/{kib}"; sql = "SELECT repeat('y', $1::int * 1024)"; params = [ "path.kib" ]; result = "raw"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET";  path = "/gate/{n}"; sql = "SELECT 1 FROM pg_advisory_xact_lock_shared($1::bigint)"; params = [ "path.n" ];
    result = "value"; pool = "write"; },
  { method = "GET";  path = "/long"; text = "%s"; },
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; }
""" % ("z" * 300000)
NEXT = r''', { method = "GET"; path = "/next"; sql = "SELECT nextval('share_n') AS n, repeat('x', $1::int) AS x";
    params = [ "query.size=1" ]; result = "row"; pool = "write"; }'''
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 3; max_inflight = 32; read_only = true; queue = 500; queue_timeout_ms = 60000;
    statement_timeout_ms = 0; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 3; max_inflight = 4; queue = 500; queue_timeout_ms = 60000; statement_timeout_ms = 0; }
);
"""
SETTINGS = "workers = 1; memory = { buffers_mb = 32; }; limits = { response_bytes = 4194304; }; timeouts = { write_ms = 300000; };"


def gets(*targets):
    return "".join("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target for target in targets)


def rows(answer, kib):
    assert answer.status == 200, answer.body[:200]
    assert answer.body.count(b'{"kib":%d,' % kib) == kib and answer.body.startswith(b'[{"kib":%d,"n":1,' % kib)
    assert answer.body.endswith(b'}]')


def settled(running):
    """Nothing more is asked of the database, and nothing more is sent."""
    seen = []

    def still():
        stats = running.stats()
        total = stats["total"]
        if not seen or total["loop.turns"] > seen[-1][0] + 1:       # figures are a tick old; and a worker without a turn is none that is done
            seen.append((total["loop.turns"], total["http.bytes_out"]))
        return [sent for _, sent in seen[-8:]] == [seen[-1][1]] * 8 and all(
            pool["inflight"] == pool["waiting"] == 0 for pool in stats["pools"])
    until(still, timeout=60)


def reluctant(running):
    """A client that will not read: what the kernel takes off the server's hands is little."""
    client = Client.__new__(Client)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(60)
    client.socket.connect(("127.0.0.1", running.port))
    client.buffer, client.interim = b"", []
    return client


@pytest.mark.parametrize("route", ["/large/3000", "/share/3000", "/write/3000", "/raw/3000"])
def test_a_client_that_does_not_read(server, route):
    """It may hold one large answer and a little; all that it asked for comes when it reads."""
    running = server(ROUTES, POOLS, settings=SETTINGS)
    one(running.port, "GET", route)             # a route that may write is known by its first large answer
    with reluctant(running) as client:
        client.send(gets(*[route] * 40))
        settled(running)
        total = running.stats()["total"]
        assert total["memory.buffers_used"] < 12 * MIB
        rows(one(running.port, "GET", "/large/3000"), 3000)
        with Client(running.port) as other:
            other.send(gets(*["/large/50"] * 40))
            for _ in range(40):
                rows(other.read(), 50)
        assert running.total("shed.buffers") == running.total("limit.buffers") == 0
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
        for _ in range(40):
            answer = client.read()
            if route.startswith("/raw"):
                assert answer.body == b"y" * 3000 * 1024
            else:
                rows(answer, 3000)
    total = running.stats()["total"]
    assert total["shed.buffers"] == total["limit.buffers"] == total["limit.response_bytes"] == 0
    assert total["memory.buffers_peak"] < 20 * MIB


def test_large_and_small_in_order(server):
    """Some are asked for a second time, and nobody sees it: each answer once, in order, counted once."""
    running = server(ROUTES, POOLS, settings=SETTINGS)
    targets = ["/sleep/0.2"] + ["/large/%d" % (1 + n * 37 % 200) for n in range(100)] + ["/long", "/pipeline", "/nowhere", "/long"]
    for _ in range(2):
        with Client(running.port) as client:
            client.send(gets(*targets))
            for target in targets:
                answer = client.read()
                if target.startswith("/large"):
                    rows(answer, int(target.split("/")[2]))
                elif target == "/long":
                    assert answer.body == b"z" * 300000
                else:
                    assert answer.status == (404 if target == "/nowhere" else 200)
            client.send(gets("/pipeline"))
            assert client.read().body == b"ok"
    assert running.total("http.requests") == 2 * len(targets) + 2
    assert running.total("http.status_2xx") == 2 * len(targets)
    assert running.total("http.status_5xx") == 0


def test_a_statement_that_may_write_runs_once(server, own_cluster):
    own_cluster.sql("CREATE SEQUENCE share_n; GRANT ALL ON SEQUENCE share_n TO PUBLIC")
    running = server(ROUTES + NEXT, POOLS, settings=SETTINGS, conninfo=own_cluster.conninfo)
    for _ in range(3):
        with Client(running.port) as client:
            client.send(gets(*["/next?size=200000"] * 20))
            for _ in range(20):
                answer = client.read()
                assert answer.status == 200 and len(answer.body) > 200000
    assert own_cluster.sql("SELECT last_value FROM share_n").strip() == "60"


def test_those_who_share_with_a_client_that_waits(server, cluster):
    """An answer that is too large to wait for one client's turn is none of the others' troubles."""
    running = server(ROUTES, POOLS, settings=SETTINGS)
    for _ in range(3):
        with Client(running.port) as first, Client(running.port) as second:
            with Gate(cluster) as gate:
                first.send(gets("/gate/1", "/share/2000"))
                until(lambda: gate.waiting() == 1)      # noqa: B023
                second.send(gets("/share/2000", "/share/2000", "/pipeline"))
                rows(second.read(), 2000)
                rows(second.read(), 2000)
                assert second.read().body == b"ok"
            assert first.read().status == 200
            rows(first.read(), 2000)


def test_an_answer_too_large_for_anybody(server):
    running = server(ROUTES, POOLS, settings=SETTINGS)
    with Client(running.port) as client:
        client.send(gets("/large/10", "/large/9000", "/raw/9000", "/large/10"))
        rows(client.read(), 10)
        problem(client.read(), 500)
        problem(client.read(), 500)
        rows(client.read(), 10)
    assert running.total("limit.response_bytes") == 2


def test_leaving_while_some_are_deferred(server):
    running = server(ROUTES, POOLS, settings=SETTINGS)
    for leave in (Client.close, Client.reset):
        for reads in range(3):
            client = reluctant(running)
            client.send(gets(*["/large/1000"] * 30))
            for _ in range(reads):
                rows(client.read(), 1000)
            leave(client)
    until(lambda: running.total("http.connections") <= 1)
    settled(running)
    until(lambda: running.total("memory.buffers_used") < MIB)
    rows(one(running.port, "GET", "/large/1000"), 1000)


def test_half_closed(server):
    running = server(ROUTES, POOLS, settings=SETTINGS)
    with Client(running.port) as client:
        client.send(gets(*["/large/1000"] * 30))
        client.socket.shutdown(socket.SHUT_WR)
        for _ in range(30):
            rows(client.read(), 1000)
        assert client.closes()


PLACES = r"""
  { method = "GET"; path = "/shared/{n}"; sql = "SELECT 1 FROM pg_advisory_xact_lock_shared($1::bigint)"; params = [ "path.n" ];
    result = "value"; share = true; },
  { method = "GET"; path = "/gate/{n}"; sql = "SELECT 1 FROM pg_advisory_xact_lock_shared($1::bigint)"; params = [ "path.n" ];
    result = "value"; },
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; }
"""
FEW = """pools = ( { name = "read"; conninfo = "%(conninfo)s"; connections = 4; max_inflight = 2; read_only = true; queue = 0; abandon_ms = 100; batch_us = 0;
  queue_timeout_ms = 60000; statement_timeout_ms = 60000; } );"""


def inflight(running, name="inflight"):
    return running.stats()["pools"][0][name]


def test_places_of_others(server, cluster):
    """What is pipelined waits for a place; whoever has nothing in progress has one, and nobody is shed while slots are free."""
    running = server(PLACES, FEW, settings="workers = 1; connections = 16;")
    crowd = [Client(running.port, timeout=60) for _ in range(12)]
    for behind in ("/shared/1", "/pipeline"):
        with Gate(cluster):
            for client in crowd:
                client.send(gets("/shared/1", *[behind] * 12))
            until(lambda: inflight(running) == 1)
            with Client(running.port) as other, Client(running.port) as third:
                for _ in range(3):
                    assert other.get("/gate/2").status == third.get("/pipeline").status == 200
                with Gate(cluster, 3) as gate:
                    other.send(gets("/gate/3", "/pipeline", "/gate/2"))
                    until(lambda: gate.waiting() == 1)      # noqa: B023
                assert [other.read().body for _ in range(3)] == [b"1", b"ok", b"1"]
        for client in crowd:
            assert [client.read().status for _ in range(13)] == [200] * 13
    for client in crowd:
        client.close()
    total = running.stats()["total"]
    assert sum(count for name, count in total.items() if name.startswith("shed.")) == 0
    assert total["http.status_2xx"] == 12 * 13 * 2 + 18


def test_who_waits_for_a_place_is_called(server, cluster):
    """In turn, as soon as there are places, though what is before it still runs; who cannot use his lets it go."""
    running = server(PLACES, FEW, settings="workers = 1; connections = 16;")
    with Client(running.port) as many, Client(running.port) as first, Client(running.port) as second, reluctant(running) as gone:
        with Gate(cluster, 2):
            with Gate(cluster, 1):
                many.send(gets("/gate/1", *["/pipeline"] * 30))
                until(lambda: running.total("http.pipelined") == 8)
                for client in (gone, first, second):
                    client.send(gets("/gate/2", "/gate/2"))
                until(lambda: inflight(running) == 4)
                gone.reset()
            assert [many.read().status for _ in range(31)] == [200] * 31
            until(lambda: running.total("http.requests") == 31 + 5)
            until(lambda: inflight(running) == 4)
        assert [client.read().status for client in (first, first, second, second)] == [200] * 4
    assert running.total("shed.pool_full") == running.total("shed.buffers") == 0


def test_leaving_while_in_line(server, cluster):
    running = server(PLACES, FEW, settings="workers = 1; connections = 16; timeouts = { header_ms = 2500; };")
    for leave, seconds in ((Client.close, 3), (Client.reset, 0)):
        with Client(running.port) as slow:
            with Gate(cluster):
                slow.send(gets("/shared/1", *["/pipeline"] * 20))
                until(lambda: inflight(running) == 1)
                crowd = [Client(running.port) for _ in range(10)]
                before = inflight(running, "shared")
                for n, client in enumerate(crowd):
                    # The last of them has not sent all of its second head: nobody has read that yet, so that it is not late.
                    client.send(gets("/shared/1", *["/pipeline"] * 20) if n < 9 else gets("/shared/1") + "GET /pipeline HTTP/1.1\r\n")
                until(lambda: inflight(running, "shared") == before + 10)      # noqa: B023
                for client in crowd[:9:2]:
                    leave(client)
                time.sleep(seconds)
            assert [slow.read().status for _ in range(21)] == [200] * 21
            for client in crowd[1:9:2]:
                assert [client.read().status for _ in range(21)] == [200] * 21
            assert crowd[9].read().status == 200
            crowd[9].send("Host: x\r\n\r\n")
            assert crowd[9].read().body == b"ok"
        for client in crowd:
            client.close()
        until(lambda: inflight(running) == 0)
    with Client(running.port) as client:        # all places are free again
        before = running.total("http.pipelined")
        with Gate(cluster):
            client.send(gets("/gate/1", *["/pipeline"] * 9))
            until(lambda: running.total("http.pipelined") == before + 8)
        assert [client.read().status for _ in range(10)] == [200] * 10


def test_bodies_of_safe_requests(server, cluster):
    """Large bodies do not pile up behind a slow query, whatever their method."""
    running = server(ROUTES, POOLS, settings=SETTINGS)
    body = b"b" * (MIB - 1)
    request = b"GET /sleep/0 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    chunked = b"GET /sleep/0 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    with Client(running.port) as client:
        with Gate(cluster) as gate:
            client.send(gets("/gate/1"))
            until(lambda: gate.waiting() == 1)
            client.socket.settimeout(1)
            sent = 0
            data = (request + chunked) * 10
            try:
                while sent < len(data):
                    sent += client.socket.send(data[sent:sent + 65536])
            except TimeoutError:
                pass
            assert sent < len(data)
            assert running.total("memory.buffers_used") < 6 * MIB
            client.socket.settimeout(30)
        assert client.read().body == b"1"
        for n in range(20):
            while sent < len(data) and sent < (n + 2) * len(request):
                sent += client.socket.send(data[sent:sent + 65536])
            assert client.read().body == b"1"
    assert running.total("shed.buffers") == 0
