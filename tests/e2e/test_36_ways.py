"""Ways to PostgreSQL: Unix socket, IPv4, IPv6, names that change, TLS that is verified, pgbouncer in transaction mode."""
import contextlib
import os
import shutil
import socket
import subprocess
import time

import psycopg2
import pytest

from client import Client, in_one_round, one, problem, until
from cluster import Cluster, die_with_parent, temporary_folder
from liar import Proxy
from load import Load, calm
from process import Port

ROUTES = r"""
  { method = "GET";  path = "/row/{n}"; sql = "SELECT $1::int"; params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/text"; text = "ok"; },
  { method = "GET";  path = "/item/{id}"; sql = "SELECT id, name FROM items WHERE id = $1"; params = [ "path.id" ]; result = "row"; },
  { method = "POST"; path = "/write"; sql = "INSERT INTO written VALUES ($1) RETURNING n"; params = [ "body.n" ]; result = "value"; },
  { method = "GET";  path = "/sneaky/{n}"; sql = "WITH w AS (INSERT INTO written VALUES ($1) RETURNING n) SELECT n FROM w";
    params = [ "path.n" ]; result = "value"; },
  { method = "GET";  path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "POST"; path = "/sleep/{s}"; sql = "SELECT 1 FROM pg_sleep($1::float8)"; params = [ "path.s" ]; result = "value"; },
  { method = "POST"; path = "/settings"; result = "value";
    sql = "SELECT concat_ws(' ', current_setting('transaction_read_only'), current_setting('statement_timeout'), current_setting('bytea_output'))"; },
  { method = "GET";  path = "/settings"; result = "value";
    sql = "SELECT concat_ws(' ', current_setting('transaction_read_only'), current_setting('statement_timeout'), current_setting('bytea_output'))"; },
  { method = "GET";  path = "/day"; sql = "SELECT date '2024-02-13'"; result = "value"; },
  { method = "GET";  path = "/pair/{a}"; sql = "SELECT * FROM pairs WHERE a = $1"; params = [ "path.a" ]; result = "row"; },
  { method = "GET";  path = "/later"; sql = "SELECT n FROM later"; result = "value"; },
  { method = "GET";  path = "/divide/{n}"; sql = "SELECT 100 / $1::int"; params = [ "path.n" ]; result = "value"; }
"""
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 2; read_only = true; reconnect_max_ms = 300; %(more)s },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 1; reconnect_max_ms = 300; %(more)s }
);
"""
TABLE = "CREATE TABLE written (n int); GRANT ALL ON written TO vanilla"


def pools(more=""):
    return POOLS.replace("%(more)s", more)


@pytest.fixture(scope="module")
def reachable(pattern):
    """A PostgreSQL on loopback, both families, that takes TLS with a certificate for `localhost` of an authority of its own."""
    port = Port()
    folder = temporary_folder("vanilla-ca-")
    run = lambda *words: subprocess.run(words, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=vanilla test authority", "-keyout", "ca.key", "-out", "ca.crt")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
        "-keyout", "server.key", "-out", "server.csr")
    with open(os.path.join(folder, "san"), "w", encoding="ascii") as file:
        file.write("subjectAltName=DNS:localhost\n")
    run("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "san", "-out", "server.crt")
    settings = {"listen_addresses": "127.0.0.1,::1", "port": port.number, "ssl": "on"}
    made = Cluster(settings=settings, hba="host all vanilla 127.0.0.1/32 trust\nhost all vanilla ::1/128 trust\n",
                   like=pattern)
    try:
        made.create()
        for name in ("server.key", "server.crt"):
            path = os.path.join(made.data, name)
            shutil.copy(os.path.join(folder, name), path)
            os.chmod(path, 0o600)
            owner = os.stat(made.data)
            os.chown(path, owner.st_uid, owner.st_gid)
        made.start()
        made.port, made.ca = port.number, os.path.join(folder, "ca.crt")
        made.sql(TABLE)
        yield made
    finally:
        made.remove()
        port.release()
        shutil.rmtree(folder, ignore_errors=True)


def works(running):
    for n in range(20):
        assert one(running.port, "GET", "/row/%d" % n).body == b"%d" % n
    assert one(running.port, "POST", "/write", body='{"n":3}').body == b"3"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "no-such-host.invalid,127.0.0.1"])
def test_by_address_and_by_name(server, reachable, host):
    ports = ",".join([str(reachable.port)] * (host.count(",") + 1))
    works(server(ROUTES, pools(), conninfo="host=%s port=%s dbname=app user=vanilla sslmode=disable" % (host, ports)))


def test_tls_verified(server, reachable):
    running = server(ROUTES, pools(), conninfo="host=localhost port=%d dbname=app user=vanilla sslmode=verify-full sslrootcert=%s"
                     % (reachable.port, reachable.ca))
    works(running)
    assert reachable.sql("SELECT count(*) FILTER (WHERE ssl) || ' of ' || count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE "
                         "usename = 'vanilla'").strip() == "3 of 3"
    with Load(running.port, {"/row/5": b"5", "/item/7": None, ("POST", "/write", '{"n":4}'): b"4"}) as load:
        time.sleep(0.7)
        reachable.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
        assert not load.well_within(1.0)
    assert not load.strange and set(load.seen) <= {200, 502, 503}, (load.seen, load.strange[:3])
    until(lambda: calm(running))


def test_tls_of_somebody_else(server, reachable):
    """The certificate is for localhost, not for 127.0.0.1."""
    running = server(ROUTES, pools(), wait="/live", conninfo="host=127.0.0.1 port=%d dbname=app user=vanilla "
                     "sslmode=verify-full sslrootcert=%s" % (reachable.port, reachable.ca))
    until(lambda: b"certificate" in running.wait_for("/ready", status=503))
    problem(one(running.port, "GET", "/row/1"), 503)


def own_hosts(folder):
    """A command that runs another with an /etc/hosts of its own; None where that is not allowed."""
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w", encoding="ascii") as file:
        file.write("127.0.0.1 localhost\n")
    wrapper = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
    if os.geteuid() != 0 or subprocess.run(wrapper + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        return None, hosts
    return wrapper, hosts


def test_a_name_that_appears_and_changes_its_address(server, reachable):
    folder = temporary_folder("vanilla-hosts-")
    try:
        wrapper, hosts = own_hosts(folder)
        if wrapper is None:
            pytest.skip("an /etc/hosts of its own needs root and mount namespaces")

        def say(address):
            with open(hosts, "w", encoding="ascii") as file:        # in place: it is mounted
                file.write("127.0.0.1 localhost\n" + ("%s database.example\n" % address if address else ""))

        running = server(ROUTES, pools(), wait="/live", wrapper=wrapper,
                         conninfo="host=database.example port=%d dbname=app user=vanilla sslmode=disable" % reachable.port)
        problem(one(running.port, "GET", "/row/1"), 503)
        say("127.0.0.1")
        running.wait_for("/ready")
        works(running)
        say("::1")      # it moves, and the old address goes down
        reachable.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla'")
        until(lambda: reachable.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'vanilla' AND client_addr = '::1'"
                                    ).strip() == "3")
        works(running)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_names_do_not_block(server):
    """A name server that says nothing: look-ups wait (for five seconds, and again), nobody else does."""
    running = server(ROUTES, pools(), wait="/live", conninfo="host=silent.invalid dbname=app user=vanilla")

    def ask():
        with Load(running.port, {"/text": b"ok"}, clients=2) as load:
            time.sleep(1)
        assert set(load.seen) == {200} and max(load.times) < 1, (load.seen, max(load.times))

    in_one_round(ask, rounds=8)


@contextlib.contextmanager
def bouncer(cluster, conninfo):
    """Debian's pgbouncer, in transaction mode, with two server connections; -> how to connect to it."""
    binary = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not os.path.exists(binary):
        pytest.skip("pgbouncer is not installed")
    cluster.sql(TABLE)
    folder, port = temporary_folder("vanilla-bouncer-"), Port()
    with open(os.path.join(folder, "users.txt"), "w", encoding="ascii") as file:
        file.write('"vanilla" ""\n')
    with open(os.path.join(folder, "ini"), "w", encoding="ascii") as file:
        file.write("[databases]\napp = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"
                   "unix_socket_dir =\nauth_type = any\nauth_file = %s/users.txt\npool_mode = transaction\n"
                   "default_pool_size = 2\nmax_client_conn = 100\nadmin_users = vanilla\n"
                   "ignore_startup_parameters = extra_float_digits,options\n" % (conninfo, port.number, folder))
    owner = os.stat(cluster.data)
    os.chown(folder, owner.st_uid, owner.st_gid)
    as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen([binary, os.path.join(folder, "ini")], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   preexec_fn=die_with_parent(15), **as_owner)
    try:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port.number)) == 0)
        yield "host=127.0.0.1 port=%d dbname=app user=vanilla sslmode=disable" % port.number
    finally:
        process.terminate()
        process.wait(10)
        port.release()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def pgbouncer(own_cluster):
    with bouncer(own_cluster, own_cluster.conninfo) as conninfo:
        yield own_cluster, conninfo


