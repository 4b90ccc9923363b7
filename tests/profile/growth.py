"""How memory grows under load: samples of private memory, a line through their tail, what that line means, and a chart."""
import math
import os
import resource
import shutil
import signal
import subprocess
import threading

from common import TOP, private_bytes, resident_bytes

PAGE = resource.getpagesize()
JUMP = 16 * PAGE        # in one step of a tail; what climbs does so in many
CAP = 512 << 20


class Watch:
    """`with Watch(pid):` kills a process whose memory runs away, long before the machine suffers."""

    def __init__(self, pid, cap=CAP):
        self.pid, self.cap, self.killed = pid, cap, False
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.stop.wait(0.2):
            try:
                if resident_bytes(self.pid) > self.cap:
                    self.killed = True
                    os.kill(self.pid, signal.SIGKILL)
                    return
            except (OSError, IndexError):
                return

    def __enter__(self):
        # The kernel's own guard, should we be too slow: what is reserved at start counts, hence the margin.
        try:
            resource.prlimit(self.pid, resource.RLIMIT_DATA, (2 * self.cap, 2 * self.cap))
        except (OSError, ValueError):
            pass
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stop.set()
        self.thread.join()
        if self.killed:
            raise RuntimeError("process %d took more than %d MiB and was killed" % (self.pid, self.cap >> 20)) from value


class Growth:
    """Samples (how much was done, private bytes), the first before anything was."""

    def __init__(self, samples):
        self.samples = samples
        tail = samples[len(samples) // 2:]
        self.slope, self.error = line(without_jump(tail))
        # Memory comes in pages: a step or two of one page says nothing about the requests.
        self.resolution = 2 * PAGE / max(tail[-1][0] - tail[0][0], 1)
        self.error = max(self.error, self.resolution)
        self.total = samples[-1][1] - samples[0][1]
        self.tail = tail[-1][1] - tail[0][1]

    @property
    def climbs(self):
        return self.slope > self.error

    @property
    def verdict(self):
        if self.climbs:
            return "climb (a leak)"
        return "jump that flattens (set-up)" if self.total > 4 * PAGE else "flat"

    def __str__(self):
        return "%+.2f +- %.2f bytes each in the tail, %+d KiB in all: %s" % (self.slope, self.error, self.total // 1024, self.verdict)


def without_jump(points):
    """The points, without the one step up that is large and more than half of all there is: buffers that were touched for the
    first time, late because the machine was busy.  It is set-up, and what is left has to climb by itself."""
    steps = [after[1] - before[1] for before, after in zip(points, points[1:])]
    jump = max(steps, default=0)
    if jump < JUMP or jump <= sum(step for step in steps if step > 0) / 2:
        return points
    at = steps.index(jump)
    jump -= sorted(steps)[len(steps) // 2]          # it had its requests, too
    return points[:at + 1] + [(x, y - jump) for x, y in points[at + 1:]]


def line(points):
    """Least squares: slope, and twice its standard error."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    if n < 3 or xx == 0:
        return 0.0, math.inf
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / xx
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    return slope, 2 * math.sqrt(rest / (n - 2) / xx)


def sample(pid, steps, step, cap=CAP):
    """step() does some and returns how much; -> Growth."""
    samples = [(0, private_bytes(pid))]
    with Watch(pid, cap):
        for _ in range(steps):
            done = step()
            samples.append((samples[-1][0] + done, private_bytes(pid)))
    return Growth(samples)


def chart(curves, height=9, width=64):
    """{name: Growth} as text: private KiB over what was done."""
    marks = "*o+x"
    every = [point for growth in curves.values() for point in growth.samples]
    low, high = min(y for _, y in every), max(y for _, y in every)
    far = max(x for x, _ in every) or 1
    high = max(high, low + 16 * PAGE)
    rows = [[" "] * (width + 1) for _ in range(height + 1)]
    for mark, growth in zip(marks, curves.values()):
        for x, y in growth.samples:
            rows[height - round((y - low) / (high - low) * height)][round(x / far * width)] = mark
    text = []
    for i, row in enumerate(rows):
        text.append("%9d |%s" % ((high - (high - low) * i / height) / 1024, "".join(row).rstrip()))
    text.append("%9s +%s" % ("KiB", "-" * (width + 1)))
    text.append("%9s  0%*d   %s" % ("", width, far, "  ".join("%s %s" % pair for pair in zip(marks, curves))))
    return "\n".join(text)


def picture(name, title, curves):
    """The same as PNG by gnuplot; -> its path, or None where there is no gnuplot."""
    if not shutil.which("gnuplot"):
        return None
    folder = os.path.join(TOP, "build", "profile")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".png")
    script = ["set terminal png size 800,480", "set output '%s'" % path.replace("'", "''"), "set title '%s'" % title,
              "set xlabel 'done'", "set ylabel 'private memory, KiB'", "set key left top", "set grid",
              "plot " + ", ".join("'-' using 1:2 with linespoints title '%s'" % each for each in curves)]
    for growth in curves.values():
        script += ["%d %d" % (x, y // 1024) for x, y in growth.samples] + ["e"]
    done = subprocess.run(["gnuplot"], input="\n".join(script).encode() + b"\n", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path if done.returncode == 0 else None
