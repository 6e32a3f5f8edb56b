#!/bin/sh
# Runs the test programs of the given modes, then (without --unit) the main paths, and ends with one line of counts.
#   tests/run.sh [--unit] [--slow | --quick] MODE...
# --quick leaves out what tests/slow.txt names, --slow runs that alone.
set -u
unit_only=no which=all
if [ "${1:-}" = --unit ]; then unit_only=yes; shift; fi
case ${1:-} in --slow | --quick) which=${1#--}; shift ;; esac
passed=0 failed=0 skipped=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT INT TERM

# A test program by its cmocka summary. One that dies without a summary counts as a failure.
count() { # log, exit code, name
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$1" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$1" | tail -n 1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$1" | tail -n 1)
    if [ "$2" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then f=1; fi
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
    if [ "$2" -ne 0 ]; then echo "FAILED: $3"; grep -v '^\[       OK \]\|^\[ RUN' "$1" | tail -n 40; fi
    if [ "${s:-0}" -gt 0 ]; then
        grep -E '^skipped:' "$1" | sort -u | sed "s|^|  $3: |"
        grep -E '^\[  SKIPPED \] [a-z]' "$1" | sort -u | sed "s|^|  $3: |"
    fi
}

for mode in "$@"; do
    echo "== units, $mode"
    programs=$(find "build/$mode/tests" -type f -name 'test_*' -perm -u+x ! -name '*.o' ! -name '*.d' | sort)
    # Some programs take longer than many others together, most of all where every instruction is watched: they have a run of their own.
    slow=$(sed -n "s|^$mode |build/$mode/|p" tests/slow.txt)
    if [ -n "$slow" ]; then
        case $which in
        slow) programs=$slow ;;
        quick)
            programs=$(printf '%s\n' "$programs" | grep -vxF "$slow")
            echo "  left to make check-ci: $(echo "$slow" | tr '\n' ' ')" ;;
        esac
    fi
    # One more at a time than there are cores, for some wait; each program's output is kept apart. One that hangs has failed.
    echo "$programs" | xargs -P "$(($(nproc) + 1))" -I{} sh -c \
        'log="$1/$(echo "$2" | tr / _)"; timeout -k 5 600 "$2" >"$log.log" 2>&1; echo $? >"$log.rc"
         times >"$log.times" # not in a pipe: the shell there has no children yet
         awk -v name="$2" "NR == 2 { split(\$1, u, /[ms]/); split(\$2, s, /[ms]/); print 60 * (u[1] + s[1]) + u[2] + s[2], name }" "$log.times" \
             >"$log.cpu"
        ' sh "$logs" {}
    cat "$logs"/*.cpu | sort -rn | head -n 8 | awk '{ printf "  %4.0f s of processor time: %s\n", $1, $2 }'
    rm -f "$logs"/*.cpu
    for program in $programs; do
        log="$logs/$(echo "$program" | tr / _)"
        count "$log.log" "$(cat "$log.rc" 2>/dev/null || echo 137)" "$program"
    done
done

if [ $unit_only = no ]; then
    echo "== main paths"
    sh tests/main_paths.sh >"$logs/main.log" 2>&1
    cat "$logs/main.log"
    passed=$((passed + $(grep -c '^ok ' "$logs/main.log")))
    failed=$((failed + $(grep -c '^not ok ' "$logs/main.log")))
    skipped=$((skipped + $(grep -c '^skip ' "$logs/main.log")))
    if ! grep -q '^done$' "$logs/main.log"; then failed=$((failed + 1)); echo "tests/main_paths.sh did not reach its end"; fi
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
