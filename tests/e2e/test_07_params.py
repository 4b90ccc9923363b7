"""Where parameters come from, and which forms their types take."""
import json

import pytest
from client import Client, one, problem

ROUTES = r"""
  { method = "GET"; path = "/p/{a}/{b}"; sql = "SELECT $2::text || '|' || $1::text"; params = [ "path.a", "path.b" ]; result = "value"; },
  { method = "GET"; path = "/q"; sql = "SELECT $1::text"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/h"; sql = "SELECT $1::text"; params = [ "header.X-Value=none" ]; result = "value"; },
  { method = "GET"; path = "/c"; sql = "SELECT $1::text"; params = [ "cookie.session=none" ]; result = "value"; },
  { method = "GET"; path = "/ip"; sql = "SELECT $1::inet"; params = [ "conn.ip" ]; result = "value"; },
  { method = "GET"; path = "/int2"; sql = "SELECT $1::int2"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/int4"; sql = "SELECT $1::int4"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/int8"; sql = "SELECT $1::int8"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/float8"; sql = "SELECT $1::float8"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/numeric"; sql = "SELECT $1::numeric"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/bool"; sql = "SELECT $1::bool"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/date"; sql = "SELECT $1::date"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/uuid"; sql = "SELECT $1::uuid"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/array"; sql = "SELECT $1::int[]"; params = [ "query.v" ]; result = "value"; },
  { method = "GET"; path = "/jsonb"; sql = "SELECT $1::jsonb"; params = [ "query.v" ]; result = "value"; },
  { method = "POST"; path = "/arrays"; sql = "SELECT $1::int[] AS i, $2::text[] AS t, $3::int[][] AS m";
    params = [ "body.i={}", "body.t={}", "body.m={}" ]; result = "row"; },
  { method = "GET"; path = "/many"; params = [ "query.a=1", "query.b=2", "query.c=3", "query.d=4", "query.e=5", "query.f=6" ];
    sql = "SELECT $1::int AS a, $2::int AS b, $3::int AS c, $4::int AS d, $5::int AS e, $6::int AS f"; result = "row"; }
"""


def value(answer):
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_path(client):
    assert value(client.get("/p/x/y")) == "y|x"
    assert value(client.get("/p/%2F/a+b")) == "a+b|/"
    assert value(client.get("/p/../%2e%2e")) == "..|.."
    problem(client.get("/p//x"), 404)
    assert value(client.get("/p/%E6%80%A5/%22")) == '"|急'


def test_query(shared, client):
    assert value(client.get("/q?v=a+b%2Bc")) == "a b+c"
    assert value(client.get("/q?v")) == ""
    assert value(client.get("/q?v=")) == ""
    assert value(client.get("/q?other=1&&v=a=b&z")) == "a=b"
    assert value(client.get("/q?%76=x")) == "x"
    for bad in ("", "?", "?w=1", "?V=1"):
        assert problem(client.get("/q" + bad), 400)["parameter"] == "query.v"
    for bad in ("?v=1&v=1", "?v=1&%76=2"):
        assert problem(client.get("/q" + bad), 400)["parameter"] == "query.v", bad
    for bad in ("?v=%zz", "?v=%", "?v=%f", "?v=%00", "?v=%ff", "?v=%ed%a0%80", "?%zz=1&v=1"):
        problem(one(shared.port, "GET", "/q" + bad), 400)


def test_header(client):
    assert value(client.get("/h")) == "none"
    assert value(client.get("/h", **{"x_value": "one two"})) == "one two"
    assert value(client.get("/h", **{"X_VALUE": ""})) == ""
    client.send("GET /h HTTP/1.1\r\nHost: x\r\nX-Value: a\r\nx-value: b\r\n\r\n")
    assert problem(client.read(), 400)["parameter"].lower() == "header.x-value"
    client.send(b"GET /h HTTP/1.1\r\nHost: x\r\nX-Value: \xff\r\n\r\n")
    problem(client.read(), 400)


def test_cookie(client):
    assert value(client.get("/c")) == "none"
    assert value(client.get("/c", Cookie="session=abc")) == "abc"
    assert value(client.get("/c", Cookie="a=1; session=x=y; b=2")) == "x=y"
    assert value(client.get("/c", Cookie="xsession=1; session2=2")) == "none"
    problem(client.get("/c", Cookie="session=1; session=2"), 400)


