#!/usr/bin/python3
"""A request allocates nothing: by the worker's own count, and by valgrind's.

    steady_allocs.py [--short]

1. 64 keep-alive clients make 200,000 requests on the row route, then 20,000 connections make one each: alloc.steady
   of `vanillactl stats --json` stays 0.
2. Under valgrind, a worker that served 12,000 requests has made as many heap allocations as one that served 2,000.
"""
import glob
import os
import re
import sys
import tempfile

from common import ROW, TEXT, Cluster, Verdict, load, server


def own_count(cluster, verdict, scale):
    with server(cluster) as running:
        running.start()
        load(running, ROW, 200000 // scale, 64)
        verdict.at_most("alloc.steady after %d requests of 64 keep-alive clients" % (200000 // scale),
                        running.total("alloc.steady"), 0)
        load(running, ROW, 20000 // scale, 8, close=True)
        verdict.at_most("alloc.steady after %d connections with one request each" % (20000 // scale),
                        running.total("alloc.steady"), 0)
        load(running, ROW, 2000, 1)
        load(running, ROW, 20000 // scale, 300)     # more clients than the pool has slots
        load(running, TEXT, 20000 // scale, 64)
        verdict.at_most("alloc.steady after one client at a time, and 300 at once",
                        running.total("alloc.steady"), 0)
        running.stop()


def heap_allocations(cluster, requests):
    """valgrind's count for the one worker after so many requests."""
    with tempfile.TemporaryDirectory(prefix="vanilla-e2e-valgrind-", dir=os.environ.get("VANILLA_TMP", "/tmp")) as folder:
        os.chmod(folder, 0o777)
        wrapper = ["valgrind", "--trace-children=yes", "--leak-check=no", "--undef-value-errors=no",
                   "--log-file=%s/%%p" % folder]
        with server(cluster, wrapper=wrapper, trap=False) as running:
            running.start(timeout=60)
            (worker,) = running.workers()
            load(running, ROW, requests // 2, 16)
            load(running, TEXT, requests // 4, 4)
            load(running, ROW, requests - requests // 2 - requests // 4, 8, close=True)
            running.stop(timeout=60)
        (log,) = glob.glob("%s/%d" % (folder, worker))
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
    found = re.search(r"total heap usage: ([\d,]+) allocs", text)
    assert found, text
    return int(found.group(1).replace(",", ""))


def main():
    scale = 5 if "--short" in sys.argv[1:] else 1
    verdict = Verdict()
    with Cluster() as cluster:
        cluster.load_sample(1000)
        own_count(cluster, verdict, scale)
        few, many = heap_allocations(cluster, 2000), heap_allocations(cluster, 12000)
        print("valgrind: %d heap allocations after 2,000 requests, %d after 12,000" % (few, many))
        verdict.at_most("heap allocations of 10,000 requests by valgrind's count", many - few, 0)
    return verdict.end()


if __name__ == "__main__":
    sys.exit(main())
