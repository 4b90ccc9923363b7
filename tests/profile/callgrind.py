"""A server under callgrind, and what its raw dump says: who called the allocator how often, and how many instructions.

Instrumentation is off at the start, so that a warm-up is quick and leaves no figures, and is switched on from outside.
The dump is the one that the process writes as it ends: asked of a live process that sleeps in epoll_wait, it never comes.
"""
import contextlib
import os
import re
import shutil
import signal
import time

from common import built, server, temporary_folder

HEAP = {"malloc", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
        "strdup", "strndup"}
KERNEL = {"mmap", "mremap", "brk", "sbrk"}
# How the C library comes by its memory: what these ask of the kernel follows from a call that was counted.
INSIDE_MALLOC = re.compile(r"_int_|sysmalloc|systrim|new_heap|grow_heap|heap_trim|(tcache|ptmalloc|arena)_|__(glibc|default)_morecore|alloc_perturb|malloc_")
CALL = re.compile(r"calls=(\d+)")
SPEC = re.compile(r"(fl|fi|fe|fn|cfi|cfl|cfn|ob|cob)=\((\d+)\)(?: (.*))?$")


def plain(name):
    """A function's name without recursion level, version and the C library's private spelling."""
    name = re.sub(r"('\d+|@.*|\.(part|constprop|isra|cold|lto_priv)\.\d+.*)+$", "", name)
    for prefix in ("__libc_", "__GI___libc_", "__GI___", "__GI_", "__"):
        rest = name[len(prefix):]
        if name.startswith(prefix) and re.sub(r"64$", "", rest) in HEAP | KERNEL:
            return re.sub(r"64$", "", rest)
    return re.sub(r"64$", "", name) if name in ("mmap64",) else name


def where(file, thing, line):
    """file:line as of the tree's top, or else the object."""
    if file in ("", "?", "???"):
        return os.path.basename(thing)
    place = re.sub(r".*/(?=(?:worker|shm|conf|master)/)|^(?:\./)+.*/|^/.*/", "", file)
    return "%s:%d" % (place, line) if line else place


class Dump:
    """.instructions; .calls: {(kind, caller, place): calls}, kind `heap` or `kernel`; .functions: {name: times called}"""

    def __init__(self, text):
        found = re.search(r"^totals: (\d+)", text, re.M)
        self.instructions = int(found.group(1)) if found else 0
        self.calls, self.functions = {}, {}
        self.names, self.homes, edges = {}, {}, {}      # by callgrind's number of the function
        self.read(text, edges)
        stubs = self.stubs(edges)
        for (by, to, place), calls in edges.items():
            if by not in stubs:
                self.count(by, stubs.get(to, to), place, calls)

    def read(self, text, edges):
        """Resolves the compressed names and gathers who called whom, and where."""
        names = {"file": {}, "ob": {}}
        now = {"fn": "", "file": "", "ob": ""}
        callee, at, pending = "", 0, 0
        for line in text.split("\n"):
            spec = SPEC.match(line)
            if spec:
                word, number, name = spec.groups()
                if word in ("fn", "cfn"):
                    if name is not None:
                        self.names[number] = name
                    if word == "fn":
                        now["fn"] = number
                        self.homes[number] = now["ob"]
                    else:
                        callee = number
                    continue
                table = "ob" if word in ("ob", "cob") else "file"
                if name is not None:
                    names[table][number] = name
                if word in ("fl", "fi", "fe", "ob"):
                    now[table] = names[table].get(number, "?")
                continue
            call = CALL.match(line)
            if call:
                pending = int(call.group(1))
                continue
            if not line or line[0] not in "0123456789+-*":
                continue
            word = line.split(" ", 1)[0]
            at = at if word == "*" else at + int(word) if word[0] in "+-" else int(word)
            if pending:
                key = (now["fn"], callee, where(now["file"], now["ob"], at))
                edges[key] = edges.get(key, 0) + pending
                pending = 0

    def stubs(self, edges):
        """Jumps of the dynamic linker's tables that belong to no object: they stand for where they lead."""
        leads = {}
        for by, to, _ in edges:
            leads.setdefault(by, set()).add(to)
        return {by: next(iter(to)) for by, to in leads.items()
                if len(to) == 1 and self.names[by].startswith("0x") and self.homes.get(by) == "???"}

    def count(self, by, to, place, calls):
        by, to = plain(self.names[by]), plain(self.names[to])
        self.functions[to] = self.functions.get(to, 0) + calls
        kind = "heap" if to in HEAP else "kernel" if to in KERNEL else None
        if kind is None or by in HEAP or by in KERNEL or INSIDE_MALLOC.match(by):
            return
        key = (kind, by, place)
        self.calls[key] = self.calls.get(key, 0) + calls

    def heap(self):
        return sum(calls for (kind, _, _), calls in self.calls.items() if kind == "heap")


class Callgrind:
    """`with Callgrind(cluster) as c:` c.running is the server; c.on(); ...; dump = c.finish()"""

    def __init__(self, cluster, keep=None, **more):
        self.keep = keep
        self.folder = temporary_folder("vanilla-e2e-callgrind-")
        os.chmod(self.folder, 0o777)
        # No gdb server: its pipes would be those of root, and nobody's worker would die of it.
        wrapper = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--instr-atstart=no", "--vgdb=no",
                   "--log-file=/dev/null", "--callgrind-out-file=%s/out.%%p" % self.folder]
        environment = dict(more.pop("env", None) or {}, LD_PRELOAD=built("switch.so"))
        self.running = server(cluster, wrapper=wrapper, env=environment, **more)
        self.worker = None

    def __enter__(self):
        return self

    def start(self):
        self.running.start(timeout=60)
        (self.worker,) = self.running.workers()

    def switch(self, state):
        """Instrumentation `on` or `off`, by the signal that switch.c waits for."""
        os.kill(self.worker, signal.SIGRTMIN + (3 if state == "on" else 4))
        time.sleep(0.5)                             # the worker wakes ten times a second at the least

    def finish(self):
        """Off, so that taking down is no request's; SIGTERM; what was counted between."""
        self.switch("off")
        code = self.running.stop(timeout=60)
        if code != 0:
            raise RuntimeError("exit code %s:\n%s" % (code, self.running.log()[-3000:]))
        out = os.path.join(self.folder, "out.%d" % self.worker)
        with open(out, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if self.keep:
            os.makedirs(os.path.dirname(self.keep), exist_ok=True)
            shutil.copy(out, self.keep)
        return Dump(text)

    def __exit__(self, *unused):
        self.running.remove()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)
