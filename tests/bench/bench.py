#!/usr/bin/python3
"""Ratios that hold on a noisy machine: what is compared runs in turns, in one go, and medians are compared.

    bench.py [--short | --smoke] [connections] [batch] [overload] [peer]

connections   the row route, one worker on one core: 1, 2, 4, 8 and 16 connections, each made to use all of them, against
              the worker's own choice out of 16, at 64 and at 256 clients
batch         sync_batch 32 against 1, PostgreSQL by TCP and by a unix socket, 256 clients that send 1, 2, 8 and 16
              requests at a time: requests per second, PostgreSQL's processor time per request
overload      a closed loop of four times the pool's slots against one just below saturation
peer          the text route: processor time and requests per second beside nginx

The load is wrk, from loopback.  PostgreSQL is a throwaway.  --smoke: one round of each, to see that it runs; what it finds does
not count.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests", "e2e"), os.path.join(TOP, "tests", "profile")]
from cluster import Cluster, temporary_folder  # noqa: E402
from common import Verdict  # noqa: E402
from process import Port, Vanilla  # noqa: E402

CONF = r"""
workers = 1;
connections = 2048;
pools = ( { name = "read"; conninfo = "%(conninfo)s"; read_only = true; %(pool)s } );
routes = (
  { method = "GET"; path = "/text"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/items/{id}";
    sql = "SELECT id, name, price, rating_score AS \"rating.score\", rating_count AS \"rating.count\" FROM items WHERE id = $1";
    params = [ "path.id" ]; result = "row"; },
  { method = "GET"; path = "/sleep"; sql = "SELECT 1 FROM pg_sleep(0.004)"; result = "value"; }
);
"""
TICKS = os.sysconf("SC_CLK_TCK")
PIPELINE = """
local requests
function init(args)
    local all = {}
    for n = 1, tonumber(args[2]) do all[n] = wrk.format("GET", args[1]) end
    requests = table.concat(all)
