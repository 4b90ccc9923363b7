"""No octet of one request ever reaches another: many clients, each with payloads that only it knows."""
import json
import random
import threading

import pytest
from client import Client

ROUTES = r"""
  { method = "GET";  path = "/echo/{v}"; sql = "SELECT $1::text AS v, $2::text AS w FROM pg_sleep($3::float8)";
    params = [ "path.v", "query.w=", "query.s=0" ]; result = "row"; },
  { method = "POST"; path = "/echo"; sql = "SELECT $1::text AS v, $2::int AS n"; params = [ "body.v", "body.n" ]; result = "row"; },
  { method = "POST"; path = "/raw"; sql = "SELECT $1::text"; params = [ "body" ]; result = "raw"; },
  { method = "GET";  path = "/fail/{v}"; sql = "SELECT ($1::text)::int AS v"; params = [ "path.v" ]; result = "row"; },
  { method = "GET";  path = "/rows/{v}"; sql = "SELECT $1::text AS v, n FROM generate_series(1, $2::int) n";
    params = [ "path.v", "query.n" ]; result = "rows"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 3; max_inflight = 8; read_only = true; queue = 1000;
    queue_timeout_ms = 20000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 3; queue = 1000; queue_timeout_ms = 20000; }
);
"""


def talk(port, seed, rounds, complaints):
    chance = random.Random(seed)
    mark = "c%d-" % seed
    try:
        client = Client(port, timeout=30)
        for n in range(rounds):
            size = chance.choice((0, 1, 30, 500, 5000, 40000))
            text = mark + "%d-" % n + chr(97 + seed % 26) * size
            kind = chance.randrange(8)
            if kind == 0:
                short = text[:3000]
                answer = client.get("/echo/%s?w=%s&s=%.4f" % (short, short[::-1], chance.random() / 100))
                good = json.loads(answer.body) == {"v": short, "w": short[::-1]}
            elif kind == 1:
                answer = client.post_json("/echo", {"v": text, "n": n})
                good = json.loads(answer.body) == {"v": text, "n": n}
            elif kind == 2:
                answer = client.request("POST", "/raw", text, {"Content-Type": "text/plain"})
                good = answer.body == text.encode()
            elif kind == 3:                              # an error in the midst of a batch
                answer = client.get("/fail/x" + mark)
                good = answer.status == 400
            elif kind == 4:
                rows = chance.randrange(50)
                answer = client.get("/rows/%s?n=%d" % (text[:200], rows))
                good = json.loads(answer.body) == [{"v": text[:200], "n": i + 1} for i in range(rows)]
            elif kind == 5:                              # several at once
                client.send("".join("GET /echo/%s%d-%d HTTP/1.1\r\nHost: x\r\n\r\n" % (mark, n, i) for i in range(6)))
                answers = [json.loads(client.read().body)["v"] for _ in range(6)]
                good = answers == ["%s%d-%d" % (mark, n, i) for i in range(6)]
                answer = answers
            elif kind == 6:                              # leave without reading, come back
                client.send_request("GET", "/echo/%s?s=0.005" % text[:3000])
                client.close() if chance.random() < 0.5 else client.reset()
                client = Client(port, timeout=30)
                continue
            else:
                answer = client.get("/echo/" + mark)
                good = json.loads(answer.body) == {"v": mark, "w": ""}
            if not good:
                complaints.append((seed, n, kind, getattr(answer, "status", None),
                                   getattr(answer, "body", str(answer))[:300]))
                break
        client.close()
    except Exception as error:
        complaints.append((seed, repr(error)))


@pytest.mark.parametrize("workers", [1, 2])
def test_everyone_gets_their_own(server, workers):
    running = server(ROUTES, POOLS, settings="workers = %d;" % workers)
    complaints = []
    threads = [threading.Thread(target=talk, args=(running.port, seed, 60, complaints)) for seed in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not complaints, "\n".join(map(str, complaints[:10]))


def test_errors_do_not_disturb_their_batch(server):
    """One query of a batch fails, PostgreSQL skips the rest up to the Sync: those are sent again."""
    running = server(ROUTES, POOLS)
    with Client(running.port) as client:
        for turn in range(20):
            targets = ["/fail/%s" % ("x" if n % 5 == turn % 5 else n) for n in range(30)]
            client.send("".join("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target for target in targets))
            for n in range(30):
                answer = client.read()
                if n % 5 == turn % 5:
                    assert answer.status == 400
                else:
                    assert json.loads(answer.body) == {"v": n}
