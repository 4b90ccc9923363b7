"""Who is let in: every slot first, then the queue, bounded in length and time; and each shed is counted where it belongs."""
import os
import signal
import socket
import threading
import time

from client import Client, Closed, one, problem, until
from gate import Gate

SLEEP = r"""
  { method = "GET"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET"; path = "/gate/{n}"; sql = "SELECT 1 FROM pg_advisory_xact_lock_shared($1::bigint)"; params = [ "path.n" ]; result = "value"; },
  { method = "GET"; path = "/clock"; sql = "SELECT extract(epoch FROM clock_timestamp())"; result = "value"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; }
"""


def pool_of(running, name="read"):
    (found,) = [pool for pool in running.stats()["pools"] if pool["name"] == name]
    return found


def pools(**settings):
    values = dict(connections=4, max_inflight=8, queue=0, read_only="true", statement_timeout_ms=60000)
    values.update(settings)
    return 'pools = ( { name = "read"; conninfo = "%%(conninfo)s"; %s } );' % " ".join(
        "%s = %s;" % item for item in values.items())


class Crowd:
    """Clients that come again at once.  answers: (status, how long it took), as they saw it."""

    def __init__(self, port, clients, target):
        self.port, self.target = port, target
        self.answers, self.lock, self.stop = [], threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self):
        with Client(self.port, timeout=60) as client:
            while not self.stop.is_set():
                began = time.monotonic()
                status = client.get(self.target).status
                with self.lock:
                    self.answers.append((status, time.monotonic() - began))

    def times(self, status, first=0):
        with self.lock:
            return sorted(took for each, took in self.answers[first:] if each == status)

    def more(self, served, sheds):
        """Waits until so many have been served and shed from now on; how long the sheds took."""
        first = len(self.answers)
        until(lambda: len(self.times(200, first)) >= served and len(self.times(503, first)) >= sheds, timeout=60)
        return self.times(503, first)


def overloaded(running):
    return pool_of(running)["overloaded"] == 1


def test_every_slot_is_used_before_anything_is_shed(server, cluster):
    running = server(SLEEP, pools())
    clients = [Client(running.port) for _ in range(33)]
    try:
        with Gate(cluster):
            for client in clients[:32]:
                client.send_request("GET", "/gate/1")
            until(lambda: pool_of(running)["inflight"] == 32)
            problem(clients[32].get("/row"), 503)       # at once: all of them are held
        assert [client.read().status for client in clients[:32]] == [200] * 32
        assert clients[32].get("/row").status == 200
    finally:
        for client in clients:
            client.close()
    stats = running.stats()
    assert stats["total"]["shed.pool_full"] == stats["pools"][0]["shed"] == 1


def test_nobody_goes_behind_what_hangs(server, cluster):
    """A statement that is quick as a rule hangs for once: others take another connection, though it has slots."""
    for read_only in ("true", "false"):
        running = server(SLEEP, pools(connections=2, read_only=read_only))
        with Client(running.port) as hangs, Client(running.port, timeout=60) as client:
            for _ in range(20):
                assert client.get("/gate/1").status == 200
            with Gate(cluster) as gate:
                hangs.send_request("GET", "/gate/1")
                until(lambda: gate.waiting() == 1)      # noqa: B023
                time.sleep(0.1)
                for _ in range(20):
                    assert client.get("/row").body == b"1"
                assert gate.waiting() == 1
            assert hangs.read().status == 200


def test_first_come_first_served(server, cluster):
    running = server(SLEEP, pools(connections=1, max_inflight=1, queue=10, queue_timeout_ms=60000))
    clients = [Client(running.port) for _ in range(6)]
    with Gate(cluster), Client(running.port) as holder:
        holder.send_request("GET", "/gate/1")
        until(lambda: pool_of(running)["inflight"] == 1)
        for n, client in enumerate(clients):
            client.send_request("GET", "/clock")
            until(lambda: pool_of(running)["waiting"] == n + 1)     # noqa: B023
    order = [float(client.read().body) for client in clients]
    for client in clients:
        client.close()
    assert order == sorted(order) and len(set(order)) == 6, order


def test_queue_timeout_comes_in_time(server, cluster):
    """Not at the next tick of 100 ms, when whoever comes again at once would wait for all of it, time after time."""
    running = server(SLEEP, pools(connections=1, max_inflight=1, queue=10, queue_timeout_ms=20, queue_target_ms=20))
    took = []
    with Gate(cluster), Client(running.port) as holder, Client(running.port) as waiter:
        holder.send_request("GET", "/gate/1")
        until(lambda: pool_of(running)["inflight"] == 1)
        while sum(each < 0.06 for each in took[1:]) < 8 and len(took) < 200:
            began = time.monotonic()
            problem(waiter.get("/row"), 503)
            took.append(time.monotonic() - began)
    assert min(took) > 0.019, took
    assert sum(each < 0.06 for each in took[1:]) == 8, took


