"""POST, PUT, PATCH, DELETE: bodies in, and what PostgreSQL may say to them."""
import json

import pytest
from client import problem

ROUTES = r"""
  { method = "GET"; path = "/items/{id}"; sql = "SELECT id, name, price FROM items WHERE id = $1"; params = [ "path.id" ];
    result = "row"; pool = "write"; },
  { method = "POST"; path = "/items"; status = 201; pool = "write";
    sql = "INSERT INTO items (id, name, price) VALUES ($1, $2, $3) RETURNING id, name, price";
    params = [ "body.id", "body.name", "body.price" ]; result = "row"; },
  { method = "PUT"; path = "/items/{id}"; sql = "UPDATE items SET name = $2, tags = $3 WHERE id = $1 RETURNING id, name, tags";
    params = [ "path.id", "body.name=unnamed", "body.tags=[]" ]; result = "row"; },
  { method = "DELETE"; path = "/items/{id}"; sql = "DELETE FROM items WHERE id = $1"; params = [ "path.id" ]; result = "none"; },
  { method = "POST"; path = "/echo"; sql = "SELECT $1::text AS t, $2::int8 AS n, $3::boolean AS b, $4::jsonb AS j, $5::text[] AS a";
    params = [ "body.t=-", "body.n=0", "body.b=false", "body.j=null", "body.a={}" ]; result = "row"; },
  { method = "POST"; path = "/whole"; sql = "SELECT $1::text"; params = [ "body" ]; result = "value"; },
  { method = "POST"; path = "/whole-json"; sql = "SELECT $1::json"; params = [ "body" ]; result = "value"; },
  { method = "POST"; path = "/fail"; sql = "SELECT fail_with($1, $2)"; params = [ "body.code", "body.message=no" ];
    result = "value"; }
"""


@pytest.fixture(scope="module", autouse=True)
def failing_function(cluster):
    cluster.sql("""CREATE OR REPLACE FUNCTION fail_with(code text, message text) RETURNS int LANGUAGE plpgsql AS
                   $$ BEGIN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message; END $$;""")


@pytest.fixture(autouse=True)
def tidy(db):
    yield
    db.execute("DELETE FROM items WHERE id > 1000000")


def test_created_and_there(client, db):
    answer = client.post_json("/items", {"id": 1000001, "name": "Ärmel \"5\" \\ \n", "price": 19.90})
    assert answer.status == 201
    assert json.loads(answer.body) == {"id": 1000001, "name": "Ärmel \"5\" \\ \n", "price": 19.9}
    assert client.get("/items/1000001").body == answer.body
    db.execute("SELECT name, price::text FROM items WHERE id = 1000001")
    assert db.fetchone() == ("Ärmel \"5\" \\ \n", "19.90")


