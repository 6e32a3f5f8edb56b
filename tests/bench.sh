#!/bin/sh
# Speed, one JSON line each: {"name", "value", "unit", ...}. Scenario runs are whole processes with their peak memory.
#   tests/bench.sh build/MODE [NAME]
set -u
build=$1
only=${2:-}
sim=$build/bin/berth-sim
names="metadata event_queue router cache_acquire cache object_trace lru_distance shards trace_stat replica_step fleet_step fleet_decide \
decode_b1 prefill_512 mixed mixed_prefill train validate seal wire http control tunes ttft_cold_over_warm adapter_load_ms \
sim_day sim_hour sim_day_single_step sim_day_hdf5 azure_conv million sim_jobs_year sim_jobs_year_hdf5"

case " $names " in
*" ${only:-sim_day} "*) ;;
*) echo "tests/bench.sh: no bench is called $only; there are $names" >&2; exit 2 ;;
esac

for program in "$build"/tests/bench/bench_* "$build"/tests/bench/exec/bench_*; do
    case $program in *.o|*.d) continue ;; esac
    "$program" ${only:+"$only"} || exit 1
done

# name, scenario, further arguments
scenario() {
    name=$1
    shift
    [ -z "$only" ] || [ "$only" = "$name" ] || return 0
    "$build/tests/bench/measure" "$name" "$sim" run --quiet --json "$@" || exit 1
}
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT INT TERM
case ${only:-ttft_cold_over_warm} in ttft_cold_over_warm|adapter_load_ms)
    "$build/bin/berth-exec" model random --preset 250m --adapters 3 --out "$rows/model" >/dev/null 2>&1 &&
        "$build/tests/bench/exec/worker_cold" "$rows/model" ${only:+"$only"} || exit 1
    rm -rf "$rows/model" ;;
esac
case ${only:-cache} in cache) tests/bench/cache.sh "$build" || exit 1 ;; esac
case ${only:-tunes} in tunes) tests/bench/tunes.sh "$build" || exit 1 ;; esac
case ${only:-control} in control) tests/bench/control.sh "$build" || exit 1 ;; esac
scenario sim_day scenarios/sim-day.yaml
scenario sim_hour scenarios/sim-day.yaml --set duration_s=3600 --set warmup_s=600
scenario sim_day_single_step scenarios/sim-day.yaml --set single_step=true
scenario sim_day_hdf5 scenarios/sim-day.yaml --out "$rows/rows.h5"
scenario azure_conv scenarios/azure-conv.yaml --variant affinity
scenario million scenarios/million.yaml
scenario sim_jobs_year scenarios/jobs-year.yaml
scenario sim_jobs_year_hdf5 scenarios/jobs-year.yaml --out "$rows/jobs.h5"
