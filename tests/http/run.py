#!/usr/bin/python3
"""Starts vanilla with the two routes that the cases need and runs them all: run.py [BUILD_FOLDER] [run_cases' options].

cases.json, more_cases.json and run_cases.py are described in README.md.  The exit code is run_cases.py's: 1 when a `must` failed.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from cluster import Cluster  # noqa: E402

CONF = """
workers = 2;
pools = ( { name = "read";  conninfo = "%(conninfo)s"; connections = 4; read_only = true; },
          { name = "write"; conninfo = "%(conninfo)s"; connections = 4; } );
routes = (
  { method = "GET";  path = "/pipeline";   text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/baseline11"; sql = "SELECT ($1::bigint + $2::bigint)::text";
    params = [ "query.a=0", "query.b=0" ]; result = "raw"; content_type = "text/plain"; },
  { method = "POST"; path = "/baseline11";
    sql = "SELECT ($1::bigint + $2::bigint + coalesce(nullif($3::text, ''), '0')::bigint)::text";
    params = [ "query.a=0", "query.b=0", "body=" ]; result = "raw"; content_type = "text/plain"; }
);
"""


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    options = sys.argv[1:]
    if options and not options[0].startswith("-"):
        os.environ["VANILLA_BIN"] = options.pop(0)
    from process import Vanilla
    with Cluster() as cluster:
        cluster.load_sample(10)
        with Vanilla(CONF % {"conninfo": cluster.conninfo}) as server:
            server.start()
            codes = [subprocess.run([sys.executable, "-B", os.path.join(HERE, "run_cases.py"), "127.0.0.1",
                                     str(server.port), os.path.join(HERE, cases), "--pid", str(server.process.pid),
                                     "--quiet"] + options, stdin=subprocess.DEVNULL).returncode
                     for cases in ("more_cases.json", "cases.json")]
            server.check_steady()
            ended = server.stop()
            server.check_log()
            assert ended == 0, "exit code %s:\n%s" % (ended, server.log())
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
