#!/usr/bin/python3
"""`make run`: a throwaway PostgreSQL with sample data, vanilla in front of it with conf/vanilla.conf, three curl lines.

    demo.py BUILD_FOLDER        PORT=8080 ADMIN_PORT=9180 ROWS=100000 from the environment

Ctrl-C, SIGTERM or SIGHUP end it and remove everything, also when it was started in the background.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
from cluster import Cluster, die_with_parent, temporary_folder  # noqa: E402
from process import http_get, port_is_free  # noqa: E402


def number_from_env(name, default, low, high):
    text = os.environ.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        sys.exit("%s=%s: a number from %d to %d is wanted" % (name, text, low, high))
    return int(text)


def adapt(text, conninfo, port, admin_port, runtime_dir):
    """conf/vanilla.conf for this machine and this hour.  Comments are left alone."""
    lines = []
    for line in text.split("\n"):
        code, hash_mark, comment = line.partition("#")
        code = re.sub(r'conninfo(\s*)=(\s*)"[^"]*"', r'conninfo\1=\2"%s"' % conninfo, code)
        code = re.sub(r'\b(user|group)\s*=\s*"[^"]*";', "", code)
        code = re.sub(r'runtime_dir(\s*)=(\s*)"[^"]*"', r'runtime_dir\1=\2"%s"' % runtime_dir, code)
        code = re.sub(r'^(\s*)listen(\s*)=.*;', r'\1listen\2= ( { address = "127.0.0.1:%d"; } );' % port, code)
        code = re.sub(r'^(\s*)admin(\s*)=.*;', r'\1admin\2= { address = "127.0.0.1:%d"; };' % admin_port, code)
        lines.append(code + hash_mark + comment)
    # One that exists everywhere: not needed, but for the warning that comes without.
    return "\n".join(lines) + ('user = "nobody";\n' if os.geteuid() == 0 else "")


def end_on_signal(number, _frame):
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)             # what follows is done once, and to its end
    raise SystemExit(0 if number == signal.SIGINT else 128 + number)


def wait_until_it_answers(server, build, runtime_dir, port):
    """All its connections to PostgreSQL are up, and a row comes.  (Asking for rows earlier would count as sheds.)"""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit("vanilla ended with exit code %d; its own words are above" % server.returncode)
        asked = subprocess.run([os.path.join(build, "vanillactl"), "-r", runtime_dir, "stats", "--json"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        stats = json.loads(asked.stdout) if asked.returncode == 0 else None
        if stats and all(worker["state"] == "ready" for worker in stats["workers"]) and all(
                pool["up"] == pool["connections"] > 0 for pool in stats["pools"]):
            status, body = http_get(port, "/items/1")
            if status == 200:
                return
            sys.exit("GET /items/1 is answered with %d: %s" % (status, body.decode(errors="replace")))
        time.sleep(0.05)
    sys.exit("vanilla does not become ready; its own words are above")


def stop(server):
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def serve(build, port, admin_port, rows):
    folder = temporary_folder("vanilla-run-")
    server = None
    try:
        print("PostgreSQL with %d items in a temporary folder ..." % rows, flush=True)
        with Cluster() as cluster:
            cluster.load_sample(rows)
            runtime_dir = os.path.join(folder, "run")
            os.mkdir(runtime_dir)
            conf_file = os.path.join(folder, "vanilla.conf")
            with open(os.path.join(TOP, "conf", "vanilla.conf"), encoding="utf-8") as file:
                text = adapt(file.read(), cluster.conninfo, port, admin_port, runtime_dir)
            with open(conf_file, "w", encoding="utf-8") as file:
                file.write(text)
            try:
                server = subprocess.Popen([os.path.join(build, "vanilla"), "-c", conf_file], stdin=subprocess.DEVNULL,
                                          start_new_session=True, preexec_fn=die_with_parent(signal.SIGTERM))
                wait_until_it_answers(server, build, runtime_dir, port)
                base = "http://127.0.0.1:%d" % port
                print("\nvanilla answers.  Try\n"
                      "  curl -i %s/items/1\n"
                      "  curl -i '%s/items?category=books&limit=7'\n"
                      "  curl -i -X POST -H 'Content-Type: application/json' "
                      "-d '{\"id\": %d, \"name\": \"My lamp\", \"price\": 19.90}' %s/items\n"
                      "Figures:  %s -r %s stats\n"
                      "Ctrl-C removes it all.\n" % (base, base, rows + 1, base,
                                                   os.path.join(build, "vanillactl"), runtime_dir), flush=True)
                while server.poll() is None and cluster.process.poll() is None:
                    time.sleep(0.2)
                return "PostgreSQL has ended" if server.returncode is None else server.returncode
            finally:
                if server:
                    stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    port = number_from_env("PORT", 8080, 1, 65535)
    admin_port = number_from_env("ADMIN_PORT", 9180, 1, 65535)
    rows = number_from_env("ROWS", 100000, 1, 100000000)
    if port == admin_port:
        sys.exit("PORT and ADMIN_PORT are the same: %d" % port)
    for name, number in (("PORT", port), ("ADMIN_PORT", admin_port)):
        if not port_is_free(number):
            sys.exit("Port %d is in use; `make run %s=%d` takes another one" % (number, name, number + 1))
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end_on_signal)              # SIGINT too: a shell's background jobs ignore it
    try:
        return serve(os.path.abspath(sys.argv[1]), port, admin_port, rows)
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
