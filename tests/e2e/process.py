"""vanilla as a child process of a test or a script: ports, configuration, start, figures, end."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from cluster import die_with_parent, temporary_folder

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SANITIZER_REPORT = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:|WARNING: MemorySanitizer|"
                              r"cannot happen:|allocation on a request path|stack smashing")


def build_folder():
    """Where the binaries are: VANILLA_BIN, or build/."""
    return os.path.abspath(os.environ.get("VANILLA_BIN") or os.path.join(TOP, "build"))


def is_sanitized():
    return "asan" in os.path.basename(build_folder()) or "ubsan" in os.path.basename(build_folder())


class Port:
    """A port that no other test takes: held by an abstract Unix socket, which the kernel drops with the process."""

    next_try = os.getpid() % 900

    def __init__(self):
        for _ in range(900):
            Port.next_try = (Port.next_try + 1) % 900
            self.number = 21000 + 10 * Port.next_try      # below the ephemeral ports
            self.lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            try:
                self.lock.bind("\0vanilla-test-port-%d" % self.number)
                if port_is_free(self.number):
                    return
            except OSError:
                pass
            self.lock.close()
        raise RuntimeError("no free port between 21000 and 30000")

    def release(self):
        self.lock.close()


def port_is_free(number):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True


def http_get(port, path, timeout=5):
    """-> (status, body); for scripts that only ask a simple question."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Vanilla:
    """One server on ports of its own.

    conf     the file's text but for listen, admin, runtime_dir and user, which are put in front
    options  further command line arguments
    env      added to the environment; VANILLA_ALLOC=trap is there unless told otherwise
    wrapper  a command to run it under (valgrind, taskset); VANILLA_WRAPPER unless told otherwise
    keep_open  descriptors that it inherits
    """

    def __init__(self, conf, options=(), env=None, wrapper=(), trap=True, listen=None, keep_open=()):
        self.folder = temporary_folder("vanilla-e2e-")
        self.runtime_dir = os.path.join(self.folder, "run")
        self.conf_file = os.path.join(self.folder, "vanilla.conf")
        self.ports = [Port(), Port()]
        self.port, self.admin_port = self.ports[0].number, self.ports[1].number
        self.listen = listen or '( { address = "127.0.0.1:%d"; } )' % self.port
        self.options, self.keep_open = list(options), tuple(keep_open)
        self.wrapper = list(wrapper) or os.environ.get("VANILLA_WRAPPER", "").split()
        self.env = dict(os.environ, LC_ALL="C", ASAN_OPTIONS="detect_leaks=1:handle_abort=1",
                        UBSAN_OPTIONS="print_stacktrace=1")
        self.env.pop("VANILLA_ALLOC", None)
        if trap:
            self.env["VANILLA_ALLOC"] = "trap"
        self.env.update(env or {})
        self.process = None
        self.deaths_expected = 0
        self.write_conf(conf)

    def write_conf(self, conf):
        with open(self.conf_file, "w", encoding="utf-8") as file:
            file.write('listen = %s;\nadmin = { address = "127.0.0.1:%d"; };\nruntime_dir = "%s";%s\n%s'
                       % (self.listen, self.admin_port, self.runtime_dir,
                          ' user = "nobody";' if os.geteuid() == 0 else "", conf))

    def command(self, *arguments):
        return [os.path.join(build_folder(), "vanilla"), "-c", self.conf_file, *arguments]

    def start(self, wait="/ready", timeout=40):
        """Returns when the admin listener says 200 on `wait` (None: at once)."""
        os.makedirs(self.runtime_dir, exist_ok=True)
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.wrapper + self.command(*self.options), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.env, cwd=self.folder,
                                            pass_fds=self.keep_open, preexec_fn=die_with_parent(signal.SIGTERM))
        if wait:
            self.wait_for(wait, timeout)
        if wait == "/ready":
            self.wait_until_complete(timeout)
        return self

    def wait_until_complete(self, timeout):
        """All workers ready, all connections of all pools up: what a test of a healthy server starts from."""
        deadline = time.monotonic() + timeout
        while True:
            stats = self.stats()
            if (all(worker["state"] == "ready" for worker in stats["workers"])
                    and all(pool["up"] == pool["connections"] for pool in stats["pools"])):
                return
            if time.monotonic() > deadline:
                raise AssertionError("ready, but not complete: %s\n%s" % (stats["pools"], self.log()))
            time.sleep(0.02)

    @property
    def log_file(self):
        return os.path.join(self.folder, "log")

    def log(self):
        with open(self.log_file, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, path, timeout=40, status=200):
        deadline = time.monotonic() + timeout
        last = None
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError("vanilla ended with %s:\n%s" % (self.process.returncode, self.log()))
            try:
                last = http_get(self.admin_port, path)
                if last[0] == status:
                    return last[1]
            except (OSError, http.client.HTTPException) as error:
                last = error
            time.sleep(0.02)
        raise AssertionError("%s is not %d after %d s but %r:\n%s" % (path, status, timeout, last, self.log()))

    def ctl(self, *arguments, check=True):
        """vanillactl's output; check=False: (exit code, stdout, stderr)."""
        done = subprocess.run([os.path.join(build_folder(), "vanillactl"), "-r", self.runtime_dir, *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, LC_ALL="C"), timeout=20)
        out, err = done.stdout.decode(), done.stderr.decode()
        if not check:
            return done.returncode, out, err
        assert done.returncode == 0, "vanillactl %s: exit %d\n%s%s" % (arguments, done.returncode, out, err)
        return out

    def stats(self):
        return json.loads(self.ctl("stats", "--json"))

    def total(self, name):
        return self.stats()["total"][name]

    def workers(self):
        """Worker processes: the master's children."""
        return children(self.process.pid)

    def send(self, number):
        self.process.send_signal(number)

    def check_steady(self):
        """No allocation on a request path so far, no worker dead that should live."""
        deadline = time.monotonic() + 10
        total = self.stats()["total"]
        while total["master.deaths"] < self.deaths_expected and time.monotonic() < deadline:
            time.sleep(0.02)            # the master hears of a death a moment after the clients
            total = self.stats()["total"]
        assert total["alloc.steady"] == 0, "allocations after start: %s" % {
            name: value for name, value in total.items() if name.startswith("alloc.")}
        assert total["master.deaths"] == self.deaths_expected, "workers died:\n" + self.log()

    def stop(self, number=signal.SIGTERM, timeout=15):
        """Ends it and returns the exit code; no worker may be left over."""
        if self.process is None:
            return None
        workers = self.workers()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("vanilla did not end within %d s of signal %d:\n%s"
                                 % (timeout, number, self.log())) from None
        self.process = None
        left = [pid for pid in workers if wait_gone(pid, 5) is False]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, "workers %s outlived their master:\n%s" % (left, self.log())
        return code

    def kill(self):
        """Whatever is left of it, for clean-up."""
        if self.process is not None:
            pids = self.workers()
            self.process.kill()
            self.process.wait()
            self.process = None
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def check_log(self):
        found = SANITIZER_REPORT.search(self.log())
        assert not found, "%s in the log:\n%s" % (found.group(0), self.log())

    def remove(self):
        self.kill()
        for port in self.ports:
            port.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.remove()


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def wait_gone(pid, timeout):
    """Whether a process that is not our child has ended (a zombie has)."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (OSError, IndexError):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
