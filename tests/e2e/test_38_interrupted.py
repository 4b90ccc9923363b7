"""The tests' own PostgreSQL, interrupted while it is made, started or used: no process, folder or shared memory is left."""
import glob
import os
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


@pytest.mark.parametrize("moment", ["made", "used"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted(moment, number):
    folder = temporary_folder("vanilla-e2e-")
    before = shared_memory()
    process = subprocess.Popen([sys.executable, "-B", "-c", SCRIPT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=dict(os.environ, VANILLA_TMP=folder),
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    try:
        if moment == "used":
            assert process.stdout.readline() == b"up\n"
        else:
            until(lambda: len(mapped(family(process.pid))) == 2, pause=0.001)     # its last step, which takes longest
        pids = family(process.pid)[1:]
        process.send_signal(number)
        process.wait(30)
        assert all(wait_gone(pid, 10) for pid in pids)
        if number != signal.SIGKILL:        # else there was nobody to remove it
            assert os.listdir(folder) == []
        until(lambda: not shared_memory() - before - mapped())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