def test_lasting_overload_keeps_the_wait_short(server):
    """8 slots of 50 ms each and 64 clients: without the rule each would wait for 350 ms, for ever, and nobody be shed."""
    running = server(SLEEP, pools(connections=8, max_inflight=1, queue=256, queue_timeout_ms=1000))
    with Crowd(running.port, 64, "/sleep/0.05") as crowd:
        until(lambda: overloaded(running), timeout=60)
        quick = crowd.more(200, 200)
    assert {status for status, _ in crowd.answers} == {200, 503}
    assert quick[20] < 1, quick             # 100 ms, and what the machine makes of it; not all of queue_timeout_ms
    total = running.stats()["total"]
    assert total["shed.queue_timeout"] == len(crowd.times(503)) and total["shed.pool_full"] == 0
    with Crowd(running.port, 6, "/sleep/0.05") as few:
        few.more(60, 0)
    assert not few.times(503), few.answers


def test_statements_longer_than_the_target(server, cluster):
    """Two slots of 300 ms each, where 25 ms is what one is to wait: without the rule nobody would be told sooner than after 250."""
    running = server(SLEEP, pools(connections=2, max_inflight=1, queue=256, queue_timeout_ms=250))
    with Crowd(running.port, 16, "/sleep/0.3") as crowd:
        until(lambda: overloaded(running), timeout=60)
        quick = crowd.more(6, 100)          # somebody is always there
    assert {status for status, _ in crowd.answers} == {200, 503}
    assert quick[20] < 0.25, quick
    assert running.stats()["total"]["shed.pool_full"] == 0
    # Nobody comes for four times the queue's time-out: it is over, and whoever comes has all the patience.
    until(lambda: pool_of(running)["inflight"] == 0 and not overloaded(running))
    with Gate(cluster), Client(running.port) as one_more:
        clients = [Client(running.port) for _ in range(2)]
        for client in clients:
            client.send_request("GET", "/gate/1")
        until(lambda: pool_of(running)["inflight"] == 2)
        began = time.monotonic()
        problem(one_more.get("/row"), 503)
        assert time.monotonic() - began > 0.249
        for client in clients:
            client.close()


def test_all_slots_held(server, cluster):
    """Nobody gets a turn at all: who comes after those that waited in vain need not do so, too (250 ms each)."""
    running = server(SLEEP, pools(connections=2, max_inflight=1, queue=256, queue_timeout_ms=250))
    holders = [Client(running.port) for _ in range(2)]
    with Gate(cluster):
        for holder in holders:
            holder.send_request("GET", "/gate/1")
        until(lambda: pool_of(running)["inflight"] == 2)
        with Crowd(running.port, 4, "/row") as crowd:
            until(lambda: overloaded(running), timeout=60)
            quick = crowd.more(0, 60)
    assert quick[20] < 0.25, quick
    assert not crowd.times(200)
    assert [holder.read().status for holder in holders] == [200] * 2
    for holder in holders:
        holder.close()


def test_a_burst_is_not_overload(server):
    """The last of them wait for half a second, and only the first four for less than the target."""
    running = server(SLEEP, pools(connections=4, max_inflight=1, queue=256, queue_timeout_ms=20000, queue_target_ms=50))
    clients = [Client(running.port) for _ in range(24)]
    for client in clients:
        client.send_request("GET", "/sleep/0.1")
    assert [client.read().status for client in clients] == [200] * 24
    for client in clients:
        client.close()


