#!/usr/bin/env bash
# gcc -fanalyzer and clang-tidy over the sources: analyze.sh 'CPPFLAGS' FILE.c...
set -u
read -ra flags <<<"$1"
shift
status=0
for file in "$@"; do
    gcc "${flags[@]}" -std=gnu11 -O2 -Wall -Wextra -fanalyzer -c -o /dev/null "$file" || status=1
done
if command -v clang-tidy >/dev/null; then
    checks='-*,bugprone-*,clang-analyzer-*,cert-err34-c,-bugprone-easily-swappable-parameters'
    checks+=',-bugprone-reserved-identifier,-bugprone-narrowing-conversions,-bugprone-assignment-in-if-condition'
    checks+=',-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
    clang-tidy --quiet --checks="$checks" --warnings-as-errors='*' "$@" -- "${flags[@]}" -std=gnu11 || status=1
else
    echo "clang-tidy is not installed: not run"
fi
exit $status