def test_form(client):
    answer = client.request("POST", "/items", "id=1000002&name=a+b%26c%3D%C3%A4&price=1.5",
                            {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
    assert answer.status == 201
    assert json.loads(answer.body) == {"id": 1000002, "name": "a b&c=ä", "price": 1.5}


def test_content_types(client):
    body = '{"t":"x"}'
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        assert json.loads(client.request("POST", "/echo", body, {"Content-Type": kind}).body)["t"] == "x", kind
    assert json.loads(client.request("POST", "/echo", body).body)["t"] == "x"
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/xml"):
        answer = client.request("POST", "/echo", body, {"Content-Type": kind})
        problem(answer, 415)
        assert answer.get("accept-encoding") is None        # RFC 9110 12.5.3: that would be about the coding
    answer = client.request("POST", "/echo", body, {"Content-Encoding": "gzip"})
    problem(answer, 415)
    assert answer.get("accept-encoding") == "identity"
    assert client.request("POST", "/whole", "any", {"Content-Type": "text/x-any"}).body == b'"any"'


def test_update_and_delete(client, db):
    client.post_json("/items", {"id": 1000003, "name": "x", "price": 1})
    answer = client.post_json("/items/1000003", {"name": "y", "tags": ["a", {"b": [1, 2.5]}]}, method="PUT")
    assert answer.status == 200
    assert answer.body == b'{"id":1000003,"name":"y","tags":["a", {"b": [1, 2.5]}]}'
    answer = client.request("PUT", "/items/1000003", b"")       # every field has a default
    assert json.loads(answer.body) == {"id": 1000003, "name": "unnamed", "tags": []}
    answer = client.request("DELETE", "/items/1000003")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.get("content-length") is None
    problem(client.get("/items/1000003"), 404)
    # What touches no row is a 404 where it says what it found (RETURNING, row), and done where it says nothing (none).
    problem(client.request("PUT", "/items/1000003", b""), 404)
    assert client.request("DELETE", "/items/1000003").status == 204


def test_json_values(client):
    def echo(body):
        answer = client.post_json("/echo", body)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)
    assert echo({}) == {"t": "-", "n": 0, "b": False, "j": None, "a": []}
    assert echo("") == echo({})
    assert echo({"t": None, "n": None, "b": None, "a": None}) == {"t": None, "n": None, "b": None, "j": None, "a": None}
    assert echo('{"t":12.50}')["t"] == "12.50"              # a number for text gives its digits
    assert echo({"n": "9007199254740993"})["n"] == 9007199254740993
    assert echo('{"n":-9223372036854775808}')["n"] == -9223372036854775808
    assert echo({"b": True})["b"] is True
    assert echo({"j": {"a": [None, "\u2028", 1e3]}})["j"] == {"a": [None, "\u2028", 1000]}
    assert echo({"a": ["x", "", None, "a,b", "{\"}", "NULL", "\\"]})["a"] == ["x", "", None, "a,b", "{\"}", "NULL", "\\"]
    assert echo(r'{"\u0074":"\ud83d\ude00\u00e4\/\b"}')["t"] == "\U0001f600ä/\b"
    assert echo('{"other":{"t":"no"},"t":"yes"}')["t"] == "yes"
    assert echo(' {\n"t"\t:\r"x" } ')["t"] == "x"


@pytest.mark.parametrize("body", [
    "{", "[]", "1", '"x"', "null", "{'t':1}", '{"t":1,}', '{"t" 1}', '{"t":01}', '{"t":1.}', '{"t":+1}', '{"t":NaN}',
    '{"t":"\x01"}', '{"t":"\\x"}', '{"t":"\\ud800"}', '{"t":"\\udc00\\ud800"}', '{"t":1}{"t":2}', '{"t":1,"t":2}',
    '{"t":1,"\\u0074":2}', '{"x":1,"x":2}', '{"t":"a\\u0000b"}', '\ufeff{"t":1}', '{"t":tru}',
    '{"t":' + "[" * 100 + "]" * 100 + "}", '{"n":1.5}', '{"n":"x"}', '{"n":9223372036854775808}', '{"n":true}',
    '{"b":1.0}', '{"b":"yes"}', '{"n":[1]}', '{"n":" 1"}'])
def test_bad_json(client, body):
    problem(client.post_json("/echo", body.encode()), 400)
    assert client.post_json("/echo", {}).status == 200


def test_bad_utf8(client):
    for octets in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"):
        problem(client.post_json("/echo", b'{"t":"' + octets + b'"}'), 400)
        problem(client.request("POST", "/whole", octets), 400)
    problem(client.request("POST", "/whole", b"a\0b"), 400)


def test_the_parameter_is_named(client):
    assert problem(client.post_json("/items", {"id": 1, "price": 2}), 400)["parameter"] == "body.name"
    assert problem(client.post_json("/items", {"id": "x", "name": "x", "price": 2}), 400)["parameter"] == "body.id"
    answer = client.request("POST", "/items", "id=1&id=2&name=x&price=1",
                            {"Content-Type": "application/x-www-form-urlencoded"})
    assert problem(answer, 400)["parameter"] == "body.id"


def test_whole_body(client):
    text = "any \"text\" at all: äöü\n" * 3000
    assert json.loads(client.request("POST", "/whole", text, {"Content-Type": "text/plain"}).body) == text
    assert client.request("POST", "/whole-json", '{"a": [1.00]}').body == b'{"a": [1.00]}'
    problem(client.request("POST", "/whole-json", '{"a": '), 400)


def test_chunked_body(client):
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
                "4\r\n{\"t\"\r\n3;x=y\r\n:\"a\r\n2\r\n\"}\r\n0\r\nX: y\r\n\r\n")
    assert json.loads(client.read().body)["t"] == "a"


def test_what_postgresql_refuses(client):
    problem(client.post_json("/items", {"id": 1, "name": "x", "price": 1}), 409)                    # 23505
    problem(client.post_json("/items", {"id": 1000004, "name": None, "price": 1}), 400)             # 23502
    problem(client.post_json("/items", {"id": 1000004, "name": "", "price": 1}), 400)               # 23514
    problem(client.post_json("/items", '{"id":1000004,"name":"x","price":1e30}'), 400)              # 22003
    assert problem(client.post_json("/items", {"id": 1, "name": "x", "price": 1}), 409)["sqlstate"] == "23505"


@pytest.mark.parametrize("code, status", [
    ("22012", 400), ("23502", 400), ("23514", 400), ("23505", 409), ("23503", 409), ("23P01", 409), ("42501", 403),
    ("57014", 504), ("40001", 409), ("40P01", 409), ("53300", 503), ("P0001", 400), ("XX000", 500), ("ZZZZZ", 500)])
def test_sqlstates(client, code, status):
    answer = client.post_json("/fail", {"code": code, "message": "a secret of the database"})
    document = problem(answer, status)
    assert document["sqlstate"] == code
    assert b"secret" not in answer.body
    assert (answer.get("retry-after") is not None) == (status == 503 or code in ("40001", "40P01"))
    assert client.post_json("/echo", {}).status == 200


def test_expose_errors(server, failing_function):
    from client import Client
    running = server(ROUTES, settings="workers = 1; expose_errors = true;")
    with Client(running.port) as client:
        answer = client.post_json("/fail", {"code": "P0001", "message": "say \"this\""})
        assert problem(answer, 400)["detail"] == 'say "this"'


def test_a_get_cannot_write(server, db):
    from client import one
    running = server('{ method = "GET"; path = "/"; sql = "DELETE FROM items WHERE id = 1"; result = "none"; }')
    assert problem(one(running.port, "GET", "/"), 405)["sqlstate"] == "25006"
    db.execute("SELECT count(*) FROM items WHERE id = 1")
    assert db.fetchone() == (1,)