def test_sheds_are_counted_by_cause_pool_and_route(server):
    three = """
    pools = (
      { name = "read";   conninfo = "%(conninfo)s"; connections = 1; max_inflight = 2; queue = 0; read_only = true; shed_status = 529; },
      { name = "queued"; conninfo = "%(conninfo)s"; connections = 1; max_inflight = 1; queue = 2; queue_timeout_ms = 15; read_only = true; },
      { name = "gone";   conninfo = "host=/nowhere/at/all dbname=app"; connections = 1; read_only = true; }
    );
    """
    routes = "".join('{ method = "GET"; path = "/%s"; sql = "SELECT 1 FROM pg_sleep(%s)"; result = "value"; pool = "%s"; %s },\n'
                     % route for route in (("a", "0.004", "read", ""), ("b", "0.002", "read", "shed_status = 429;"),
                                           ("c", "0.01", "queued", ""), ("d", "0", "gone", "shed_status = 508;")))
    routes += r"""{ method = "GET"; path = "/missing"; sql = "SELECT 1 WHERE false"; result = "row"; pool = "queued"; },
      { method = "GET"; path = "/bad/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
      { method = "GET"; path = "/text"; text = "ok"; }"""
    running = server(routes, three, settings="workers = 2; shed = { status = 507; };", wait="/live")
    until(lambda: pool_of(running, "read")["up"] == 2 and pool_of(running, "queued")["up"] == 2)
    seen, lock = {}, threading.Lock()
    expected = {"/a": {200, 529}, "/b": {200, 429}, "/c": {200, 507}, "/d": {508}, "/missing": {404, 507},
                "/bad/x": {400}, "/text": {200}}

    missing = {("/a", 529), ("/b", 429), ("/c", 507), ("/d", 508)}

    def load(seed):
        mine = {}
        client = Client(running.port)
        for n in range(8000):
            if n >= 80 and not missing:
                break
            target = list(expected)[(seed * 3 + n) % 7]
            answer = client.get(target)
            mine[target, answer.status] = mine.get((target, answer.status), 0) + 1
            missing.discard((target, answer.status))
            if (answer.get("connection") or "").lower() == "close":     # it is to be dealt to another worker
                client.close()
                client = Client(running.port)
        client.close()
        with lock:
            for key, count in mine.items():
                seen[key] = seen.get(key, 0) + count

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for target, status in seen:
        assert status in expected[target], seen
    sheds = {"/a": seen.get(("/a", 529), 0), "/b": seen.get(("/b", 429), 0), "/c": seen.get(("/c", 507), 0),
             "/d": seen.get(("/d", 508), 0), "/missing": seen.get(("/missing", 507), 0)}
    assert all(sheds[path] > 0 for path in ("/a", "/b", "/c", "/d")), sheds
    stats = running.stats()
    by_cause = {name: value for name, value in stats["total"].items() if name.startswith("shed.")}
    assert sum(by_cause.values()) == sum(sheds.values()), (by_cause, sheds)
    assert by_cause["shed.pool_down"] == sheds["/d"]
    assert {route["path"]: route["shed"] for route in stats["routes"] if route["shed"]} == {
        path: count for path, count in sheds.items() if count}
    assert {pool["name"]: pool["shed"] for pool in stats["pools"]} == {
        "read": sheds["/a"] + sheds["/b"], "queued": sheds["/c"] + sheds["/missing"], "gone": sheds["/d"]}


def test_admin_is_never_shed(server, cluster):
    running = server(SLEEP, pools(connections=1, max_inflight=1))
    with Client(running.port) as holder:
        with Gate(cluster):
            holder.send_request("GET", "/gate/1")
            until(lambda: pool_of(running)["inflight"] == 1)
            problem(one(running.port, "GET", "/row"), 503)
            for path in ("/live", "/ready", "/metrics"):
                assert one(running.admin_port, "GET", path).status == 200
        assert holder.read().status == 200


def test_set_max_inflight(server, cluster):
    running = server(SLEEP, pools(connections=2, max_inflight=1), settings="workers = 1;")
    clients = [Client(running.port) for _ in range(8)]

    def inflight_of(requests):
        sheds = running.total("shed.pool_full")
        with Gate(cluster):
            for client in clients[:requests]:
                client.send_request("GET", "/gate/1")
            until(lambda: pool_of(running)["inflight"] == requests - 1 and running.total("shed.pool_full") == sheds + 1)
        return sorted(client.read().status for client in clients[:requests])

    try:
        assert inflight_of(3) == [200, 200, 503]
        assert running.ctl("set", "read.max_inflight=3").strip() == "ok"
        until(lambda: pool_of(running)["slots"] == 6)
        assert pool_of(running)["max_inflight"] == 3
        assert inflight_of(7) == [200] * 6 + [503]
        running.ctl("set", "read.max_inflight=1")
        until(lambda: pool_of(running)["slots"] == 2)
        assert inflight_of(3) == [200, 200, 503]
        for wrong, code in (("read.max_inflight=1025", 2), ("other.max_inflight=2", 1), ("read.max_inflight=0", 2)):
            assert running.ctl("set", wrong, check=False)[0] == code
        # A worker that is started later hears of it too.
        running.ctl("set", "read.max_inflight=2")
        running.deaths_expected = 1
        (old,) = running.workers()
        os.kill(old, signal.SIGKILL)
        until(lambda: running.workers() and running.workers() != [old] and pool_of(running)["slots"] == 4)
    finally:
        for client in clients:
            client.close()


def test_set_max_inflight_while_a_worker_hangs(server):
    """However much is set meanwhile, it has the latest when it goes on."""
    running = server(SLEEP, pools(connections=2, max_inflight=1), settings="workers = 2;")
    hung = running.workers()[0]
    os.kill(hung, signal.SIGSTOP)
    try:
        for n in range(3000):
            with Client(None, unix=os.path.join(running.runtime_dir, "control.sock")) as control:
                control.send("set read.max_inflight=%d\n" % (3 + n % 1000))
                assert control.socket.recv(100) == b"ok\n"
    finally:
        os.kill(hung, signal.SIGCONT)
    until(lambda: pool_of(running)["slots"] == 2 * (3 + 2999 % 1000))
    assert hung in running.workers()


