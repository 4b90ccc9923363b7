"""What the harnesses share: a throwaway PostgreSQL, one worker in front of it, its memory, verdicts, and the history."""
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
from cluster import Cluster, temporary_folder  # noqa: E402,F401
from process import Vanilla, build_folder  # noqa: E402



def end(_number, _frame):
    raise KeyboardInterrupt


# Whatever ends a harness, it cleans up: each server, cluster and folder is a `with`.
for each in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, end)

# Few connections and slots, so that `concurrent` has more clients than these can serve: 8 in flight, 64 wait, others are shed.
# /saved/7 is nearly always in the cache, while all of /saved/# do not fit there.  Patient, so that a machine that is busy with other things makes no sheds.
CONF = r"""
workers = 1;
connections = %(connections)d;
limits = { response_bytes = 4194304; };
memory = { cache_mb = 1; };
pools = (
  { name = "read"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 4; queue = 64; read_only = true;
    queue_timeout_ms = 30000; statement_timeout_ms = 60000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 4; queue_timeout_ms = 30000; statement_timeout_ms = 60000; }
);
routes = (
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/items/{id}";
    sql = "SELECT id, name, price, rating_score AS \"rating.score\", rating_count AS \"rating.count\" FROM items WHERE id = $1";
    params = [ "path.id" ]; result = "row"; },
  { method = "GET"; path = "/items";
    sql = "SELECT id, name, price, tags FROM items WHERE category = $1 ORDER BY id LIMIT $2";
    params = [ "query.category=books", "query.limit=10" ]; result = "rows"; wrap = "items"; },
  { method = "GET"; path = "/saved/{id}"; sql = "SELECT id, name, price FROM items WHERE id = $1"; params = [ "path.id" ]; result = "row";
    cache_ms = 86400000; },
  { method = "POST"; path = "/items"; status = 201;
    sql = "INSERT INTO items (id, name, price) VALUES ($1, $2, $3) RETURNING id, name, price";
    params = [ "body.id", "body.name", "body.price" ]; result = "row"; },
  { method = "PUT"; path = "/items/{id}";
    sql = "UPDATE items SET quantity = $2 WHERE id = $1 RETURNING id, quantity";
    params = [ "path.id", "body.quantity" ]; result = "row"; },
  { method = "DELETE"; path = "/items/{id}"; sql = "DELETE FROM items WHERE id = $1"; params = [ "path.id" ]; result = "none"; },
  { method = "GET"; path = "/divide/{by}"; sql = "SELECT 1 / $1::int AS quotient"; params = [ "path.by" ]; result = "row"; },
  { method = "GET"; path = "/sleep/{ms}"; sql = "SELECT pg_sleep($1::int / 1000.0)::text AS slept"; params = [ "path.ms" ]; result = "row"; },
  { method = "GET"; path = "/large/{bytes}"; sql = "SELECT repeat('x', $1)"; params = [ "path.bytes" ]; result = "raw"; content_type = "text/plain"; },
  { method = "POST"; path = "/length"; sql = "SELECT length($1::text)"; pool = "read"; params = [ "body" ]; result = "value"; }
);
"""
ROW, TEXT, KEPT = "/items/#", "/pipeline", "/saved/7"
ROWS_IN_TABLE = 1000


@contextlib.contextmanager
def database():
    with Cluster() as cluster:
        cluster.load_sample(ROWS_IN_TABLE)
        yield cluster


