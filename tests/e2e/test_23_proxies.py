"""Who the client is, behind proxies that are trusted, and in front of those that are not."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from client import Client, Closed, until
from cluster import die_with_parent, temporary_folder
from process import TOP, Port

ROUTES = r"""
  { method = "GET";  path = "/pipeline"; text = "ok"; content_type = "text/plain"; },
  { method = "GET";  path = "/ip"; sql = "SELECT $1"; params = [ "conn.ip" ]; result = "raw"; }
"""
V2 = b"\r\n\r\n\0\r\nQUIT\n"


def request(*fields):
    return "GET /ip HTTP/1.1\r\nHost: x\r\n" + "".join(field + "\r\n" for field in fields) + "\r\n"


def test_forwarded_for(server):
    running = server(ROUTES, settings='workers = 1; trusted_proxies = [ "127.0.0.1", "10.0.0.0/8", "fd00::/8" ];')
    cases = [
        ((), "127.0.0.1"),
        (("X-Forwarded-For: 203.0.113.7",), "203.0.113.7"),
        (("X-Forwarded-For: 6.6.6.6, 203.0.113.7",), "203.0.113.7"),
        (("X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.1.2.3",), "203.0.113.7"),
        (("X-Forwarded-For: 6.6.6.6", "x-forwarded-for: 203.0.113.7,10.1.2.3 , 10.3.4.5"), "203.0.113.7"),
        (("X-Forwarded-For: 10.9.9.9, 10.1.2.3",), "10.9.9.9"),
        (("X-Forwarded-For: 203.0.113.7, junk, 10.1.2.3",), "10.1.2.3"),
        (("X-Forwarded-For: 203.0.113.7, junk",), "127.0.0.1"),
        (("X-Forwarded-For: ,, 203.0.113.7 ,",), "203.0.113.7"),
        (("X-Forwarded-For: 203.0.113.7:4711",), "203.0.113.7"),
        (("X-Forwarded-For: 2001:db8::7, fd00::1",), "2001:db8::7"),
        (("X-Forwarded-For: [2001:db8::7]:443",), "2001:db8::7"),
        (("Forwarded: for=203.0.113.7;proto=https;by=10.0.0.1",), "203.0.113.7"),
        (('Forwarded: for="[2001:db8::7]:1234", For=10.0.0.1',), "2001:db8::7"),
        (('Forwarded: by="a,b;for=6.6.6.6";for="203.0.113.7"',), "203.0.113.7"),
        (("Forwarded: for=6.6.6.6, for=203.0.113.7", "Forwarded: for=10.0.0.1"), "203.0.113.7"),
        (("Forwarded: for=203.0.113.7, for=unknown",), "127.0.0.1"),
        (("Forwarded: for=203.0.113.7, for=_hidden, for=10.0.0.1",), "10.0.0.1"),
        (('Forwarded: for="6.6.6.6, for=203.0.113.7',), "127.0.0.1"),
        (("Forwarded: for=203.0.113.7;for=6.6.6.6",), "127.0.0.1"),
        (("Forwarded: proto=http",), "127.0.0.1"),
        # Both: believed when they agree, the proxy itself otherwise.
        (("Forwarded: for=203.0.113.7", "X-Forwarded-For: 203.0.113.7"), "203.0.113.7"),
        (("Forwarded: for=203.0.113.7", "X-Forwarded-For: 6.6.6.6"), "127.0.0.1"),
    ]
    with Client(running.port) as client:
        for fields, wanted in cases:
            client.send(request(*fields))
            assert client.read().body.decode() == wanted, fields


def test_nobody_is_believed_unless_told(server):
    running = server(ROUTES)
    with Client(running.port) as client:
        client.send(request("X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7"))
        assert client.read().body == b"127.0.0.1"


def test_from_a_unix_socket(server, tmp_path):
    os.chmod(tmp_path, 0o777)
    path = "/tmp/vanilla-e2e-unix-%d" % os.getpid()
    running = server(ROUTES, settings='workers = 1; trusted_proxies = [ "unix" ];',
                     listen='( { address = "unix:%s"; } )' % path)
    with Client(0, unix=path) as client:
        client.send(request("X-Forwarded-For: 203.0.113.7"))
        assert client.read().body == b"203.0.113.7"
    assert running.total("http.requests") == 1


def proxied(server, settings=""):
    from process import Port
    port = Port()
    running = server(ROUTES, settings="workers = 1;" + settings,
                     listen='( { address = "127.0.0.1:%d"; proxy_protocol = true; } )' % port.number)
    return running, port.number


def v2(command=0x21, family=0x11, addresses=socket.inet_aton("203.0.113.7") + socket.inet_aton("192.0.2.1") + b"\0P\0P",
       more=b""):
    return V2 + struct.pack("!BBH", command, family, len(addresses) + len(more)) + addresses + more


def test_proxy_protocol(server):
    running, port = proxied(server)
    v6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + b"\0P\0P"
    for header, wanted in [
            (b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n", "203.0.113.7"),
            (b"PROXY TCP6 2001:db8::7 2001:db8::8 51000 80\r\n", "2001:db8::7"),
            (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
            (b"PROXY UNKNOWN ffff::1 whatever\r\n", "127.0.0.1"),
            (v2(), "203.0.113.7"),
            (v2(family=0x21, addresses=v6), "2001:db8::7"),
            (v2(command=0x20, family=0, addresses=b""), "127.0.0.1"),
            (v2(family=0x31, addresses=b"\0" * 216), "127.0.0.1"),
            (v2(more=b"\x04\0\x02ab" + b"\x05\0\0"), "203.0.113.7")]:
        for cut in (None, 1, 9, len(header)):
            with Client(port) as client:
                if cut is None:
                    client.send(header + request().encode())
                else:
                    client.send(header[:cut])
                    time.sleep(0.03)
                    client.send(header[cut:] + request().encode())
                assert client.read().body.decode() == wanted, (header, cut)
                client.send(request())                          # the header is for the connection
                assert client.read().body.decode() == wanted
    with Client(port) as client:                                # octet by octet
        for octet in b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n" + request().encode():
            client.send(bytes([octet]))
        assert client.read().body == b"203.0.113.7"
    assert running.total("limit.proxy_header") == 0


@pytest.mark.parametrize("header", [
    b"GET /pipeline HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 051000 80\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 65536\r\n",
    b"PROXY TCP4  203.0.113.7 192.0.2.1 51000 80\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 51000\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80 \r\n",
    b"PROXY TCP4 2001:db8::7 192.0.2.1 51000 80\r\n",
    b"PROXY TCP5 203.0.113.7 192.0.2.1 51000 80\r\n",
    b"proxy TCP4 203.0.113.7 192.0.2.1 51000 80\r\n",
    b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
    V2 + b"\x11\x11\0\x0c" + b"\0" * 12,
    V2 + b"\x22\x11\0\x0c" + b"\0" * 12,
    V2 + b"\x21\x12\0\x0c" + b"\0" * 12,
    V2 + b"\x21\x11\0\x0b" + b"\0" * 11,
    V2 + b"\x21\x11\xff\xff" + b"\0" * 12,
    V2 + b"\x21\x11\0\x10" + b"\0" * 12 + b"\x04\0\x02a",
    V2 + b"\x21\x11\0\x13" + b"\0" * 12 + b"\x03\0\x04abcd",
])
def test_malformed_proxy_headers(proxied_server, header):
    running, port = proxied_server
    before = running.total("limit.proxy_header")
    with Client(port) as client:
        client.send(header + b"GET /pipeline HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            client.read()
            raise AssertionError("an answer to %r" % header)
        except (Closed, OSError):
            pass
    assert running.total("limit.proxy_header") == before + 1


@pytest.fixture(scope="module")
def proxied_server(cluster):
    from conftest import Starter
    starter = Starter(cluster.conninfo)
    try:
        yield proxied(starter, "timeouts = { header_ms = 600; };")
        starter.finish()
    finally:
        starter.remove()


def test_proxy_header_that_does_not_come(proxied_server):
    running, port = proxied_server
    for start in (b"", b"PROXY TCP4"):
        before = running.total("timeout.header")
        with Client(port) as client:
            client.send(start)
            assert client.closes()
        assert running.total("timeout.header") == before + 1
    with Client(port) as client:
        client.send(b"PROXY")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.closes()


def test_proxy_header_from_strangers(server):
    running, port = proxied(server, 'trusted_proxies = [ "10.0.0.0/8" ];')
    with Client(port) as client:
        try:
            client.send(b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n" + request().encode())
            client.read()
            raise AssertionError("a stranger was heard")
        except (Closed, OSError):
            pass
    until(lambda: running.total("limit.proxy_header") == 1)


def test_limits_count_the_proxied_address(server):
    running, port = proxied(server, "client = { connections = 1; };")
    with Client(port) as first, Client(port) as other, Client(port) as second:
        first.send(b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n" + request().encode())
        assert first.read().status == 200
        other.send(b"PROXY TCP4 203.0.113.8 192.0.2.1 51000 80\r\n" + request().encode())
        assert other.read().status == 200
        second.send(b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n" + request().encode())
        assert second.read().status == 429
    assert running.total("limit.client_connections") == 1
    assert json.dumps(running.stats())


@pytest.fixture
def nginx():
    """nginx with what the README says, in front of vanilla's default port: nginx(port of vanilla) -> its own port."""
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(binary):
        pytest.skip("nginx is not installed")
    folder, port, running = temporary_folder("vanilla-e2e-nginx-"), Port(), []

    def start(behind):
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            upstream, location = re.search(r"^    (upstream vanilla \{.*?\})\n(    location / \{.*?\n    \})\n", file.read(),
                                           re.M | re.S).groups()
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write("daemon off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off; %s\n%s\nserver { listen "
                       "127.0.0.1:%d;\n%s\n} }\n" % ("".join("%s_temp_path %s;" % each for each in (
                           ("client_body", "a"), ("proxy", "b"), ("fastcgi", "c"), ("uwsgi", "d"), ("scgi", "e"))), upstream.replace(":8080", ":%d" % behind), port.number, location))
        with open(os.path.join(folder, "log"), "wb") as log:
            running.append(subprocess.Popen([binary, "-p", folder, "-c", os.path.join(folder, "nginx.conf")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent(signal.SIGTERM)))
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port.number)) == 0)
        return port.number

    try:
        yield start
    finally:
        for process in running:
            process.terminate()
            process.wait(10)
        port.release()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_readme_s_nginx(server, nginx):
    """Whatever a client says of itself, the address is the one that nginx saw; connections are kept."""
    running = server(ROUTES, settings='workers = 1; trusted_proxies = [ "127.0.0.1" ];')
    port = nginx(running.port)
    with Client(port) as client:
        for fields in ((), ("Forwarded: for=6.6.6.6",), ("X-Forwarded-For: 203.0.113.7", "Forwarded: for=6.6.6.6")):
            client.send(request(*fields))
            assert client.read().body.decode() == ("203.0.113.7" if len(fields) == 2 else "127.0.0.1"), fields
    assert running.total("http.requests") == 3 and running.total("http.accepted") == 1


def test_haproxy_s_check(server):
    """HTTP/1.0 and no Host, unless its file says otherwise."""
    running = server(ROUTES)
    with Client(running.admin_port) as client:
        client.send("GET /ready HTTP/1.0\r\n\r\n")
        assert client.read().status == 200