def test_behind_pgbouncer(server, pgbouncer):
    """1,000 requests over two server connections, twelve of ours in front of them."""
    cluster, conninfo = pgbouncer
    running = server(ROUTES, pools("pooler = true; ").replace("connections = 2", "connections = 8").replace(
        "connections = 1", "connections = 4"), conninfo=conninfo)
    with Client(running.port) as first, Client(running.port) as second:
        for n in range(0, 1000, 20):
            first.send("".join("GET /row/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (n + i) for i in range(10)))
            second.send("".join("GET /item/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (i + 1) for i in range(10)))
            for i in range(10):
                assert first.read().body == b"%d" % (n + i)
                assert second.read().body.startswith(b'{"id":%d,' % (i + 1))
    for n in range(20):
        assert one(running.port, "POST", "/write", body='{"n":%d}' % n).body == b"%d" % n
    assert int(cluster.sql("SELECT count(*) FROM written")) == 20
    assert int(cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'vanilla'")) <= 2
    assert problem(one(running.port, "GET", "/row/99999999999"), 400)


def test_those_who_leave_behind_pgbouncer(server, pgbouncer):
    """A cancel goes through pgbouncer to the server that it has given the query to; who comes next does not wait for its end."""
    cluster, conninfo = pgbouncer
    running = server(ROUTES, pools("pooler = true; statement_timeout_ms = 60000; queue_timeout_ms = 20000; ").replace("connections = 2", "connections = 1"),
                     conninfo=conninfo)
    for method, target, body in (("GET", "/row/7", None), ("POST", "/write", '{"n":7}')) * 4:
        clients = [Client(running.port) for _ in range(3)]
        for client in clients:
            client.send_request(method, "/sleep/60")
        until(lambda: sum(pool["inflight"] for pool in running.stats()["pools"]) == 3)
        for client in clients:
            client.reset()
        assert one(running.port, method, target, body=body).body == b"7"
        until(lambda: calm(running))
    until(lambda: int(cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename = 'vanilla'")) == 0)
    for pool in running.stats()["pools"]:
        assert (pool["abandoned"], pool["errors"], pool["retried"], pool["disconnects"]) == (12, 0, 0, 0)
        assert 4 <= pool["cancelled"]


def test_a_server_lost_behind_pgbouncer(server, own_cluster):
    """pgbouncer says so with an error and closes: that is no answer of PostgreSQL's, who has committed."""
    with Proxy(own_cluster) as proxy, bouncer(own_cluster, proxy.conninfo) as conninfo:
        running = server(ROUTES, pools("pooler = true; "), conninfo=conninfo)
        assert one(running.port, "POST", "/write", body='{"n":1}').body == b"1"
        proxy.delay = 60
        with Client(running.port, timeout=60) as writer:
            writer.send_request("POST", "/write", body='{"n":2}')
            until(lambda: own_cluster.sql("SELECT count(*) FROM written").strip() == "2")
            proxy.delay = 0
            proxy.cut()
            answer = writer.read()
        problem(answer, 502)
        assert b"outcome unknown" in answer.body
        until(lambda: one(running.port, "GET", "/row/7").status == 200)
        assert own_cluster.sql("SELECT count(*) FROM written").strip() == "2"


def test_settings_behind_pgbouncer(server, pgbouncer):
    """No session is ours, and yet a GET cannot write, a statement has its time-out, and neither is left to others."""
    cluster, conninfo = pgbouncer
    cluster.sql("ALTER DATABASE app SET bytea_output = 'escape'; ALTER DATABASE app SET DateStyle = 'SQL, DMY'")
    running, hasty = [server(ROUTES, pools("pooler = true; statement_timeout_ms = %d; queue_timeout_ms = 20000; " % ms), conninfo=conninfo)
                      for ms in (30000, 400)]
    for _ in range(5):
        answer = one(running.port, "GET", "/sneaky/7")
        assert problem(answer, 405)["sqlstate"] == "25006" and answer.get("allow") == "OPTIONS", answer.fields
        assert one(running.port, "GET", "/settings").body == b'"on 30s hex"'
        assert one(running.port, "POST", "/settings").body == b'"off 30s hex"'
        assert problem(one(running.port, "GET", "/divide/0"), 400)["sqlstate"] == "22012"
        assert problem(one(running.port, "GET", "/divide/x"), 400)["parameter"] == "path.n"
        assert one(running.port, "GET", "/divide/7").body == b"14"
    assert one(running.port, "GET", "/day").body == b'"2024-02-13"'
    for method in ("GET", "POST"):
        assert problem(one(hasty.port, method, "/sleep/5"), 504)["sqlstate"] == "57014"
    with psycopg2.connect("%s password=x" % conninfo) as other, other.cursor() as cursor:       # by the same servers
        other.autocommit = True
        for _ in range(8):
            cursor.execute("SELECT current_setting('transaction_read_only') || current_setting('statement_timeout')")
            assert cursor.fetchone() == ("off0",)
    with Load(running.port, {"/divide/7": b"14", "/divide/0": None, "/row/5": b"5", ("POST", "/write", '{"n":1}'): b"1"},
              clients=6) as load:
        until(lambda: load.seen.get(200, 0) > 300, timeout=30)
    assert not load.strange and set(load.seen) == {200, 400}, (load.seen, load.strange[:3])
    assert int(cluster.sql("SELECT count(*) FROM written WHERE n = 7")) == 0
    works(running)


def test_ddl_behind_pgbouncer(server, pgbouncer):
    """Statements are parsed anew each time, and no error tells that their columns are others now: their description does."""
    cluster, conninfo = pgbouncer
    cluster.sql("CREATE TABLE pairs (a int, b int); INSERT INTO pairs VALUES (1, 2); GRANT ALL ON pairs TO vanilla")
    running = server(ROUTES, pools("pooler = true; "), conninfo=conninfo)
    assert one(running.port, "GET", "/pair/1").body == b'{"a":1,"b":2}'
    assert one(running.port, "GET", "/later").status == 500
    for change, body in (("BEGIN; DROP TABLE pairs; CREATE TABLE pairs (b int, a int); INSERT INTO pairs VALUES (2, 1); "
                          "GRANT ALL ON pairs TO vanilla; COMMIT", b'{"b":2,"a":1}'),
                         ("ALTER TABLE pairs ALTER b TYPE text USING '007'", b'{"b":"007","a":1}'),
                         ("ALTER TABLE pairs ADD c bool DEFAULT true", b'{"b":"007","a":1,"c":true}')):
        with Load(running.port, {"/pair/1": None, "/row/5": b"5"}, clients=4) as load:
            time.sleep(0.2)
            cluster.sql(change)
            until(lambda: one(running.port, "GET", "/pair/1").body == body)
            assert not load.well_within(0.6)
        assert not load.strange and sum(code != 200 for _, code, _ in load.codes) <= 2, load.seen
        assert one(running.port, "GET", "/pair/1").body == body
    cluster.sql("CREATE TABLE later (n int); INSERT INTO later VALUES (8); GRANT ALL ON later TO vanilla")
    until(lambda: one(running.port, "GET", "/later").body == b"8")
