#!/usr/bin/python3
"""No file names the host of a package registry: packages come by name, through whatever client a machine has set up."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# In pieces, so that this file does not name them either.
HOSTS = [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
         ("crates", "io"), ("rubygems", "org"), ("maven", r"\w+"), ("nuget", "org"), ("packagist", "org"),
         ("proxy.golang", "org"), ("deb.debian", "org"), ("security.debian", "org"), ("ftp.debian", "org"),
         ("archive.ubuntu", "com"), ("hub.docker", "com"), ("hackage.haskell", "org"), ("cpan", "org")]
PATTERN = re.compile("|".join(r"\b%s\.%s\b" % (a.replace(".", r"\."), b) for a, b in HOSTS if a != "maven")
                     + r"|\brepo1?\.maven\b|\bartifactory\b|\bnexus\.\w+\.\w+")


def tracked():
    done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard"], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [name for name in done.stdout.decode().split("\0") if name]


def main():
    problems = 0
    for name in tracked():
        path = os.path.join(TOP, name)
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" in data[:4096]:
            continue
        for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
            found = PATTERN.search(line)
            if found:
                print("%s:%d: names the registry host %s" % (name, number, found.group(0)))
                problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
