"""The load shapes, the same for every harness.  A shape tells which bug can show: an allocation per request shows in all,
one per connection in `churn`, one per waiting query in `concurrent`."""
import os
import tempfile
import threading
import time

from common import ROW, load

# What `mixed` asks in turn: STATUS METHOD TARGET [BODY] (load.c).
MIXED = """\
200 GET /items/#
200 GET /pipeline
200 GET /items?category=books&limit=20
201,409 POST /items {"id":1#,"name":"mixed","price":1.25}
200 PUT /items/# {"quantity":7}
404 GET /items/999999999
400 GET /items/abc
400 GET /divide/0
404 GET /nowhere
405 DELETE /pipeline
400 POST /items {"id":
409 POST /items {"id":1,"name":"there already","price":1}
204 DELETE /items/1#00000
200 GET /divide/#
200 GET /saved/7
200 GET /saved/#
abort GET /sleep/3
200 GET /large/20000
200 POST /length {"a":"#"}
"""
SLOW = """\
200 GET /large/60000
200 GET /items/#
"""


class Shape:
    def __init__(self, name, meaning, target, clients, *options, script=None, share=1.0):
        self.name, self.meaning, self.target, self.clients, self.options = name, meaning, target, clients, options
        self.script, self.share = script, share

    def requests(self, n):
        """How many requests this shape makes where a plain one makes n: some take long."""
        return max(int(n * self.share), self.clients, 16)

    def run(self, running, cluster, n):
        """Exactly requests(n) requests; returns the answers by status when all are answered."""
        target = self.target
        with tempfile.NamedTemporaryFile("w", prefix="vanilla-e2e-script-", dir=os.environ.get("VANILLA_TMP", "/tmp")) as file:
            if self.script:
                file.write(self.script)
                file.flush()
                target = "@" + file.name
            return self.drive(running, cluster, target, self.requests(n))

    def drive(self, running, cluster, target, requests):
        return load(running, target, requests, self.clients, *self.options)


class Reconnect(Shape):
    """In five parts; while each runs, PostgreSQL ends all sessions, and before the next all are there again."""

    CUTS = 5

    def drive(self, running, cluster, target, requests):
        statuses = {}
        for part in range(self.CUTS):
            n = requests * (part + 1) // self.CUTS - requests * part // self.CUTS
            cut = threading.Thread(target=cluster.sql, kwargs={"database": "postgres", "script":
                                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'vanilla';"})
            before = sum(pool["connects"] for pool in running.stats()["pools"])
            cut.start()
            try:
                for status, times in super().drive(running, cluster, target, n).items():
                    statuses[status] = statuses.get(status, 0) + times
            finally:
                cut.join()
            deadline = time.monotonic() + 20
            while True:
                now = running.stats()["pools"]
                wanted = sum(pool["connections"] for pool in now)
                if sum(pool["connects"] for pool in now) >= before + wanted and all(pool["up"] == pool["connections"] for pool in now):
                    break
                if time.monotonic() > deadline:
                    raise RuntimeError("the pools did not come back:\n" + running.log()[-3000:])
                time.sleep(0.05)
        return statuses


SHAPES = {shape.name: shape for shape in (
    Shape("sequential", "one client, one request at a time", ROW, 1),
    Shape("concurrent", "128 clients for 8 slots: queries wait, others are shed", ROW, 128, "allow=503"),
    Shape("churn", "a new connection for each request", ROW, 8, "close"),
    Shape("pipelined", "16 requests in one piece", ROW, 4, "depth=16", "allow=503"),
    Shape("mixed", "reads, writes, errors, clients that leave", None, 6, script=MIXED, share=0.5),
    Shape("slow", "readers that dribble: 2 KiB at a time through the smallest window", None, 8, "slow", script=SLOW, share=0.1),
    Reconnect("reconnect", "PostgreSQL ends all sessions, five times", ROW, 8, "allow=502,503"),
)}


def named(names):
    """The shapes of a list `a,b,c`, or all."""
    if not names:
        return list(SHAPES.values())
    for name in names.split(","):
        if name not in SHAPES:
            raise SystemExit("no such load shape: %s (there are %s)" % (name, ", ".join(SHAPES)))
    return [SHAPES[name] for name in names.split(",")]
