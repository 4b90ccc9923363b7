#!/usr/bin/python3
"""Other people's tools, each with the load shapes behind it: tools.py valgrind|heaptrack|massif|helgrind [--requests N]"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from common import TOP, Verdict, build, built, database, finish, make, server, temporary_folder
from shapes import SHAPES, named

# The end-to-end tests that walk over all routes and do not depend on how long things take.
ROUTES = ["tests/e2e/test_0%d_%s.py" % pair for pair in ((1, "text"), (2, "row"), (3, "rows"), (4, "write"), (5, "results"),
                                                         (7, "params"), (8, "pipelining"))]


def memcheck(folder):
    return ["valgrind", "--trace-children=yes", "--leak-check=full", "--errors-for-leak-kinds=definite", "--num-callers=30",
            "--log-file=%s/%%p" % folder]


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def valgrind(verdict, requests):
    """memcheck: each load shape, then the end-to-end tests' routes."""
    folder = temporary_folder("vanilla-e2e-memcheck-")
    os.chmod(folder, 0o777)
    try:
        with database() as cluster:
            for shape in named(None):
                with server(cluster, wrapper=memcheck(folder)) as running:
                    running.start(timeout=120)
                    shape.run(running, cluster, requests)
                    verdict.holds("%s: the server ends well" % shape.name, running.stop(timeout=120) == 0)
        code, said = finish(["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not counters_count", *ROUTES],
                            cwd=TOP, env=dict(os.environ, VANILLA_WRAPPER=" ".join(memcheck(folder))))
        print("\n".join(said.splitlines()[-15:]))
        verdict.holds("the end-to-end tests of the routes pass", code == 0)
        logs = [read(path) for path in sorted(glob.glob(folder + "/*"))]
        bad = [log for log in logs if "ERROR SUMMARY: 0 errors" not in log]
        for log in bad[:3]:
            print(log[:6000])
        verdict.holds("memcheck: %d processes, %d with errors or definite leaks" % (len(logs), len(bad)), logs and not bad)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def helgrind(verdict, _requests):
    """The protocols with threads; a worker itself has only one.  Fair, or one thread would be through before another begins.
    What it shall not look at is shared memory, as the program says (hidden.h); its own rules, which hide whatever happens in
    libc, are off."""
    code, said = finish(["valgrind", "--tool=helgrind", "-v", "--fair-sched=yes", "--read-inline-info=yes", "--error-exitcode=99",
                         "--default-suppressions=no", built("counters_threads"), "1000"])
    if code != 0:
        print(said[:6000])
    hidden = re.search(r"ERROR SUMMARY: .*suppressed: (\d+)", said)
    print("\n".join(line for line in said.splitlines() if re.match(r"ok  |FAIL|\d+ passed|.*ERROR SUMMARY", line)))
    verdict.holds("helgrind: exit code %d, %s accesses hidden by its own rules" % (code, hidden.group(1) if hidden else "?"),
                  code == 0 and hidden and hidden.group(1) == "0")


def massif(verdict, requests):
    """The heap over time; what was reserved with mmap (connections, requests, buffers) is not of the heap."""
    folder = temporary_folder("vanilla-e2e-massif-")
    os.chmod(folder, 0o777)
    try:
        with database() as cluster, server(cluster, wrapper=["valgrind", "--tool=massif", "--trace-children=yes", "--log-file=/dev/null",
                                                             "--massif-out-file=%s/%%p" % folder]) as running:
            running.start(timeout=120)
            (worker,) = running.workers()
            for shape in ("concurrent", "churn", "mixed"):
                SHAPES[shape].run(running, cluster, requests)
            verdict.holds("the server ends well", running.stop(timeout=120) == 0)
        out = os.path.join(folder, str(worker))
        kept = os.path.join(TOP, "build", "profile", "massif.out")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        shutil.copy(out, kept)
        shown = subprocess.run(["ms_print", out], stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")
        print("\n".join(shown.splitlines()[:36]))
        heap = [int(each) for each in re.findall(r"^mem_heap_B=(\d+)", read(out), re.M)]
        last, peak = heap[-2] if len(heap) > 1 else heap[-1], max(heap)
        print("%s\nheap: peak %d bytes, %d before the end" % (kept, peak, last))
        verdict.holds("massif: %d snapshots" % len(heap), len(heap) > 3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


HEAPTRACK = "/usr/lib/heaptrack"
CONNECT_CALLS = 250             # that libpq may make for one connection; it makes 199


def connects(running):
    return sum(pool["connects"] for pool in running.stats()["pools"])


def heaptrack(verdict, requests):
    """Put into a worker that is warm, and taken out again.  (Started with the server it would watch the master, lose the
    worker at the fork, and count start-up as if it were requests; it needs a build that leaves malloc to the library.)"""
    make("LIBC_MALLOC=1", "build-libcmalloc/vanilla", "build-libcmalloc/vanillactl")
    folder = temporary_folder("vanilla-e2e-heaptrack-")
    os.chmod(folder, 0o777)
    shapes = [SHAPES[name] for name in ("concurrent", "churn", "mixed", "reconnect")]
    raw, kept = folder + "/raw", os.path.join(TOP, "build", "profile", "heaptrack.gz")
    try:
        environment = {"LD_PRELOAD": built("switch.so"), "VANILLA_HEAPTRACK": HEAPTRACK + "/libheaptrack_inject.so",
                       "VANILLA_HEAPTRACK_OUT": raw}
        with database() as cluster, build("build-libcmalloc"), server(cluster, env=environment) as running:
            running.start()
            (worker,) = running.workers()
            for shape in shapes:
                shape.run(running, cluster, requests)
            os.kill(worker, signal.SIGRTMIN + 3)
            time.sleep(2)
            before = connects(running)
            for shape in shapes:
                shape.run(running, cluster, requests)
            made = connects(running) - before
            os.kill(worker, signal.SIGRTMIN + 4)
            time.sleep(1)
            running.stop()
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(raw, "rb") as recorded, open(kept, "wb") as packed:
            interpret = subprocess.Popen([HEAPTRACK + "/libexec/heaptrack_interpret"], stdin=recorded, stdout=subprocess.PIPE)
            subprocess.run(["gzip", "-c"], stdin=interpret.stdout, stdout=packed, check=True, timeout=120)
            interpret.wait(60)
        shown = subprocess.run(["heaptrack_print", "-f", kept, "-l", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, timeout=120).stdout.decode(errors="replace")
        sites = re.findall(r"^(\d+) calls to allocation functions with .*? from\n(.*)$", shown, re.M)
        for calls, caller in sites[:12]:
            print("%8s  %s" % (calls, caller.strip()))
        print("%s\n%s" % (kept, "\n".join(shown.splitlines()[-8:])))
        total = re.search(r"calls to allocation functions: (\d+)", shown)
        # One per request would be more: there are 350 of them for each connection.
        verdict.holds("heaptrack: %s calls while PostgreSQL was connected to %d times" % (total.group(1) if total else "no", made),
                      total and 0 < int(total.group(1)) <= CONNECT_CALLS * made)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tool", choices=("valgrind", "heaptrack", "massif", "helgrind"))
    parser.add_argument("--requests", type=int, default=2000)
    wanted = parser.parse_args()
    verdict = Verdict(wanted.tool)
    globals()[wanted.tool](verdict, wanted.requests)
    return verdict.end()


if __name__ == "__main__":
    sys.exit(main())