end
function request() return requests end
"""


def processor_seconds(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


class Side:
    """One of the things compared: a server, and what was measured of it."""

    def __init__(self, name, cluster=None, pool="", core=0, conninfo=None):
        self.name, self.rates, self.costs, self.own, self.sheds = name, [], [], [], 0
        if cluster is None:
            return
        conninfo = "%s application_name=bench-%s" % (conninfo or cluster.conninfo, name)
        self.server = Vanilla(CONF % {"conninfo": conninfo, "pool": pool}, trap=False, wrapper=["taskset", "-c", str(core)])
        self.server.start()
        self.port = self.server.port
        self.workers = self.server.workers()
        self.backends = [int(pid) for pid in cluster.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'bench-%s'" % name).split()]

    def run(self, clients, seconds, target="/items/17", depth=1):
        """depth: how many requests a client sends at a time."""
        before = processor_seconds(self.backends), processor_seconds(self.workers)
        began = time.monotonic()
        command = ["wrk", "-t", "1", "-c", str(clients), "-d", "%ds" % seconds]
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            if depth > 1:
                script.write(PIPELINE)
                script.flush()
                command += ["-s", script.name]
            command += ["http://127.0.0.1:%d%s" % (self.port, target)] + (["--", target, str(depth)] if depth > 1 else [])
            out = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()
        elapsed = time.monotonic() - began
        requests = int(re.search(r"(\d+) requests in", out).group(1))
        errors = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        assert "Socket errors" not in out, out
        sheds = int(errors.group(1)) if errors else 0
        if requests == sheds and seconds < 16:        # the machine was busy with something else all that time
            self.run(clients, 4 * seconds, target, depth)
            return
        assert requests > sheds, out
        self.sheds += sheds
        self.rates.append((requests - sheds) / elapsed)
        self.costs.append((processor_seconds(self.backends) - before[0]) / requests * 1e6)
        self.own.append((processor_seconds(self.workers) - before[1]) / requests * 1e6)

    @property
    def rate(self):
        return statistics.median(self.rates)

    @property
    def cost(self):
        return statistics.median(self.costs)

    @property
    def own_cost(self):
        return statistics.median(self.own)

    def close(self):
        self.server.remove()


def ratio(a, b):
    """Of two sides' rates: round by round, since a round's runs have the same weather."""
    return statistics.median(x / y for x, y in zip(a.rates, b.rates))


class Bench:
    def __init__(self, cluster, rounds):
        self.cluster, self.verdict, self.rounds, self.seconds = cluster, Verdict("bench"), rounds, 1

    def in_turns(self, sides, *run):
        for side in sides:
            side.run(run[0], self.seconds, *run[2:])      # to warm up
            side.rates, side.costs, side.own, side.sheds = [], [], [], 0
        for n in range(self.rounds):
            for side in sides[n % len(sides):] + sides[:n % len(sides)]:
                side.run(*run)

    def at_least(self, what, figure, limit):
        good = figure >= limit
        self.verdict.passed += good
        self.verdict.failed += not good
        print("%s %s: %.2f (at least %.2f)" % ("ok  " if good else "FAIL", what, figure, limit), flush=True)

    def at_most(self, what, figure, limit):
        self.verdict.at_most(what, round(figure, 2), limit)

    def connections(self):
        for clients in (64, 256):
            sides = [Side("fixed-%d" % n, self.cluster,
                          "connections = %d; max_inflight = %d; batch_us = 1000000;" % (n, max(1, clients // n)))
                     for n in (1, 2, 4, 8, 16)]
            sides.append(Side("adaptive", self.cluster, "connections = 16; max_inflight = 32;"))
            try:
                self.in_turns(sides, clients, self.seconds)
                for side in sides:
                    print("     %3d clients, %-9s %6.0f/s  PostgreSQL %5.1f us per request" % (
                        clients, side.name, side.rate, side.cost), flush=True)
                adaptive, fixed = sides[-1], sides[:-1]
                worst = min(fixed, key=lambda side: ratio(adaptive, side))
                self.at_least("%d clients, adaptive / %s, the best fixed one" % (clients, worst.name),
                              ratio(adaptive, worst), 0.9)
                # A hole is one that no neighbour in time has: the machine's own moods pass.
                self.at_least("%d clients, adaptive, its worst round / the others' median in that round" % clients,
                              min(a / statistics.median(side.rates[n] for side in fixed)
                                  for n, a in enumerate(adaptive.rates)), 0.5)
            finally:
                for side in sides:
                    side.close()

    def batch(self):
        """What a Sync costs shows the better the less everything else does: a request that comes alone costs the two ends
        of its TCP connection several times what PostgreSQL saves, those that come together share that."""
        sides = {way: [Side("%s-%d" % (way, n), self.cluster, "connections = 8; max_inflight = 32; queue = 8192; "
                            "queue_timeout_ms = 5000; sync_batch = %d;" % n, conninfo=conninfo) for n in (1, 32)]
                 for way, conninfo in (("tcp", self.cluster.by_tcp), ("unix", self.cluster.conninfo))}
        limits = {("tcp", 1): (1.0, 0.6), ("tcp", 2): (1.3, 0.6), ("tcp", 8): (1.5, 0.6), ("tcp", 16): (1.5, 0.6),
                  ("unix", 1): (1.0, 0.9), ("unix", 8): (1.3, 0.8), ("unix", 16): (1.3, 0.8)}
        try:
            for (way, depth), (faster, cheaper) in list(limits.items())[-1 if self.rounds == 1 else 0:]:
                self.in_turns(sides[way], 256, self.seconds, "/items/17", depth)
                one, many = sides[way]
                for side in sides[way]:
                    print("     %-7s %2d at a time: %6.0f/s  PostgreSQL %5.1f us per request, %d shed" % (
                        side.name, depth, side.rate, side.cost, side.sheds), flush=True)
                self.at_least("sync_batch 32 / 1, %s, %d at a time, requests per second" % (way, depth),
                              statistics.median(b / a for a, b in zip(one.rates, many.rates)), faster)
                self.at_most("sync_batch 32 / 1, %s, %d at a time, PostgreSQL's processor time per request" % (way, depth),
                             statistics.median(b / a for a, b in zip(one.costs, many.costs)), cheaper)
        finally:
            for pair in sides.values():
                for side in pair:
                    side.close()

    def overload(self):
        for name, target, pool, seconds in (("rows", "/items/17", "connections = 4; max_inflight = 8;", self.seconds),
                                            ("4 ms each", "/sleep", "connections = 4; max_inflight = 8;", 10),
                                            ("4 ms each, no queue", "/sleep", "connections = 4; max_inflight = 8; queue = 0;", 10)):
            side = Side("overload", self.cluster, pool)
            try:
                side.run(32, 1, target)
                below, above = [], []
                for _ in range(self.rounds if seconds < 10 else 2):
                    side.run(31, min(seconds, 5), target)
                    below.append(side.rates[-1])
                    side.run(128, seconds, target)
                    above.append(side.rates[-1])
                sheds = side.sheds
                print("     %s: 31 clients %.0f/s, 128 clients %.0f/s and %d shed" % (
                    name, statistics.median(below), statistics.median(above), sheds), flush=True)
                self.at_least("overload (%s): successful answers / those just below saturation" % name,
                              statistics.median(a / b for a, b in zip(above, below)), 0.95)
                if seconds >= 10:
                    counted = {name: n for name, n in side.server.stats()["total"].items() if name.startswith("shed.")}
                    # wrk does not read the answers that are under way when its time is up.
                    self.at_most("overload (%s): sheds that the clients did not count" % name,
                                 sum(counted.values()) - sheds, 128 * 5)
            finally:
                side.close()

    def peer(self):
        nginx = os.environ.get("BENCH_NGINX") or shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
        if nginx is None:
            print("     nginx is not installed: no peer")
            return
        folder, port = temporary_folder("vanilla-e2e-nginx-"), Port()
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write("""daemon off; worker_processes 1; error_log stderr error; pid %(folder)s/pid;
                events { worker_connections 2048; }
                http { access_log off; keepalive_requests 1000000000; client_body_temp_path %(folder)s/a; proxy_temp_path %(folder)s/b;
                  fastcgi_temp_path %(folder)s/c; uwsgi_temp_path %(folder)s/d; scgi_temp_path %(folder)s/e;
                  server { listen 127.0.0.1:%(port)d; location = /text { default_type text/plain; return 200 "ok"; } } }
                """ % {"folder": folder, "port": port.number})
        process = subprocess.Popen(["taskset", "-c", "0", nginx, "-p", folder, "-c", os.path.join(folder, "nginx.conf")],
                                   stdin=subprocess.DEVNULL)
        own = Side("vanilla", self.cluster, "connections = 1;")
        try:
            time.sleep(0.5)
            other = Side("nginx")
            other.port, other.backends = port.number, []
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
                other.workers = [int(pid) for pid in file.read().split()]
            own.backends = []
            self.in_turns([own, other], 64, self.seconds, "/text")
            for side in (own, other):
                print("     %-9s %6.0f/s  %5.2f us of processor per request" % (side.name, side.rate, side.own_cost))
            self.at_least("text, requests per second, vanilla / nginx",
                          statistics.median(a / b for a, b in zip(own.rates, other.rates)), 1.0)
            self.at_most("text, processor time per request, vanilla / nginx",
                         statistics.median(a / b for a, b in zip(own.own, other.own)), 1.0)
        finally:
            process.terminate()
            process.wait()
            own.close()
            port.release()
            shutil.rmtree(folder, ignore_errors=True)


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or ["batch", "connections", "overload", "peer"]
    smoke = "--smoke" in sys.argv[1:]
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed (Debian package wrk)")
    port = Port()
    with Cluster(settings={"listen_addresses": "127.0.0.1", "port": port.number}, hba="host all all 127.0.0.1/32 trust\n") as cluster:
        cluster.by_tcp = "host=127.0.0.1 port=%d dbname=app user=vanilla sslmode=disable" % port.number
        cluster.load_sample(1000)
        bench = Bench(cluster, 1 if smoke else 3 if "--short" in sys.argv[1:] else 7)
        for name in names:
            getattr(bench, name)()
    return 0 if bench.verdict.end() == 0 or smoke else 1


if __name__ == "__main__":
    sys.exit(main())
