"""A client that writes octets and reads answers strictly: what it accepts is well-formed HTTP/1.1, or the test fails."""
import json
import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "http"))
from run_cases import Malformed, parse_chunked, parse_head  # noqa: E402


class Closed(Exception):
    """The server closed where an answer was due; .rest is what had come."""

    def __init__(self, rest, reset=False):
        super().__init__("connection %s after %r" % ("reset" if reset else "closed", rest[:200]))
        self.rest, self.reset = rest, reset


def exact(text):
    """JSON with its numbers as they were written."""
    def refuse(name):
        raise ValueError("%s is not JSON" % name)
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=refuse)


class Client:
    """One connection.  Usable as a context manager."""

    def __init__(self, port, host="127.0.0.1", timeout=20, unix=None):
        if unix:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(unix)
        else:
            self.socket = socket.create_connection((host, port), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.interim = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves with an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def send_request(self, method, target, body=None, headers=(), host="test"):
        if isinstance(headers, dict):
            headers = headers.items()
        lines = ["%s %s HTTP/1.1" % (method, target)]
        if host is not None:
            lines.append("Host: %s" % host)
        lines += ["%s: %s" % pair for pair in headers]
        if body is not None:
            body = body.encode() if isinstance(body, str) else body
            lines.append("Content-Length: %d" % len(body))
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))

    def more(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            raise Closed(self.buffer, reset=True) from None
        if not data:
            raise Closed(self.buffer)
        self.buffer += data

    def read(self, method="GET"):
        """The next final answer; 1xx ones go to .interim."""
        while True:
            while b"\r\n\r\n" not in self.buffer:
                if self.buffer and not b"HTTP/1.1 ".startswith(self.buffer[:9]):
                    raise Malformed("not a status line: %r" % self.buffer[:60])
                self.more()
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            answer = parse_head(head)
            if answer.version != "HTTP/1.1":
                raise Malformed("status line %r" % head[:60])
            if 100 <= answer.status < 200:
                self.interim.append(answer)
                continue
            break
        lengths = [value for name, value in answer.fields if name == "content-length"]
        codings = answer.tokens("transfer-encoding")
        if len(lengths) > 1 or (lengths and (codings or not lengths[0].isascii() or not lengths[0].isdigit())):
            raise Malformed("framing fields %r %r" % (lengths, codings))
        if answer.status == 204 and (lengths or codings):
            raise Malformed("framing field in a 204")
        if method == "HEAD" or answer.status in (204, 304):
            pass
        elif codings == ["chunked"]:
            got = parse_chunked(self.buffer, 0)
            while got is None:
                self.more()
                got = parse_chunked(self.buffer, 0)
            answer.body, self.buffer = got[0], self.buffer[got[1]:]
        elif codings or not lengths:
            raise Malformed("an answer without a length: %r" % head)
        else:
            length = int(lengths[0])
            while len(self.buffer) < length:
                self.more()
            answer.body, self.buffer = self.buffer[:length], self.buffer[length:]
        answer.complete = True
        return answer

    def request(self, method, target, body=None, headers=(), host="test"):
        self.send_request(method, target, body, headers, host)
        return self.read(method)

    def get(self, target, **headers):
        return self.request("GET", target, headers=[(name.replace("_", "-"), value) for name, value in headers.items()])

    def post_json(self, target, value, method="POST", content_type="application/json"):
        body = value if isinstance(value, (str, bytes)) else json.dumps(value)
        return self.request(method, target, body, {"Content-Type": content_type})

    def closes(self, timeout=5):
        """Whether the server closes within the time, with nothing further to say."""
        self.socket.settimeout(timeout)
        try:
            while True:
                self.more()
        except Closed as closed:
            return closed.rest == b""
        except TimeoutError:
            return False

    def silent(self, seconds=0.2):
        """Whether nothing comes, and the connection stays."""
        self.socket.settimeout(seconds)
        try:
            self.more()
        except TimeoutError:
            return self.buffer == b""
        except Closed:
            return False
        return False


def one(port, method, target, **more):
    """One request on a connection of its own."""
    with Client(port) as client:
        return client.request(method, target, **more)


def problem(answer, status):
    """The problem document (RFC 9457) of an error."""
    assert answer.status == status, (answer.status, answer.body)
    assert answer.get("content-type") == "application/problem+json", answer.fields
    document = json.loads(answer.body)
    assert document["status"] == status
    assert document["title"]
    return document


def until(condition, timeout=20, pause=0.02):
    """Waits for something to become true; returns its value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("not so after %s s: %s" % (timeout, condition))
        time.sleep(pause)


def in_one_round(check, rounds=4):
    """For what is quick unless the machine is busy with something else: it is enough that it is so once."""
    for n in range(rounds):
        try:
            check()
            return
        except AssertionError:
            if n + 1 == rounds:
                raise
