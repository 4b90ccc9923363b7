"""Limits for each client address."""
import time

from client import Client, Closed, one, problem, until

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/ip"; sql = "SELECT $1"; params = [ "conn.ip" ]; result = "raw"; }
"""


def at_once(client, targets, fields=lambda n: ""):
    """In one piece, so that no time passes between them."""
    client.send("".join("GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (target, fields(n)) for n, target in enumerate(targets)))
    return [client.read() for _ in targets]


def test_connections_of_one_address(server):
    running = server(ROUTES, settings="workers = 1; client = { connections = 5; }; shed = { retry_after = 3; };")
    crowd = [Client(running.port) for _ in range(5)]
    for client in crowd:
        assert client.get("/pipeline").body == b"ok"
    with Client(running.port) as surplus:
        answer = surplus.get("/pipeline")
        problem(answer, 429)
        assert answer.get("retry-after") == "3"
        assert surplus.closes()
    polite = [Client(running.port) for _ in range(8)]  # accepted in their order
    with Client(running.port) as rude:
        try:
            rude.get("/pipeline")
            raise AssertionError("an answer for the fourteenth")
        except (Closed, OSError):
            pass
    assert running.total("limit.client_connections") >= 10
    for client in polite + crowd[1:]:
        client.close()
    until(lambda: running.total("http.connections") == 1)
    with Client(running.port) as again:
        assert again.get("/pipeline").body == b"ok"
    assert crowd[0].get("/pipeline").body == b"ok"
    crowd[0].close()


def test_requests_of_one_address(server):
    running = server(ROUTES, settings="workers = 1; client = { requests_per_second = 10; burst = 20; };")
    with Client(running.port) as client:
        answers = at_once(client, ["/pipeline"] * 30)
        assert [answer.status for answer in answers] == [200] * 20 + [429] * 10
        for limited in answers[20:]:
            problem(limited, 429)
            assert int(limited.get("retry-after")) == 1
        assert running.total("limit.client_rate") == 10
        time.sleep(1.1)                                         # ten more at least, on the same connection, and no more than twenty
        statuses = [answer.status for answer in at_once(client, ["/pipeline"] * 30)]
        assert 10 <= statuses.count(200) <= 20 and statuses == sorted(statuses)


def test_off_is_off(server):
    running = server(ROUTES, settings="workers = 1;")
    with Client(running.port) as client:
        assert all(client.get("/pipeline").status == 200 for _ in range(500))
    assert running.total("limit.client_rate") == 0


def test_behind_a_proxy_each_client_counts(server):
    running = server(ROUTES, settings='workers = 1; trusted_proxies = [ "127.0.0.0/8" ]; '
                                      'client = { connections = 2; requests_per_second = 1; burst = 3; };')
    crowd = [Client(running.port) for _ in range(6)]            # the proxy's own connections are not limited
    for client in crowd:
        assert client.get("/ip", X_Forwarded_For="203.0.113.%d" % crowd.index(client)).status == 200
    answers = at_once(crowd[0], ["/ip"] * 5, lambda n: "X-Forwarded-For: 198.51.100.9\r\n")
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    # One /64 is one client.
    answers = at_once(crowd[0], ["/ip"] * 5, lambda n: "X-Forwarded-For: 2001:db8:1:2::%d\r\n" % n)
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert crowd[0].get("/ip", X_Forwarded_For="2001:db8:1:3::1").status == 200
    for client in crowd:
        client.close()
    assert one(running.port, "GET", "/ip").status == 200
