#!/bin/sh
# Speed, one JSON line each: {"name", "value", "unit", ...}. Scenario runs are whole processes with their peak memory.
#   tests/bench.sh build/MODE [NAME]
set -u
build=$1
only=${2:-}
sim=$build/bin/berth-sim

wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }

for program in "$build"/tests/bench/bench_*; do
    case $program in *.o|*.d) continue ;; esac
    "$program" $only || exit 1
done
# name, scenario, further arguments
scenario() {
    name=$1
    shift
    wanted "$name" || return 0
    "$build/tests/bench/measure" "$name" "$sim" run --quiet --json "$@" || exit 1
}
scenario sim_day scenarios/sim-day.yaml
if [ -z "$only" ] || [ "$only" = sim_day_more ]; then
    only=
    scenario sim_hour scenarios/sim-day.yaml --set duration_s=3600 --set warmup_s=600
    scenario sim_day_single_step scenarios/sim-day.yaml --set single_step=true
    out=$(mktemp -u).h5
    scenario sim_day_hdf5 scenarios/sim-day.yaml --out "$out"
    rm -f "$out"
    only=${2:-}
fi
scenario azure_conv scenarios/azure-conv.yaml --variant affinity
scenario million scenarios/million.yaml
