#!/bin/sh
# The main paths, as a person would take them, on the built binaries. One line a check: ok, not ok, skip; `done` at the end.
set -u
sim=bin/berth-sim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

ok() { echo "ok $1"; }
not_ok() { echo "not ok $1${2:+: $2}"; }
# name, command: the command must succeed.
passes() { name=$1; shift; if "$@" >"$work/out" 2>"$work/err"; then ok "$name"; else not_ok "$name" "$(tail -n 3 "$work/err")"; fi; }
# name, exit code, text that stderr must hold, command
refuses() {
    name=$1 code=$2 text=$3
    shift 3
    "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ $got -eq "$code" ] && grep -qF -- "$text" "$work/err"; then ok "$name"
    else not_ok "$name" "exit $got, stderr: $(head -n 3 "$work/err")"; fi
}
# name, file, jq-like key, expression in awk over v
json_number() { sed -n "s/.*\"$2\": \([-0-9.e+]*\).*/\1/p" "$1" | head -n 1; }
near() { # name, got, want, tolerance
    if [ -n "$2" ] && awk -v g="$2" -v w="$3" -v t="$4" 'BEGIN{d=g-w; if(d<0)d=-d; exit !(d<=t)}'; then ok "$1"
    else not_ok "$1" "got ${2:-nothing}, want $3 +- $4"; fi
}

# A short stretch of the generated sample, whatever is installed beside the checkout.
sample="--set workload.trace.path=../traces/samples/azure-conv-sample.csv.gz --set duration_s=900 --set warmup_s=60 --quiet"

# Estimates.
$sim estimate --shape llama-8b --rank 16 --json >"$work/e.json" 2>"$work/err"
near "estimate: adapter parameters of rank 16 on 8B" "$(json_number "$work/e.json" adapter_parameters)" 41943040 0
near "estimate: adapter bytes" "$(json_number "$work/e.json" adapter_bytes)" 83886080 0
$sim estimate --train-tokens 30000000 --shape llama-8b --gpu h100 --gpus 1 --mfu 0.4 --json >"$work/e.json" 2>"$work/err"
near "estimate: training time of 30 M tokens" "$(json_number "$work/e.json" train_seconds)" 2427 24
cat >"$work/config.json" <<'CONFIG'
{"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
 "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"}
CONFIG
$sim estimate --config "$work/config.json" --rank 16 --json >"$work/e.json" 2>"$work/err"
near "estimate: from a config.json" "$(json_number "$work/e.json" adapter_parameters)" 41943040 0
refuses "estimate: an unknown shape is named" 2 "llama-9b" $sim estimate --shape llama-9b
refuses "estimate: a tp that does not divide the heads" 2 "--tp 3 does not divide the 32 attention heads" $sim estimate --tp 3

# Help, policies, keys.
passes "every verb has help" sh -c "for v in run scenario estimate policies trace replay validate; do $sim \$v --help >/dev/null || exit 1; done"
passes "policies are listed" sh -c "$sim policies | grep -q sieve"
passes "keys are listed" sh -c "$sim scenario keys | grep -q workload.arrivals.rate_per_s"
passes "every verb calls an unknown option wrong usage" sh -c \
    "for v in run scenario estimate policies trace replay validate; do $sim \$v --frobnicate 2>/dev/null; [ \$? = 2 ] || exit 1; done"
refuses "output that cannot be written is an error" 1 "could not be written" sh -c "$sim policies >/dev/full"
refuses "an unknown verb is a usage error" 2 "no verb 'frobnicate'" $sim frobnicate

