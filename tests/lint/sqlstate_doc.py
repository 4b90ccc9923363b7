#!/usr/bin/python3
"""Holds README.md's table of SQLSTATEs against worker/pg/sqlstate.c: the same rows in the same order."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROW = re.compile(r'^    \{ "([0-9A-Z]*)", +(\d+), (true|false), ', re.M)
LINE = re.compile(r"^\| (?:`([0-9A-Z]+)`|anything else) \| (\d+)(, `Retry-After`)? \|", re.M)


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def main():
    table = [(code, status, again == "true") for code, status, again in ROW.findall(read("worker/pg/sqlstate.c"))]
    written = [(code, status, again != "") for code, status, again in LINE.findall(read("README.md"))]
    if table and table == written:
        return 0
    for row in sorted(set(table) ^ set(written)):
        print("README.md and worker/pg/sqlstate.c differ: %s %s%s" % (row[0], row[1], " Retry-After" if row[2] else ""))
    print("README.md: the table of SQLSTATEs is not that of worker/pg/sqlstate.c")
    return 1


if __name__ == "__main__":
    sys.exit(main())
