"""vanillactl: figures in every format, its exit codes, and segments that are not what they should be."""
import json
import os
import re
import shutil
import signal

from client import Client, one, until
from process import http_get

ROUTES = r"""
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/row/{id}"; sql = "SELECT id FROM items WHERE id = $1"; params = [ "path.id" ]; result = "row"; }
"""
SETTINGS = "workers = 2;"


def use(server, requests=40):
    with Client(server.port) as client:
        for n in range(requests):
            assert client.get("/pipeline").status == 200
            assert client.get("/row/%d" % (n + 1)).status == 200    # counted before it is sent, and so is all before it


def declared():
    """Every counter's name, out of counters.def."""
    from process import TOP
    with open(os.path.join(TOP, "shm", "counters.def"), encoding="utf-8") as file:
        return ["%s.%s" % pair for pair in re.findall(r"^STAT\(\w+, *(\w+), *(\w+),", file.read(), re.M)]


def test_json(shared):
    use(shared)
    stats = shared.stats()
    assert {"version", "uptime_s", "generation", "total", "workers", "pools", "routes"} <= set(stats)
    assert stats["version"] == "0.1.0"
    assert len(stats["workers"]) == 2
    for slot, worker in enumerate(stats["workers"]):
        assert worker["slot"] == slot and worker["pid"] in shared.workers() and worker["state"] == "ready"
        assert worker["cpu"] in os.sched_getaffinity(0)

    def summed():                                       # octets are counted behind their sending
        stats = shared.stats()
        return all(stats["total"][name] == sum(worker["counters"][name] for worker in stats["workers"])
                   for name in ("http.requests", "http.bytes_in", "http.bytes_out", "http.accepted"))
    until(summed)
    assert stats["total"]["alloc.start"] > 0
    assert {pool["name"] for pool in stats["pools"]} == {"read", "write"}
    for pool in stats["pools"]:
        assert pool["up"] == pool["connections"]
    until(lambda: all(pool["inflight"] == pool["waiting"] == 0 for pool in shared.stats()["pools"]))    # as of a tick
    rows = {(route["method"], route["path"]): route for route in stats["routes"]}
    assert rows["GET", "/row/{id}"]["requests"] >= 40
    assert 0 < rows["GET", "/row/{id}"]["p50_us"] <= rows["GET", "/row/{id}"]["p99_us"]


def test_every_declared_counter_is_there(shared):
    everything = json.dumps(shared.stats())
    worker_scope = [name for name in declared() if not name.startswith(("pool.", "route."))]
    assert len(worker_scope) > 30
    for name in worker_scope:
        assert '"%s"' % name in everything, name


def test_table(shared):
    use(shared)
    table = shared.ctl("stats")
    assert "http.requests" in table
    assert all(len(line) < 200 for line in table.split("\n"))


PROMETHEUS = re.compile(r'^([a-z_:]+)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? '
                        r'(-?[0-9.]+(?:e[+-]?\d+)?|\+Inf|NaN)$')


def check_prometheus(text):
    families, seen = {}, {}
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in families, "family %s in two places" % family
            families[family] = kind
        elif not line.startswith("#"):
            match = PROMETHEUS.match(line)
            assert match, line
            family = re.sub(r"_(bucket|sum|count)$", "", match.group(1))
            assert match.group(1) in families or family in families, line
            key = (match.group(1), match.group(2))
            assert key not in seen, "twice: %s" % line
            seen[key] = float(match.group(3))
    return families, seen


def test_prometheus(shared):
    use(shared)
    families, seen = check_prometheus(shared.ctl("stats", "--prometheus"))
    assert families["vanilla_http_requests_total"] == "counter"
    assert families["vanilla_http_connections"] == "gauge"
    total = sum(value for (name, _), value in seen.items() if name == "vanilla_http_requests_total")
    assert total == shared.total("http.requests")
    status, body = http_get(shared.admin_port, "/metrics")
    assert status == 200
    assert set(check_prometheus(body.decode())[0]) == set(families)


def test_other_commands(shared):
    use(shared)
    pids = [str(pid) for pid in shared.workers()]
    workers = shared.ctl("workers")
    assert all(pid in workers for pid in pids)
    pools = shared.ctl("pools")
    assert "read" in pools and "write" in pools
    assert "/row/{id}" in shared.ctl("routes")
    assert "buffers" in shared.ctl("budget") and "max_inflight" in shared.ctl("budget")
    assert "connect" in shared.ctl("allocs")
    assert shared.ctl("ping")
    assert "0.1.0" in shared.ctl("version")


