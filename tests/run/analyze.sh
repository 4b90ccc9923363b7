#!/usr/bin/env bash
# `make analyze`: gcc -fanalyzer and clang-tidy over the sources, two files at a time; ends with `N passed, N failed`,
# one for each file and tool.
#
#   analyze.sh [--quick] FILE.c... -- FLAG...     the flags are the preprocessor's, for both tools
#
# --quick is a stage of `make test`: gcc's analyzer and clang-tidy without clang's, half a minute of one core (22 and
# 13 s).  clang's analyzer takes four times as long as the rest (182 s for everything) and stays out: a suite that is to
# end within 15 minutes takes 12 already.  So `make analyze` is for who has changed C.
#
# What clang-tidy is asked stands in .clang-tidy at the top. A finding is mended; where the tool is wrong it is silenced
# at that one place, with the reason.  gcc compiles as the build does: below -O2 gcc 12 has six findings more, all of
# them wrong (leaks in our own malloc and in an array of names).
set -u

# One file and one tool: what the tool says is shown in one piece, and only if it found something.
if [ "${1:-}" = --one ]; then
    shift
    flags=()
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    tool=$2
    file=$3
    less=()
    [ -z "${ANALYZE_QUICK:-}" ] || less=('--checks=-clang-analyzer-*')
    case $tool in
    gcc) said=$(gcc "${flags[@]}" -std=gnu11 -O2 -Wall -Wextra -Werror -fanalyzer -c -o /dev/null "$file" 2>&1) ;;
    clang-tidy) said=$(clang-tidy --quiet "${less[@]}" "$file" -- "${flags[@]}" -std=gnu11 2>&1) ;;
    esac && echo "ok $tool $file" && exit 0
    printf '%s\nFAIL %s %s\n' "$said" "$tool" "$file"
    exit 0
fi

unset ANALYZE_QUICK
if [ "${1:-}" = --quick ]; then
    export ANALYZE_QUICK=1
    shift
fi
files=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    files+=("$1")
    shift
done
if [ "${1:-}" != -- ] || [ ${#files[@]} -eq 0 ]; then
    echo "usage: analyze.sh [--quick] FILE.c... -- FLAG..." >&2
    exit 2
fi
shift
for tool in gcc clang-tidy; do
    command -v $tool >/dev/null || {
        echo "$tool is not installed; tests/deps.sh test installs it" >&2
        exit 1
    }
done
for file in "${files[@]}"; do
    printf '%s\0%s\0%s\0%s\0' gcc "$file" clang-tidy "$file"
done |
    xargs -0 -P 2 -n 2 "$0" --one "$@" -- |
    awk -v all=$((2 * ${#files[@]})) '/^ok /{passed++; next} {print} END{
        printf "%d passed, %d failed\n", passed, all - passed
        exit passed != all
    }'
