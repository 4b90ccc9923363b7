"""`share = true`: equal GETs under way at the same moment share one query; everybody gets his own copy of its answer."""
import json
import socket
import threading

import pytest
from client import Client, one, problem, until
from gate import Gate

ROUTES = r"""
  { method = "GET"; path = "/slow/{n}"; share = true; params = [ "path.n", "query.gate=1", "query.s=0" ]; result = "row"; pool = "write";
    sql = "SELECT $1::int AS n, nextval('share_ticket') AS ticket FROM pg_advisory_xact_lock_shared($2::bigint), pg_sleep($3::float8)"; },
  { method = "GET"; path = "/own/{n}"; sql = "SELECT $1::int AS n, nextval('share_ticket') AS ticket FROM pg_sleep(0.1)";
    params = [ "path.n" ]; result = "row"; pool = "write"; },
  { method = "GET"; path = "/none"; share = true; sql = "SELECT 1 FROM pg_sleep(0.2) WHERE false"; result = "row"; },
  { method = "GET"; path = "/fails"; share = true; sql = "SELECT 1 / (0 * length(pg_sleep(0.2)::text))"; result = "value"; },
  { method = "GET"; path = "/large"; share = true; sql = "SELECT repeat('x', 300000) AS x FROM pg_sleep(0.2)"; result = "rows"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 2; max_inflight = 4; read_only = true; queue = 0; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 1; queue = 0; abandon_ms = 0; queue_timeout_ms = 20000;
    statement_timeout_ms = 60000; }
);
"""


def start(server, db, pools=POOLS):
    db.execute("DROP SEQUENCE IF EXISTS share_ticket; CREATE SEQUENCE share_ticket; GRANT ALL ON SEQUENCE share_ticket TO vanilla")
    return server(ROUTES, pools)


def ask(port, targets):
    clients = [Client(port) for _ in targets]
    for client, target in zip(clients, targets):
        client.send_request("GET", target)
    return clients


def read_all(clients):
    answers = [client.read() for client in clients]
    for client in clients:
        client.close()
    return answers


def queries(running, pool, name="inflight"):
    (found,) = [each for each in running.stats()["pools"] if each["name"] == pool]
    return found[name]


def test_equal_ones_share(server, db, cluster):
    running = start(server, db)
    with Gate(cluster):
        clients = ask(running.port, ["/slow/1"] * 12 + ["/slow/2"] * 3)
        until(lambda: queries(running, "write", "shared") == 13)
    answers = read_all(clients)
    assert [answer.status for answer in answers] == [200] * 15, "slots for two, and nobody was shed"
    documents = [json.loads(answer.body) for answer in answers]
    assert [each["n"] for each in documents] == [1] * 12 + [2] * 3
    assert len({each["ticket"] for each in documents}) == 2
    assert len({each["ticket"] for each in documents[:12]}) == 1
    # What is over is not kept.
    (again,) = read_all(ask(running.port, ["/slow/1"]))
    assert json.loads(again.body)["ticket"] not in {each["ticket"] for each in documents}


def test_other_routes_do_not(server, db):
    running = start(server, db)
    answers = read_all(ask(running.port, ["/own/1"] * 2))
    assert len({json.loads(answer.body)["ticket"] for answer in answers}) == 2


def test_errors_are_shared(server, db):
    running = start(server, db)
    for answer in read_all(ask(running.port, ["/none"] * 4)):
        problem(answer, 404)
    for answer in read_all(ask(running.port, ["/fails"] * 4)):
        assert problem(answer, 400)["sqlstate"] == "22012"


def test_large_answers_are_copied(server, db):
    running = start(server, db)
    for answer in read_all(ask(running.port, ["/large"] * 10)):
        assert answer.status == 200 and json.loads(answer.body) == [{"x": "x" * 300000}]


