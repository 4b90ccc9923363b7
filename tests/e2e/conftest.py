"""Fixtures.  VANILLA_BIN names the folder of the binaries (build/ unless told otherwise)."""
import os
import signal
import sys

import psycopg2
import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Client  # noqa: E402
from cluster import Cluster  # noqa: E402
from gate import Gate  # noqa: E402
from process import Vanilla  # noqa: E402

# Patient ones: a machine that is busy with something else for a moment is no reason for a shed or a 504.
POOLS = """
pools = (
  { name = "read";  conninfo = "%(conninfo)s"; connections = 4; max_inflight = 16; read_only = true; queue_timeout_ms = 10000;
    statement_timeout_ms = 60000; },
  { name = "write"; conninfo = "%(conninfo)s"; connections = 2; max_inflight = 4; queue_timeout_ms = 10000;
    statement_timeout_ms = 60000; }
);
"""


def pytest_configure():
    # SIGTERM ends a run like Ctrl-C does: fixtures are torn down, nothing is left behind.
    def end(_number, _frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, end)


@pytest.fixture(scope="session")
def cluster():
    """One PostgreSQL with the sample data, for all tests that leave it as it was."""
    with Cluster() as throwaway:
        throwaway.load_sample(5000)
        yield throwaway


@pytest.fixture(scope="session")
def pattern():
    """What each own_cluster begins as: to copy it costs less than to make one."""
    with Cluster() as throwaway:
        throwaway.load_sample(100)
        throwaway.stop()
        yield throwaway


@pytest.fixture
def own_cluster(pattern):
    """A PostgreSQL that the test may stop and break."""
    with Cluster(like=pattern) as throwaway:
        yield throwaway


class Starter:
    """server(routes, ...): a running vanilla.  At the end each is checked for allocations and deaths, and stopped."""

    def __init__(self, default_conninfo):
        self.conninfo = default_conninfo
        self.servers = []
        self.text = None        # of the last one's file

    def __call__(self, routes, pools=None, settings="workers = 1;", conninfo=None, wait="/ready", start=True, **more):
        text = (POOLS if pools is None else pools).replace("%(conninfo)s", conninfo or self.conninfo)
        self.text = "%s\n%s\nroutes = (\n%s\n);\n" % (settings, text, routes)
        server = Vanilla(self.text, **more)
        self.servers.append(server)
        if start:
            server.start(wait)
        return server

    def finish(self):
        """For a test that went well: what must be true of every server at its end."""
        for server in self.servers:
            if server.process is not None:
                server.check_steady()
                code = server.stop()
                assert code == 0, "exit code %s:\n%s" % (code, server.log())
            if os.path.exists(server.log_file):
                server.check_log()

    def remove(self):
        for server in self.servers:
            server.remove()


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    setattr(item, "report_" + report.when, report)
    starter = getattr(item, "funcargs", {}).get("server")
    if report.failed and isinstance(starter, Starter):
        for server in starter.servers:
            if os.path.exists(server.log_file):
                report.sections.append(("vanilla's log", server.log()[-20000:]))


@pytest.fixture
def server(request, cluster):
    starter = Starter(cluster.conninfo)
    try:
        yield starter
        report = getattr(request.node, "report_call", None)
        if report is not None and report.passed:
            starter.finish()
    finally:
        starter.remove()


def kept(cluster, *what):
    """For a module's fixture: one server for all tests that ask for it."""
    starter = Starter(cluster.conninfo)
    try:
        yield starter(*what)
        starter.finish()
    finally:
        starter.remove()


@pytest.fixture(scope="module")
def shared(request, cluster):
    """One server for all tests of a file that has ROUTES (and perhaps SETTINGS, POOLS)."""
    module = request.module
    yield from kept(cluster, module.ROUTES, getattr(module, "POOLS", None), getattr(module, "SETTINGS", "workers = 1;"))


@pytest.fixture
def client(shared):
    with Client(shared.port) as connection:
        yield connection


@pytest.fixture
def db(cluster):
    """Straight to PostgreSQL, as the superuser, for what the server should have done."""
    connection = psycopg2.connect(host=cluster.socket_dir, dbname="app", user="postgres")
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.fixture
def gate(cluster):
    """Shut when the test begins."""
    with Gate(cluster) as shut:
        yield shut
