#!/usr/bin/python3
"""User-space instructions per request, by callgrind: the difference of two runs of one worker, N and 2N requests of one
client that waits for each answer on a keep-alive connection.  Libraries and database work are included; so are the ticks
of the time that it takes, which a busy machine makes long: what is above its limit is measured again, and the least counts.

    instructions.py [--short] [--keep FOLDER]     --keep: leave callgrind's files there, for callgrind_annotate
"""
import glob
import os
import re
import shutil
import sys
import tempfile

from common import KEPT, ROW, TEXT, Cluster, Verdict, load, server

TRIES = 3
LIMITS = {TEXT: 1500, ROW: 4500, KEPT: 2500}


def instructions(cluster, target, requests, keep):
    with tempfile.TemporaryDirectory(prefix="vanilla-e2e-callgrind-", dir=os.environ.get("VANILLA_TMP", "/tmp")) as folder:
        os.chmod(folder, 0o777)
        wrapper = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--log-file=/dev/null",
                   "--callgrind-out-file=%s/out.%%p" % folder]
        with server(cluster, wrapper=wrapper, trap=False) as running:
            running.start(timeout=60)
            (worker,) = running.workers()
            load(running, target, 500, 1)
            load(running, target, requests, 1)
            running.stop(timeout=60)
        (out,) = glob.glob("%s/out.%d" % (folder, worker))
        with open(out, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if keep:
            os.makedirs(keep, exist_ok=True)
            shutil.copy(out, os.path.join(keep, "callgrind%s.%d" % (target.replace("/", "-").replace("#", "N"), requests)))
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1))


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    requests = 3000 if "--short" in sys.argv[1:] else 20000
    keep = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv[1:] else None
    verdict = Verdict("instructions")
    with Cluster() as cluster:
        cluster.load_sample(1000)
        for target, limit in LIMITS.items():
            least = None
            for _ in range(TRIES):
                once, twice = (instructions(cluster, target, n * requests, keep) for n in (1, 2))
                least = min(round((twice - once) / requests), least or 1 << 30)
                if least <= limit:
                    break
            verdict.at_most("instructions per request of %s" % target, least, limit)
    return verdict.end()


if __name__ == "__main__":
    sys.exit(main())
