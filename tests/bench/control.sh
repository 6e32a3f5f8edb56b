#!/bin/sh
# The control plane before model servers that compute nothing: what a request costs, and 2,000 streams, for which there are eight servers, as
# each takes 256 at once. It is held to one core; client, servers and vault have the others.
#   tests/bench/control.sh build/MODE
set -u
build=$1
load=$build/tests/bench/exec/control_load
. tests/bench/platform.sh

# case, servers, tokens a second of each stream: 0 is all at once
measure() {
    state=$place/state-$1
    bases=
    for i in $(seq "$2"); do bases="$bases --base m$i=$place/tiny"; done
    # shellcheck disable=SC2086
    start "$state" "$place/$1.log" "$2" $bases --gate off --server-program "$build/tests/bench/exec/stub_server $3"
    "$exec" tenant add bench --state "$state" >/dev/null && key=$("$exec" key add bench --state "$state") &&
        "$exec" tenant set bench requests_per_min_max=100000000 tokens_per_min_max=1000000000000 --state "$state" >/dev/null ||
        die "no tenant"
    control=$(pgrep -P "$keeper" -f under-keeper) || die "no control plane"
    others=0-$(($(nproc --all) - 1))
    [ "$others" = 0-0 ] || others=1${others#0}
    taskset -a -c -p 0 "$control" >/dev/null || die "it cannot be held to a core"
    taskset -a -c -p "$others" "$keeper" >/dev/null
    for other in $(pgrep -P "$keeper"); do
        [ "$other" = "$control" ] || taskset -a -c -p "$others" "$other" >/dev/null
    done
    taskset -c "$others" "$load" "$1" "${url##*:}" "$key" "$2" "$control" || die "no measurement"
    end
}

"$exec" model create-tiny --out "$place/tiny" --steps 1 >/dev/null 2>"$place/tiny.log" || die "no base"
measure answers 1 0
measure streams 8 10
