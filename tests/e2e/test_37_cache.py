"""`cache_ms`: answers that are given again to equal requests, in all workers, and to nobody else."""
import json
import os
import signal
import subprocess
import threading

import pytest

from client import Client, Closed, problem, until
from gate import Gate

ROUTES = r"""
  { method = "GET"; path = "/long/{n}"; cache_ms = 86400000; result = "row"; params = [ "path.n" ];
    sql = "SELECT n, said FROM kept WHERE n = $1"; },
  { method = "GET"; path = "/other/{n}"; cache_ms = 86400000; result = "row"; params = [ "path.n" ];
    sql = "SELECT n, said FROM kept WHERE n = $1"; },
  { method = "GET"; path = "/short/{n}"; cache_ms = 300; result = "row"; params = [ "path.n" ];
    sql = "SELECT n, said FROM kept WHERE n = $1"; },
  { method = "GET"; path = "/never/{n}"; cache_ms = 0; result = "row"; params = [ "path.n" ];
    sql = "SELECT n, said FROM kept WHERE n = $1"; },
  { method = "GET"; path = "/ticket"; cache_ms = 86400000; result = "rows"; wrap = "all"; echo = [ "query.a", "query.b" ];
    params = [ "query.a=1", "query.b=x", "header.x-who=nobody" ]; pool = "write";
    sql = "SELECT nextval('kept_ticket') AS ticket, $3::text AS who WHERE $1::int + 1 > 0 AND $2::text IS NOT NULL"; },
  { method = "GET"; path = "/divide/{by}"; cache_ms = 86400000; result = "value"; params = [ "path.by" ];
    sql = "SELECT 10 / $1::int"; },
  { method = "GET"; path = "/large/{n}"; cache_ms = 86400000; result = "raw"; params = [ "path.n" ];
    sql = "SELECT repeat('x', $1::int)"; },
  { method = "GET"; path = "/none"; cache_ms = 86400000; result = "none"; sql = "SELECT nextval('kept_ticket')"; pool = "write"; },
  { method = "GET"; path = "/both/{n}"; cache_ms = 86400000; share = true; result = "row"; params = [ "path.n" ]; pool = "write";
    sql = "SELECT $1::int AS n, nextval('kept_ticket') AS ticket FROM pg_advisory_xact_lock_shared(1)"; },
  { method = "GET"; path = "/slow"; cache_ms = 100; result = "row"; sql = "SELECT nextval('kept_ticket') AS ticket FROM pg_sleep(0.15)"; pool = "write"; }
"""
TWO = "workers = 2; memory = { cache_mb = 1; };"


@pytest.fixture
def start(server, db):
    db.execute("DROP TABLE IF EXISTS kept; DROP SEQUENCE IF EXISTS kept_ticket; CREATE SEQUENCE kept_ticket;"
               "CREATE TABLE kept (n int PRIMARY KEY, said text); INSERT INTO kept SELECT n, 'first ' || n FROM generate_series(1, 100) n;"
               "GRANT ALL ON kept, kept_ticket TO vanilla")
    return lambda settings="workers = 1;", **more: server(ROUTES, settings=settings, **more)


def counted(running):
    total = running.stats()["total"]
    return {name: total["cache." + name] for name in ("hits", "misses", "stores", "too_large")}


def said(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body)["said"]


def test_given_again(start, db):
    running = start()
    with Client(running.port) as client:
        assert said(client.get("/long/1")) == "first 1"
        db.execute("UPDATE kept SET said = 'second'")
        assert said(client.get("/long/1")) == "first 1"
        assert said(client.get("/long/2")) == "second"          # nobody had asked for it
        assert said(client.get("/never/1")) == "second"
        assert said(client.get("/other/1")) == "second"         # another route's answer is its own
    assert counted(running) == {"hits": 1, "misses": 3, "stores": 3, "too_large": 0}
    (route,) = [each for each in running.stats()["routes"] if each["path"] == "/long/{n}"]
    assert route["requests"] == 3 and route["cache_hits"] == 1


def test_all_workers(start, db):
    running = start(TWO)
    hits = lambda: [worker["counters"]["cache.hits"] for worker in running.stats()["workers"]]     # noqa: E731
    with Client(running.port) as client:
        assert said(client.get("/long/7")) == "first 7"
    db.execute("DELETE FROM kept")
    for _ in range(400):                # the kernel deals connections out
        with Client(running.port) as client:
            assert said(client.get("/long/7")) == "first 7"
        if min(hits()) > 0:
            break
    assert min(hits()) > 0
    assert counted(running)["stores"] == 1, "one worker's answer was given by both"


def test_becomes_too_old(start, db):
    running = start(TWO)
    with Client(running.port) as client:
        until(lambda: said(client.get("/short/3")) == "first 3" and counted(running)["stores"] > 0)     # not, when it took 300 ms
        db.execute("UPDATE kept SET said = 'second' WHERE n = 3")
        until(lambda: said(client.get("/short/3")) == "second")
        before = counted(running)["stores"] - 1
        until(lambda: said(client.get("/short/3")) == "second" and counted(running)["stores"] > before)
        assert said(client.get("/short/3")) == "second"         # for good


