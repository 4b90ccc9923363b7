"""A PostgreSQL that lies: it takes connections as a real one would, prepares what it is asked to, and then says to a query
what the test wants it to say.  And a proxy in front of a real one that delays, trickles and cuts."""
import os
import select
import shutil
import socket
import struct
import threading
import time

from cluster import temporary_folder

PORT = 5432


def message(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


def error(sqlstate, text="the liar says so", severity=b"ERROR"):
    return message(b"E", b"S" + severity + b"\0V" + severity + b"\0C" + sqlstate.encode() + b"\0M" + text.encode() + b"\0\0")


READY = message(b"Z", b"I")
BOUND = message(b"2")
ROW = message(b"D", b"\0\x01\0\0\0\x01" + b"7")
DONE = message(b"C", b"SELECT 1\0")
GOOD = BOUND + ROW + DONE + READY


class Listener:
    """A Unix socket where PostgreSQL's would be, and a thread for each connection."""

    def __init__(self):
        self.folder = temporary_folder("vanilla-liar-")
        self.path = os.path.join(self.folder, ".s.PGSQL.%d" % PORT)
        self.conninfo = "host=%s port=%d dbname=app user=vanilla" % (self.folder, PORT)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.socket.listen(64)
        self.connections, self.open, self.stop = 0, set(), False

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stop = True
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.cut()
        self.socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self):
        while not self.stop:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            self.open.add(connection)
            threading.Thread(target=self.guarded, args=(connection,), daemon=True).start()

    def guarded(self, connection):
        try:
            self.serve(connection)
        except (OSError, EOFError):
            pass
        finally:
            self.open.discard(connection)
            connection.close()

    def cut(self):
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Liar(Listener):
    """say: the octets that answer the n-th query from now on (then GOOD again); None: closes.  greeting: an SQLSTATE that
    refuses each connection, with these words.  What the catalogue is asked is answered truly: it has nothing."""

    def __init__(self, greeting=None, words="the database system is starting up"):
        super().__init__()
        self.words = words
        self.greeting, self.lies, self.resets, self.asked = greeting, [], [], 0

    def lie(self, *answers):
        self.lies = list(answers)

    def lie_at_reset(self, *answers):
        """The same to the simple query that resets a session."""
        self.resets = list(answers)

    def serve(self, connection):
        self.exact(connection, struct.unpack(">I", self.exact(connection, 4))[0] - 4)
        if self.greeting:
            connection.sendall(error(self.greeting, self.words, b"FATAL"))
            return
        connection.sendall(message(b"R", struct.pack(">I", 0)) + message(b"S", b"server_version\x0015.0\0")
                           + message(b"S", b"client_encoding\0UTF8\0") + message(b"S", b"standard_conforming_strings\0on\0")
                           + message(b"K", struct.pack(">II", os.getpid(), 1)) + READY)
        catalogue = False
        while True:
            kind = self.exact(connection, 1)
            body = self.exact(connection, struct.unpack(">I", self.exact(connection, 4))[0] - 4)
            if kind == b"X":
                return
            if kind == b"P":
                catalogue = b"pg_catalog." in body
                connection.sendall(message(b"1"))
            elif catalogue and kind == b"D":
                column = b"x\0" + struct.pack(">IHIhih", 0, 0, 25, -1, -1, 0)
                connection.sendall(message(b"T", struct.pack(">H", 2) + column + column))
            elif catalogue and kind in b"BE":
                connection.sendall(BOUND if kind == b"B" else message(b"C", b"SELECT 0\0"))
            elif kind == b"D":      # no parameters, one int4
                connection.sendall(message(b"t", struct.pack(">H", 0)) + message(b"T", struct.pack(">H", 1) + b"n\0" + struct.pack(
                    ">IHIhih", 0, 0, 23, 4, -1, 0)))
            elif kind == b"B":
                self.asked += 1
                answer = self.lies.pop(0) if self.lies else BOUND + ROW + DONE
                if answer is None:
                    return
                connection.sendall(answer)
            elif kind == b"S":
                catalogue = False
                connection.sendall(READY)
            elif kind == b"Q":
                answer = self.resets.pop(0) if self.resets else DONE + READY
                if answer is None:
                    return
                connection.sendall(answer)
            del body

    @staticmethod
    def exact(connection, n):
        got = b""
        while len(got) < n:
            more = connection.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got


class Proxy(Listener):
    """In front of the socket of a real one.  delay: seconds before what the server says goes on; piece: octets at a time;
    swap: what the server is told instead of what was said, of the same length."""

    def __init__(self, cluster):
        super().__init__()
        self.target = os.path.join(cluster.socket_dir, ".s.PGSQL.5432")
        self.delay, self.piece, self.frozen, self.swap = 0.0, 1 << 16, False, {}

    def serve(self, connection):
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.target)
        self.open.add(server)
        try:
            while not self.stop:
                ready, _, _ = select.select([connection, server], [], [], 0.2)
                while self.frozen:
                    time.sleep(0.02)
                for one in ready:
                    data = one.recv(self.piece)
                    if not data:
                        return
                    if one is server and self.delay:
                        time.sleep(self.delay)
                    for said, instead in self.swap.items() if one is connection else ():
                        assert len(said) == len(instead)
                        data = data.replace(said, instead)
                    (connection if one is server else server).sendall(data)
        finally:
            self.open.discard(server)
            server.close()
