#!/usr/bin/python3
"""`make test`: everything that CI runs, one stage after the other; ends with one line `N passed, N failed`.

    all.py [--only STAGE[,STAGE]] [--list]

What a stage prints goes to build/test/STAGE.log, and to the screen when it fails.  Nothing is left behind, however a
stage or the whole ends: this process adopts the orphans of its stages (PR_SET_CHILD_SUBREAPER) and ends them, and a
stage that leaves a process or a temporary folder behind has failed.
"""
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(TOP, "build", "test")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAKE = ["make", "--no-print-directory", "-j2"]
SANITIZED = "build-asan-ubsan"


def pytest(build, *folders):
    return ["env", "VANILLA_BIN=" + build, "/usr/bin/python3", "-B", "-m", "pytest", "-q", "-ra",
            "-p", "no:cacheprovider", "--tb=short",
            "-n", "2", "--dist", "loadfile",    # the stories wait more than they work
            *folders]


# name, command, seconds that it may take at most.  Later stages run though an earlier one failed, but for the builds.
STAGES = [
    ("build", MAKE + ["all", "profilers", "build/counters_threads"], 600),
    ("build-sanitized", MAKE + ["ASAN=1", "UBSAN=1", "all"], 900),
    ("build-clang", MAKE + ["CC=clang", "B=build-clang", "all", "load"], 600),
    ("lint", MAKE + ["lint"], 120),
    ("analyze", MAKE + ["analyze", "QUICK=1"], 300),
    ("unit", MAKE + ["unit"], 600),
    ("unit-sanitized", MAKE + ["ASAN=1", "UBSAN=1", "unit"], 900),
    ("unit-valgrind", ["tests/run/valgrind.sh"], 600),
    ("fuzz-corpus", MAKE + ["ASAN=1", "UBSAN=1", "fuzz-corpus"], 600),
    ("e2e", pytest("build", "tests/e2e"), 900),
    ("e2e-sanitized", pytest(SANITIZED, "tests/e2e"), 1200),
    ("http", ["tests/http/run.py", "build"], 600),
    ("http-sanitized", ["tests/http/run.py", SANITIZED], 600),
    ("profile-allocs", ["tests/profile/allocs.py", "--short"], 600),
    ("profile-live", ["tests/profile/allocs.py", "--live", "--short", "--shapes", "concurrent,churn,mixed"], 300),
    ("profile-rss", ["tests/profile/rss.py", "--short"], 600),
    ("profile-memory", ["tests/profile/memory.py", "--short"], 300),
    ("profile-plants", ["tests/profile/plants.py", "--short"], 900),
    ("instructions", ["tests/profile/instructions.py", "--short"], 600),
    ("tsan", MAKE + ["tsan"], 300),
    ("helgrind", ["tests/profile/tools.py", "helgrind"], 300),
]

running = None


def become_parent():
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def end_group(process, grace=20):
    """TERM first: fixtures clean up."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            pass


def own_children():
    found = []
    for task in glob.glob("/proc/self/task/*/children"):
        with open(task, encoding="ascii") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


def leftovers(patience=3.0):
    """Processes and folders that a stage left behind; they are ended and removed here."""
    said = []
    deadline = time.monotonic() + patience
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass                                # the dead are buried
        except ChildProcessError:
            break
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for _ in range(20):
        pids = own_children()
        if not pids:
            break
        for pid in pids:
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as file:
                    said.append("process %d: %s" % (pid, file.read().replace(b"\0", b" ").decode(errors="replace")))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (OSError, ChildProcessError):
                pass
    return said


def count(text, code):
    """What the runner said last: `N passed, N failed`, or pytest's line, or one for the whole stage."""
    own = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed\b", text, re.M)
    theirs = re.findall(r"^(?=.*\bin \d+[.\d]*s)=* ?(?:.*?)((?:\d+ \w+(?:, )?)+) in .*$", text, re.M)
    if own:
        passed, failed = int(own[-1][0]), int(own[-1][1])
    elif theirs:
        numbers = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", theirs[-1])}
        passed = numbers.get("passed", 0)
        failed = numbers.get("failed", 0) + numbers.get("error", 0) + numbers.get("errors", 0)
    else:
        passed, failed = (1, 0) if code == 0 else (0, 1)
    if code != 0 and failed == 0:
        failed = 1
    return passed, failed


def run(name, command, limit, child_setup, temporary):
    global running
    log_file = os.path.join(LOGS, name + ".log")
    began = time.monotonic()
    print("%-16s " % name, end="", flush=True)
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", VANILLA_TMP=temporary)
    environment.pop("MAKEFLAGS", None)
    environment.pop("MAKELEVEL", None)
    with open(log_file, "wb") as log:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=TOP,
                                   env=environment, start_new_session=True, preexec_fn=child_setup)
        try:
            code = running.wait(limit)
        except subprocess.TimeoutExpired:
            end_group(running)
            code = "none within %d s" % limit
        running = None
    left = leftovers()
    for rest in os.listdir(temporary):
        left.append("folder " + rest)
        shutil.rmtree(os.path.join(temporary, rest), ignore_errors=True)
    with open(log_file, encoding="utf-8", errors="replace") as file:
        text = file.read()
    passed, failed = count(text, code)
    if left:
        failed += 1
    print("%5d passed %4d failed  %4d s" % (passed, failed, time.monotonic() - began), flush=True)
    if failed:
        print("--- %s: exit code %s, the end of %s:\n%s\n---" % (name, code, log_file, text[-12000:]))
        for line in left:
            print("left behind: " + line)
    sys.stdout.flush()
    return passed, failed


def stop(number, _frame):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    print("\nstopped by signal %d" % number, flush=True)
    if running is not None:
        end_group(running)
    leftovers()
    sys.exit(128 + number)              # and main()'s folder goes on the way


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    wanted = None
    if sys.argv[1:2] == ["--list"]:
        print(" ".join(name for name, _, _ in STAGES))
        return 0
    if sys.argv[1:2] == ["--only"] and len(sys.argv) == 3:
        wanted = sys.argv[2].split(",")
    if len(sys.argv) > 1 and (not wanted or set(wanted) - {name for name, _, _ in STAGES}):
        print("%s: not an option, or not a stage; --list names them" % " ".join(sys.argv[1:]))
        return 2
    child_setup = become_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    os.makedirs(LOGS, exist_ok=True)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="vanilla-test-", dir="/tmp", ignore_cleanup_errors=True) as temporary:
        os.chmod(temporary, 0o755)
        for name, command, limit in STAGES:
            if wanted and name not in wanted:
                continue
            result = run(name, command, limit, child_setup, temporary)
            passed += result[0]
            failed += result[1]
            if name.startswith("build") and result[1]:
                print("Without a build there is nothing to test.")
                break
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
