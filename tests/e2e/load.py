"""Clients that ask all the time while something happens: every answer is looked at, and none may be missing."""
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
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"

    def run(self, number):
        try:
            while not self.stop.is_set():
                with Client(self.port, timeout=15) as client:
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

    def well_within(self, seconds):
        """Waits until that long has passed with nothing but successes from now on, at the end at least."""
        since = time.monotonic()
        time.sleep(seconds)
        return [code for when, code, _ in self.codes if when > since + seconds / 2 and code >= 400]


def calm(running):
    """No query in flight, none waiting."""
    return all(pool["inflight"] == pool["waiting"] == 0 for pool in running.stats()["pools"])
