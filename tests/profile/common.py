"""What the profiling scripts share: PostgreSQL, one worker in front of it, exact numbers of requests."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
from cluster import Cluster  # noqa: E402,F401
from process import Vanilla, build_folder  # noqa: E402

CONF = r"""
workers = 1;
connections = %(connections)d;
pools = ( { name = "read"; conninfo = "%(conninfo)s"; connections = 2; read_only = true; } );
routes = (
  { method = "GET"; path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET"; path = "/items/{id}";
    sql = "SELECT id, name, price, rating_score AS \"rating.score\", rating_count AS \"rating.count\" FROM items WHERE id = $1";
    params = [ "path.id" ]; result = "row"; }
);
"""
ROW, TEXT = "/items/#", "/pipeline"


def server(cluster, connections=8192, **more):
    return Vanilla(CONF % {"conninfo": cluster.conninfo, "connections": connections}, **more)


def load(running, target, requests, clients, close=False):
    """Exactly that many requests, each answered with 200."""
    subprocess.run([os.path.join(build_folder(), "load"), str(running.port), target, str(requests), str(clients)]
                   + (["close"] if close else []), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Verdict:
    """Collects figures with their limits; the last line is `N passed, N failed`."""

    def __init__(self):
        self.passed = self.failed = 0

    def at_most(self, what, figure, limit, unit=""):
        good = figure <= limit
        self.passed += good
        self.failed += not good
        print("%s %s: %s%s (at most %s)" % ("ok  " if good else "FAIL", what, figure, unit, limit), flush=True)

    def end(self):
        print("%d passed, %d failed" % (self.passed, self.failed))
        return 1 if self.failed else 0
