"""No octet of one request ever reaches another: bleed.c drives 64 clients and checks every octet of every answer.

BLEED_REQUESTS says how many requests (10,000), BLEED_SEED begins differently (1)."""
import os
import subprocess

import pytest
from process import build_folder

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = "".join(chr(97 + n % 26) for n in range(5000))
ROUTES = r"""
  { method = "POST"; path = "/echo"; sql = "SELECT $1::text"; params = [ "body" ]; result = "raw"; },
  { method = "GET";  path = "/echo/{v}"; sql = "SELECT $1::text AS v, $2::text AS w"; params = [ "path.v", "query.w" ]; result = "row"; },
  { method = "GET";  path = "/rows/{v}"; sql = "SELECT $1::text AS v, n FROM generate_series(1, $2::int) n";
    params = [ "path.v", "query.n" ]; result = "rows"; },
  { method = "GET";  path = "/fail/{v}"; sql = "SELECT ($1::text)::int AS v"; params = [ "path.v" ]; result = "row"; },
  { method = "GET";  path = "/fixed"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/long"; text = "%s"; }
""" % LONG
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 3; max_inflight = 8; read_only = true; queue = 1000;
    queue_timeout_ms = 60000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 3; max_inflight = 3; queue = 1000; queue_timeout_ms = 60000; }
);
"""


def bleed(running, requests, seed=1, clients=64):
    program = os.path.join(build_folder(), "bleed")
    if not os.path.exists(program):
        os.makedirs(build_folder(), exist_ok=True)
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", program, os.path.join(TOP, "tests", "e2e", "bleed.c")],
                       check=True)
    done = subprocess.run([program, str(running.port), str(requests), str(clients), str(seed)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600)
    text = done.stdout.decode(errors="replace")
    print(text)
    figures = {name: value for name, value in running.stats()["total"].items()
               if value and name.split(".")[0] in ("http", "shed", "limit", "timeout")}
    assert done.returncode == 0, text[-4000:] + str(figures)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_octet_is_its_own(server, workers):
    running = server(ROUTES, POOLS, settings="workers = %d;" % workers)
    bleed(running, int(os.environ.get("BLEED_REQUESTS", 10000)) // 2, int(os.environ.get("BLEED_SEED", 1)) * 2 + workers)


def test_with_little_memory_and_everything_on(server, tmp_path):
    """The longer ways: fields of CORS, lines of the log, limits that are not reached; answers that are asked for again."""
    os.chmod(tmp_path, 0o777)
    path = "/tmp/vanilla-e2e-bleed-%d" % os.getpid()
    try:
        running = server(ROUTES, POOLS, settings='workers = 1; log = { access = "%s"; }; trusted_proxies = [ "127.0.0.1" ];'
                                                 'cors = { origins = [ "*" ]; }; memory = { buffers_mb = 16; };'
                                                 'client = { requests_per_second = 1000000; connections = 1000; };' % path)
        bleed(running, 2000)
    finally:
        if os.path.exists(path):
            os.unlink(path)