def test_connection_ip(client):
    assert value(client.get("/ip")) == "127.0.0.1"


@pytest.mark.parametrize("kind, good, bad", [
    ("int2", ["0", "-32768", "32767", "007"], ["32768", "-32769", "", "+1", "1 ", "1_0", "0x1", "1.0"]),
    ("int4", ["2147483647", "-2147483648"], ["2147483648", "-", "1e3", "99999999999999999999999999"]),
    ("int8", ["9223372036854775807", "-9223372036854775808"], ["9223372036854775808", "abc"]),
    ("float8", ["1", "-1.5", "1e3", "1.5E-7", "0"], ["", ".5", "5.", "1e", "--1", "0x1p3", "inf", "nan", " 1", "01"]),
    ("numeric", ["1", "-0.10", "1234567890123456789012345678901234567890.5", "1e2"], ["", "1.", ".1", "1,5", "one"]),
    ("bool", ["true", "false"], ["", "yes", "TRUE", "on", "2", "null"]),
    ("date", ["2024-02-29"], ["2023-02-29", "", "x"]),
    ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], ["a0eebc99", ""]),
])
def test_forms(client, kind, good, bad):
    for text in good:
        got = client.get("/%s?v=%s" % (kind, text.replace("+", "%2B")))
        assert got.status == 200, (text, got.body)
        if kind in ("bool", "date", "uuid"):
            assert got.body.decode().strip('"') == text
        else:
            assert float(got.body) == float(text)
    for text in bad:
        got = client.get("/%s?v=%s" % (kind, text.replace("+", "%2B").replace(" ", "%20")))
        assert got.status == 400, (text, got.status, got.body)
        assert problem(got, 400)["parameter"] == "query.v"      # also where PostgreSQL refuses it itself
    assert client.get("/q?v=1").status == 200


def test_special_numbers(client):
    assert client.get("/float8?v=NaN").body == b'"NaN"'
    assert client.get("/float8?v=-Infinity").body == b'"-Infinity"'
    assert client.get("/numeric?v=Infinity").body == b'"Infinity"'
    assert client.get("/numeric?v=NaN").body == b'"NaN"'
    for text, result in (("t", "true"), ("f", "false"), ("1", "true"), ("0", "false")):
        assert client.get("/bool?v=" + text).body.decode() == result


def test_arrays(client):
    assert client.get("/array?v={1,NULL,3}").body == b"[1,null,3]"
    problem(client.get("/array?v=[1,2]"), 400)
    problem(client.get("/array?v={1,x}"), 400)
    got = json.loads(client.post_json("/arrays", {"i": [1, None, -3], "t": ["a", None, "", "{}", "x\"y\\z", "null"],
                                                  "m": [[1, 2], [3, 4]]}).body)
    assert got == {"i": [1, None, -3], "t": ["a", None, "", "{}", "x\"y\\z", "null"], "m": [[1, 2], [3, 4]]}
    assert json.loads(client.post_json("/arrays", {}).body) == {"i": [], "t": [], "m": []}
    problem(client.post_json("/arrays", {"i": ["x"]}), 400)
    problem(client.post_json("/arrays", {"i": 1}), 400)
    problem(client.post_json("/arrays", {"m": [[1], [2, 3]]}), 400)


def test_json_parameter(client):
    assert client.get("/jsonb?v=%7B%22a%22:1%7D").body == b'{"a": 1}'
    problem(client.get("/jsonb?v=%7B"), 400)


def test_defaults_and_order(client):
    assert json.loads(client.get("/many?f=60&b=20").body) == {"a": 1, "b": 20, "c": 3, "d": 4, "e": 5, "f": 60}
    assert json.loads(client.get("/many?f=6&e=5&d=4&c=3&b=2&a=1").body) == dict(zip("abcdef", range(1, 7)))


def test_ipv6_client(server):
    import socket
    from process import Port
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    port = Port()
    try:
        running = server(ROUTES, listen='( { address = "[::1]:%d"; } )' % port.number)
        with Client(port.number, host="::1") as client:
            assert value(client.get("/ip")) == "::1"
        assert running.process.poll() is None
    finally:
        port.release()
