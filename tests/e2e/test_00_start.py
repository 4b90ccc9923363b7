"""The binary, its command line, and a configuration that is wrong."""
import os
import signal
import subprocess

import pytest
from client import one, until
from process import TOP, build_folder, children

TEXT = '  { method = "GET"; path = "/"; text = "hello"; }'
VANILLA = os.path.join(build_folder(), "vanilla")
ENV = dict(os.environ, LC_ALL="C")


def vanilla(*arguments):
    done = subprocess.run([VANILLA, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=ENV, timeout=20)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_version():
    code, out, _ = vanilla("-V")
    assert code == 0
    assert out.startswith("vanilla 0.1.0")


@pytest.mark.parametrize("arguments", [["--nonsense"], ["-c"], ["surplus"]])
def test_bad_usage(arguments):
    code, _, err = vanilla(*arguments)
    assert code == 2
    assert err


def test_file_that_is_not_there():
    code, _, err = vanilla("-t", "-c", "/nonexistent/vanilla.conf")
    assert code == 1
    assert "/nonexistent/vanilla.conf" in err


def test_the_shipped_file_is_good():
    code, _, err = vanilla("-t", "-c", os.path.join(TOP, "conf", "vanilla.conf"))
    assert code == 0, err


def check(folder, text, *options):
    path = folder / "vanilla.conf"
    path.write_text(text)
    code, _, err = vanilla("-t", "-c", str(path), *options)
    return code, err.replace(str(path), "vanilla.conf")


GOOD = """pools = ( { name = "read"; conninfo = "host=/nowhere"; read_only = true; } );
routes = (
  { method = "GET"; path = "/a/{id}"; sql = "SELECT $1::int"; params = [ "path.id" ]; result = "value"; },
  { method = "GET"; path = "/b"; text = "b"; }
);
"""


def test_minimal_file(tmp_path):
    code, err = check(tmp_path, GOOD)
    assert code == 0 and "vanilla.conf:" not in err.replace("vanilla.conf: ok", "")


@pytest.mark.parametrize("line, old, new, says", [
    (1, 'read_only = true', 'read_olny = true', "read_olny"),
    (1, 'read_only = true', 'connections = "4"', "connections"),
    (1, 'read_only = true', 'connections = 0', "connections"),
    (1, 'read_only = true', 'connections = 4294967297', "connections"),
    (1, 'read_only = true', 'shed_status = 404', "404"),
    (1, 'conninfo = "host=/nowhere"; ', '', "conninfo"),
    (3, '"path.id"', '"path.ident"', "ident"),
    (3, 'path.id', 'nowhere.id', "nowhere"),
    (3, '"GET"', '"FETCH"', "FETCH"),
    (3, '"value"', '"values"', "values"),
    (3, 'SELECT $1::int', 'SET work_mem = 1', "SET"),
    (4, '/b"', '/a/{other}"', "/a/"),
    (4, '/b"', 'b"', "path"),
    (4, 'text = "b"', 'text = "b"; sql = "SELECT 1"', "sql"),
    (4, 'text = "b"', 'text = "b"; status = 99', "status"),
])
def test_bad_setting_is_named(tmp_path, line, old, new, says):
    assert old in GOOD.split("\n")[line - 1]
    lines = GOOD.split("\n")
    lines[line - 1] = lines[line - 1].replace(old, new)
    code, err = check(tmp_path, "\n".join(lines))
    assert code == 1
    assert "vanilla.conf:%d: " % line in err, err
    assert says in err


def test_all_problems_at_once(tmp_path):
    code, err = check(tmp_path, 'connections = 0;\nwrokers = 2;\n' + GOOD.replace('"value"', '"valu"'))
    assert code == 1
    for place in ("vanilla.conf:1: ", "vanilla.conf:2: ", "vanilla.conf:5: "):
        assert place in err, err


def test_override(tmp_path):
    assert check(tmp_path, GOOD, "-o", "limits.headers=50")[0] == 0
    assert check(tmp_path, GOOD, "-o", "pools.[0].max_inflight=16")[0] == 0
    code, err = check(tmp_path, GOOD, "-o", "limits.headers=0")
    assert code == 1 and "-o limits.headers=0" in err
    code, err = check(tmp_path, GOOD, "-o", "limits.nonsense=1")
    assert code == 1 and "nonsense" in err


def test_serves_and_stops(server):
    running = server(TEXT)
    answer = one(running.port, "GET", "/")
    assert (answer.status, answer.body) == (200, b"hello")
    assert len(running.workers()) == 1
    assert running.stop(signal.SIGINT) == 0


def test_as_many_workers_as_asked(server):
    running = server(TEXT, settings="workers = 3;")
    until(lambda: len(children(running.process.pid)) == 3)
    assert len(running.stats()["workers"]) == 3


def test_port_in_use(server):
    first = server(TEXT)
    second = server(TEXT, start=False, listen='( { address = "127.0.0.1:%d"; } )' % first.port)
    second.start(wait=None)
    assert second.process.wait(10) == 1
    assert str(first.port) in second.log() and "in use" in second.log()
    second.process = None
    assert one(first.port, "GET", "/").status == 200


def test_runtime_dir_in_use(server):
    first = server(TEXT)
    second = server(TEXT, start=False)
    second.runtime_dir = first.runtime_dir
    second.write_conf(server.text)
    second.start(wait=None)
    assert second.process.wait(10) == 1
    assert first.runtime_dir in second.log()
    second.process = None
    assert one(first.port, "GET", "/").status == 200
    assert first.ctl("ping")


def test_unix_socket(server, tmp_path):
    from client import Client
    running = server(TEXT, start=False)
    path = os.path.join(running.folder, "http.sock")
    running.listen = '( { address = "127.0.0.1:%d"; }, { address = "unix:%s"; } )' % (running.port, path)
    running.write_conf(server.text)
    running.start()
    with Client(0, unix=path) as client:
        assert client.get("/").body == b"hello"
    assert one(running.port, "GET", "/").body == b"hello"
