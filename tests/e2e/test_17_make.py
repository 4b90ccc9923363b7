"""`make install` and `make run`, as a newcomer would use them."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from client import Client, problem
from cluster import temporary_folder
from process import TOP, Port, http_get, is_sanitized

pytestmark = pytest.mark.skipif(is_sanitized(), reason="of the ordinary build")
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "VANILLA"))}


@pytest.fixture
def own_tmp():
    """Where `make run` puts what it makes, so that we see what it leaves."""
    folder = temporary_folder("vanilla-e2e-make-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_help_does_nothing_but_help():
    """Of every script that is called by hand; what begins work instead runs into the time-out, or prints something else."""
    for name in ("run/all.py", "run/demo.py", "run/fuzz.py", "run/unit.py", "bench/bench.py", "http/run.py", "profile/allocs.py",
                 "profile/instructions.py", "profile/memory.py", "profile/plants.py", "profile/rss.py", "profile/tools.py"):
        for option in ("-h", "--help"):
            done = subprocess.run(["/usr/bin/python3", "-B", os.path.join(TOP, "tests", name), option], env=ENV, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=30, check=True)
            assert os.path.basename(name) in done.stdout.decode() and not done.stderr, name
    for wrong in (["--onyl", "unit"], ["--only", "unti"], ["unit"], ["--only"]):
        assert subprocess.run([os.path.join(TOP, "tests", "run", "all.py"), *wrong], env=ENV, stdout=subprocess.DEVNULL,
                              timeout=30).returncode == 2


def test_install(tmp_path):
    make = ["make", "--no-print-directory", "install", "DESTDIR=%s" % tmp_path, "PREFIX=/opt/v"]
    subprocess.run(make, cwd=TOP, env=ENV, check=True, stdout=subprocess.DEVNULL)
    installed = {os.path.relpath(os.path.join(folder, name), tmp_path)
                 for folder, _, names in os.walk(tmp_path) for name in names}
    assert {"opt/v/sbin/vanilla", "opt/v/bin/vanillactl", "etc/vanilla/vanilla.conf",
            "opt/v/share/man/man5/vanilla.conf.5", "opt/v/lib/systemd/system/vanilla.service"} <= installed
    unit = (tmp_path / "opt/v/lib/systemd/system/vanilla.service").read_text()
    assert "/opt/v/sbin/vanilla" in unit and "/usr/local/sbin" not in unit
    assert subprocess.run([tmp_path / "opt/v/sbin/vanilla", "-V"], stdout=subprocess.PIPE, check=True).stdout
    # The operator's file stays.
    conf = tmp_path / "etc/vanilla/vanilla.conf"
    conf.write_text("# mine\n")
    subprocess.run(make, cwd=TOP, env=ENV, check=True, stdout=subprocess.DEVNULL)
    assert conf.read_text() == "# mine\n"


@pytest.mark.parametrize("how", ["term-make", "int-group"])
def test_run(how, own_tmp):
    ports = Port(), Port()
    port, admin = ports[0].number, ports[1].number
    # As a shell starts a background job: SIGINT ignored.
    process = subprocess.Popen(["make", "--no-print-directory", "run", "PORT=%d" % port, "ADMIN_PORT=%d" % admin,
                                "ROWS=1000"], cwd=TOP, env=dict(ENV, VANILLA_TMP=own_tmp), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    try:
        said = b""
        deadline = time.monotonic() + 60
        os.set_blocking(process.stdout.fileno(), False)
        while said.count(b"curl ") < 3:
            assert process.poll() is None and time.monotonic() < deadline, said.decode()
            said += process.stdout.read() or b""
            time.sleep(0.05)
        must_show(port, admin)
        if how == "term-make":
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.stdout.close()
    assert os.listdir(own_tmp) == []
    with pytest.raises(OSError):
        http_get(port, "/items/1", timeout=1)
    for each in ports:
        each.release()


def must_show(port, admin):
    assert http_get(admin, "/ready")[0] == 200
    with Client(port) as client:
        answer = client.get("/items/1")
        assert answer.status == 200 and set(json.loads(answer.body)["rating"]) == {"score", "count"}
        assert len(json.loads(client.get("/items?limit=7").body)["items"]) == 7
        answer = client.post_json("/items", {"id": 1001, "name": "mine", "price": 1.25})
        assert answer.status == 201
        answer = client.get("/items/1001")
        assert answer.status == 200 and json.loads(answer.body)["name"] == "mine"
        problem(client.get("/items/999999999"), 404)
        assert "id" in problem(client.get("/items/abc"), 400)["parameter"]


def test_run_says_that_a_port_is_in_use(own_tmp):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        done = subprocess.run(["make", "--no-print-directory", "run", "PORT=%d" % number], cwd=TOP,
                              env=dict(ENV, VANILLA_TMP=own_tmp), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode != 0
    assert re.search(r"%d is in use" % number, done.stdout.decode())
    assert os.listdir(own_tmp) == []


def test_the_first_lines_of_the_readme_hold():
    with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
        text = file.read()
    assert "make run" in text and "make test" in text
    for name in re.findall(r"`((?:conf|tests|shm|ctl|worker|master)/[\w./-]+)`", text):
        assert os.path.exists(os.path.join(TOP, name)), name


def test_bench_runs(tmp_path):
    """What it measures on a busy machine does not count here; that it measures does."""
    done = subprocess.run([os.path.join(TOP, "tests", "bench", "bench.py"), "--smoke", "batch"], stdin=subprocess.DEVNULL,
                          env=dict(ENV, VANILLA_HISTORY=str(tmp_path / "history")), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    said = done.stdout.decode()
    assert done.returncode == 0 and said.count("sync_batch 32 / 1, unix, 16 at a time") == 2, said