def test_set_max_inflight_beyond_what_was_reserved(server):
    running = server(SLEEP, pools(connections=1, max_inflight=1), settings="workers = 1; connections = 64;")
    running.ctl("set", "read.max_inflight=1024")
    until(lambda: pool_of(running)["slots"] == 1024)
    with Client(running.port) as first, Client(running.port) as second:
        for client in (first, second):
            client.send("GET /sleep/0.001 HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
        for client in (first, second):
            assert [client.read().status for _ in range(60)] == [200] * 60


def test_no_worker_sheds_for_long_while_another_is_idle(server):
    """All connections at one worker, whose pool is full: the next ones are dealt anew until both serve."""
    running = server(SLEEP, pools(connections=4, max_inflight=1), settings="workers = 2;")

    def slots(worker):
        return worker["counters"]["http.requests"]

    # Connections that the kernel gave to the same worker.
    same, spare = [], []
    for _ in range(64):
        before = [slots(worker) for worker in running.stats()["workers"]]
        client = Client(running.port)
        assert client.get("/row").status == 200
        after = [slots(worker) for worker in running.stats()["workers"]]
        (same if after[0] > before[0] else spare).append(client)
        if len(same) == 6:
            break
    for client in spare:
        client.close()
    seen, stop, lock = [], threading.Event(), threading.Lock()

    def load(client):
        while not stop.is_set():
            try:
                answer = client.get("/sleep/0.02")
            except Closed:
                client.close()
                client = Client(running.port)
                continue
            with lock:
                seen.append(answer.status)
            if (answer.get("connection") or "").lower() == "close":
                client.close()
                client = Client(running.port)
        client.close()

    threads = [threading.Thread(target=load, args=(client,)) for client in same[:4]]
    for thread in threads:
        thread.start()
    try:        # for the four of them there are four slots: once they are dealt two and two, nobody is shed any more
        until(lambda: len(seen) > 100 and seen[-100:] == [200] * 100, timeout=60)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for client in same[4:]:
        client.close()
    assert running.stats()["total"]["shed.pool_full"] > 0
    assert pool_of(running)["moved"] > 0
    assert 'vanilla_pool_moved_total{pool="read"' in running.ctl("stats", "--prometheus")


def test_no_worker_sheds_for_long_while_it_has_no_connection(own_cluster, server):
    """PostgreSQL lets one worker in and not the other, whose clients find the one that serves."""
    own_cluster.sql("ALTER ROLE vanilla CONNECTION LIMIT 1")
    running = server(SLEEP, pools(connections=2), settings="workers = 2;", conninfo=own_cluster.conninfo, wait="/live")
    until(lambda: [worker["state"] for worker in running.stats()["workers"]] == ["ready", "ready"]
          and pool_of(running)["up"] == 1)
    clients = [Client(running.port) for _ in range(16)]       # not all of them are dealt to the one that serves
    moved = 0

    def asked():
        """Whether all were served."""
        nonlocal moved
        statuses = set()
        for n, client in enumerate(clients):
            answer = client.get("/row")
            statuses.add(answer.status)
            if answer.status != 200:
                problem(answer, 503)
            if "close" in answer.tokens("connection"):
                client.close()
                clients[n] = Client(running.port)
                moved += 1
        return statuses == {200}
    until(asked, timeout=60)
    for _ in range(3):
        assert asked()          # those who are served stay
    for client in clients:
        client.close()
    total = running.stats()["total"]
    assert total["shed.pool_down"] >= moved == pool_of(running)["moved"] > 0
    assert total["shed.pool_full"] == total["shed.queue_timeout"] == 0


def test_a_client_that_has_closed_its_side(server, cluster):
    """Its answer is sent while it comes within abandon_ms; then its query is given up, and cancelled."""
    patient, hasty = [server(SLEEP, pools(connections=1, max_inflight=4, abandon_ms=ms)) for ms in (60000, 300)]
    with Client(patient.port) as early, Client(hasty.port) as late:
        with Gate(cluster):
            for client, running in ((early, patient), (late, hasty)):
                client.send_request("GET", "/gate/1")
                until(lambda: pool_of(running)["inflight"] == 1)        # noqa: B023
            began = time.monotonic()
            early.socket.shutdown(socket.SHUT_WR)
            late.socket.shutdown(socket.SHUT_WR)
            assert late.closes(20)
            assert time.monotonic() - began > 0.15      # deadlines count from a tick, 100 ms old at the most
            until(lambda: pool_of(hasty)["inflight"] == 0)
            assert one(hasty.port, "GET", "/row").status == 200
        assert early.read().status == 200
    assert (patient.total("http.aborted"), hasty.total("http.aborted")) == (0, 1)