def test_as_old_as_its_request(start, db):
    """No row is older than cache_ms, though its query took longer: such an answer is not kept at all."""
    running = start()
    with Client(running.port) as client:
        for n in range(2):
            assert json.loads(client.get("/slow").body) == {"ticket": n + 1}
    assert counted(running) == {"hits": 0, "misses": 2, "stores": 0, "too_large": 0}


def test_no_such_row(start, db):
    running = start()
    with Client(running.port) as client:
        first = client.get("/long/4711")
        problem(first, 404)
        db.execute("INSERT INTO kept VALUES (4711, 'late')")
        again = client.get("/long/4711")
        problem(again, 404)
        assert again.body == first.body and again.get("content-type") == first.get("content-type")
        assert said(client.get("/never/4711")) == "late"
    assert counted(running)["hits"] == 1


def test_errors_are_not_kept(start, db):
    running = start()
    with Client(running.port) as client:
        for _ in range(2):
            assert problem(client.get("/divide/0"), 400)["sqlstate"] == "22012"
            assert problem(client.get("/divide/x"), 400)["parameter"] == "path.by"
        assert counted(running) == {"hits": 0, "misses": 2, "stores": 0, "too_large": 0}
        assert client.get("/divide/5").body == b"2"
        # A statement that fails for a while.
        db.execute("ALTER TABLE kept RENAME TO kept_away")
        try:
            assert client.get("/long/9").status >= 500
        finally:
            db.execute("ALTER TABLE kept_away RENAME TO kept")
        until(lambda: client.get("/long/9").status == 200)


def test_sheds_are_not_kept(server, own_cluster):
    """With the database away what is kept is given, the rest is shed, and afterwards nobody gets a shed for an answer."""
    running = server(r"""{ method = "GET"; path = "/row/{n}"; cache_ms = 86400000; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; }""",
                     conninfo=own_cluster.conninfo)
    with Client(running.port) as client:
        assert client.get("/row/1").body == b"1"
        own_cluster.crash()
        until(lambda: client.get("/row/2").status == 503)
        assert client.get("/row/1").body == b"1"
        own_cluster.start()
        until(lambda: client.get("/row/2").status == 200)
        assert client.get("/row/2").body == b"2"


def test_every_parameter_is_looked_at(start):
    running = start()
    asked = [("/ticket", {}), ("/ticket?a=1", {}), ("/ticket?a=2", {}), ("/ticket?b=y", {}), ("/ticket?a=2&b=y", {}),
             ("/ticket?b=", {}), ("/ticket?b=x%2Cz", {}), ("/ticket", {"X-Who": "ann"}), ("/ticket", {"X-Who": "bob"}),
             ("/ticket?b=xx", {"X-Who": ""}), ("/ticket?b=x", {"X-Who": "x"})]
    with Client(running.port) as client:
        first = [client.request("GET", target, headers=headers).body for target, headers in asked]
        again = [client.request("GET", target, headers=headers).body for target, headers in asked]
    assert first == again
    documents = [json.loads(body) for body in first]
    assert len({each["all"][0]["ticket"] for each in documents}) == len(asked)
    assert [each["all"][0]["who"] for each in documents] == ["nobody"] * 7 + ["ann", "bob", "", "x"]
    assert [(each["a"], each["b"]) for each in documents[:7]] == [(1, "x"), (1, "x"), (2, "x"), (1, "y"), (2, "y"), (1, ""), (1, "x,z")]


def test_head_and_fields(start):
    running = start('workers = 1; cors = { origins = [ "https://a.example", "https://b.example" ]; };')
    with Client(running.port) as client:
        a = client.request("GET", "/long/5", headers={"Origin": "https://a.example"})
        b = client.request("GET", "/long/5", headers={"Origin": "https://b.example"})
        plain = client.get("/long/5")
        assert a.body == b.body == plain.body
        assert (a.get("access-control-allow-origin"), b.get("access-control-allow-origin")) == ("https://a.example", "https://b.example")
        assert plain.get("access-control-allow-origin") is None and plain.get("etag") is None
        head = client.request("HEAD", "/long/5")
        assert head.get("content-length") == str(len(plain.body)) and head.get("content-type") == plain.get("content-type")
        assert client.request("GET", "/long/5", headers={"If-None-Match": "*"}).status == 200     # there is no validator
        last = client.request("GET", "/long/5", headers={"Connection": "close"})
        assert last.body == plain.body and last.get("connection") == "close"
    with Client(running.port) as client:
        client.send("GET /long/5 HTTP/1.0\r\n\r\n")
        assert client.read().body == plain.body
    assert counted(running)["stores"] == 1
    with Client(running.port) as client:        # a HEAD's answer serves the GET
        client.request("HEAD", "/long/6")
        assert said(client.get("/long/6")) == "first 6"
    assert counted(running)["stores"] == 2


