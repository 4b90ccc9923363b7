#!/usr/bin/env bash
# A few unit tests under valgrind: those of the modules that handle the peers' octets, whose reads of memory that was
# never written AddressSanitizer does not see.
set -eu
cd "$(dirname "$0")/../.."
programs=()
for noun in parse request chunked target read write shape params codec buffers out; do
    [ -e "tests/unit/test_$noun.c" ] && programs+=("build/unit/test_$noun")
done
[ ${#programs[@]} -gt 0 ] || { echo "0 passed, 1 failed"; exit 1; }
make --no-print-directory "${programs[@]}"
exec tests/run/unit.py --valgrind "${programs[@]}"