@contextlib.contextmanager
def build(folder):
    """The servers started inside are of that build."""
    before = os.environ.get("VANILLA_BIN")
    os.environ["VANILLA_BIN"] = os.path.join(TOP, folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["VANILLA_BIN"]
        else:
            os.environ["VANILLA_BIN"] = before


def finish(command, **more):
    """Runs a command to its end -> (exit code, what it said).  Interrupted, it is asked to end and waited for, so that it ends
    what it has started: make its compilers, pytest its servers."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return process.returncode, said.decode(errors="replace")


def make(*arguments):
    """Builds something; quiet unless it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VANILLA_BIN")}
    code, said = finish(["make", "--no-print-directory", "-j2", *arguments], cwd=TOP, env=environment)
    if code != 0:
        sys.exit(said[-4000:])


def server(cluster, connections=8192, **more):
    """Without the trap: what allocates is to be counted, not to die of it."""
    more.setdefault("trap", False)
    return Vanilla(CONF % {"conninfo": cluster.conninfo, "connections": connections}, **more)


def built(name):
    """A helper's path: of this build, or of build/, for it is not what is profiled."""
    for folder in (build_folder(), os.path.join(TOP, "build")):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise SystemExit("there is no build/%s: `make profilers`" % name)


def load(running, target, requests, clients, *options, timeout=600):
    """Exactly that many requests, each answered as is allowed; -> the answers by status."""
    done = subprocess.run([built("load"), str(running.port), target, str(requests), str(clients), *options],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError("load %s %s: %s\n%s" % (target, options, done.stderr.decode(errors="replace"), running.log()[-3000:]))
    pairs = [line.split() for line in done.stdout.decode().splitlines()]
    return {int(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2}


def private_bytes(pid):
    """Memory of this process that belongs to no file, by smaps_rollup.  Not its Private_* lines: those change with what others
    do.  A page of a library is `private` while nobody else has it mapped, and one from before the fork becomes so when the
    master writes to its own copy."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        return 1024 * int(re.search(r"^Anonymous: +(\d+) kB", file.read(), re.M).group(1))


def resident_bytes(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def live(running):
    """What `vanillactl allocs` shows, and how many connections there were."""
    text = running.ctl("allocs")
    calls = {scope: int(number) for scope, number in re.findall(r"^(\w+) +(\d+) ", text, re.M)}
    return {"requests": int(re.search(r"^requests +(\d+)", text, re.M).group(1)), "accepted": running.total("http.accepted"),
            "steady": calls["steady"], "connect": calls["connect"]}


def difference(after, before):
    return {name: after[name] - before[name] for name in after}


def many_descriptors(needed):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))      # root may
    elif soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class History:
    """JSON lines, one per figure: VANILLA_HISTORY says where, else build/profile/history.jsonl."""

    def __init__(self, harness):
        self.harness = harness
        self.file = os.environ.get("VANILLA_HISTORY") or os.path.join(TOP, "build", "profile", "history.jsonl")
        self.last = {}
        with contextlib.suppress(OSError):
            with open(self.file, encoding="utf-8") as file:
                for line in file:
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        one = json.loads(line)
                        self.last[one["harness"], one["what"]] = one["figure"]
        commit = subprocess.run(["git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD"], cwd=TOP,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().strip()
        self.common = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit or None,
                       "harness": harness}

    def add(self, what, figure, **more):
        """-> what it was last time, or None."""
        os.makedirs(os.path.dirname(self.file), exist_ok=True)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps({**self.common, "what": what, "figure": figure, **more}) + "\n")
        return self.last.get((self.harness, what))


class Verdict:
    """Collects figures with their limits, and keeps them; the last line is `N passed, N failed`.  With as_json what is said
    goes to stderr, and stdout is for the results."""

    def __init__(self, harness, as_json=False):
        self.passed = self.failed = 0
        self.history = History(harness)
        self.as_json, self.out = as_json, sys.stderr if as_json else sys.stdout

    def at_most(self, what, figure, limit, unit=""):
        last = self.history.add(what, figure, limit=limit)
        self.say(figure <= limit, "%s: %s%s (at most %s%s)"
                 % (what, tidy(figure), unit, tidy(limit), "" if last is None else "; last time %s" % tidy(last)))

    def holds(self, what, good):
        self.say(bool(good), what)

    def say(self, good, text):
        self.passed += good
        self.failed += not good
        print("%s %s" % ("ok  " if good else "FAIL", text), file=self.out, flush=True)

    def end(self, results=()):
        if self.as_json:
            json.dump(results, sys.stdout, indent=2)
            print(flush=True)
        print("%d passed, %d failed" % (self.passed, self.failed), file=self.out, flush=True)
        return 1 if self.failed else 0


def tidy(number):
    return ("%.5f" % number).rstrip("0").rstrip(".") if isinstance(number, float) else str(number)
