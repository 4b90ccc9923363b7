"""Many rows: wrap, count, echo, defaults."""
import json

from client import exact, problem

ROUTES = r"""
  { method = "GET"; path = "/items";
    sql = "SELECT id, name, price FROM items WHERE category = $1 ORDER BY id LIMIT LEAST($2, 50) OFFSET ($3 - 1) * LEAST($2, 50)";
    params = [ "query.category=electronics", "query.limit=10", "query.page=1" ];
    result = "rows"; wrap = "items"; count = "total"; echo = [ "query.page", "query.limit", "query.category" ]; },
  { method = "GET"; path = "/bare"; sql = "SELECT n FROM generate_series(1, $1::int) n"; params = [ "query.n" ]; result = "rows"; },
  { method = "GET"; path = "/wrap"; sql = "SELECT n FROM generate_series(1, $1::int) n"; params = [ "query.n" ]; result = "rows";
    wrap = "list"; },
  { method = "GET"; path = "/big"; sql = "SELECT n, repeat('x', $2::int) AS x FROM generate_series(1, $1::int) n";
    params = [ "query.n", "query.width" ]; result = "rows"; }
"""


def test_defaults(client, db):
    document = exact(client.get("/items").body)
    db.execute("SELECT id, name, price::text FROM items WHERE category = 'electronics' ORDER BY id LIMIT 10")
    assert document == {"items": [{"id": str(i), "name": n, "price": p} for i, n, p in db.fetchall()],
                        "total": "10", "page": "1", "limit": "10", "category": "electronics"}


def test_limit(client):
    document = json.loads(client.get("/items?limit=7").body)
    assert len(document["items"]) == 7 and document["total"] == 7 and document["limit"] == 7
    assert len(json.loads(client.get("/items?limit=1000").body)["items"]) == 50
    assert json.loads(client.get("/items?limit=0").body) == {
        "items": [], "total": 0, "page": 1, "limit": 0, "category": "electronics"}


def test_pages(client):
    first = json.loads(client.get("/items?limit=5&page=1&category=books").body)
    second = json.loads(client.get("/items?category=books&page=2&limit=5").body)
    both = json.loads(client.get("/items?category=books&limit=10").body)
    assert first["items"] + second["items"] == both["items"]
    assert second["page"] == 2


def test_echo_is_escaped(client):
    document = json.loads(client.get("/items?category=%22%5C%0A%E6%80%A5+x").body)
    assert document["category"] == "\"\\\n\u6025 x"
    assert document["items"] == []


def test_bad_values(client):
    assert problem(client.get("/items?limit=many"), 400)["parameter"] == "query.limit"
    assert problem(client.get("/items?limit=1&limit=2"), 400)["parameter"] == "query.limit"
    assert problem(client.get("/items?page="), 400)["parameter"] == "query.page"
    assert problem(client.get("/bare"), 400)["parameter"] == "query.n"
    # PostgreSQL's own refusal: OFFSET must not be negative (2201X).
    problem(client.get("/items?page=-1"), 400)
    assert client.get("/items?limit=1").status == 200


def test_bare_array(client):
    assert client.get("/bare?n=3").body == b'[{"n":1},{"n":2},{"n":3}]'
    assert client.get("/bare?n=0").body == b"[]"
    assert client.get("/wrap?n=2").body == b'{"list":[{"n":1},{"n":2}]}'
    assert client.get("/wrap?n=0").body == b'{"list":[]}'


def test_large_answers(client):
    for rows, width in ((20000, 5), (300, 5000), (3, 300000), (1, 3000000)):
        answer = client.get("/big?n=%d&width=%d" % (rows, width))
        assert answer.status == 200
        document = json.loads(answer.body)
        assert [row["n"] for row in document] == list(range(1, rows + 1))
        assert all(len(row["x"]) == width for row in document)
    assert client.get("/bare?n=1").body == b'[{"n":1}]'
