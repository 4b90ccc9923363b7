#!/usr/bin/python3
"""`make profile-allocs`: allocations per request by call site, and instructions per request, for each load shape.

    allocs.py [--shapes a,b] [--requests N] [--max 0.001] [--json] [--live] [--keep FOLDER] [--short]

Under callgrind the worker first serves the whole load as a warm-up (pool up, authentication done, buffers at their
high-water mark); then instrumentation is switched on, the load is made again with an exact number of requests, and the
process is ended.  What called the allocator is summed by immediate caller and divided by the requests.  The worker's own
live counters are read before and after, and must say the same.

--live      only those counters, without callgrind: quick, many more requests
--keep      leave callgrind's files there, for callgrind_annotate
--max       the most allocations per request, and per client connection, that pass (in `reconnect` nothing is judged but
            alloc.steady: making a connection may allocate)
"""
import argparse
import os
import sys

from callgrind import Callgrind
from common import Verdict, database, difference, live, server, tidy
from shapes import named


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--shapes")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--max", type=float, default=0.001)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


def by_callgrind(cluster, shape, requests, keep=None, env=None):
    """-> what one shape makes the worker allocate."""
    with Callgrind(cluster, keep=keep and os.path.join(keep, "callgrind.%s" % shape.name), env=env) as callgrind:
        running = callgrind.running
        callgrind.start()
        shape.run(running, cluster, requests)
        before = live(running)
        callgrind.switch("on")
        statuses = shape.run(running, cluster, requests)
        counted = difference(live(running), before)
        dump = callgrind.finish()
    made = shape.requests(requests)
    return {"shape": shape.name, "requests": made, "statuses": statuses, "live": counted,
            "instructions": dump.instructions / made, "heap": dump.heap(), "functions": dump.functions,
            "sites": [{"kind": kind, "caller": caller, "place": place, "calls": calls, "per_request": calls / made}
                      for (kind, caller, place), calls in sorted(dump.calls.items(), key=lambda item: -item[1])]}


def by_counters(cluster, shape, requests, env=None):
    """The same from the live counters alone."""
    with server(cluster, env=env) as running:
        running.start()
        shape.run(running, cluster, min(requests, 4000))
        before = live(running)
        statuses = shape.run(running, cluster, requests)
        counted = difference(live(running), before)
        running.stop()
    return {"shape": shape.name, "requests": shape.requests(requests), "statuses": statuses, "live": counted}


def table(found, out):
    print("\n%s: %d requests (%s)%s" % (found["shape"], found["requests"],
          ", ".join("%d: %d" % pair for pair in sorted(found["statuses"].items())),
          ", %d instructions per request" % found["instructions"] if "instructions" in found else ""), file=out)
    if "sites" in found:
        print("  %10s %12s  %-6s %-32s %s" % ("CALLS", "PER REQUEST", "KIND", "CALLER", "WHERE"), file=out)
        for site in found["sites"]:
            print("  %10d %12.5f  %-6s %-32s %s" % (site["calls"], site["per_request"], site["kind"], site["caller"], site["place"]), file=out)
        if not found["sites"]:
            print("  %10d %12.5f  nothing called the allocator" % (0, 0), file=out)
    counted = found["live"]
    print("  live counters: %d requests, %d connections, alloc.steady %d, alloc.connect %d"
          % (counted["requests"], counted["accepted"], counted["steady"], counted["connect"]), file=out)


def judge(verdict, found, limit):
    name, counted = found["shape"], found["live"]
    source = "callgrind" if "sites" in found else "live"
    if "sites" in found:
        verdict.history.add("%s: instructions per request" % name, round(found["instructions"]))
        if name != "reconnect":
            verdict.at_most("%s: allocations per request (callgrind)" % name,
                            sum(site["calls"] for site in found["sites"]) / found["requests"], limit)
        # The one (vanillactl allocs) holds the other to account: the counters see the heap's calls and not those of the kernel.
        verdict.holds("%s: callgrind counted %d heap allocations, the live counters %d"
                      % (name, found["heap"], counted["steady"] + counted["connect"]),
                      abs(found["heap"] - counted["steady"] - counted["connect"]) <= 0.01 * found["heap"])
    verdict.at_most("%s: alloc.steady per request (vanillactl allocs%s)" % (name, "" if source == "live" else ", same run"),
                    counted["steady"] / max(counted["requests"], 1), limit)
    if name == "churn":
        verdict.at_most("churn: alloc.steady per client connection (%s)" % source,
                        counted["steady"] / max(counted["accepted"], 1), limit)


def main():
    wanted = arguments()
    verdict = Verdict("allocs", wanted.json)
    results = []
    requests = wanted.requests or (20000 if wanted.live else 10000)
    if wanted.short and not wanted.requests:
        requests = 6000 if wanted.live else 2000
    with database() as cluster:
        for shape in named(wanted.shapes):
            found = by_counters(cluster, shape, requests) if wanted.live else by_callgrind(cluster, shape, requests, wanted.keep)
            results.append(found)
            table(found, verdict.out)
            judge(verdict, found, wanted.max)
    if wanted.json:
        for found in results:
            found.pop("functions", None)
    elif not wanted.live:
        print("\n%-12s %14s %14s" % ("SHAPE", "ALLOCS/REQUEST", "INSTRUCTIONS"))
        for found in results:
            print("%-12s %14s %14d" % (found["shape"], tidy(found["heap"] / found["requests"]), found["instructions"]))
    return verdict.end(results)


if __name__ == "__main__":
    sys.exit(main())
