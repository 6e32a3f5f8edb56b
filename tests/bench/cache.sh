#!/bin/bash
# Requests a second of the cache lab, one process and one cache at a time, on the two traces of ../shared/reference/cache, beside what
# the field's reference did there and the miss ratios that it gave. One JSON line a policy and size:
#   value: best of $runs runs by the clock; cpu: by processor time, which a busy machine disturbs less; ratio, ratio_cpu: to the
#   reference's best rate in the list; miss: "equal" to the printed digit, or the difference.
# BERTH_CACHESIM=FILE: the reference's program; then it runs in turns with ours, and ratio_here is that of the best processor times.
#   tests/bench/cache.sh build/MODE [POLICY,...]
set -u
sim=$1/bin/berth-sim
reference=../shared/reference/cache
runs=${BERTH_BENCH_RUNS:-3}
traces=build/cache-traces
here=$(pwd)

if [ ! -r "$reference/gen_zipf.c" ]; then
    echo "SKIP cache: no $reference with the generator of the traces"
    exit 0
fi

# name, sum, arguments of the generator
trace() {
    [ -r "$traces/$1" ] && return 0
    mkdir -p "$traces"
    [ -x "$traces/gen_zipf" ] || cc -O2 -o "$traces/gen_zipf" "$reference/gen_zipf.c" -lm || return 1
    name=$1 sum=$2
    shift 2
    "$traces/gen_zipf" "$@" "$traces/$name.part" - >/dev/null 2>&1 || return 1
    if [ "$(sha256sum <"$traces/$name.part" | cut -d' ' -f1)" != "$sum" ]; then
        echo "tests/bench/cache.sh: $name has another sum than $reference/README.md says" >&2
        return 1
    fi
    mv "$traces/$name.part" "$traces/$name"
}
a=A_zipf1.0_1M_10M.oracleGeneral.bin
b=B_zipf1.0_lora5k_10M.oracleGeneral.bin
trace $a f52303dff4f459109e161bcb1676bed7d42c3520e4ee57b3b94bc5d696c689b1 1000000 10000000 1.0 42 1 1000 || exit 1
trace $b 97005cfe7e325ab2cba74325897f68f01c9eac9340e65bbb5035060e80d3f85d 5000 10000000 1.0 43 lora 1000 || exit 1

# Processor seconds of the reference, the best of this and what is in $theirs.
reference_run() {
    [ -n "${BERTH_CACHESIM:-}" ] || return 0
    case $size in
    *obj) set -- "${size%obj}" --ignore-obj-size 1 ;;
    *GiB) set -- "${size%GiB}GB" ;;
    esac
    times=$(mktemp)
    (cd "${TMPDIR:-/tmp}" && time -p "$BERTH_CACHESIM" "$here/$traces/$trace" oracleGeneral "$their_name" "$@" >/dev/null 2>&1) 2>"$times"
    took=$(awk '/^(user|sys)/ { sum += $2 } END { print sum }' "$times")
    rm -f "$times"
    theirs=$(echo "$theirs $took" | awk '{print $1 == 0 || $2 < $1 ? $2 : $1}')
}

field() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\)[,}].*/\1/p"
}

measure() {
    policy=$1 trace=$2 size=$3
    case $policy in 2q) their_name=twoq ;; *) their_name=$policy ;; esac
    lines="" theirs=0
    for run in $(seq "$runs"); do
        lines="$lines$("$sim" cache "$traces/$trace" --policy "$policy" --size "$size" --json --jobs 1 --quiet)
" || exit 1
        reference_run
    done
    wall=$(echo "$lines" | field requests_per_s | sort -g | tail -1)
    cpu=$(echo "$lines" | field requests_per_cpu_s | sort -g | tail -1)
    miss=$(echo "$lines" | field miss_ratio | tail -1)
    peak=$(echo "$lines" | field process_peak_bytes | sort -g | tail -1)
    their_size=$(echo "$size" | sed 's/obj$//; s/GiB$/gb/')
    awk -F, -v trace="${trace%.oracleGeneral.bin}" -v policy="$policy" -v name="$their_name" -v size="$size" -v their_size="$their_size" \
        -v wall="$wall" -v cpu="$cpu" -v miss="$miss" -v peak="$peak" -v runs="$runs" -v theirs="$theirs" '
        $1 == trace && $3 == name && $4 == their_size { best = $9; their_miss = $6; their_kib = $10 }
        END {
            printf "{\"name\": \"cache\", \"case\": \"%s, %s, %s\", \"value\": %.2f, \"unit\": \"M requests/s\", \"cpu\": %.2f", policy, substr(trace, 1, 1), size, wall / 1e6, cpu / 1e6
            if (best > 0)
                printf ", \"ratio\": %.2f, \"ratio_cpu\": %.2f, \"memory_ratio\": %.3f", wall / 1e6 / best, cpu / 1e6 / best, peak / 1024 / their_kib
            if (theirs > 0)
                printf ", \"ratio_here\": %.2f", cpu / (1e7 / theirs)
            printf ", \"miss_ratio\": %.4f", miss
            if (their_miss != "" && sprintf("%.4f", miss) == sprintf("%.4f", their_miss))
                printf ", \"miss\": \"equal\""
            else if (their_miss != "")
                printf ", \"miss\": \"%+.4f\"", miss - their_miss
            printf ", \"peak_kib\": %d, \"runs\": %d}\n", peak / 1024, runs
        }' "$reference/libcachesim.csv"
}

# Those of both lists, in their order.
policies=${2:-$("$sim" policies --json | tr -d '\n' | sed 's/}/}\n/g' | sed -n 's/.*"question": "\(evict\|bound\)".*"name": "\([^"]*\)".*/\2/p' | tr '\n' ',')}
for policy in $(echo "$policies" | tr ',' ' '); do
    for size in 1000obj 10000obj 100000obj; do measure "$policy" $a $size; done
    for size in 50obj 250obj 1000obj 8GiB 64GiB 256GiB; do measure "$policy" $b $size; done
done
