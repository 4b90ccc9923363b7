"""A throwaway PostgreSQL: a cluster in a temporary folder, on a private socket, gone when it is stopped.

PostgreSQL refuses to run as root, so root's clusters run as the user postgres.  The role `vanilla` comes in without a
password (the socket is private, and the workers of a server that root started run as nobody); the superuser only
for whoever started the cluster.
"""
import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG = 1
SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample.sql")


def die_with_parent(sig):
    """For preexec_fn: the child gets `sig` when this process dies, however it dies."""
    libc = ctypes.CDLL(None, use_errno=True)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, sig)


def temporary_folder(prefix):
    """A folder that other users may enter: PostgreSQL and the workers of a server that root started are not root.  Not
    below TMPDIR, which may be private; tests/run/all.py says where, so that it can see what is left behind."""
    folder = tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("VANILLA_TMP", "/tmp"))
    os.chmod(folder, 0o755)
    return folder


def find_bindir():
    """The newest PostgreSQL of this machine."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    found.sort(key=lambda path: int(path.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    on_path = shutil.which("postgres")
    if on_path:
        return os.path.dirname(os.path.realpath(on_path))
    raise RuntimeError("PostgreSQL's server is not installed (Debian package postgresql)")


class Cluster:
    """`with Cluster() as c:` or start() and stop().  c.conninfo is what vanilla connects with."""

    def __init__(self, max_connections=100, settings=None, hba="", like=None):
        self.bindir = find_bindir()
        self.max_connections = max_connections
        self.settings = settings or {}      # of postgresql.conf, on top of those of start()
        self.hba = hba                      # lines of pg_hba.conf, before the others
        self.like = like                    # another one, stopped, of which this is a copy
        self.folder = None
        self.process = None

    def __enter__(self):
        try:
            self.create()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *unused):
        self.remove()

    @property
    def socket_dir(self):
        return os.path.join(self.folder, "socket")

    @property
    def conninfo(self):
        return "host=%s port=%d dbname=app user=vanilla" % (self.socket_dir, self.settings.get("port", 5432))

    def create(self):
        """initdb, and the two lines that say who may come in."""
        me = pwd.getpwuid(os.geteuid())
        owner = pwd.getpwnam("postgres") if me.pw_uid == 0 else me
        self.as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if me.pw_uid == 0 else {}
        self.folder = temporary_folder("vanilla-pg-")
        for name in ("data", "socket"):
            path = os.path.join(self.folder, name)
            os.mkdir(path, 0o700 if name == "data" else 0o755)
            os.chown(path, owner.pw_uid, owner.pw_gid)
        self.data = os.path.join(self.folder, "data")
        if self.like is not None:
            subprocess.run(["cp", "-a", self.like.data + "/.", self.data], check=True, stdin=subprocess.DEVNULL)
        else:
            self.initdb()
        self.write("pg_hba.conf", self.hba + "local all postgres peer map=owner\nlocal all all trust\n")
        self.write("pg_ident.conf", "".join("owner %s postgres\n" % n for n in sorted({me.pw_name, owner.pw_name})))

    def initdb(self):
        command = [os.path.join(self.bindir, "initdb"), "-D", self.data, "-U", "postgres", "-A", "reject", "-E", "UTF8",
                   "--no-locale", "--no-sync", "--no-instructions"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": os.defpath, "LC_ALL": "C"}, cwd=self.folder, start_new_session=True,
                              preexec_fn=die_with_parent(signal.SIGTERM), **self.as_owner) as initdb:
            try:
                said, _ = initdb.communicate()
            except BaseException:       # it ends the server that it has started; killed, it would leave shared memory
                initdb.terminate()
                initdb.communicate()
                raise
        if initdb.returncode != 0:
            raise RuntimeError("initdb failed:\n" + said.decode(errors="replace"))

    def write(self, name, text):
        path = os.path.join(self.data, name)        # exists, so its owner and mode stay
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        """Returns when connections are taken."""
        settings = {"listen_addresses": "", "unix_socket_directories": self.socket_dir,
                    "max_connections": self.max_connections, "shared_buffers": "64MB", "jit": "off",
                    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
                    "log_min_messages": "warning", "max_wal_senders": 0, "wal_level": "minimal", "TimeZone": "UTC",
                    # In the data folder, where it goes with it even after kill -9.
                    "dynamic_shared_memory_type": "mmap", **self.settings}
        command = [os.path.join(self.bindir, "postgres"), "-D", self.data]
        for name, value in settings.items():
            command += ["-c", "%s=%s" % (name, value)]
        # A session of its own: Ctrl-C goes to us, and we say in which order things end.
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={"PATH": os.defpath, "LC_ALL": "C"}, cwd=self.folder,
                                            start_new_session=True, preexec_fn=die_with_parent(signal.SIGQUIT),
                                            **self.as_owner)
        deadline = time.monotonic() + 60
        while not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError("PostgreSQL did not start:\n" + self.log())
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL is not ready after 60 s:\n" + self.log())
            time.sleep(0.02)

    def ready(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
                lines = file.read().split("\n")
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self, immediate=False):
        """Fast shutdown, or as if by a crash."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                try:
                    self.process.wait(10)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        self.process = None

    def crash(self):
        """kill -9, all of it at once: nobody says goodbye."""
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid), encoding="ascii") as file:
            pids = [self.process.pid] + [int(pid) for pid in file.read().split()]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None

    def remove(self):
        self.stop(immediate=True)
        self.release()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def release(self):
        """One that was killed leaves a few octets of System V shared memory, which its next start would find."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
                shmid = int(file.read().split("\n")[6].split()[1])
        except (AttributeError, OSError, IndexError, ValueError):
            return
        ctypes.CDLL(None).shmctl(shmid, 0, None)        # IPC_RMID

    def sql(self, script, database="app", **variables):
        """Runs a psql script as the superuser; returns what it prints, unaligned."""
        command = ["psql", "-X", "-q", "-A", "-t", "-h", self.socket_dir,
                   "-p", str(self.settings.get("port", 5432)), "-U", "postgres", "-d", database,
                   "-v", "ON_ERROR_STOP=1", "-f", "-"]
        for name, value in variables.items():
            command += ["-v", "%s=%s" % (name, value)]
        done = subprocess.run(command, input=script.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={"PATH": os.environ.get("PATH", os.defpath), "PGCLIENTENCODING": "UTF8"})
        if done.returncode != 0:
            raise RuntimeError("psql: " + done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def load_sample(self, rows=100000):
        """The database `app` with the tables items and fortune."""
        self.sql("CREATE ROLE vanilla LOGIN; CREATE DATABASE app;", database="postgres")
        with open(SAMPLE, encoding="utf-8") as file:
            self.sql(file.read(), rows=int(rows))
