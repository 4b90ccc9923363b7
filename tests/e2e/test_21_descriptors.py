"""Descriptors and connections run out: refused, counted, recovered from, and the log stays readable."""
import os
import re
import socket
import subprocess
import time

import pytest

from client import Client, Closed, one, problem, until

ROUTES = """
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; }
"""


@pytest.mark.parametrize("limit, crowd", [(64, 80), (1024, 1100)])
def test_few_descriptors_are_fewer_connections(server, limit, crowd):
    """What is not a client's is set aside: the database and the admin listener have theirs, however many clients come."""
    running = server(ROUTES + """, { method = "GET"; path = "/row"; sql = "SELECT 1"; result = "value"; }""",
                     settings="workers = 1;", wrapper=("prlimit", "--nofile=%d" % limit))
    said = re.search(r"is too low: (\d+) where \d+ are needed.* (\d+) client connections fit", running.log())
    if said is None:
        pytest.skip("the server may raise its limit")
    fit = int(said.group(2))
    assert int(said.group(1)) == limit and 9 < fit < limit
    clients = [Client(running.port) for _ in range(fit)]
    try:
        until(lambda: running.total("http.connections") == fit)
        assert [client.get("/pipeline").status for client in clients] == [200] * fit
        assert running.total("shed.connections") == 0
        for _ in range(crowd - fit):
            clients.append(Client(running.port))
        problem(clients[fit].get("/row"), 503)
        problem(clients[-1].read(), 503)
        assert running.total("shed.connections") > 1
        for path in ("/live", "/ready", "/metrics") * 3:
            assert one(running.admin_port, "GET", path).status == 200
        crowded = [Client(running.admin_port) for _ in range(300)]
        assert crowded[-1].get("/live").status == one(running.admin_port, "GET", "/ready").status == 200
        for client in crowded:
            client.close()
        assert clients[0].get("/row").status == 200
        assert running.total("http.accept_paused") == 0
    finally:
        for client in clients:
            client.close()
    until(lambda: running.total("http.connections") == 0)
    assert one(running.port, "GET", "/row").status == 200


def limit_files(pid, number):
    """The soft limit of a running process, as its user."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        ids = dict(line.split(":", 1) for line in file)
    user = {} if os.geteuid() else {"user": int(ids["Uid"].split()[0]), "group": int(ids["Gid"].split()[0]),
                                    "extra_groups": []}
    subprocess.run(["prlimit", "--pid", str(pid), "--nofile=%d:" % number], check=True, **user)


def test_descriptors_run_out_all_the_same(server):
    running = server(ROUTES, pools="", settings="workers = 1;")
    (worker,) = running.workers()
    limit_files(worker, 40)
    crowd = []
    refused = 0
    try:
        for _ in range(80):
            crowd.append(socket.create_connection(("127.0.0.1", running.port)))
        for connection in crowd:
            connection.settimeout(3)
            try:
                connection.sendall(b"GET /pipeline HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = connection.recv(1000)
                if answer.startswith(b"HTTP/1.1 503 "):
                    assert b"application/problem+json" in answer and b"\r\nDate: " in answer
                    assert b"Retry-After" in answer
                refused += not answer.startswith(b"HTTP/1.1 200 ")
            except OSError:
                refused += 1
        assert refused > 0
        total = running.stats()["total"]
        assert total["http.accept_paused"] >= 1
        assert total["shed.connections"] >= 1
        assert total["http.accept_paused"] < 500, "it spins"
        turns = running.total("loop.turns")
        time.sleep(1)
        assert running.total("loop.turns") - turns < 300, "it spins"
    finally:
        for connection in crowd:
            connection.close()
    until(lambda: running.total("http.connections") == 0)
    for _ in range(10):
        assert one(running.port, "GET", "/pipeline").body == b"ok"
    assert running.log().count("accepting pauses") <= 2


def test_connections_run_out(server):
    """Beyond `connections` 64 are told so in their turn, and those behind them at once."""
    running = server(ROUTES, pools="", settings="workers = 1; connections = 10; shed = { retry_after = 7; };")
    crowd = [Client(running.port, timeout=5) for _ in range(10)]
    try:
        for client in crowd:
            assert client.get("/pipeline").body == b"ok"
        for _ in range(64):
            crowd.append(Client(running.port, timeout=5))
        answer = crowd[20].get("/pipeline")
        problem(answer, 503)
        assert answer.get("retry-after") == "7" and "close" in answer.tokens("connection")
        assert crowd[20].closes()
        crowd[20] = Client(running.port)
        for _ in range(5):
            with Client(running.port) as surplus:
                try:
                    answer = surplus.read()
                    problem(answer, 503)
                    assert answer.get("date") and answer.get("retry-after") == "7"
                except Closed:
                    pass                                # the answer may lose against our next octet
        assert all(client.get("/pipeline").status == 200 for client in crowd[:10])
        assert running.total("shed.connections") >= 6
    finally:
        for client in crowd:
            client.close()
    until(lambda: running.total("http.connections") == 0)
    assert one(running.port, "GET", "/pipeline").body == b"ok"
