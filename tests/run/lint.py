#!/usr/bin/python3
"""House rules: every script in tests/lint/, the C code's format, shellcheck over the shell scripts."""
import glob
import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sources():
    found = []
    for folder in ("shm", "conf", "worker", "worker/*", "ctl", "master", "tests/*"):
        found += glob.glob(os.path.join(TOP, folder, "*.[ch]"))
    return sorted(found)


def shell_scripts():
    found = []
    for path in glob.glob(os.path.join(TOP, "tests", "**", "*"), recursive=True) + [os.path.join(TOP, ".ci", "run")]:
        if os.path.isfile(path) and not path.endswith((".py", ".json", ".c", ".h")):
            with open(path, "rb") as file:
                first = file.readline(80)
            if first.startswith(b"#!") and b"sh" in first.replace(b"python", b""):
                found.append(path)
    return sorted(found)


def main():
    checks = [(os.path.relpath(path, TOP), ["/usr/bin/python3", path])
              for path in sorted(glob.glob(os.path.join(TOP, "tests", "lint", "*.py")))]
    for tool, command in (("clang-format", ["--dry-run", "-Werror", "-ferror-limit=1"] + sources()),
                          ("shellcheck", shell_scripts())):
        if shutil.which(tool):
            checks.append((tool, [tool] + command))
        else:
            print("%s is not installed: not checked" % tool)
    failed = 0
    for name, command in checks:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=TOP)
        if done.returncode != 0:
            failed += 1
            print("%s\nFAIL %s" % (done.stdout.decode(errors="replace")[-6000:], name))
    print("%d passed, %d failed" % (len(checks) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
