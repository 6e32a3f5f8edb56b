#!/bin/sh
# make check-gpu: the checks, then again under each of compute-sanitizer's tools where it is; before them, a base lent between processes.
set -u
check=$1
lend=$2
log=build/gpu-check.log
bad=0
timeout 300 "$lend" || bad=1
"$check" >$log 2>&1 || bad=1
cat $log
if [ $bad = 1 ] || grep -q '^SKIP' $log; then exit $bad; fi
if ! command -v compute-sanitizer >/dev/null; then
    echo "SKIP compute-sanitizer: it is not on the path"
    exit 0
fi
for tool in memcheck racecheck synccheck initcheck; do
    if timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 "$check" quick >build/gpu-$tool.log 2>&1; then echo "ok compute-sanitizer $tool"
    elif [ $? = 124 ]; then echo "SKIP compute-sanitizer $tool: it did not end in two minutes"
    else echo "not ok compute-sanitizer $tool"; tail -n 20 build/gpu-$tool.log; bad=1; fi
done
exit $bad
