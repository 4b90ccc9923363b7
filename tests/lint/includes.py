#!/usr/bin/python3
"""Which folder may include which: shm <- conf <- worker <- master, shm <- ctl <- master; and, inside worker/, the way
of a request: mem below all, http, pg, json, route, handler, then the worker itself.  Includes are written from the top.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What stands here may include itself and these.
MAY = {
    "shm": [],
    "conf": ["shm"],
    "ctl": ["shm"],
    "master": ["shm", "conf", "ctl", "worker"],
    # worker/worker.h is what the master sees; the other files of worker/ itself are the loop around it all.
    "worker/mem": ["shm"],
    "worker/http": ["shm", "conf", "worker/mem"],
    "worker/pg": ["shm", "conf", "worker/mem"],
    "worker/json": ["shm", "conf", "worker/mem", "worker/pg"],
    "worker/route": ["shm", "conf", "worker/mem", "worker/http", "worker/pg", "worker/json"],
    "worker/handler": ["shm", "conf", "worker/mem", "worker/http", "worker/pg", "worker/json", "worker/route"],
    "worker": ["shm", "conf", "worker/mem", "worker/http", "worker/pg", "worker/json", "worker/route",
               "worker/handler"],
}

# The connection hands a request to the router and to the one handler contract; that much of what comes later it sees.
EXCEPTIONS = {("worker/http", "worker/handler/handler.h"), ("worker/http", "worker/handler/request.h"),
              ("worker/http", "worker/route/router.h"), ("worker/http", "worker/route/exact.h"),
              ("master", "worker/worker.h")}
# Of the worker, the master sees its entrance only.
CLOSED = {("master", "worker")}


def room(path):
    folder = os.path.dirname(path)
    while folder and folder not in MAY:
        folder = os.path.dirname(folder)
    return folder


def main():
    problems = 0
    for folder in MAY:
        for path in sorted(glob.glob(os.path.join(TOP, folder, "*.[ch]"))):
            name = os.path.relpath(path, TOP)
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            for number, line in enumerate(lines, 1):
                match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if not match:
                    continue
                included, here = match.group(1), room(name)
                there = room(included)
                if not os.path.isfile(os.path.join(TOP, included)):
                    print("%s:%d: \"%s\" is not a path from the top" % (name, number, included))
                elif (here, included) in EXCEPTIONS or (there == here and (here, there) not in CLOSED):
                    continue
                elif there in MAY[here] and (here, there) not in CLOSED:
                    continue
                else:
                    print("%s:%d: %s may not include %s; it may include %s"
                          % (name, number, here, included, ", ".join(MAY[here]) or "nothing of the others"))
                problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
