"""Routes that need no database."""
from email.utils import parsedate_to_datetime

from client import Client, one, problem, until

ROUTES = """
  { method = "GET";    path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";    path = "/default";  text = "a b"; },
  { method = "GET";    path = "/json";     text = "{\\"a\\":1}"; content_type = "application/json"; },
  { method = "GET";    path = "/empty";    text = ""; },
  { method = "GET";    path = "/made";     text = "made"; status = 203; },
  { method = "POST";   path = "/pipeline"; text = "posted"; status = 202; },
  { method = "GET";    path = "/a/b";      text = "literal"; },
  { method = "GET";    path = "/a/{x}";    text = "parameter"; },
  { method = "DELETE"; path = "/a/{x}/c";  text = "deep"; },
  { method = "GET";    path = "/é/{x}";    text = "space"; }
"""


def test_fixed_answer(client):
    answer = client.get("/pipeline")
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.get("content-type") == "text/plain"
    assert answer.get("content-length") == "2"
    parsedate_to_datetime(answer.get("date"))
    assert client.get("/default").get("content-type") == "text/plain; charset=utf-8"
    assert client.get("/json").get("content-type") == "application/json"
    assert client.get("/empty").get("content-length") == "0"
    assert client.get("/made").status == 203
    answer = client.request("POST", "/pipeline", b"body")
    assert (answer.status, answer.body) == (202, b"posted")


def test_head_says_what_get_would(client):
    answer = client.request("HEAD", "/pipeline")
    assert (answer.status, answer.body, answer.get("content-length")) == (200, b"", "2")
    assert client.get("/pipeline").body == b"ok"


def test_literal_wins_over_parameter(client):
    assert client.get("/a/b").body == b"literal"
    assert client.get("/a/%62").body == b"literal"
    assert client.get("/a/x").body == b"parameter"
    assert client.get("/a/b%2F").body == b"parameter"
    # No way through the literal: back to the parameter.
    assert client.request("DELETE", "/a/b/c").body == b"deep"


def test_not_found_and_not_allowed(client):
    problem(client.get("/nowhere"), 404)
    problem(client.get("/pipeline/"), 404)
    problem(client.get("/a"), 404)
    problem(client.get("//pipeline"), 404)
    answer = client.request("PUT", "/pipeline", b"")
    problem(answer, 405)
    assert set(answer.get("allow").split(", ")) == {"GET", "HEAD", "POST", "OPTIONS"}
    answer = client.get("/a/x/c")
    problem(answer, 405)
    assert set(answer.get("allow").split(", ")) == {"DELETE", "OPTIONS"}


def test_options(client):
    answer = client.request("OPTIONS", "/pipeline")
    assert answer.status in (200, 204) and answer.body == b""
    assert set(answer.get("allow").split(", ")) == {"GET", "HEAD", "POST", "OPTIONS"}
    problem(client.request("OPTIONS", "/nowhere"), 404)


def test_escapes_in_the_path(shared, client):
    for bad in ("%zz", "%", "%4", "%00", "%ff", "%c0%af", "%ed%a0%80"):
        problem(one(shared.port, "GET", "/a/" + bad), 400)
    assert client.get("/a/%E6%80%A5").body == b"parameter"
    assert client.get("/%C3%A9/x").body == b"space"


def test_query_does_not_matter(client):
    assert client.get("/pipeline?x=1&y").body == b"ok"


def test_connection_handling(shared):
    with Client(shared.port) as client:
        answer = client.get("/pipeline", Connection="close")
        assert answer.tokens("connection") == ["close"]
        assert client.closes()
    with Client(shared.port) as client:
        client.send("GET /pipeline HTTP/1.0\r\n\r\n")
        assert client.read().body == b"ok"
        assert client.closes()
    with Client(shared.port) as client:
        client.send("GET /pipeline HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.read().tokens("connection") == ["keep-alive"]
        assert client.get("/pipeline").body == b"ok"


def test_counters_count(shared, client):
    client.get("/nowhere")                              # all before it has been counted, now
    before = shared.stats()["total"]
    for _ in range(10):
        client.get("/pipeline")
    client.get("/nowhere")

    def counted():
        after = shared.stats()["total"]
        return [after[name] - before[name] for name in ("http.requests", "http.status_2xx", "http.status_4xx")]
    until(lambda: counted() == [11, 10, 1])             # a fixed answer is counted behind its sending