# Every scenario that we ship reads.
for file in scenarios/*.yaml; do passes "scenario check: $file" $sim scenario check "$file"; done
refuses "an unknown variant is an error with a suggestion" 2 "did you mean sticky?" $sim run scenarios/azure-conv.yaml --variant stiky
refuses "an unknown key is an error with a suggestion" 1 "seed" $sim run scenarios/azure-conv.yaml --set sede=7

# shellcheck disable=SC2086
passes "run: one variant" $sim run scenarios/azure-conv.yaml $sample --set seed=7 --variant sticky --json
cp "$work/out" "$work/one.json"

# A run with everything on, its files, and again from its journal.
# shellcheck disable=SC2086
passes "run: HDF5, report, JSON" $sim run scenarios/azure-conv.yaml $sample --set seed=7 --out "$work/run.h5" --report "$work/report" --json
cp "$work/out" "$work/release.json"
# As `make demo` does: the results file lies in a report's folder that is not there yet.
# shellcheck disable=SC2086
passes "run: results inside a new report" $sim run scenarios/azure-conv.yaml $sample --out "$work/new/run.h5" --report "$work/new"
[ -s "$work/new/run.h5" ] && ok "run: they are there" || not_ok "run: they are there"
[ "$(grep -c '"variant": "' "$work/release.json")" = 3 ] && ok "run: one JSON line a variant" || not_ok "run: one JSON line a variant"
if [ "$(wc -l <"$work/one.json")" = 1 ] &&
    [ "$(grep -o '"digest": "[0-9a-f]*"' "$work/one.json")" = "$(grep '"variant": "sticky"' "$work/release.json" | grep -o '"digest": "[0-9a-f]*"')" ]
then ok "run: a variant alone is the same as among the others"; else not_ok "run: a variant alone is the same as among the others"; fi
[ -s "$work/report/index.html" ] && ok "run: the page is there" || not_ok "run: the page is there"
if command -v h5dump >/dev/null; then
    passes "run: h5dump reads the file" h5dump -A -d /variants/affinity/requests/at_ns -c 5 "$work/run.h5"
fi
# shellcheck disable=SC2086
passes "run: journal" $sim run scenarios/azure-conv.yaml $sample --journal "$work/j" --json
passes "replay: equal digests and commands" $sim replay "$work/j" --verify
# One byte in the middle of a journal.
printf 'X' | dd of="$work/j/sticky/replica-0001.journal" bs=1 seek=20000 conv=notrunc 2>/dev/null
refuses "replay: damage is found" 1 "damaged" $sim replay "$work/j" --verify

# Determinism: the same numbers in every build, folded or step by step.
digests() { grep -o '"digest": "[0-9a-f]*"' "$1"; }
for mode in debug asan; do
    binary=build/$mode/bin/berth-sim
    if [ -x $binary ]; then
        # shellcheck disable=SC2086
        passes "run: $mode build" $binary run scenarios/azure-conv.yaml $sample --set seed=7 --out "$work/$mode.h5" --json
        if [ "$(digests "$work/out")" = "$(digests "$work/release.json")" ] && [ -n "$(digests "$work/out")" ]
        then ok "$mode and release: equal digests"; else not_ok "$mode and release: equal digests"; fi
        passes "$mode and release: equal numbers in HDF5" h5diff -q "$work/run.h5" "$work/$mode.h5"
    else
        echo "skip $mode and release agree: build/$mode is not built"
    fi
done
# shellcheck disable=SC2086
passes "run: single steps" $sim run scenarios/azure-conv.yaml $sample --set seed=7 --set single_step=true --out "$work/single.h5" --json
if [ "$(digests "$work/out")" = "$(digests "$work/release.json")" ]; then ok "folded and single steps: equal digests"
else not_ok "folded and single steps: equal digests"; fi
for group in requests replicas tenants; do
    passes "folded and single steps: equal $group" h5diff -q "$work/run.h5" "$work/single.h5" /variants/affinity/$group /variants/affinity/$group
done

# The known answer of routing: 300 adapters, four servers of 40 slots.
$sim run scenarios/route-300.yaml --json --quiet >"$work/route.json" 2>"$work/err"
grep '"variant": "round-robin"' "$work/route.json" >"$work/rr.json"
grep '"variant": "sticky"' "$work/route.json" >"$work/sticky.json"
near "route-300: round-robin hits" "$(json_number "$work/rr.json" gpu_hit_ratio)" 0.556 0.01
near "route-300: sticky hits" "$(json_number "$work/sticky.json" gpu_hit_ratio)" 0.857 0.01

# Twice as many adapters as slots: first tokens come within three times as late as with all resident.
$sim run scenarios/thrash-2x.yaml --json --quiet >"$work/thrash.json" 2>"$work/err"
p99() { grep "\"variant\": \"$1\"" "$work/thrash.json" | sed -n 's/.*"ttft": {"all": {[^}]*"p99_ms": \([0-9.]*\).*/\1/p'; }
if [ -n "$(p99 thrash)" ] && [ -n "$(p99 resident)" ] && awk -v t="$(p99 thrash)" -v r="$(p99 resident)" 'BEGIN{exit !(t <= 3 * r)}'
then ok "thrash-2x: p99 TTFT $(p99 thrash) ms against $(p99 resident) ms all resident"
else not_ok "thrash-2x: p99 TTFT within three times of all resident" "$(p99 thrash) ms, $(p99 resident) ms"; fi
# It would prove nothing if every slot were pinned, or if nothing had to be loaded.
grep '"variant": "thrash"' "$work/thrash.json" >"$work/thrash-one.json"
near "thrash-2x: between a quarter and half of the slots pinned" "$(json_number "$work/thrash-one.json" slots_pinned_share_mean)" 0.375 0.125
near "thrash-2x: every second request loads" "$(json_number "$work/thrash-one.json" gpu_hit_ratio)" 0.5 0.05

# Traces.
passes "trace info: our sample" $sim trace info traces/samples/azure-conv-sample.csv.gz
if [ -r ../shared/traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv ]; then
    passes "trace info: the real hour" $sim trace info ../shared/traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv
    grep -q '19,366' "$work/out" && ok "trace info: 19,366 rows" || not_ok "trace info: 19,366 rows"
else
    echo "skip the real Azure hour: ../shared/traces is not here"
fi

# Ctrl-C leaves a readable file that says it is partial.
$sim run scenarios/sim-day.yaml --quiet --out "$work/partial.h5" >"$work/out" 2>"$work/err" &
pid=$!
sleep 2
kill -INT $pid
wait $pid
code=$?
if [ $code -eq 130 ] && h5dump -a /partial "$work/partial.h5" 2>/dev/null | grep -q '(0): 1'; then ok "Ctrl-C: exit 130, a partial file"
else not_ok "Ctrl-C: exit 130, a partial file" "exit $code"; fi
# A place that cannot be written.
refuses "an unwritable place is named" 1 "/proc/nowhere" $sim run scenarios/route-300.yaml --quiet --out /proc/nowhere/run.h5
echo done
