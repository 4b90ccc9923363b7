#!/usr/bin/python3
"""`make profile-memory`: what a connection costs, what throughput costs, and whether memory drifts.

    memory.py [connections|messages|stability|all] [--counts 0,100,1000,10000] [--minutes N] [--json] [--short]

connections  0, 100, 1,000, 10,000 of them: open and silent, after one answer, with half a request sent, answered again,
             closed; the worker's own memory beside what it should be, and what the kernel takes for their sockets
messages     small and large bodies both ways: private memory and buffers, before, at the peak and after
stability    connections come and go for so many minutes: drift, peak, verdict
"""
import argparse
import os
import socket
import sys
import time

from common import ROW, TEXT, Verdict, database, live, load, many_descriptors, private_bytes, server
from growth import chart, picture, sample
from client import Client

LIMIT = 512                 # bytes of an idle connection
BLOCK = 4096                # the smallest buffer: what half a request holds
REQUEST = b"GET /pipeline HTTP/1.1\r\nHost: localhost\r\n\r\n"
# More than a slow head's small block takes, so that it holds a request and a buffer.
HALF, REST = REQUEST[:-2] + b"X-Filler: " + b"x" * 600, b"\r\n\r\n"
PHASES = ("open", "answered", "half a request", "answered again", "closed")
# The kernel's caches that a TCP connection takes from.  Both ends are on this machine; only ours is watched by epoll.
BOTH_ENDS = ("TCP", "sock_inode_cache", "filp", "dentry")
OURS = ("eventpoll_epi", "eventpoll_pwq", "ep_head")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=("connections", "messages", "stability", "all"))
    parser.add_argument("--counts")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


