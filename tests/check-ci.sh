#!/bin/sh
# The slower tests: a clang build with equal numbers, ThreadSanitizer is not needed yet (one thread), short fuzzing.
set -u
clang --version >/dev/null 2>&1 || { echo "installing: clang"; $( [ "$(id -u)" = 0 ] || echo sudo ) apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive $( [ "$(id -u)" = 0 ] || echo sudo ) apt-get install -y -qq --no-install-recommends clang >/dev/null; }
passed=0 failed=0
note() { if [ "$1" -eq 0 ]; then echo "ok $2"; passed=$((passed + 1)); else echo "not ok $2"; failed=$((failed + 1)); fi; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
sample="--set workload.trace.path=../traces/samples/azure-conv-sample.csv.gz --set duration_s=900 --set warmup_s=60 --quiet --json"

make --no-print-directory -j"$(nproc)" CC=clang MODE=release all tests; note $? "clang builds everything without a warning"
make --no-print-directory -j"$(nproc)" MODE=release all >/dev/null; note $? "gcc builds everything"
# shellcheck disable=SC2086
build/release-clang/bin/berth-sim run scenarios/azure-conv.yaml $sample --out "$work/clang.h5" >"$work/clang.json"; note $? "a run by clang's build"
# shellcheck disable=SC2086
build/release/bin/berth-sim run scenarios/azure-conv.yaml $sample --out "$work/gcc.h5" >"$work/gcc.json"; note $? "a run by gcc's build"
h5diff -q "$work/clang.h5" "$work/gcc.h5"; note $? "clang and gcc: equal numbers in HDF5"
[ "$(grep -o '"digest": "[0-9a-f]*"' "$work/clang.json")" = "$(grep -o '"digest": "[0-9a-f]*"' "$work/gcc.json")" ]; note $? "clang and gcc: equal digests"
tests/run.sh --unit release-clang >"$work/units.log" 2>&1; note $? "the units built by clang: $(tail -n 1 "$work/units.log")"
echo
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
