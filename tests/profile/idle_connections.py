#!/usr/bin/python3
"""What an idle keep-alive connection costs: the worker's private memory with 10,000 held open, less that before.

    idle_connections.py [--short]
"""
import resource
import socket
import sys

from common import ROW, TEXT, Cluster, Verdict, load, server

CONNECTIONS = 10000


def private_bytes(pid):
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


def hold(port, count):
    """Connections that had one answer each, and wait."""
    held = []
    request = b"GET /pipeline HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        connection.sendall(request)
        answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok"), answer
        held.append(connection)
    return held


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))      # root may
    elif soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    verdict = Verdict()
    with Cluster() as cluster:
        cluster.load_sample(1000)
        with server(cluster, connections=CONNECTIONS + 100) as running:
            running.start()
            (worker,) = running.workers()
            load(running, ROW, 5000, 64)
            load(running, TEXT, 5000, 64)
            for connection in hold(running.port, 50):
                connection.close()
            before = private_bytes(worker)
            held = hold(running.port, CONNECTIONS)
            after = private_bytes(worker)
            assert running.total("http.connections") >= CONNECTIONS
            print("private memory: %d bytes before, %d with %d idle connections" % (before, after, CONNECTIONS))
            verdict.at_most("bytes per idle connection", round((after - before) / CONNECTIONS), 512)
            load(running, ROW, 1000, 16)                    # and others are still served
            verdict.at_most("alloc.steady", running.total("alloc.steady"), 0)
            for connection in held:
                connection.close()
            running.stop()
    return verdict.end()


if __name__ == "__main__":
    sys.exit(main())
