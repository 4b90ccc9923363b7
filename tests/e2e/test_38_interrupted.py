"""The tests' own PostgreSQL, interrupted while it is made, started or used: no process, folder or shared memory is left."""
import glob
import os
import select
import shutil
import signal
import subprocess
import sys

import pytest

from client import until
from cluster import temporary_folder
from process import children, is_sanitized, wait_gone

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = """
import sys, time
sys.path.insert(0, %r)
from cluster import Cluster
with Cluster() as cluster:
    print("up", flush=True)
    time.sleep(60)
""" % HERE

pytestmark = pytest.mark.skipif(is_sanitized(), reason="of the tests, not of a build")


def family(pid):
    return [pid] + [each for child in children(pid) for each in family(child)]


def shared_memory():
    return set(glob.glob("/dev/shm/PostgreSQL.*"))


def mapped(pids=None):
    """Those that somebody has: another test's; or one of these processes."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/maps") if pids is None else ["/proc/%d/maps" % pid for pid in pids]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found.update(line.split()[-1] for line in file if "/dev/shm/PostgreSQL." in line)
        except OSError:
            pass
    return found


def begin(folder, moment):
    """The script at that moment; None: it has gone by, because this process had no turn on a busy machine."""
    with open(os.path.join(folder, "said"), "wb") as said:
        process = subprocess.Popen([sys.executable, "-B", "-c", SCRIPT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=said, env=dict(os.environ, VANILLA_TMP=folder),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    try:        # initdb's last step, which takes longest, has two
        until(lambda: (moment == "made" and len(mapped(family(process.pid))) == 2)
              or select.select([process.stdout], [], [], 0)[0], timeout=120, pause=0.001)
    except BaseException:
        end(process)
        raise
    if not select.select([process.stdout], [], [], 0)[0]:
        return process
    line = process.stdout.readline()
    if moment == "used" and line == b"up\n":
        return process
    end(process)
    with open(os.path.join(folder, "said"), encoding="utf-8", errors="replace") as said:
        assert line == b"up\n", said.read()
    return None


def end(process):
    """By SIGINT, so that it removes what it made."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    process.stdout.close()


@pytest.mark.parametrize("moment", ["made", "used"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(moment, number):
    folder = temporary_folder("vanilla-e2e-")
    before = shared_memory()
    process = None
    try:
        for _ in range(5):
            process = begin(folder, moment)
            if process is not None:
                break
        assert process is not None, "initdb's last step was never seen"
        os.unlink(os.path.join(folder, "said"))
        pids = family(process.pid)[1:]
        process.send_signal(number)
        process.wait(60)
        assert all(wait_gone(pid, 60) for pid in pids)
        if number != signal.SIGKILL:        # else there was nobody to remove it
            assert os.listdir(folder) == []
        until(lambda: not shared_memory() - before - mapped(), timeout=60)
    finally:
        if process is not None:
            process.kill()
            process.wait()
            process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
