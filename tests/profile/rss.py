#!/usr/bin/python3
"""`make profile-rss`: growth of memory in bytes per request.

    rss.py [--shapes a,b] [--requests N] [--steps N] [--cap MIB] [--json] [--short]

Two builds under the same load: the normal one, and NOFREE=1, where free() does nothing and so all that a request ever
allocated stays.  What the first grows by is leaked; what the second grows by beyond the first is allocated.  Memory is
sampled from the first request on, and a line is fitted to the second half: a jump that flattens is set-up, a climb is a
leak.  The charts go to build/profile/rss-SHAPE.png too.
"""
import argparse
import math
import sys

from common import Verdict, build, database, difference, live, make, resident_bytes, server
from growth import CAP, chart, picture, sample
from shapes import named

BUILDS = {"normal": "build", "NOFREE": "build-nofree"}


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--shapes")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cap", type=int, default=CAP >> 20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


def grow(cluster, folder, shape, requests, steps, cap=CAP, env=None, over="requests"):
    """One build under one load -> Growth over the requests (or over what else of live() `over` names), resident bytes
    at the end, the live counters' growth."""
    with build(folder), server(cluster, env=env) as running:
        running.start()
        (worker,) = running.workers()

        def step():
            began = live(running) if over != "requests" else None
            shape.run(running, cluster, requests // steps)
            return shape.requests(requests // steps) if began is None else live(running)[over] - began[over]

        before = live(running)
        growth = sample(worker, steps, step, cap)
        counted = difference(live(running), before)
        resident = resident_bytes(worker)
        running.stop()
    return growth, resident, counted


def main():
    wanted = arguments()
    make("NOFREE=1", "build-nofree/vanilla", "build-nofree/vanillactl")
    verdict = Verdict("rss", wanted.json)
    requests = wanted.requests or (8000 if wanted.short else 60000)
    shapes = named(wanted.shapes or ("sequential,concurrent,churn,mixed" if wanted.short else None))
    results = []
    with database() as cluster:
        for shape in shapes:
            # A page here or there is no leak, and a leak does not go away: what looks like one is looked at again, longer.
            for times in (1, 4, 4):
                curves, resident = {}, {}
                for name, folder in BUILDS.items():
                    curves[name], resident[name], _ = grow(cluster, folder, shape, times * requests, wanted.steps, wanted.cap << 20)
                normal, nofree = curves["normal"], curves["NOFREE"]
                above = nofree.slope - normal.slope
                error = math.hypot(nofree.error, normal.error)
                if not normal.climbs and (above <= error or shape.name == "reconnect"):
                    break
            print("\n%s: %s\n%s" % (shape.name, shape.meaning, chart(curves)), file=verdict.out)
            for name, growth in curves.items():
                print("  %-8s %s (resident %d KiB)" % (name, growth, resident[name] // 1024), file=verdict.out)
            print("  allocated: %+.2f +- %.2f bytes per request" % (above, error), file=verdict.out)
            path = picture("rss-" + shape.name, "vanilla, load shape %s" % shape.name, curves)
            if path:
                print("  " + path, file=verdict.out)
            results.append({"shape": shape.name, "normal": normal.slope, "normal_error": normal.error, "nofree": nofree.slope,
                            "difference": above, "difference_error": error, "verdict": normal.verdict,
                            "samples": {name: growth.samples for name, growth in curves.items()}})
            verdict.at_most("%s: bytes leaked per request" % shape.name, round(normal.slope, 2), round(normal.error, 2))
            if shape.name != "reconnect":       # making a connection allocates, and frees
                verdict.at_most("%s: bytes allocated per request" % shape.name, round(above, 2), round(error, 2))
    return verdict.end(results)


if __name__ == "__main__":
    sys.exit(main())
