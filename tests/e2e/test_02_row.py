"""One row by its key: GET /items/{id}."""
import json

from client import Client, exact, problem

ROUTES = r"""
  { method = "GET"; path = "/items/{id}";
    sql = "SELECT id, name, price, rating_score AS \"rating.score\", rating_count AS \"rating.count\" FROM items WHERE id = $1";
    params = [ "path.id" ]; result = "row"; },
  { method = "GET"; path = "/wrapped/{id}"; sql = "SELECT id FROM items WHERE id = $1"; params = [ "path.id" ];
    result = "row"; wrap = "item"; },
  { method = "GET"; path = "/nested";
    sql = "SELECT 1 AS \"a.b.c\", 2 AS x, 3 AS \"a.b.d\", 4 AS \"a.e\", 'f\"g' AS \"q\"\"uote\""; result = "row"; },
  { method = "GET"; path = "/no-columns"; sql = "SELECT"; result = "row"; }
"""


def test_found(client, db):
    answer = client.get("/items/1")
    assert answer.status == 200
    assert answer.get("content-type") == "application/json"
    db.execute("SELECT id, name, price::text, rating_score::text, rating_count FROM items WHERE id = 1")
    ident, name, price, score, count = db.fetchone()
    assert exact(answer.body) == {"id": str(ident), "name": name, "price": price,
                                  "rating": {"score": score, "count": str(count)}}
    assert list(json.loads(answer.body)) == ["id", "name", "price", "rating"]


def test_every_item_is_its_own(client):
    for ident in range(1, 400):
        assert json.loads(client.get("/items/%d" % ident).body)["id"] == ident


def test_no_such_row(client):
    problem(client.get("/items/999999999"), 404)


def test_not_a_number(client):
    for bad in ("abc", "1.5", "1e3", "+1", "0x10", "%201", "1%20", "2147483648", "-2147483649", "99999999999999999999"):
        document = problem(client.get("/items/" + bad), 400)
        assert document["parameter"] == "path.id", bad
        assert document["detail"]
    problem(client.get("/items/"), 404)                 # a parameter fills a segment that has something in it
    assert client.get("/items/2").status == 200


def test_number_forms(client):
    problem(client.get("/items/-1"), 404)
    assert client.get("/items/0001").status == 200
    assert client.get("/items/%31").status == 200


def test_head(client):
    length = client.get("/items/1").get("content-length")
    answer = client.request("HEAD", "/items/1")
    assert (answer.status, answer.body, answer.get("content-length")) == (200, b"", length)
    assert client.request("HEAD", "/items/999999999").status == 404
    assert client.get("/items/3").status == 200


def test_other_methods(client):
    answer = client.request("DELETE", "/items/1")
    problem(answer, 405)
    assert set(answer.get("allow").split(", ")) == {"GET", "HEAD", "OPTIONS"}
    assert client.request("OPTIONS", "/items/1").get("allow")


def test_wrap(client):
    assert client.get("/wrapped/5").body == b'{"item":{"id":5}}'
    problem(client.get("/wrapped/-5"), 404)


def test_names_nest(client):
    assert client.get("/nested").body == b'{"a":{"b":{"c":1,"d":3},"e":4},"x":2,"q\\"uote":"f\\"g"}'
    # A statement without columns has no row to show: its result can only be "none".
    assert client.get("/no-columns").status == 500


def test_one_connection_after_another(shared):
    for ident in range(1, 60):
        with Client(shared.port) as client:
            assert client.get("/items/%d" % ident).status == 200
