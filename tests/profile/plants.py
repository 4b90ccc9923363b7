#!/usr/bin/python3
"""`make profile-plants`: proof that the harnesses see.

    plants.py [--short]

A build with PLANT=1 allocates 16 bytes per request, per connection or per query that waits, as the environment says
(worker/mem/plant.h).  Each harness has to find each of them: at its call site, at its rate, and in those load shapes alone
that can show it.  Without --short also the other half of profile-rss: what is allocated and freed again, which only a build
where nothing is freed can show.
"""
import os
import re
import sys

import memory
from allocs import by_callgrind
from common import TOP, Verdict, database, build, make
from growth import Growth
from rss import grow
from shapes import SHAPES

STEPS = 10
CHUNK = 32                  # what 16 bytes take of the C library's heap
SITES = {"request": ("request_run", "worker/http/serve.c"), "connection": ("conn_open", "worker/http/conn.c"),
         "queued": ("queue_wait", "worker/pg/queue.c")}
# One per what? `None`: that shape cannot show it.
SHOWS = {
    ("request", "sequential"): "request", ("request", "churn"): "request", ("request", "concurrent"): "request",
    ("connection", "sequential"): None, ("connection", "churn"): "connection", ("connection", "pipelined"): None,
    ("queued", "sequential"): None, ("queued", "churn"): None, ("queued", "concurrent"): "queued query",
}


def hook(plant):
    """file:line where it is planted."""
    _, file = SITES[plant]
    with open(os.path.join(TOP, file), encoding="utf-8") as source:
        lines = [number for number, line in enumerate(source, 1) if 'PLANT("%s")' % plant in line]
    assert len(lines) == 1, (plant, lines)
    return "%s:%d" % (file, lines[0])


def by_site(cluster, verdict, plant, shape, requests):
    """Callgrind: right place, right rate, and the live counters with it."""
    found = by_callgrind(cluster, SHAPES[shape], requests, env={"VANILLA_PLANT": plant})
    place, wanted = hook(plant), SHOWS[plant, shape]
    at = [site for site in found["sites"] if site["place"] == place and re.match(SITES[plant][0], site["caller"])]
    calls = sum(site["calls"] for site in at)
    others = sum(site["calls"] for site in found["sites"] if site not in at and site["kind"] == "heap")
    # Independent of the plant: requests and connections by the driver and the counters, waits by calls of the function.
    times = {"request": found["requests"], "connection": found["live"]["accepted"],
             "queued query": found["functions"].get("queue_wait", 0), None: 0}[wanted]
    if plant == "connection" and wanted is None:
        times = SHAPES[shape].clients
    what = "callgrind, %s: 1 per %s in %s" % (plant, plant, shape)
    verdict.holds("%s: %d calls at %s for %d (%.4f per request), %d elsewhere"
                  % (what, calls, place, times, calls / found["requests"], others),
                  calls == times and others == 0 and (wanted is None or times > 0.05 * found["requests"]))
    verdict.holds("%s: the live counters say %d" % (what, found["live"]["steady"]), found["live"]["steady"] == calls + others)


def by_growth(cluster, verdict, plant, shape, requests):
    """The live counters at full speed, and memory: whether it climbs, and how steeply."""
    wanted = SHOWS[plant, shape]
    waits = wanted == "queued query"            # how many wait varies: there the line is over the allocations themselves
    for times in (1, 3):                        # a page here or there is noise, and goes away with more load
        growth, _, counted = grow(cluster, "build-plant", SHAPES[shape], times * requests * (3 if waits else 1), STEPS,
                                  env={"VANILLA_PLANT": plant}, over="steady" if waits else "requests")
        rate = counted["steady"] / counted["requests"]
        steep = CHUNK if waits else rate * CHUNK
        found = growth.climbs == (wanted is not None) and abs(growth.slope - steep) <= growth.error + 0.05 * steep
        if found:
            break
    if wanted is None:
        good = counted["steady"] <= (counted["accepted"] if plant == "connection" else 0)
    elif waits:
        good = 0.02 < rate < 1
    else:
        good = abs(rate - 1) < 0.001
    verdict.holds("live counters, %s in %s: %.4f per request" % (plant, shape, rate), good)
    verdict.holds("memory, %s in %s: %+.2f +- %.2f bytes per %s for %.2f, %s"
                  % (plant, shape, growth.slope, growth.error, "queued query" if waits else "request", steep, growth.verdict), found)


