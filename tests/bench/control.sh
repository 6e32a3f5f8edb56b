#!/bin/sh
# The control plane before a model server that computes nothing: what a request costs, and 2,000 streams at once. It is held to one core;
# client, server and vault have the others.
#   tests/bench/control.sh build/MODE [answers|streams]
set -u
build=$1
only=${2:-}
load=$build/tests/bench/exec/control_load
. tests/bench/platform.sh

# case, arguments of the stub
measure() {
    [ -z "$only" ] || [ "$only" = "$1" ] || return 0
    state=$place/state-$1
    start "$state" "$place/$1.log" 1 --base m=$place/tiny --gate off --server-requests 2048 --server-program "$build/tests/bench/exec/stub_server $2"
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
    taskset -c "$others" "$load" "$1" "${url##*:}" "$key" "$control" || die "no measurement"
    end
}

"$exec" model create-tiny --out "$place/tiny" --steps 1 >/dev/null 2>"$place/tiny.log" || die "no base"
measure answers "0 stamped"
measure streams 10
