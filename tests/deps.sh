#!/usr/bin/env bash
# The Debian packages that vanilla needs: looks which are missing and, as root, installs them; else names them.
# Quick and offline when all are there.
#   deps.sh build | run | test    what `make`, `make run` and `make test` need
#   deps.sh profile               what the profiling tools need besides (make heaptrack, PNGs of make profile-rss)
#   deps.sh --list                what `make test` needs, one line
set -euo pipefail
export LC_ALL=C

build=(gcc make pkg-config libc6-dev libevent-dev libpq-dev libconfig-dev libssl-dev)
run=("${build[@]}" postgresql python3)
# cmocka: unit tests; pytest (xdist: two at a time), psycopg2, pgbouncer, openssl: end to end; valgrind: allocation and instruction counts;
# clang and its runtime: second compiler and fuzzing; clang-format, shellcheck: lint; clang-tidy: `make analyze`; wrk: that `make bench` runs.
test=("${run[@]}" libcmocka-dev python3-pytest python3-pytest-xdist python3-psycopg2 pgbouncer openssl valgrind clang libclang-rt-dev clang-format clang-tidy shellcheck git wrk)
# gnuplot: charts as PNG; heaptrack; libc6-dbg: names inside of the C library.
profile=("${test[@]}" gnuplot-nox heaptrack libc6-dbg)

case "${1:-}" in
build) wanted=("${build[@]}") ;;
run) wanted=("${run[@]}") ;;
test) wanted=("${test[@]}") ;;
profile) wanted=("${profile[@]}") ;;
--list)
    echo "${test[@]}"
    exit 0
    ;;
*)
    echo "usage: deps.sh build | run | test | profile | --list" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian; needed are the likes of: ${wanted[*]}" >&2
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    # shellcheck disable=SC2016 # dpkg's variable, not the shell's
    status=$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null || true)
    [[ $status == *installed* && $status != not-installed* ]] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "These Debian packages are missing: ${missing[*]}" >&2
    echo "Install them as root:  apt-get install ${missing[*]}" >&2
    exit 1
fi

echo "Installing ${missing[*]}"
clusters=$(ls -d /etc/postgresql/*/main 2>/dev/null || true)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends install "${missing[@]}" </dev/null
}
# The lists may be absent or old: a first failure is a reason to fetch them.
if ! install >"$log" 2>&1; then
    if ! { apt-get -q update </dev/null && install; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "Could not install: ${missing[*]}" >&2
        exit 1
    fi
fi

# Debian's package makes and starts a cluster of its own.  Nobody asked for that one: where it came in just now it goes.
if [ -z "$clusters" ] && command -v pg_dropcluster >/dev/null; then
    for cluster in /etc/postgresql/*/main; do
        [ -d "$cluster" ] || continue
        version=${cluster#/etc/postgresql/}
        pg_dropcluster --stop "${version%/main}" main || true
    done
fi