def test_bad_usage(shared):
    for arguments in ([], ["nonsense"], ["stats", "--nonsense"], ["set"], ["stats", "--watch", "x"]):
        code, _, err = shared.ctl(*arguments, check=False)
        assert code == 2, arguments
        assert err


def test_what_is_refused_says_what_is_right(shared):
    code, _, err = shared.ctl("reload", check=False)
    assert code == 1 and "a restart applies changes" in err
    for value in ("0", "abc", "1025", ""):
        code, _, err = shared.ctl("set", "read.max_inflight=" + value, check=False)
        assert code == 2 and "N from 1 to 1024" in err, err
    code, _, err = shared.ctl("set", "nowhere.max_inflight=3", check=False)
    assert code == 1 and "nowhere" in err


def test_not_running(server):
    running = server(ROUTES)
    use(running, 3)
    assert running.stop() == 0
    code, out, err = running.ctl("stats", "--json", check=False)
    assert code == 3
    assert json.loads(out)["total"]["http.requests"] == 6          # for a post-mortem
    assert "not running" in err or "stale" in err
    assert running.ctl("ping", check=False)[0] == 3


def test_killed_is_not_running(server):
    running = server(ROUTES)
    use(running, 3)
    workers = running.workers()
    running.process.kill()
    running.process.wait()
    from process import wait_gone
    assert all(wait_gone(pid, 20) for pid in workers)
    running.process = None
    code, out, _ = running.ctl("stats", "--json", check=False)
    assert code == 3
    assert json.loads(out)["total"]["http.requests"] == 6


def test_nothing_there(shared):
    empty = os.path.join(shared.folder, "empty")
    os.makedirs(empty, exist_ok=True)
    code, out, err = shared.ctl("-r", empty, "stats", check=False)
    assert code == 3 and out == "" and err


def test_segments_that_are_not_ours(shared):
    good = os.path.join(shared.runtime_dir, "stats.shm")
    with open(good, "rb") as file:
        data = file.read()
    folder = os.path.join(shared.folder, "broken")
    os.makedirs(folder, exist_ok=True)

    def look(octets):
        with open(os.path.join(folder, "stats.shm"), "wb") as file:
            file.write(octets)
        code, out, err = shared.ctl("-r", folder, "stats", "--json", check=False)
        assert code == 1, (code, out[:200], err)
        assert out == "" and err
        return err

    look(b"")
    look(b"\0" * len(data))
    look(b"not a segment at all\n" * 1000)
    for cut in (1, 7, 8, 63, 64, 200, 4095, len(data) // 2, len(data) - 4096, len(data) - 1):
        if 0 < cut < len(data):
            look(data[:cut])
    # Every octet of the header may be wrong: refused, or read, but never a crash.
    for at in range(0, 256, 3):
        for value in (0, 255, data[at] ^ 1):
            with open(os.path.join(folder, "stats.shm"), "wb") as file:
                file.write(data[:at] + bytes([value]) + data[at + 1:])
            code, _, err = shared.ctl("-r", folder, "stats", "--json", check=False)
            assert code in (0, 1, 3), (at, value, code, err)
            assert "Sanitizer" not in err and "runtime error" not in err, err
    os.unlink(os.path.join(folder, "stats.shm"))
    os.mkdir(os.path.join(folder, "stats.shm"))
    assert shared.ctl("-r", folder, "stats", check=False)[0] == 1
    shutil.rmtree(folder)


def test_figures_survive_a_worker(server):
    running = server(ROUTES, settings="workers = 1;")
    use(running, 5)
    assert running.total("http.requests") == 10
    (old,) = running.workers()
    os.kill(old, signal.SIGKILL)
    running.deaths_expected = 1
    until(lambda: running.workers() not in ([], [old]))
    running.wait_for("/ready")
    assert one(running.port, "GET", "/pipeline").status == 200
    until(lambda: running.total("http.requests") == 11)
    stats = running.stats()
    assert stats["total"]["http.connections"] <= 1
    assert stats["total"]["master.restarts"] == 1
