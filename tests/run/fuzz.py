#!/usr/bin/python3
"""Runs fuzz targets.  The corpus of fuzz_NAME is the folder tests/fuzz/corpus/NAME.

    fuzz.py corpus PROGRAM...           each target over its corpus (programs linked with standalone.c)
    fuzz.py search SECONDS PROGRAM...   libFuzzer, that long for each; findings and new corpus go beside the program
"""
import os
import re
import resource
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def corpus_of(program):
    folder = os.path.join(TOP, "tests", "fuzz", "corpus", os.path.basename(program).replace("fuzz_", "", 1))
    files = []
    if os.path.isdir(folder):
        files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    return folder, files


def corpus(program):
    _, files = corpus_of(program)
    if not files:
        print("FAIL %s: no corpus" % program)
        return False
    done = subprocess.run([program] + files, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600)
    if done.returncode != 0:
        print("%s\nFAIL %s: exit code %d" % (done.stdout.decode(errors="replace"), program, done.returncode))
    return done.returncode == 0


def search(program, seconds):
    folder, files = corpus_of(program)
    found = os.path.abspath(program) + ".corpus"
    os.makedirs(found, exist_ok=True)
    command = [os.path.abspath(program), "-max_total_time=%d" % seconds, "-max_len=65536",
               "-timeout=60",  # by the clock, and a busy machine may let it wait for long
               "-rss_limit_mb=2048", "-print_final_stats=1",
               "-artifact_prefix=%s." % os.path.abspath(program), found] + ([folder] if files else [])
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = done.stdout.decode(errors="replace")
    runs = re.search(r"number_of_executed_units: *(\d+)", text)
    print("%s: %s inputs in %.0f s, %.0f s of a processor, exit code %d" % (
        os.path.basename(program), runs.group(1) if runs else "?", took, processor, done.returncode), flush=True)
    if done.returncode != 0:
        print(text[-8000:])
    return done.returncode == 0


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    if sys.argv[1] == "corpus":
        results = [corpus(program) for program in sys.argv[2:]]
    else:
        results = [search(program, int(sys.argv[2])) for program in sys.argv[3:]]
    print("%d passed, %d failed" % (sum(results), len(results) - sum(results)))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
