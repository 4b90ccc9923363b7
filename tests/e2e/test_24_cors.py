"""Cross-origin resource sharing, as browsers expect it."""
from client import Client, problem

SETTINGS = """
workers = 1;
limits = { body_bytes = 100; };
cors = { origins = [ "https://app.example", "http://localhost:3000" ]; expose = [ "etag", "x-total" ]; credentials = true; };
"""
ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "PUT";  path = "/items/{id}"; sql = "SELECT $1::int"; params = [ "path.id" ]; result = "value"; },
  { method = "GET";  path = "/items/{id}"; sql = "SELECT $1::int"; params = [ "path.id" ]; result = "value"; },
  { method = "GET";  path = "/open"; text = "open"; cors = { origins = [ "*" ]; methods = [ "GET" ]; headers = [ "x-a" ]; max_age = 5; }; },
  { method = "GET";  path = "/closed"; text = "closed"; cors = {}; }
"""
APP = "https://app.example"


def fields(answer):
    return {name: value for name, value in answer.fields if name.startswith("access-control-") or name == "vary"}


def test_simple_requests(client):
    answer = client.get("/pipeline", Origin=APP)
    assert answer.body == b"ok"
    assert fields(answer) == {"access-control-allow-origin": APP, "access-control-allow-credentials": "true",
                              "access-control-expose-headers": "etag, x-total", "vary": "Origin"}
    assert fields(client.get("/items/5", Origin=APP))["access-control-allow-origin"] == APP
    assert fields(client.get("/items/5", Origin="http://localhost:3000"))["access-control-allow-origin"] == \
        "http://localhost:3000"
    # Others get the answer, which their browser will not show; caches are told in any case.
    for origin in ("https://evil.example", "https://app.example.evil", "null", "HTTPS://app.example"):
        answer = client.get("/pipeline", Origin=origin)
        assert answer.body == b"ok" and fields(answer) == {"vary": "Origin"}
    assert fields(client.get("/pipeline")) == {"vary": "Origin"}
    answer = client.request("HEAD", "/pipeline", headers={"Origin": APP})
    assert fields(answer)["access-control-allow-origin"] == APP


def test_preflight(client):
    answer = client.request("OPTIONS", "/items/5", headers={
        "Origin": APP, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type, x-y"})
    assert answer.status == 204
    found = fields(answer)
    assert found["access-control-allow-origin"] == APP
    assert set(found["access-control-allow-methods"].split(", ")) == {"GET", "HEAD", "PUT", "OPTIONS"}
    assert found["access-control-allow-headers"] == "content-type, x-y"
    assert found["access-control-allow-credentials"] == "true"
    assert found["access-control-max-age"] == "600"
    assert found["vary"] == "Origin"
    answer = client.request("OPTIONS", "/items/5", headers={
        "Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"})
    assert answer.status == 204 and fields(answer) == {"vary": "Origin"}
    # A plain OPTIONS is what it was.
    answer = client.request("OPTIONS", "/items/5")
    assert answer.status == 204 and "PUT" in answer.get("allow")
    problem(client.request("OPTIONS", "/nowhere", headers={"Origin": APP, "Access-Control-Request-Method": "PUT"}), 404)


def test_routes_of_their_own(client):
    answer = client.get("/open", Origin="https://anybody.example")
    assert fields(answer) == {"access-control-allow-origin": "*"}
    answer = client.request("OPTIONS", "/open", headers={"Origin": "https://a", "Access-Control-Request-Method": "GET"})
    assert fields(answer) == {"access-control-allow-origin": "*", "access-control-allow-methods": "GET",
                              "access-control-allow-headers": "x-a", "access-control-max-age": "5"}
    assert fields(client.get("/closed", Origin=APP)) == {}
    answer = client.request("OPTIONS", "/closed", headers={"Origin": APP, "Access-Control-Request-Method": "GET"})
    assert answer.status == 204 and fields(answer) == {"vary": "Origin"} or fields(answer) != {}


def test_errors_are_shown_too(shared):
    for method, target, body, status in (("GET", "/nowhere", None, 404), ("GET", "/items/x", None, 400),
                                         ("POST", "/pipeline", b"", 405), ("PUT", "/items/1", b"x" * 200, 413)):
        with Client(shared.port) as client:
            answer = client.request(method, target, body, {"Origin": APP})
            problem(answer, status)
            assert fields(answer)["access-control-allow-origin"] == APP, target


ORIGIN = "Origin: %s\r\n" % APP
HASTY = "timeouts = { header_ms = 300; body_ms = 300; };"        # for what is to be met by one of them, and nothing else
# What is wrong, and whether the origin was read before it was met.
EARLY = (
    ("GET /pipeline HTTP/1.1\r\n" + ORIGIN + "Host: x\r\nBad Name: x\r\n\r\n", 400, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\nBad Name: x\r\n" + ORIGIN + "\r\n", 400, False),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\n" + ORIGIN + " folded\r\n\r\n", 400, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\nOrigin: %s\rX: y\r\n\r\n" % APP, 400, False),
    ("GET /pipeline HTTP/1.1\r\n" + ORIGIN + "\r\n", 400, True),                                     # no Host
    ("PUT /items/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n" + ORIGIN + "\r\n", 400, True),
    ("PUT /items/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + ORIGIN + "\r\nx\r\n", 400, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\n" + ORIGIN + "\r\n", 417, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "A: b\r\n" * 200 + "\r\n", 431, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 200 + ORIGIN + "\r\n", 431, False),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "A: " + "b" * 40000 + "\r\n\r\n", 431, True),
    ("GET /pipeline HTTP/3.0\r\nHost: x\r\n" + ORIGIN + "\r\n", 505, False),
    ("GET /" + "x" * 9000 + " HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "\r\n", 414, False),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "A: b", 408, True),
    ("PUT /items/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n" + ORIGIN + "\r\n123", 408, True),
    ("GET /pipeline HTTP/1.1\r\nHost: x\r\nOrigin: https://app.exa", 408, False),
    ("BREW /pipeline HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "\r\n", 501, True),
)


def test_refusals_before_the_end_of_the_head(server):
    """An origin that was read before what is wrong may read the answer; what stands behind it is not believed."""
    patient, hasty = [server(ROUTES, settings=SETTINGS + each) for each in ("", HASTY)]
    for text, status, known in EARLY:
        with Client((hasty if status == 408 else patient).port) as client:
            client.send(text)
            answer = client.read()
            problem(answer, status)
            expected = {"vary": "Origin"}
            if known:
                expected.update({"access-control-allow-origin": APP, "access-control-allow-credentials": "true",
                                 "access-control-expose-headers": "etag, x-total"})
            assert fields(answer) == expected, text[:200]
            assert client.closes(20)


def test_refusals_anybody_may_read(server):
    patient, hasty = [server(ROUTES, settings='workers = 1; limits = { body_bytes = 100; }; cors = { origins = [ "*" ]; };' + each)
                      for each in ("", HASTY)]
    for text, status, _ in EARLY:
        with Client((hasty if status == 408 else patient).port) as client:
            client.send(text)
            answer = client.read()
            problem(answer, status)
            assert fields(answer) == {"access-control-allow-origin": "*"}, text[:200]


def test_refusals_follow_the_route(server):
    """Also where no handler was asked: the rules are those of the route that the request line names."""
    running = server("""
        { method = "PUT"; path = "/a/{id}"; sql = "SELECT $1::int"; params = [ "path.id" ]; result = "value"; cors = { origins = [ "%s" ]; }; },
        { method = "PUT"; path = "/b/{id}"; sql = "SELECT $1::int"; params = [ "path.id" ]; result = "value"; },
        { method = "GET"; path = "/c"; text = "c"; cors = { origins = [ "*" ]; }; }""" % APP,
                     settings="workers = 1; limits = { body_bytes = 100; }; client = { requests_per_second = 1; burst = 1; };")
    large = "PUT %s HTTP/1.1\r\nHost: x\r\n" + ORIGIN + "Content-Length: 1000\r\n\r\n"
    for text, status, origin in ((large % "/a/1", 413, APP), (large % "/b/1", 413, None), (large % "/nowhere", 413, None),
                                 ("PUT /a/1 HTTP/1.1\r\n" + ORIGIN + "Host: x\r\nA b: c\r\n\r\n", 400, APP),
                                 ("GET /c HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400, "*"),
                                 ("GET /c HTTP/1.7 \r\nHost: x\r\n\r\n", 400, None)):
        with Client(running.port) as client:
            client.send(text)
            answer = client.read()
            problem(answer, status)
            assert fields(answer).get("access-control-allow-origin") == origin, text[:100]
    with Client(running.port) as client:
        client.send("PUT /a/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n" % ORIGIN * 5)
        answers = [client.read() for _ in range(5)]
        assert 429 in [answer.status for answer in answers]
        assert all(fields(answer)["access-control-allow-origin"] == APP for answer in answers)


def test_no_buffer_for_an_answer(server):
    """The answer that is made without a buffer says it, too, as far as the request is known."""
    for cors, expected in (('origins = [ "%s" ]; credentials = true;' % APP,
                            {"vary": "Origin", "access-control-allow-origin": APP, "access-control-allow-credentials": "true"}),
                           ('origins = [ "*" ];', {"access-control-allow-origin": "*"}),
                           ('origins = [ "https://other.example" ];', {"vary": "Origin"})):
        running = server(ROUTES, settings="workers = 1; memory = { buffers_mb = 1; }; cors = { %s };" % cors)
        large = "PUT %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1000000\r\n\r\n"
        for target, origin, found in (("/items/1", ORIGIN, expected), ("/closed", ORIGIN, expected),
                                      ("/items/1", "", {k: v for k, v in expected.items() if k == "vary" or v == "*"})):
            with Client(running.port) as client:
                client.send(large % (target, origin))
                answer = client.read()
                problem(answer, 503)
                assert fields(answer) == found, (cors, target, origin)
        with Client(running.port) as client:
            assert client.get("/pipeline").body == b"ok"
        assert running.total("shed.buffers") == 3


def test_sheds_are_shown_too(server):
    running = server(ROUTES, pools='pools = ( { name = "p"; conninfo = "host=/nowhere"; } );', settings=SETTINGS,
                     wait="/live")
    with Client(running.port) as client:
        answer = client.get("/items/1", Origin=APP)
        problem(answer, 503)
        assert fields(answer)["access-control-allow-origin"] == APP


def test_off_by_default(server):
    running = server('{ method = "GET"; path = "/pipeline"; text = "ok"; }', pools="")
    with Client(running.port) as client:
        assert fields(client.get("/pipeline", Origin=APP)) == {}
        answer = client.request("OPTIONS", "/pipeline", headers={"Origin": APP, "Access-Control-Request-Method": "GET"})
        assert answer.status == 204 and fields(answer) == {}
