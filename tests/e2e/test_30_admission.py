"""Who is let in: every slot first, then the queue, bounded in length and time; and each shed is counted where it belongs."""
import os
import signal
import socket
import threading
import time

from client import Client, Closed, in_one_round, one, problem, until

SLEEP = r"""
  { method = "GET"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; }
"""


def pool_of(running, name="read"):
    (found,) = [pool for pool in running.stats()["pools"] if pool["name"] == name]
    return found


def pools(**settings):
    values = dict(connections=4, max_inflight=8, queue=0, read_only="true")
    values.update(settings)
    return 'pools = ( { name = "read"; conninfo = "%%(conninfo)s"; %s } );' % " ".join(
        "%s = %s;" % item for item in values.items())


def closed_loop(port, clients, seconds, target="/sleep/0.01"):
    """-> {status: count}, the times of the successful ones."""
    seen, times, lock, stop = {}, [], threading.Lock(), time.monotonic() + seconds

    def load():
        mine, took = {}, []
        with Client(port) as client:
            while time.monotonic() < stop:
                began = time.monotonic()
                answer = client.get(target)
                mine[answer.status] = mine.get(answer.status, 0) + 1
                if answer.status == 200:
                    took.append(time.monotonic() - began)
        with lock:
            times.extend(took)
            for status, count in mine.items():
                seen[status] = seen.get(status, 0) + count

    threads = [threading.Thread(target=load) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen, sorted(times)


def test_every_slot_is_used_before_anything_is_shed(server):
    running = server(SLEEP, pools())
    clients = [Client(running.port) for _ in range(33)]
    try:
        for client in clients[:32]:
            client.send_request("GET", "/sleep/0.3")
        until(lambda: pool_of(running)["inflight"] == 32)
        began = time.monotonic()
        problem(clients[32].get("/row"), 503)
        assert time.monotonic() - began < 0.2
        assert [client.read().status for client in clients[:32]] == [200] * 32
        assert clients[32].get("/row").status == 200
    finally:
        for client in clients:
            client.close()
    stats = running.stats()
    assert stats["total"]["shed.pool_full"] == stats["pools"][0]["shed"] == 1


def test_first_come_first_served(server):
    running = server(SLEEP, pools(connections=1, max_inflight=1, queue=10, queue_timeout_ms=5000))
    order, lock = [], threading.Lock()

    def ask(n):
        with Client(running.port) as client:
            client.send_request("GET", "/sleep/0.05")
            assert client.read().status == 200
            with lock:
                order.append(n)

    threads = []
    for n in range(6):
        threads.append(threading.Thread(target=ask, args=(n,)))
        threads[-1].start()
        until(lambda: sum(pool_of(running)[name] for name in ("inflight", "waiting")) + len(order) == n + 1)
    for thread in threads:
        thread.join()
    assert order == sorted(order)


def test_queue_timeout_comes_in_time(server):
    """Not at the next tick of 100 ms."""
    running = server(SLEEP, pools(connections=1, max_inflight=1, queue=10, queue_timeout_ms=20))

    def wait():
        with Client(running.port) as holder, Client(running.port) as waiter:
            holder.send_request("GET", "/sleep/0.5")
            until(lambda: pool_of(running)["inflight"] == 1)
            took = []
            for _ in range(5):                  # ten would be lasting overload
                began = time.monotonic()
                problem(waiter.get("/row"), 503)
                took.append(time.monotonic() - began)
            took.sort()
            assert holder.read().status == 200
            assert took[0] > 0.019, took
            assert took[len(took) // 2] < 0.045, took

    in_one_round(wait)


def test_lasting_overload_keeps_the_wait_short(server):
    """8 slots of 50 ms each and 64 clients: without the rule each would wait for 350 ms, for ever."""
    running = server(SLEEP, pools(connections=8, max_inflight=1, queue=256, queue_timeout_ms=500))
    sheds = 0

    def overload():
        nonlocal sheds
        seen, times = closed_loop(running.port, 64, 4, "/sleep/0.05")
        assert set(seen) <= {200, 503}, seen
        sheds += seen[503]
        assert seen[200] > 0.8 * 8 * 4 / 0.05, seen
        # 50 ms in the database, 50 ms in the queue at the most; the beginning and the client's own troubles aside.
        assert times[len(times) // 2] < 0.25, times[len(times) // 2]

    in_one_round(overload)
    total = running.stats()["total"]
    assert total["shed.queue_timeout"] == sheds > 0 and total["shed.pool_full"] == 0
    seen, _ = closed_loop(running.port, 6, 1, "/sleep/0.05")
    assert seen.get(503, 0) == 0, seen


def sheds_of(running, clients, target):
    """How many time out of the queue in three seconds, of clients that come again at once."""
    before = running.stats()["total"]["shed.queue_timeout"]
    seen, _ = closed_loop(running.port, clients, 3, target)
    assert set(seen) <= {200, 503}, seen
    return running.stats()["total"]["shed.queue_timeout"] - before, seen.get(200, 0)


def test_statements_longer_than_the_target(server):
    """Two slots of 300 ms each, where 25 ms is what one is to wait: with 250 ms each, 16 clients would time out 192 times."""
    running = server(SLEEP, pools(connections=2, max_inflight=1, queue=256, queue_timeout_ms=250))

    def overload():
        sheds, served = sheds_of(running, 16, "/sleep/0.3")
        assert sheds > 400, sheds
        assert served >= 14, served             # somebody is always there

    in_one_round(overload)
    assert running.stats()["total"]["shed.pool_full"] == 0
    # Nobody comes for four times the queue's time-out: it is over, and whoever comes has all the patience.
    until(lambda: pool_of(running)["inflight"] == 0)
    time.sleep(1.2)
    with Client(running.port) as one_more:
        clients = [Client(running.port) for _ in range(2)]
        for client in clients:
            client.send_request("GET", "/sleep/0.15")
        until(lambda: pool_of(running)["inflight"] == 2)
        assert one_more.get("/row").status == 200
        assert [client.read().status for client in clients] == [200] * 2
        for client in clients:
            client.close()


def test_all_slots_held(server):
    """Nobody gets a turn at all: who comes after those that waited in vain need not do so too (48 times, of four clients)."""
    running = server(SLEEP, pools(connections=2, max_inflight=1, queue=256, queue_timeout_ms=250))

    def held():
        holders = [Client(running.port) for _ in range(2)]
        for holder in holders:
            holder.send_request("GET", "/sleep/3.2")
        until(lambda: pool_of(running)["inflight"] == 2)
        sheds, served = sheds_of(running, 4, "/row")
        assert [holder.read().status for holder in holders] == [200] * 2
        for holder in holders:
            holder.close()
        assert sheds > 100, sheds

    in_one_round(held)


def test_a_burst_is_not_overload(server):
    """The last of them wait for 1.5 s, and only the first four for less than the target."""
    running = server(SLEEP, pools(connections=4, max_inflight=1, queue=256, queue_timeout_ms=2500))
    clients = [Client(running.port) for _ in range(24)]
    for client in clients:
        client.send_request("GET", "/sleep/0.3")
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

    def load(seed):
        mine = {}
        client = Client(running.port)
        for n in range(80):
            target = list(expected)[(seed * 3 + n) % 7]
            answer = client.get(target)
            mine[target, answer.status] = mine.get((target, answer.status), 0) + 1
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


def test_admin_is_never_shed(server):
    running = server(SLEEP, pools(connections=1, max_inflight=1))
    with Client(running.port) as holder:
        holder.send_request("GET", "/sleep/0.5")
        until(lambda: pool_of(running)["inflight"] == 1)
        for path in ("/live", "/ready", "/metrics"):
            assert one(running.admin_port, "GET", path).status == 200
        assert holder.read().status == 200


def test_set_max_inflight(server):
    running = server(SLEEP, pools(connections=2, max_inflight=1), settings="workers = 1;")
    clients = [Client(running.port) for _ in range(8)]

    def inflight_of(requests):
        for client in clients[:requests]:
            client.send_request("GET", "/sleep/0.3")
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
    seen, stop, lock = [], time.monotonic() + 2.5, threading.Lock()

    def load(client):
        while time.monotonic() < stop:
            try:
                answer = client.get("/sleep/0.02")
            except Closed:
                client.close()
                client = Client(running.port)
                continue
            with lock:
                seen.append((time.monotonic(), answer.status))
            if (answer.get("connection") or "").lower() == "close":
                client.close()
                client = Client(running.port)
        client.close()

    threads = [threading.Thread(target=load, args=(client,)) for client in same[:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in same[4:]:
        client.close()
    late = [status for when, status in seen if when > stop - 1]
    shed = sum(status != 200 for status in late) / len(late)
    workers = running.stats()["workers"]
    assert running.stats()["total"]["shed.pool_full"] > 0
    assert 'vanilla_pool_moved_total{pool="read"' in running.ctl("stats", "--prometheus")
    assert shed < 0.05, (shed, [worker["counters"]["http.requests"] for worker in workers])


def test_no_worker_sheds_for_long_while_it_has_no_connection(own_cluster, server):
    """PostgreSQL lets one worker in and not the other, whose clients find the one that serves."""
    own_cluster.sql("ALTER ROLE vanilla CONNECTION LIMIT 1")
    running = server(SLEEP, pools(connections=2), settings="workers = 2;", conninfo=own_cluster.conninfo, wait="/live")
    until(lambda: [worker["state"] for worker in running.stats()["workers"]] == ["ready", "ready"]
          and pool_of(running)["up"] == 1)
    clients = [Client(running.port) for _ in range(16)]       # not all of them are dealt to the one that serves
    moved = 0
    for _ in range(100):
        for n, client in enumerate(clients):
            answer = client.get("/row")
            if answer.status != 200:
                problem(answer, 503)
            if "close" in answer.tokens("connection"):
                client.close()
                clients[n] = Client(running.port)
                moved += 1
        time.sleep(0.02)
    assert [client.get("/row").status for client in clients] == [200] * 16
    for client in clients:
        client.close()
    total = running.stats()["total"]
    assert total["shed.pool_down"] >= moved == pool_of(running)["moved"] > 0
    assert total["shed.pool_full"] == total["shed.queue_timeout"] == 0


def test_a_client_that_has_closed_its_side(server):
    """Its answer is sent while it comes within abandon_ms; then its query is given up, and cancelled."""
    running = server(SLEEP, pools(connections=1, max_inflight=4, abandon_ms=300, statement_timeout_ms=20000))
    for seconds, answered in (("0.1", True), ("15", False)):
        with Client(running.port, timeout=5) as client:
            client.send_request("GET", "/sleep/" + seconds)
            client.socket.shutdown(socket.SHUT_WR)
            if answered:
                assert client.read().status == 200
            else:
                began = time.monotonic()
                assert client.closes()
                assert 0.15 < time.monotonic() - began < 2      # deadlines count from a tick, 100 ms old at the most
    until(lambda: pool_of(running)["inflight"] == 0, timeout=3)
    assert one(running.port, "GET", "/row").status == 200
    assert running.total("http.aborted") == 1
