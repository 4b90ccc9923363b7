"""Values as JSON: what PostgreSQL's to_json prints is the reference.  One SQL expression per line of the corpus."""
import os

import pytest
from client import Client, exact

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "to_json_corpus.sql")
SETUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "to_json_setup.sql")


def expressions():
    with open(CORPUS, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            line = line.strip()
            if line and not line.startswith("--"):
                yield line.rstrip(";").rstrip()


def quoted(text):
    """A libconfig string.  What is not ASCII may stand as it is."""
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


@pytest.fixture(scope="module")
def types(cluster):
    if os.path.exists(SETUP):
        with open(SETUP, encoding="utf-8") as file:
            cluster.sql(file.read())


def compare(server, db, columns_of):
    """columns_of(expression): the statement that yields its value as v; -> list of differences."""
    lines = list(expressions())
    assert len(lines) > 50
    routes = ",\n".join('{ method = "GET"; path = "/%d"; sql = %s; result = "row"; }' % (n, quoted(columns_of(line)))
                        for n, line in enumerate(lines))
    running = server(routes, wait="/live")
    different = []
    with Client(running.port) as client:
        running.wait_for("/ready")
        for n, line in enumerate(lines):
            db.execute("SELECT to_json(v)::text FROM (%s) AS q(v)" % columns_of(line).replace("%", "%%"))
            wanted = db.fetchone()[0]
            answer = client.get("/%d" % n)
            try:
                got = exact(answer.body.decode())["v"] if answer.status == 200 else "status %d" % answer.status
                wanted = exact(wanted) if wanted is not None else None
            except (ValueError, KeyError, UnicodeDecodeError) as error:
                got = "%s in %r" % (error, answer.body[:200])
            if got != wanted:
                different.append("%s: to_json says %r, vanilla %r" % (line, wanted, got))
    return different


@pytest.fixture
def same_session(db):
    # The settings that vanilla gives its sessions.
    db.execute("SET DateStyle = ISO; SET bytea_output = hex; SET extra_float_digits = 1; SET IntervalStyle = postgres;"
               "SET TimeZone = 'UTC'; SET client_encoding = UTF8; SET role vanilla")


def test_values(server, db, types, same_session):
    different = compare(server, db, lambda line: "SELECT %s AS v" % line)
    assert not different, "\n".join(different)


def test_values_in_an_array(server, db, types, same_session):
    """The same values inside arrays, where there is such an array type."""
    possible = []
    for line in expressions():
        try:
            db.execute("SELECT ARRAY[%s, NULL, %s]" % ((line.replace("%", "%%"),) * 2))
            possible.append(line)
        except Exception:
            pass
    assert len(possible) > 30
    # One column for each: the arrays in one row, in turns of 100.
    for start in range(0, len(possible), 100):
        part = possible[start:start + 100]
        statement = "SELECT " + ", ".join("ARRAY[%s, NULL, %s] AS c%d" % (line, line, n) for n, line in enumerate(part))
        running = server('{ method = "GET"; path = "/"; sql = %s; result = "row"; }' % quoted(statement))
        with Client(running.port) as client:
            answer = client.get("/")
        assert answer.status == 200, answer.body
        got = exact(answer.body.decode())
        db.execute("SELECT row_to_json(q)::text FROM (%s) AS q" % statement.replace("%", "%%"))
        wanted = exact(db.fetchone()[0])
        different = ["ARRAY[%s]: to_json says %r, vanilla %r" % (line, wanted["c%d" % n], got["c%d" % n])
                     for n, line in enumerate(part) if wanted["c%d" % n] != got["c%d" % n]]
        assert not different, "\n".join(different)