def freed(cluster, verdict, plant, shape):
    """What is freed at once leaks nothing, but shows where nothing is freed."""
    env = {"VANILLA_PLANT": plant + " freed"}
    normal, _, _ = grow(cluster, "build-plant", SHAPES[shape], 20000, 10, env=env)
    nofree, _, _ = grow(cluster, "build-plant-nofree", SHAPES[shape], 20000, 10, env=env)
    verdict.holds("memory, %s freed in %s: leaked %+.2f, allocated %+.2f bytes per request"
                  % (plant, shape, normal.slope, nofree.slope - normal.slope),
                  not normal.climbs and abs(nofree.slope - normal.slope - CHUNK) <= nofree.error + 1)


def fitted(verdict):
    """The line, over figures that are known: 2,000 requests a step, a base of 1 MiB."""
    def growth(per_request, jump, at=15):
        return Growth([(2000 * n, (1 << 20) + 2000 * n * per_request + (jump if n >= at else 0)) for n in range(21)])
    for at in (11, 15, 20):
        late = growth(0, 256 << 10, at)
        verdict.holds("a late jump of 256 KiB is none: step %d, %s" % (at, late), not late.climbs and "set-up" in late.verdict)
    both = growth(CHUNK, 256 << 10)
    verdict.holds("a jump does not hide a climb: %s" % both, both.climbs)
    small = growth(4, 256 << 10)
    verdict.holds("nor a small one: %s" % small, small.climbs and abs(small.slope - 4) <= small.error)
    for per_request in (CHUNK, 100):
        climb = growth(per_request, 0)
        verdict.holds("a climb is one: %s" % climb, climb.climbs and abs(climb.slope - per_request) <= climb.error)
    twice = Growth([(2000 * n, (1 << 20) + (n // 4) * (256 << 10)) for n in range(21)])
    verdict.holds("jump after jump is a climb: %s" % twice, twice.climbs)


def planted_nowhere_else(verdict):
    """A binary that people run has no trace of it."""
    for folder, wanted in (("build", False), ("build-plant", True)):
        with open(os.path.join(TOP, folder, "vanilla"), "rb") as file:
            octets = file.read()
        verdict.holds("%s/vanilla has %s plants" % (folder, "its" if wanted else "no"),
                      (b"VANILLA_PLANT" in octets) == (b"plant_last" in octets) == wanted)


def runaway(cluster, verdict):
    """The hard cap: a worker that is over it from the start does not see the end of the load."""
    try:
        grow(cluster, "build-plant", SHAPES["sequential"], 100000, 2, cap=2 << 20, env={"VANILLA_PLANT": "request"})
        verdict.holds("a runaway is killed", False)
    except RuntimeError as error:
        verdict.holds("a runaway is killed: %s" % str(error).split("\n", maxsplit=1)[0], "was killed" in str(error))


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    short = "--short" in sys.argv[1:]
    make("PLANT=1", "build-plant/vanilla", "build-plant/vanillactl")
    if not short:
        make("PLANT=1", "NOFREE=1", "build-plant-nofree/vanilla", "build-plant-nofree/vanillactl")
    verdict = Verdict("plants")
    fitted(verdict)
    planted_nowhere_else(verdict)
    with database() as cluster, build("build-plant"):
        runaway(cluster, verdict)
        for plant, shape in (("request", "sequential"), ("connection", "churn"), ("connection", "sequential"),
                             ("queued", "concurrent"), ("queued", "sequential")):
            by_site(cluster, verdict, plant, shape, 1000)
        for plant, shape in SHOWS:
            by_growth(cluster, verdict, plant, shape, 6000)
        for plant in (None, "connection"):
            growth, word = memory.report_stability(cluster, verdict, 0.03, [], sys.stdout, gate=False,
                                                   env={"VANILLA_PLANT": plant} if plant else None)
            verdict.holds("stability, %s planted: %+.2f bytes per connection, %s" % (plant or "nothing", growth.slope, word),
                          word == ("POSSIBLE LEAK" if plant else "OK") and abs(growth.slope - (CHUNK if plant else 0)) <= growth.error + 2)
        if not short:
            freed(cluster, verdict, "request", "sequential")
            freed(cluster, verdict, "connection", "churn")
    return verdict.end()


if __name__ == "__main__":
    sys.exit(main())