def kernel_bytes():
    """What those caches hold now, by cache; {} where the kernel does not say."""
    found = {}
    try:
        with open("/proc/slabinfo", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[0] in BOTH_ENDS + OURS:
                    found[words[0]] = int(words[1]) * int(words[3])
    except OSError:
        pass
    return found


def kernel_per_connection(before, after, count):
    return {name: (after[name] - before.get(name, 0)) / count / (2 if name in BOTH_ENDS else 1) for name in after}


def answer(connection):
    got = b""
    while not got.endswith(b"\r\n\r\nok"):
        more = connection.recv(4096)
        assert more, "closed after %r" % got
        got += more
    assert got.startswith(b"HTTP/1.1 200 "), got


def connections(cluster, count):
    """-> {phase: private bytes}, sizes of the server's objects, kernel bytes per connection."""
    with server(cluster, connections=max(count, 1) + 100) as running:
        running.start()
        (worker,) = running.workers()
        load(running, ROW, 2000, 64, "allow=503")
        load(running, TEXT, 2000, 64)
        load(running, TEXT, 300, 4, "close")
        time.sleep(0.3)
        kernel = kernel_bytes()
        seen = {"before": private_bytes(worker)}
        held = []
        for n in range(count):
            held.append(socket.create_connection(("127.0.0.1", running.port), timeout=20))
            if n % 100 == 99:
                time.sleep(0.001)               # the queue of listen() is short
        until_open(running, count)
        seen["open"] = private_bytes(worker)
        kernel = kernel_per_connection(kernel, kernel_bytes(), count) if count else {}
        ask(held, REQUEST)
        seen["answered"] = private_bytes(worker)
        for connection in held:
            connection.sendall(HALF)
        until(lambda: running.total("memory.buffers_used") >= count * BLOCK)
        time.sleep(0.2)
        seen["half a request"] = private_bytes(worker)
        buffers = running.total("memory.buffers_used")
        ask(held, REST)
        seen["answered again"] = private_bytes(worker)
        for connection in held:
            connection.close()
        until_open(running, 0)
        seen["closed"] = private_bytes(worker)
        load(running, ROW, 500, 16, "allow=503")
        time.sleep(0.3)                         # gauges are set by the tick
        total = running.stats()["total"]
        sizes = {"connection": total["memory.connection"], "request": total["memory.request"], "buffers": buffers,
                 "steady": total["alloc.steady"], "left": total["memory.buffers_used"]}
        running.stop()
    return seen, sizes, kernel


def until(condition, timeout=20):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("not so after %d s" % timeout)
        time.sleep(0.05)


def until_open(running, count):
    until(lambda: running.total("http.connections") == count)


def ask(held, octets):
    for connection in held:
        connection.sendall(octets)
        answer(connection)


def expected(phase, count, sizes, high):
    """What the design says that they take: the structs, and a buffer only while half a request is there.  Memory that was
    touched stays the process's."""
    each = sizes["connection"]
    if phase == "half a request" or high:
        each += sizes["request"] + BLOCK
    return count * each


def report_connections(cluster, verdict, counts, results, out):
    print("\nWorker's private memory, KiB above the start, measured (expected)", file=out)
    print("%11s %8s " % ("CONNECTIONS", "START") + "".join("%20s" % phase.upper() for phase in PHASES), file=out)
    for count in counts:
        seen, sizes, kernel = connections(cluster, count)
        high, row = False, []
        for phase in PHASES:
            high = high or phase == "half a request"
            row.append((seen[phase] - seen["before"], expected(phase, count, sizes, high)))
        print("%11d %8d " % (count, seen["before"] // 1024)
              + "".join("%20s" % ("%d (%d)" % (got // 1024, want // 1024)) for got, want in row), file=out)
        results.append({"connections": count, "private": seen, "sizes": sizes, "kernel": kernel})
        verdict.holds("%d connections: nothing allocated, no buffer left behind" % count, sizes["steady"] == sizes["left"] == 0)
        if count >= 1000:
            for phase in ("open", "answered"):
                verdict.at_most("%d connections, %s: bytes each" % (count, phase), round((seen[phase] - seen["before"]) / count), LIMIT)
            verdict.at_most("%d connections, half a request: bytes each" % count,
                            round((seen["half a request"] - seen["before"]) / count), expected("half a request", 1, sizes, True) + 64)
            verdict.at_most("%d connections, closed: bytes each, beyond half a request's high-water mark" % count,
                            round((seen["closed"] - seen["half a request"]) / count), 16)
        if count == max(counts) and count:
            print("\nOne of %d, bytes: %d private when idle (struct %d), %d more with half a request (request %d, buffer %d)"
                  % (count, (seen["answered"] - seen["before"]) // count, sizes["connection"],
                     (seen["half a request"] - seen["answered"]) // count, sizes["request"], BLOCK), file=out)
            if kernel:
                print("kernel, server's end: %d bytes (%s)"
                      % (sum(kernel.values()), ", ".join("%s %d" % pair for pair in kernel.items() if pair[1] >= 1)), file=out)


def small_both_ways(running):
    return load(running, TEXT, 20000, 32)


def small_rows(running):
    return load(running, ROW, 10000, 32, "allow=503")


def large_answers(running):
    return load(running, "/large/1000000", 150, 4, timeout=300)


def large_bodies(running):
    body = b"x" * 1000000
    with Client(running.port, timeout=60) as one, Client(running.port, timeout=60) as two:
        for _ in range(40):
            for client in (one, two):
                client.send_request("POST", "/length", body, {"Content-Type": "text/plain"})
            for client in (one, two):
                got = client.read("POST")
                assert got.status == 200 and got.body == b"1000000", (got.status, got.body)


MESSAGES = {"small bodies both ways": small_both_ways, "rows": small_rows,
            "1 MB answers, 4 at a time": large_answers, "1 MB bodies, 2 at a time": large_bodies}


def report_messages(cluster, verdict, results, out):
    print("\n%-28s %12s %14s %14s %14s" % ("MESSAGES", "START, KiB", "GROWTH, KiB", "BUFFERS' PEAK", "AND AGAIN, KiB"), file=out)
    for name, drive in MESSAGES.items():
        with server(cluster) as running:
            running.start()
            (worker,) = running.workers()
            load(running, TEXT, 200, 1)
            before = private_bytes(worker)
            drive(running)
            once = private_bytes(worker)
            peak = running.total("memory.buffers_peak")
            drive(running)
            time.sleep(0.3)
            twice = private_bytes(worker)
            counted = live(running)
            left = running.total("memory.buffers_used")
            running.stop()
        print("%-28s %12d %14d %14d %14d" % (name, before // 1024, (once - before) // 1024, peak // 1024, (twice - once) // 1024), file=out)
        results.append({"messages": name, "before": before, "once": once, "twice": twice, "peak": peak})
        # Not each time the same blocks are taken, so more than the most at one time may have been touched.
        verdict.at_most("%s: KiB beyond the buffers' peak" % name, max(once - before - peak, 0) // 1024, 512 + peak // 2048)
        verdict.at_most("%s: buffers and allocations left behind" % name, left + counted["steady"], 0)


def report_stability(cluster, verdict, minutes, results, out, env=None, gate=True):
    """Connections come and go: some with one request each, some silent, some with half a request."""
    with server(cluster, env=env) as running:
        running.start()
        (worker,) = running.workers()
        began = time.monotonic()
        steps = 20

        def step():
            done = 0
            end = began + minutes * 60 * (step.number + 1) / steps
            step.number += 1
            while done == 0 or time.monotonic() < end:
                load(running, TEXT, 200, 8, "close")
                held = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(50)]
                for connection in held[::2]:
                    connection.sendall(REQUEST[:20])
                for connection in held:
                    connection.close()
                done += 250
            until_open(running, 0)
            return done

        step.number = 0
        growth = sample(worker, steps, step)
        running.stop()
    peak = max(private for _, private in growth.samples)
    word = "POSSIBLE LEAK" if growth.climbs else "OK"
    print("\n%s" % chart({"private": growth}), file=out)
    print("%d connections in %.1f minutes: drift %+.2f +- %.2f bytes per connection, peak %d KiB, %+d KiB in all: %s"
          % (growth.samples[-1][0], minutes, growth.slope, growth.error, peak // 1024, growth.total // 1024, word), file=out)
    path = picture("stability", "connections come and go", {"private": growth})
    if path:
        print(path, file=out)
    if gate:
        results.append({"stability": growth.slope, "error": growth.error, "peak": peak, "verdict": word})
        verdict.at_most("stability: drift in bytes per connection", round(growth.slope, 2), round(growth.error, 2))
    return growth, word


def main():
    wanted = arguments()
    counts = [int(count) for count in (wanted.counts or "0,100,1000,10000").split(",")]
    many_descriptors(max(counts) + 500)
    verdict = Verdict("memory", wanted.json)
    results = []
    with database() as cluster:
        if wanted.what in ("connections", "all"):
            report_connections(cluster, verdict, counts, results, verdict.out)
        if wanted.what in ("messages", "all"):
            report_messages(cluster, verdict, results, verdict.out)
        if wanted.what in ("stability", "all"):
            report_stability(cluster, verdict, wanted.minutes or (0.1 if wanted.short else 2), results, verdict.out)
    return verdict.end(results)


if __name__ == "__main__":
    sys.exit(main())
