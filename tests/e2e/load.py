"""Clients that ask all the time while something happens: every answer is looked at, and none may be missing."""
import itertools
import threading
import time

from client import Client, Closed


class Load:
    """`with Load(port, {target: body}) as load:` A target may be (method, target, request body).  A 200 must have that body
    (None: any).  load.seen: how often each status came; load.strange: what should not have."""

    def __init__(self, port, targets, clients=6, pause=0.0):
        self.port, self.targets, self.pause = port, list(targets.items()), pause
        self.seen, self.strange, self.times, self.codes = {}, [], [], []
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"

    def run(self, number):
        try:
            while not self.stop.is_set():
                with Client(self.port, timeout=30) as client:
                    again = True
                    while again and not self.stop.is_set():
                        number += 1
                        again = self.ask(client, *self.targets[number % len(self.targets)])
        except (Closed, OSError, AssertionError, ValueError) as error:
            with self.lock:
                self.strange.append(repr(error))

    def ask(self, client, target, body):
        """Whether the connection may be used again."""
        began = time.monotonic()
        if isinstance(target, tuple):
            answer = client.request(target[0], target[1], target[2], {"Content-Type": "application/json"})
        else:
            answer = client.get(target)
        now = time.monotonic()
        with self.lock:
            self.seen[answer.status] = self.seen.get(answer.status, 0) + 1
            self.times.append(now - began)
            self.codes.append((now, answer.status, target))
            if answer.status < 300 and body is not None and answer.body != body:
                self.strange.append((target, answer.body[:200]))
            if answer.status == 503 and not answer.get("retry-after"):
                self.strange.append(answer.fields)
        if answer.status >= 400:
            time.sleep(0.002)
        elif self.pause:
            time.sleep(self.pause)
        return "close" not in (answer.get("connection") or "").lower()

    def well_within(self, seconds, patience=5):
        """Waits until for that long there has been nothing but successes: from now on, or from a little later on a machine that
        is busy.  -> the errors that came last, where that was not to be had."""
        since = time.monotonic()
        deadline, errors = since + patience, []
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            with self.lock:
                recent = list(itertools.takewhile(lambda each: each[0] > since, reversed(self.codes)))    # noqa: B023
            found = [each for each in recent if each[1] >= 400]
            if found:
                since, errors = found[0][0], found
            elif recent and now > since + seconds:
                return []
            if now > deadline:
                return errors or ["nothing"]


def calm(running):
    """No query in flight, none waiting."""
    return all(pool["inflight"] == pool["waiting"] == 0 for pool in running.stats()["pools"])
