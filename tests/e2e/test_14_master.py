"""The master: workers that die, a master that dies, an end in good order, the cores that may be used."""
import os
import re
import signal
import threading

from client import Client, Closed, one, until
from gate import GATE
from process import wait_gone

ROUTES = r"""
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; },
  { method = "GET"; path = "/held"; sql = "SELECT 1 FROM GATE"; result = "value"; }
""".replace("GATE", GATE)


def replaced(server, old):
    until(lambda: len(server.workers()) == len(old) and not set(server.workers()) & set(old))


def test_a_worker_that_dies_is_replaced(server):
    running = server(ROUTES, settings="workers = 2;")
    old = running.workers()
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    running.deaths_expected = 2
    replaced(running, old)
    running.wait_for("/ready")
    for _ in range(20):
        assert one(running.port, "GET", "/pipeline").body == b"ok"
    for pid in old:                                      # the obituaries
        assert re.search(r"\b%d\b.* killed by signal 9\b" % pid, running.log()), running.log()


def test_connections_queued_during_a_death_are_served(server):
    """Also on a route to the database: the one who comes next does not begin before it has connections of its own."""
    running = server(ROUTES, settings="workers = 1;")
    (old,) = running.workers()
    os.kill(old, signal.SIGSTOP)
    waiting = []
    for n in range(10):
        client = Client(running.port, timeout=20)
        client.send_request("GET", "/row" if n % 2 else "/pipeline")
        waiting.append(client)
    os.kill(old, signal.SIGKILL)
    running.deaths_expected = 1
    for n, client in enumerate(waiting):
        assert client.read().body == (b"1" if n % 2 else b"ok")
        client.close()


def test_other_workers_do_not_notice(server):
    running = server(ROUTES, settings="workers = 2;")
    clients = [Client(running.port) for _ in range(24)]
    for client in clients:
        assert client.get("/pipeline").status == 200
    os.kill(running.workers()[0], signal.SIGKILL)
    running.deaths_expected = 1
    alive = 0
    for client in clients:
        try:
            alive += client.get("/pipeline").status == 200
        except (Closed, OSError):
            pass
        client.close()
    assert 0 < alive < 24


def test_master_dies_workers_leave(server):
    running = server(ROUTES, settings="workers = 2; timeouts = { drain_ms = 2000; };")
    workers = running.workers()
    running.process.kill()
    running.process.wait()
    running.process = None
    assert all(wait_gone(pid, 10) for pid in workers)


def state(server):
    return sorted(worker["state"] for worker in server.stats()["workers"])


def hold(server, client):
    client.send_request("GET", "/held")
    until(lambda: server.stats()["pools"][0]["inflight"] == 1)


def test_drain_answers_what_is_begun(server, gate):
    running = server(ROUTES)
    with Client(running.port) as slow, Client(running.port) as idle:
        assert idle.get("/pipeline").status == 200
        hold(running, slow)
        running.send(signal.SIGTERM)
        assert idle.closes()
        gate.open()
        answer = slow.read()
        assert (answer.status, answer.body) == (200, b"1")
        assert "close" in answer.tokens("connection")
        assert slow.closes()
    assert running.process.wait(10) == 0
    running.process = None


def test_new_connections_are_refused_while_draining(server, gate):
    running = server(ROUTES)
    with Client(running.port) as slow:
        hold(running, slow)
        running.send(signal.SIGTERM)

        def refused():
            try:
                with Client(running.port) as client:
                    client.get("/pipeline")
                return False
            except (ConnectionError, Closed):
                return True
        until(refused)
        gate.open()
        assert slow.read().status == 200
    assert running.process.wait(10) == 0
    running.process = None


def test_drain_has_a_deadline(server, gate):
    running = server(ROUTES, settings="workers = 1; timeouts = { drain_ms = 300; };")
    with Client(running.port) as slow:
        hold(running, slow)
        running.send(signal.SIGTERM)
        running.process.wait(15)                        # the gate is still shut
        running.process = None


def test_quit_stops_now(server, gate):
    running = server(ROUTES)
    with Client(running.port) as slow:
        hold(running, slow)
        running.stop(signal.SIGQUIT)


def test_one_core_one_worker(server):
    core = min(os.sched_getaffinity(0))
    running = server(ROUTES, settings='workers = "auto";', wrapper=["taskset", "-c", str(core)])
    assert len(running.workers()) == 1
    assert os.sched_getaffinity(running.workers()[0]) == {core}


def test_workers_are_pinned(server):
    running = server(ROUTES, settings='workers = "auto";')
    usable = os.sched_getaffinity(0)
    pinned = [os.sched_getaffinity(pid) for pid in running.workers()]
    assert 1 <= len(pinned) <= len(usable)
    assert all(len(each) == 1 and each <= usable for each in pinned)
    assert len(set(map(frozenset, pinned))) == len(pinned)


def test_workers_are_not_root(server):
    running = server(ROUTES)
    if os.geteuid() != 0:
        return
    for pid in running.workers():
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            status = dict(line.split(":\t", 1) for line in file.read().split("\n") if ":\t" in line)
        assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split()
        assert status["CapEff"].strip() == "0000000000000000"


def test_the_log_at_fault_is_named_and_once(server):
    for name, other in (("file", "access"), ("access", "file")):
        running = server(ROUTES, settings='workers = 1; log = { %s = "/tmp/."; %s = "stderr"; };' % (name, other), start=False)
        running.start(wait=None)
        assert running.process.wait(20) == 1
        assert running.log().count("/tmp/.") == 1, running.log()
        assert "log.%s /tmp/.:" % name in running.log() and "log.%s" % other not in running.log()
        running.process = None


def test_a_worker_that_left_is_not_dead(server, gate):
    running = server(ROUTES, settings="workers = 2;")
    with Client(running.port) as client:
        hold(running, client)
        running.send(signal.SIGTERM)
        until(lambda: state(running) == ["draining", "left"])
        gate.open()
        assert client.read().body == b"1"
    assert running.stop() == 0


def test_descriptors_are_not_inherited(server):
    """What whoever started the server had open, the workers do not have."""
    reader, writer = os.pipe()
    try:
        running = server(ROUTES, keep_open=[writer])
        pipe = os.readlink("/proc/self/fd/%d" % writer)
        for pid in running.workers():
            open_now = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]
            assert pipe not in open_now and running.conf_file not in open_now
    finally:
        os.close(reader)
        os.close(writer)


def test_many_deaths_under_load(server):
    """Nobody gets a wrong answer, however often a worker dies."""
    running = server(ROUTES, settings="workers = 2;")
    stop, wrong, good = threading.Event(), [], [0]

    def load():
        while not stop.is_set():
            try:
                with Client(running.port) as client:
                    for _ in range(20):
                        answer = client.get("/pipeline")
                        if (answer.status, answer.body) != (200, b"ok"):
                            wrong.append(answer.status)
                        good[0] += 1
            except (Closed, OSError):
                pass

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            old = running.workers()
            os.kill(old[0], signal.SIGKILL)
            running.deaths_expected += 1
            until(lambda: len(running.workers()) == 2 and old[0] not in running.workers(), timeout=20)
            enough = good[0] + 40
            until(lambda: good[0] >= enough, timeout=20)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    running.wait_for("/ready")
