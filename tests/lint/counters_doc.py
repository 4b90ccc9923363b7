#!/usr/bin/python3
"""Holds the tables of ctl/vanillactl.1 against shm/counters.def: a line for each counter, in the table's order, with its
kind, unit, Prometheus family and meaning.  With --write the tables of the page are written anew."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(TOP, "shm", "counters.def")
PAGE = os.path.join(TOP, "ctl", "vanillactl.1")
ROW = re.compile(r'STAT\((\w+), *(\w+), *(\w+), *(\w+), *"([^"]*)", *"([^"]*)", *"((?:[^"\\]|\\.)*)", *"([^"]*)"\)')
SCOPES = ("WORKER", "POOL", "ROUTE", "MASTER")


def counters():
    """scope -> list of roff paragraphs, one per counter."""
    found = {scope: [] for scope in SCOPES}
    with open(TABLE, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.startswith("STAT("):
                continue
            row = ROW.fullmatch(line.strip())
            if row is None or row.group(1) not in found:
                sys.exit("shm/counters.def:%d: not a row of the table" % number)
            scope, group, name, kind, unit, family, labels, meaning = row.groups()
            if labels:
                family += "{" + labels.replace('\\"', '"') + "}"
            found[scope].append(".TP\n\\fB%s.%s\\fR (%s, %s)\n%s.\n.br\n.I %s\n" % (
                group, roff(name), kind.lower(), unit, roff(meaning), roff(family)))
    return found


def roff(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def filled(page, found):
    """The page with its tables, each between `.\\" SCOPE` and `.\\" end`."""
    for scope in SCOPES:
        begin, end = '.\\" %s counters, from counters.def\n' % scope, '.\\" end of %s counters\n' % scope
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            sys.exit("ctl/vanillactl.1: no place for the %s counters" % scope)
        page = page[:page.index(begin)] + begin + "".join(found[scope]) + page[page.index(end):]
    return page


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    found = counters()
    want = filled(page, found)
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(want)
        return 0
    missing = [paragraph.split("\n")[1] for scope in SCOPES for paragraph in found[scope] if paragraph not in page]
    for line in missing:
        print("ctl/vanillactl.1: missing or not as in shm/counters.def: %s" % line)
    if want != page and not missing:
        print("ctl/vanillactl.1: counters that shm/counters.def does not have, or in another order")
    if want != page:
        print("tests/lint/counters_doc.py --write puts it right")
    return 1 if want != page else 0


if __name__ == "__main__":
    sys.exit(main())
