#!/usr/bin/python3
"""Runs unit tests (cmocka programs) and counts: unit.py [--valgrind] PROGRAM..."""
import re
import subprocess
import sys

VALGRIND = ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]


def run(program, wrapper):
    """-> (passed, failed); prints what a failing one said."""
    try:
        done = subprocess.run(wrapper + [program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=600)
        code, text = done.returncode, done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        code, text = "time-out", (late.stdout or b"").decode(errors="replace")
    passed = len(re.findall(r"^\[ +OK \]", text, re.M))
    skipped = len(set(re.findall(r"^\[ +SKIPPED \] (\w+)", text, re.M)))
    failed = len(re.findall(r"^\[ RUN +\]", text, re.M)) - passed - skipped
    if passed == 0 or (code != 0 and failed == 0):
        failed += 1                     # died outside of a test, leaked, or ran nothing
    if failed:
        print("%s\nFAIL %s: exit code %s" % (text, program, code))
    return passed, failed


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    programs = sys.argv[1:]
    wrapper = []
    if programs[:1] == ["--valgrind"]:
        wrapper = VALGRIND
        programs = programs[1:]
    passed = failed = 0
    for program in programs:
        result = run(program, wrapper)
        passed += result[0]
        failed += result[1]
        sys.stdout.flush()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