def test_pipelined(start):
    running = start()
    with Client(running.port) as client:
        client.get("/long/1")
        client.send("".join("GET /%s/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (route, n)
                            for route, n in [("long", 1), ("long", 2), ("never", 3), ("long", 1), ("long", 4)]))
        assert [said(client.read()) for _ in range(5)] == ["first %d" % n for n in (1, 2, 3, 1, 4)]


def test_too_large(start):
    running = start()
    with Client(running.port) as client:
        for size in (4000, 4000, 5000, 5000, 0, 0):
            answer = client.get("/large/%d" % size)
            assert answer.status == 200 and answer.body == b"x" * size
        assert client.get("/none").status == client.get("/none").status == 204
    assert counted(running) == {"hits": 3, "misses": 5, "stores": 3, "too_large": 2}


def test_with_share(start, db, cluster):
    """Kept first; those who find nothing share one query."""
    running = start()
    clients = [Client(running.port) for _ in range(6)]
    with Gate(cluster):
        for client in clients:
            client.send_request("GET", "/both/1")
        until(lambda: running.stats()["pools"][1]["shared"] == 5)
    answers = {client.read().body for client in clients}
    assert len(answers) == 1
    with Client(running.port) as client:
        assert client.get("/both/1").body in answers
    for client in clients:
        client.close()
    db.execute("SELECT last_value FROM kept_ticket")
    assert db.fetchone() == (1,)
    assert counted(running) == {"hits": 1, "misses": 6, "stores": 1, "too_large": 0}


class Askers:
    """Threads that ask for 64 keys, through two routes, and look whether each answer is that key's."""

    def __init__(self, port, threads=6):
        self.port, self.stop, self.wrong, self.right = port, False, [], 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(seed,)) for seed in range(threads)]

    def run(self, seed):
        n = seed
        while not self.stop:
            try:
                with Client(self.port) as client:
                    for _ in range(40):
                        n = (n * 5 + 3) % 64
                        answer = client.get("/%s/%d" % (("long", "short")[n // 7 % 2], n + 1))
                        good = answer.status == 200 and json.loads(answer.body) == {"n": n + 1, "said": "first %d" % (n + 1)}
                        with self.lock:
                            if good:
                                self.right += 1
                            elif answer.status != 503:
                                self.wrong.append((n + 1, answer.status, answer.body))
            except (Closed, ConnectionError):
                pass                    # its worker was killed

    def __enter__(self):
        for each in self.threads:
            each.start()
        return self

    def __exit__(self, *unused):
        self.stop = True
        for each in self.threads:
            each.join()

    def more(self, n):
        wanted = self.right + n
        until(lambda: self.right >= wanted or self.wrong, 60)


def test_keys_are_never_mixed_and_a_worker_dies(start):
    running = start(TWO)
    with Askers(running.port) as askers:
        askers.more(1000)
        for n in range(3):
            before = set(running.workers())
            os.kill(sorted(before)[n % 2], signal.SIGKILL)
            running.deaths_expected += 1
            until(lambda: len(running.workers()) == 2 and set(running.workers()) != before, 20)   # noqa: B023
            askers.more(500)
    assert not askers.wrong, askers.wrong[:3]
    until(lambda: all(worker["state"] == "ready" for worker in running.stats()["workers"]), 20)
    (long,) = [each for each in running.stats()["routes"] if each["path"] == "/long/{n}"]
    assert long["cache_hits"] > long["requests"] / 2
    assert counted(running)["misses"] > 0


def test_its_memory(start):
    running = start(TWO)
    stats = running.stats()
    assert [worker["counters"]["memory.cache"] for worker in stats["workers"]] == [1 << 20] * 2
    assert " CACHE " in running.ctl("budget") and "1.0 MiB" in running.ctl("budget")


def test_none_without_such_a_route(server):
    running = server(r"""{ method = "GET"; path = "/t"; text = "ok"; }""", settings="workers = 1; memory = { cache_mb = 9; };")
    assert running.total("memory.cache") == 0


@pytest.mark.parametrize("line,why", [
    ('{ method = "POST"; path = "/p"; sql = "SELECT 1";\ncache_ms = 5; }', "cache_ms goes with GET and HEAD only, and this route is POST"),
    ('{ method = "GET"; path = "/p"; text = "x";\ncache_ms = 5; }', "cache_ms goes with sql only, and this route has text"),
])
def test_where_it_does_not_belong(server, line, why):
    running = server(line, start=False)
    done = subprocess.run(running.command("-t"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=running.env, timeout=20)
    said_lines = done.stdout.decode().splitlines()
    assert done.returncode == 1
    with open(running.conf_file, encoding="utf-8") as file:
        number = [n for n, text in enumerate(file.read().split("\n"), 1) if text.startswith("cache_ms")][0]
    assert any(each.startswith("%s:%d: %s" % (running.conf_file, number, why)) for each in said_lines), said_lines
