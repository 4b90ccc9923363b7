"""Server, Date, ETag, and problem documents on every error."""
import select

from client import Client, one, problem, until

LONG = "x" * 500
ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/long"; text = "%s"; },
  { method = "GET";  path = "/other"; text = "%sy"; },
  { method = "GET";  path = "/huge"; text = "%s"; },
  { method = "POST"; path = "/long"; text = "%s"; },
  { method = "GET";  path = "/row"; sql = "SELECT 1 AS a"; result = "row"; }
""" % (LONG, LONG, LONG * 10, LONG)


def test_server_can_be_switched_off(server):
    running = server(ROUTES, settings="workers = 1; server_header = false;")
    with Client(running.port) as client:
        for answer in (client.get("/pipeline"), client.get("/row"), client.get("/nowhere"), client.get("/long"),
                       client.request("OPTIONS", "/row")):
            assert answer.get("server") is None and answer.get("date"), answer.fields
    running = server(ROUTES)
    assert one(running.port, "GET", "/pipeline").get("server") == "vanilla"


def test_etag(client):
    tags = []
    for target in ("/long", "/other", "/huge"):
        answer = client.get(target)
        tag = answer.get("etag")
        assert tag and tag.startswith('"') and tag.endswith('"')
        tags.append(tag)
        for value in (tag, "W/" + tag, '"a", %s' % tag, "*", '"b",W/%s, "c"' % tag):
            got = client.request("GET", target, headers={"If-None-Match": value})
            assert (got.status, got.body, got.get("etag")) == (304, b"", tag), value
            assert got.get("date")
        for value in ('"nothing"', tag[:-2] + '"', ""):
            assert client.request("GET", target, headers={"If-None-Match": value}).status == 200
        got = client.request("GET", target, headers=[("If-None-Match", '"x"'), ("If-None-Match", tag)])
        assert got.status == 304
        got = client.request("HEAD", target, headers={"If-None-Match": tag})
        assert got.status == 304
        got = client.request("HEAD", target)
        assert got.status == 200 and got.get("etag") == tag and int(got.get("content-length")) == len(answer.body)
    assert len(set(tags)) == 3
    assert client.get("/pipeline").get("etag") is None          # smaller than telling that it has not changed
    assert client.request("GET", "/row", headers={"If-None-Match": "*"}).status == 200
    assert client.request("POST", "/long", b"", headers={"If-None-Match": "*"}).status == 200


def test_etag_stays_over_the_memo(client):
    """The same fields again and again: what the parser remembers of them includes the condition."""
    tag = client.get("/long").get("etag")
    for _ in range(40):
        assert client.request("GET", "/long", headers={"If-None-Match": tag}).status == 304
        assert client.request("GET", "/long").status == 200


def test_errors_without_a_buffer(server):
    """The budget is spent before a request can be read: even then a problem document, with its fields."""
    running = server(ROUTES, settings="workers = 1; memory = { buffers_mb = 1; }; shed = { status = 507; retry_after = 9; };"
                                      "timeouts = { header_ms = 60000; };")
    crowd = []
    try:
        for _ in range(300):                # a head that is longer than a stub holds a buffer
            client = Client(running.port)
            client.send("GET /pipeline HTTP/1.1\r\nX: " + "y" * 600)
            crowd.append(client)
        answered = set()

        def answers():
            ready, _, _ = select.select([client.socket for client in crowd if client not in answered], [], [], 0)
            for client in [each for each in crowd if each.socket in ready]:
                answer = client.read()
                problem(answer, 507)
                assert answer.get("retry-after") == "9" and answer.get("date")
                answered.add(client)
            return 10 < len(answered) == running.total("shed.buffers")
        until(answers)
    finally:
        for client in crowd:
            client.close()
    assert one(running.port, "GET", "/pipeline").body == b"ok"
