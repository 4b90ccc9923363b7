#!/usr/bin/python3
"""nginx and vanilla side by side on the same cases: who refuses what.

    compare.py [BUILD_FOLDER] [--write]     prints the table; --write puts it into README.md, between its two marks

nginx (Debian package nginx-light) listens on a loopback port with the same two routes: /pipeline is a fixed answer,
/baseline11 is passed on to a small server in this process that adds.
"""
import collections
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)
CASES = ("cases.json", "more_cases.json")
MARKS = ("<!-- compare.py writes from here -->", "<!-- to here -->")

NGINX = """
worker_processes 1; daemon off; master_process on; pid %(folder)s/pid; error_log %(folder)s/error.log;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path %(folder)s/body; proxy_temp_path %(folder)s/proxy;
  fastcgi_temp_path %(folder)s/f; uwsgi_temp_path %(folder)s/u; scgi_temp_path %(folder)s/s;
  keepalive_requests 100000; client_max_body_size 1m; default_type text/plain;
  upstream adder { server 127.0.0.1:%(adder)d; keepalive 16; }
  server {
    listen 127.0.0.1:%(port)d;
    location = /pipeline { if ($request_method !~ ^(GET|HEAD)$) { add_header Allow "GET, HEAD" always; return 405; } return 200 "ok"; }
    location = /baseline11 { proxy_pass http://adder; proxy_http_version 1.1; proxy_set_header Connection ""; }
    location / { return 404; }
  }
}
"""


class Adder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            total = sum(int(query.get(name, ["0"])[0]) for name in "ab") + int(body or 0)
            status, text = 200, b"%d" % total
        except ValueError:
            status, text = 400, b"not numbers"
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_POST = do_HEAD = do_GET

    def handle_error(self, *_unused):
        pass

    def log_message(self, *_unused):
        pass


def run_cases(port):
    """{id: (passed, statuses seen)} of all cases."""
    results = {}
    for cases in CASES:
        with tempfile.NamedTemporaryFile(prefix="vanilla-compare-", suffix=".json") as out:
            subprocess.run([sys.executable, "-B", os.path.join(HERE, "run_cases.py"), "127.0.0.1", str(port),
                            os.path.join(HERE, cases), "--quiet", "--json", out.name],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
            with open(out.name, encoding="utf-8") as file:
                got = json.load(file)
        for each in got if isinstance(got, list) else got["cases"]:
            results[each["id"]] = each
    return results


def run_nginx():
    from process import Port
    folder = tempfile.mkdtemp(prefix="vanilla-e2e-nginx-", dir="/tmp")
    os.chmod(folder, 0o755)
    adder = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Adder)
    adder.daemon_threads = True
    threading.Thread(target=adder.serve_forever, daemon=True).start()
    port = Port()
    conf = os.path.join(folder, "nginx.conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write(NGINX % {"folder": folder, "port": port.number, "adder": adder.server_address[1]})
    process = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", conf], stdin=subprocess.DEVNULL)
    try:
        time.sleep(1)
        return run_cases(port.number)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        adder.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def run_vanilla():
    from cluster import Cluster
    from process import Vanilla
    from run import CONF
    with Cluster() as cluster:
        cluster.load_sample(10)
        with Vanilla(CONF % {"conninfo": cluster.conninfo}) as server:
            server.start()
            return run_cases(server.port)


def passed(result):
    return bool(result.get("pass"))


def table(vanilla, nginx):
    cases = []
    for name in CASES:
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            cases += json.load(file)
    kinds = collections.Counter(case["kind"] for case in cases)
    version = subprocess.run([shutil.which("nginx") or "/usr/sbin/nginx", "-v"], stderr=subprocess.PIPE, check=False).stderr
    lines = ["| kind | cases | vanilla | %s |" % version.decode().strip().split(": ")[-1].replace("/", " "),
             "| --- | --- | --- | --- |"]
    for kind, count in sorted(kinds.items()) + [("all", len(cases))]:
        of_kind = [case for case in cases if kind in (case["kind"], "all")]
        lines.append("| %s | %d | %d | %d |" % (kind, count, sum(passed(vanilla[case["id"]]) for case in of_kind),
                                                sum(passed(nginx.get(case["id"], {})) for case in of_kind)))
    lines += ["", "Where one of them did not do what a `must` case asks for, and what each answered:", "",
              "| case | | vanilla | nginx |", "| --- | --- | --- | --- |"]
    for case in cases:
        if case["severity"] != "must" or passed(vanilla[case["id"]]) == passed(nginx.get(case["id"], {})):
            continue
        lines.append("| %s | %s | %s | %s |" % (case["id"], case["description"].replace("|", "\\|"),
                                                seen(vanilla[case["id"]]), seen(nginx.get(case["id"], {}))))
    return "\n".join(lines)


def seen(result):
    return str(result.get("saw") or "-").replace("|", "\\|")[:60]


def main():
    arguments = [each for each in sys.argv[1:] if each != "--write"]
    if arguments:
        os.environ["VANILLA_BIN"] = arguments[0]
    text = table(run_vanilla(), run_nginx())
    print(text)
    if "--write" in sys.argv:
        path = os.path.join(HERE, "README.md")
        with open(path, encoding="utf-8") as file:
            page = file.read()
        page = re.sub(re.escape(MARKS[0]) + ".*" + re.escape(MARKS[1]),
                      lambda _: "%s\n%s\n%s" % (MARKS[0], text, MARKS[1]), page, flags=re.S)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
