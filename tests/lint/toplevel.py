#!/usr/bin/python3
"""The top level is fixed, in every commit: what is new finds a room in the house."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = {"master", "worker", "shm", "ctl", "conf", "tests", "Makefile", "README.md", "LICENSE"}


def git(*arguments):
    return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=TOP, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout.decode(errors="replace").split("\n")


def main():
    problems = 0
    places = [("now", [name for name in os.listdir(TOP) if not name.startswith("build")])]
    for commit in filter(None, git("rev-list", "HEAD")):
        places.append((commit[:12], filter(None, git("ls-tree", "--name-only", commit))))
    for where, names in places:
        for name in names:
            if name not in ROOMS and not name.startswith("."):
                print("%s: %s is beyond the design (%s)" % (where, name, " ".join(sorted(ROOMS))))
                problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