def test_head_and_pipelined(server, db, cluster):
    running = start(server, db)
    with Client(running.port) as client:
        with Gate(cluster):
            client.send("GET /slow/3 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /slow/3 HTTP/1.1\r\nHost: x\r\n\r\n"
                        "GET /slow/3 HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: queries(running, "write", "shared") == 2)
        first, head, last = client.read(), client.read("HEAD"), client.read()
        assert first.body == last.body and head.get("content-length") == str(len(first.body))


def test_who_leaves_does_not_hurt_the_others(server, db, cluster):
    running = start(server, db)
    for leave in (0, 2):        # who leads, and who follows
        with Gate(cluster):
            clients = ask(running.port, ["/slow/4"])
            until(lambda: queries(running, "write") == 1)
            before = [queries(running, "write", "shared"), running.total("http.aborted")]
            clients += ask(running.port, ["/slow/4"] * 4)
            until(lambda: queries(running, "write", "shared") == before[0] + 4)         # noqa: B023
            clients.pop(leave).reset()
            until(lambda: running.total("http.aborted") == before[1] + 1)               # noqa: B023
        answers = read_all(clients)
        assert [answer.status for answer in answers] == [200] * 4
        assert len({answer.body for answer in answers}) == 1
        until(lambda: queries(running, "write") == 0)


def test_the_leader_leaves_a_full_pool(server, db, cluster):
    """The question cannot be asked again: those who wait for it are shed, each is told and counted."""
    running = start(server, db, POOLS.replace("connections = 2; max_inflight = 1", "connections = 1; max_inflight = 2"))
    with Gate(cluster):
        first, = ask(running.port, ["/slow/6"])
        until(lambda: queries(running, "write") == 1)
        leader, = ask(running.port, ["/slow/5"])
        until(lambda: queries(running, "write") == 2)
        clients = ask(running.port, ["/slow/5"] * 3)
        until(lambda: queries(running, "write", "shared") == 3)
        leader.reset()
        assert [answer.status for answer in read_all(clients)] == [503] * 3
    assert [answer.status for answer in read_all([first])] == [200]
    total = running.stats()["total"]
    assert total["shed.pool_full"] == 3


def test_the_slot_of_a_leader_who_leaves(server, db, cluster):
    """Nobody waits for what the leader's connection does: in a full pool, too, the question is asked again there."""
    running = start(server, db)
    with Gate(cluster) as gate:
        leader, = ask(running.port, ["/slow/5"])
        until(lambda: queries(running, "write") == 1)
        clients = ask(running.port, ["/slow/5"] * 3 + ["/slow/6"])
        until(lambda: queries(running, "write") == 2 and queries(running, "write", "shared") == 3)
        until(lambda: gate.waiting() == 2)
        leader.reset()
        until(lambda: queries(running, "write", "queries") == 3)
    answers = read_all(clients)
    assert [answer.status for answer in answers] == [200] * 4
    assert len({answer.body for answer in answers[:3]}) == 1
    assert running.total("shed.pool_full") == 0 and queries(running, "write", "queries") == 3


@pytest.mark.parametrize("abandon_ms", [0, 200])
def test_a_client_leaves_all_that_it_asked(server, db, cluster, abandon_ms):
    """Who leaves inherits nothing from himself, and nobody is shed in his name."""
    pools = POOLS.replace("connections = 2; max_inflight = 1", "connections = 1; max_inflight = 2")
    running = start(server, db, pools.replace("abandon_ms = 0;", "abandon_ms = %d;" % abandon_ms))
    for _ in range(2):
        with Client(running.port) as other, Client(running.port) as client:
            with Gate(cluster):
                other.send_request("GET", "/slow/8")
                until(lambda: queries(running, "write") == 1)
                client.send("GET /slow/7 HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
                until(lambda: queries(running, "write") == 2)
                client.socket.shutdown(socket.SHUT_WR)
                assert client.closes(20)
            assert other.read().status == 200
        until(lambda: queries(running, "write") == 0)
    total = running.stats()["total"]
    assert total["http.aborted"] == 6 and total["shed.pool_full"] == total["http.status_5xx"] == 0


def test_several_leave_at_once(server, db, cluster):
    """Each has asked both questions; those who stay get their answers whoever of the others led."""
    running = start(server, db)
    pair = "GET /slow/%d HTTP/1.1\r\nHost: x\r\n\r\n" * 2
    for leave in (Client.reset, Client.close):
        with Client(running.port) as client:
            with Gate(cluster):
                leaving, before = [], (queries(running, "write", "shared"), running.total("http.aborted"))
                for n in range(4):
                    leaving.append(Client(running.port))
                    leaving[-1].send(pair % ((1, 2), (2, 1))[n % 2])
                    until(lambda: queries(running, "write") == 2)
                client.send(pair % (2, 1))
                until(lambda: queries(running, "write", "shared") == before[0] + 8)         # noqa: B023
                for each in leaving:
                    leave(each)
                until(lambda: running.total("http.aborted") == before[1] + 8)               # noqa: B023
            answers = [client.read(), client.read()]
        # Their slots are free again when PostgreSQL says so; until then there is none for another try.
        assert {answer.status for answer in answers} <= {200, 503}
        until(lambda: queries(running, "write") == 0)
    assert one(running.port, "GET", "/slow/1").status == 200


def test_any_number_of_questions(server, db, cluster):
    """Whatever their values' hashes: equal ones share."""
    running = start(server, db, POOLS.replace("max_inflight = 1;", "max_inflight = 60;"))
    with Gate(cluster):
        holders = ask(running.port, ["/slow/-1", "/slow/-2"])
        until(lambda: queries(running, "write") == 2)
        clients = ask(running.port, ["/slow/%d?gate=2" % n for n in range(100)] * 3)
        until(lambda: queries(running, "write", "shared") == 200)
    answers = read_all(clients)
    read_all(holders)
    assert [answer.status for answer in answers] == [200] * 300
    documents = [json.loads(answer.body) for answer in answers]
    assert [each["n"] for each in documents] == list(range(100)) * 3
    assert len({each["ticket"] for each in documents}) == 100


def test_many_at_once(server, db):
    running = start(server, db)
    wrong, lock = [], threading.Lock()

    def load(seed):
        with Client(running.port) as client:
            for n in range(60):
                number = (seed + n) % 3
                answer = client.get("/slow/%d?s=0.002" % number)
                if answer.status != 503 and json.loads(answer.body)["n"] != number:
                    with lock:
                        wrong.append(answer.body)

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    until(lambda: queries(running, "write") == 0)
