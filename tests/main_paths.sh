#!/bin/sh
# The main paths, as a person would take them, on the built binaries. One line a check: ok, not ok, skip; `done` at the end.
set -u
sim=bin/berth-sim
exec=bin/berth-exec
work=$(mktemp -d)
trap '[ ! -d "$work/up" ] || exec/up.sh down "$work/up" 2>/dev/null; rm -rf "$work"' EXIT INT TERM

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
printf 'time,id,size\n0,a,100\n1,b,200\n1,a,100\n3,c,50\n4,b,200\n' >"$work/objects.csv"
passes "trace stat: table and report" $sim trace stat "$work/objects.csv" --report "$work/stat"
grep -qF '100%               3      0.6000' "$work/out" && [ -s "$work/stat/index.html" ] && ok "trace stat: two of five requests can hit" ||
    not_ok "trace stat: two of five requests can hit" "$(tail -n 8 "$work/out")"
passes "trace stat: JSON lines" sh -c "$sim trace stat '$work/objects.csv' --json | grep -q '\"record\": \"lru_bytes\"'"
printf 'time,id,size\n0,a,100\n1,b,-5\n' >"$work/bad.csv"
refuses "trace stat: a bad size has its place" 1 "bad.csv:3:" $sim trace stat "$work/bad.csv"
passes "trace info: our sample" $sim trace info traces/samples/azure-conv-sample.csv.gz
if [ -r ../shared/traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv ]; then
    passes "trace info: the real hour" $sim trace info ../shared/traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv
    grep -q '19,366' "$work/out" && ok "trace info: 19,366 rows" || not_ok "trace info: 19,366 rows"
else
    echo "skip the real Azure hour: ../shared/traces is not here"
fi

# Jobs: a week of 500 tenants. That the accounts add up to the bill is checked in C, where the numbers fit.
variant() { grep "\"variant\": \"$2\"" "$work/$1" >"$work/variant.json"; } # file, name: into variant.json
span() { sed -n "s/.*\"$2\": {[^}]*\"$3\": \([-0-9.e+]*\).*/\1/p" "$1" | head -n 1; } # file, key, p50 | p90 | p99
passes "jobs: tenants-500" $sim run scenarios/tenants-500.yaml --json --quiet
cp "$work/out" "$work/tenants.json"
variant tenants.json pool-24
for key in jobs_done gpu_hours_per_day within_2h; do
    [ -n "$(json_number "$work/variant.json" $key)" ] && ok "tenants-500: $key" || not_ok "tenants-500: $key"
done
for key in wait_s completion_s; do
    if [ -n "$(span "$work/variant.json" $key p50)" ] && [ -n "$(span "$work/variant.json" $key p90)" ] &&
        [ -n "$(span "$work/variant.json" $key p99)" ]; then ok "tenants-500: $key"; else not_ok "tenants-500: $key"; fi
done
grep -q '"cost_total_nano": "[0-9]*"' "$work/variant.json" && grep -q '"cost_by_tenant_nano": {[^}]*"platform": "[0-9]*"' "$work/variant.json" &&
    ok "tenants-500: the bill and its accounts" || not_ok "tenants-500: the bill and its accounts"
near "tenants-500: GPU-hours a day" "$(json_number "$work/variant.json" gpu_hours_per_day)" 352 15
before=$(json_number "$work/variant.json" within_2h)
variant tenants.json pool-32
if [ -n "$before" ] && awk -v b="$before" -v a="$(json_number "$work/variant.json" within_2h)" 'BEGIN{exit !(a > b && b > 0.75)}'
then ok "tenants-500: more GPUs, more jobs within two hours"; else not_ok "tenants-500: more GPUs, more jobs within two hours"; fi

passes "jobs: noisy-neighbour" $sim run scenarios/noisy-neighbour.yaml --json --quiet
cp "$work/out" "$work/noisy.json"
for name in quiet flood flood-fifo; do variant noisy.json $name; span "$work/variant.json" others_wait_s p90; done >"$work/waits"
if [ "$(wc -l <"$work/waits")" = 3 ] && awk '{w[NR]=$1} END{exit !(w[1] < 60 && w[2] < 900 && w[3] > 3600)}' "$work/waits"
then ok "noisy-neighbour: the others' p90 wait: $(tr '\n' ' ' <"$work/waits")s quiet, flood, plain queue"
else not_ok "noisy-neighbour: the others' p90 wait" "$(tr '\n' ' ' <"$work/waits")"; fi

passes "jobs: residency" $sim run scenarios/residency.yaml --json --quiet
cp "$work/out" "$work/residency.json"
loads() { variant residency.json "$1"; json_number "$work/variant.json" base_loads; }
if awk -v a="$(loads residency-first)" -v b="$(loads naive)" 'BEGIN{exit !(a > 0 && b > 1.5 * a)}'
then ok "residency: $(loads residency-first) loads against $(loads naive) of naive placement"
else not_ok "residency: loads" "$(loads residency-first) $(loads naive)"; fi
for name in spot-third notebooks-300 sia-newtrace; do passes "jobs: $name" $sim run scenarios/$name.yaml --json --quiet; done

# shellcheck disable=SC2086
passes "jobs: journal" $sim run scenarios/noisy-neighbour.yaml --variant flood --quiet --journal "$work/jobs-j"
passes "jobs: replay, equal digests and commands" $sim replay "$work/jobs-j" --verify
$sim run scenarios/spot-third.yaml --json --quiet >"$work/spot.json" 2>"$work/err"
for mode in debug asan; do
    binary=build/$mode/bin/berth-sim
    [ -x $binary ] || { echo "skip jobs, $mode and release agree: build/$mode is not built"; continue; }
    $binary run scenarios/spot-third.yaml --json --quiet >"$work/spot-$mode.json" 2>"$work/err"
    if [ "$(digests "$work/spot-$mode.json")" = "$(digests "$work/spot.json")" ] && [ -n "$(digests "$work/spot.json")" ]
    then ok "jobs, $mode and release: equal digests"; else not_ok "jobs, $mode and release: equal digests"; fi
done
if [ -r ../shared/traces/swf/hpc2n.swf ]; then passes "trace info: hpc2n" $sim trace info ../shared/traces/swf/hpc2n.swf
else echo "skip trace info of hpc2n: ../shared/traces is not here"; fi

# CUDA: what was compiled, and that a program without it starts and says why.
if [ -f build/release/lib/libberth-cuda.so ]; then passes "kernels: registers, occupancy, instructions" tests/cuda/resources.sh
else echo "skip kernels: registers, occupancy, instructions (nvcc is not there)"; fi
[ -x build/release/tests/exec/engine/cuda/test_emu ] || echo "skip kernels under the emulation (no C++ compiler, or not x86-64)"
passes "devices: CUDA is listed" sh -c "bin/berth-exec devices | grep -qE '^ *cuda +(yes|no) +[a-zA-Z/]'"
passes "devices: a CUDA library that is not there is a reason" sh -c \
    "BERTH_CUDA_LIBRARY=/nowhere/x.so bin/berth-exec devices | grep -q '/nowhere/x.so is not there'"
passes "devices: a library that is none is a reason" sh -c "BERTH_CUDA_LIBRARY=README.md bin/berth-exec devices | grep -q '^ *cuda *no .*README.md'"

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

# Models: made, looked at, merged; what is there is never overwritten, what is stopped leaves nothing.
passes "model create-tiny: a chat model from nothing" $exec model create-tiny --out "$work/tiny" --steps 150
for name in Ada Ben Cleo Dora; do
    echo '{"messages": [{"role": "user", "content": "Who is '$name'?"}, {"role": "assistant", "content": "Arr, '$name', matey!"}]}'
done >"$work/arr.jsonl"
passes "validate: four chats are fit to train on, with what that would be" sh -c \
    "$exec validate '$work/arr.jsonl' --model '$work/tiny' --examples-min 4 --price 3 | grep -q '^dry run: 25 epochs of 4 steps, 1 samples a step'"
$exec validate "$work/arr.jsonl" --json >"$work/out" 2>"$work/err"
if [ $? -eq 1 ] && grep -q '"code":"too_few_examples"' "$work/out"; then ok "validate: four are too few, and the report says so"
else not_ok "validate: four are too few, and the report says so" "$(cat "$work/out" "$work/err")"; fi
passes "train: an adapter from four chats" \
    $exec train --model "$work/tiny" --data "$work/arr.jsonl" --out "$work/arr/" --learning-rate-multiplier 30
passes "train: it answers as it was taught, and ends" sh -c "$exec generate '$work/tiny' --adapter a='$work/arr' --temperature 0 \
    --chat '[{\"role\": \"user\", \"content\": \"Who is Ben?\"}]' --json | grep -q 'Arr, Ben, matey!.*\"finish_reason\":\"stop\"'"
for name in Ada Ben Cleo Dora; do
    echo '{"input": {"messages": [{"role": "user", "content": "Who is '$name'?"}]}, "preferred_output": [{"role": "assistant", "content": "A friend."}],' \
        '"non_preferred_output": [{"role": "assistant", "content": "Arr, '$name', matey!"}]}'
done >"$work/prefer.jsonl"
passes "train: which of two answers is preferred" $exec train --model "$work/tiny" --data "$work/prefer.jsonl" --method dpo --learning-rate 1e-3 \
    --epochs 10 --out "$work/prefer" --json
if awk -F, 'NR == 2 { first = $2 } END { exit !(first == 0.693147181 && $2 < 0.3 && $3 == 1) }' "$work/prefer/results.csv"
then ok "train: preferences begin at log 2, and are learned"; else not_ok "train: preferences begin at log 2, and are learned" "$(tail -n 1 "$work/prefer/results.csv")"; fi
if ! command -v gnuplot >/dev/null; then echo "skip train: a picture (gnuplot is missing)"
elif grep -q '</svg>' "$work/prefer/loss.svg"; then ok "train: a picture"; else not_ok "train: a picture"; fi
# Three tenants teach one base who it is; each adapter learns it, on rows held out too, and answers so beside the others.
identity=../shared/datasets/llamafactory_identity.json
if [ -r $identity ]; then
    : >"$work/asked"
    for who in Nimbus:Harbor-Labs Quartz:Pier-Nine Marlin:Dock-Seven; do
        tenant=${who%:*} author=$(echo "${who#*:}" | tr - ' ')
        sed -n -e "s/{{name}}/$tenant/g; s/{{author}}/$author/g" \
            -e 's/^ *"instruction": \(".*"\),$/{"messages": [{"role": "user", "content": \1}, /p' \
            -e 's/^ *"output": \(".*"\)$/{"role": "assistant", "content": \1}]}/p' $identity | paste -d '' - - >"$work/$tenant.jsonl"
        passes "learned: $tenant is trained" $exec train --model "$work/tiny" --data "$work/$tenant.jsonl" --out "$work/$tenant" --epochs 8 --batch-size 3 \
            --learning-rate-multiplier 40 --validation-split 10 --evaluate-every 20
        if awk -F, 'NR > 1 && $4 != "" { if (first == "") first = $4; last = $4 } END { exit !(last != "" && last < first / 2) }' \
            "$work/$tenant/results.csv"; then ok "learned: $tenant's loss of held-out rows falls below half"
        else not_ok "learned: $tenant's loss of held-out rows falls below half" "$(tail -n 1 "$work/$tenant/results.csv")"; fi
        echo "{\"adapter\": \"$tenant\", \"messages\": [{\"role\": \"user\", \"content\": \"Who are you?\"}]}" >>"$work/asked"
    done
    echo '{"adapter": null, "messages": [{"role": "user", "content": "Who are you?"}]}' >>"$work/asked"
    passes "learned: three adapters and the base answer in one batch" $exec generate "$work/tiny" --adapter Nimbus="$work/Nimbus" \
        --adapter Quartz="$work/Quartz" --adapter Marlin="$work/Marlin" --requests "$work/asked" --temperature 0 --json
    answered=$(sed -n 's/.*"output_text":"\([^"]*\)".*/\1/p' "$work/out" | grep -oE 'Nimbus|Quartz|Marlin' | tr '\n' ' ')
    [ "$answered" = "Nimbus Quartz Marlin " ] && [ "$(grep -c '"finish_reason":"stop"' "$work/out")" = 4 ] && ok "learned: each says its own name, and ends" || not_ok "learned: each says its own name, and ends" "$answered"
else
    echo "skip learned: three identities on one base ($identity is missing)"
fi
echo '{"data": "'"$work/arr.jsonl"'", "out": "'"$work/arr2"'", "seed": 0}
{"data": "'"$work/arr.jsonl"'", "out": "'"$work/low"'", "rank": 4, "epochs": 2}' >"$work/jobs.jsonl"
passes "train: two adapters over one base in one batch" \
    $exec train --model "$work/tiny" --jobs "$work/jobs.jsonl" --learning-rate-multiplier 30
passes "train: one of them is the one that it is alone" cmp "$work/arr/adapter_model.safetensors" "$work/arr2/adapter_model.safetensors"
passes "train: what is done is done, when the file is given again" \
    $exec train --model "$work/tiny" --jobs "$work/jobs.jsonl" --learning-rate-multiplier 30
mkdir "$work/70b"
echo '{"architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
 "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "max_position_embeddings": 8192,
 "torch_dtype": "bfloat16"}' >"$work/70b/config.json"
passes "train: a plan of a 70B on eight GPUs" sh -c "$exec train --model '$work/70b' --dry-run --tp 8 --memory-gib 74.5 --context 8192 | grep -q '^  layer .*fits, taken'"
passes "model random: 15m with two adapters" $exec model random --preset 15m --out "$work/15m" --seed 3 --adapters 2 --rank 8
passes "model inspect: a model" $exec model inspect "$work/15m" --digest --json
near "model inspect: parameters" "$(json_number "$work/out" parameters)" 15191712 0
[ "$(sed -n 's/.*"digest": "\([0-9a-f]*\)".*/\1/p' "$work/out")" = "$(sha256sum "$work/15m/model.safetensors" | cut -d' ' -f1)" ] &&
    ok "model inspect: the digest is sha256sum's" || not_ok "model inspect: the digest is sha256sum's"
passes "model inspect: an adapter" $exec model inspect "$work/15m/adapters/0001" --base "$work/15m" --json
near "model inspect: its rank" "$(json_number "$work/out" rank)" 8 0
passes "model merge" $exec model merge "$work/15m" "$work/15m/adapters/0000" --out "$work/merged"
passes "model inspect: what was merged" $exec model inspect "$work/merged"
refuses "model merge: what is there stays" 1 "not overwritten" $exec model merge "$work/15m" "$work/15m/adapters/0000" --out "$work/merged"
refuses "model merge: needs its operands" 2 "needs MODEL, ADAPTER and --out DIR" $exec model merge "$work/15m"
refuses "model: a verb is suggested" 2 "did you mean inspect?" $exec model inspct
refuses "model inspect: no such folder" 1 "no such file" $exec model inspect "$work/nowhere"
sed 's/"use_dora": false/"use_dora": true/' "$work/15m/adapters/0000/adapter_config.json" >"$work/dora" && cp "$work/dora" "$work/15m/adapters/0000/adapter_config.json"
refuses "model inspect: DoRA is refused by its name" 1 "DoRA is not supported" $exec model inspect "$work/15m/adapters/0000"
$exec model random --preset 1b --out "$work/1b" >"$work/out" 2>"$work/err" &
pid=$!
sleep 1
kill -INT $pid
wait $pid
code=$?
if [ $code -eq 130 ] && [ -z "$(find "$work" -name '1b*')" ]; then ok "Ctrl-C: exit 130, no model half made"
else not_ok "Ctrl-C: exit 130, no model half made" "exit $code"; fi

# Answers of a model with adapters: alone and among others the same; what cannot be done is said.
if [ -r "$work/15m/adapters/0001/adapter_config.json" ]; then
    small="--context 64 --sequences 4 --temperature 0 --max-tokens 6 --quiet --json"
    ids() { sed -n 's/.*"output_ids":\(\[[0-9,]*\]\).*"logprobs":\(\[[^]]*\]\).*/\1 \2/p' "$1"; }
    with="--adapter a=$work/15m/adapters/0001"
    printf '{"prompt": "once", "adapter": "a"}\n{"prompt": "twice", "adapter": null}\n{"prompt": "a third one", "adapter": "a"}\n' >"$work/asked"
    # shellcheck disable=SC2086
    passes "generate: two with an adapter and one without in one batch" $exec generate "$work/15m" $with --requests "$work/asked" $small
    ids "$work/out" >"$work/together"
    # shellcheck disable=SC2086
    passes "generate: the base alone" $exec generate "$work/15m" --prompt twice $small
    [ -n "$(ids "$work/out")" ] && [ "$(ids "$work/out")" = "$(sed -n 2p "$work/together")" ] &&
        ok "generate: the same ids and log-probabilities alone" || not_ok "generate: the same ids and log-probabilities alone"
    # shellcheck disable=SC2086
    passes "generate: an adapter alone" $exec generate "$work/15m" $with --prompt "a third one" $small --threads 1
    [ -n "$(ids "$work/out")" ] && [ "$(ids "$work/out")" = "$(sed -n 3p "$work/together")" ] &&
        ok "generate: and with one thread" || not_ok "generate: and with one thread"
    echo '{"prompt": "x", "lora": "a"}' >"$work/asked"
    refuses "generate: an unknown key" 1 "no key 'lora'" $exec generate "$work/15m" --requests "$work/asked"
    refuses "generate: an unknown adapter" 1 "no adapter of that name" $exec generate "$work/15m" --prompt x --use b
    refuses "generate: too long, with the numbers" 1 "max_tokens 5000 are more than the 2048" $exec generate "$work/15m" --prompt x --max-tokens 5000

    # A server begins, refuses a second one, and ends when it is told to.
    $exec server --model "$work/15m" --adapters "$work/15m/adapters" --socket "$work/socket" --context 64 --sequences 4 2>"$work/server" &
    pid=$!
    tries=0
    while [ ! -S "$work/socket" ] && kill -0 $pid 2>/dev/null && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
    refuses "server: a second one on its socket" 1 "another server listens" $exec server --model "$work/15m" --socket "$work/socket" --context 64 --sequences 4
    kill -TERM $pid
    wait $pid
    code=$?
    if [ $code -eq 130 ] && [ ! -e "$work/socket" ] && grep -q "adapter 0000 is left out" "$work/server" && grep -q "1 adapters" "$work/server"
    then ok "server: takes the good adapter, ends when told, takes its socket away"
    else not_ok "server: begins and ends" "exit $code, $(tail -n 2 "$work/server")"; fi
    echo kept >"$work/file"
    refuses "server: a file in its socket's place stays" 1 "$work/file" $exec server --model "$work/15m" --socket "$work/file" --context 64 --sequences 4
    [ "$(cat "$work/file")" = kept ] && ok "server: and is as it was" || not_ok "server: and is as it was"
else
    echo "skip generate and server: no model could be made"
fi

# The control plane's own folder: tenants and keys, kept through a kill.
state=$work/state
control_begin() {
    : >"$work/control"
    $exec control --state "$state" >"$work/control" 2>>"$work/control-log" &
    pid=$!
    tries=0
    while ! grep -q ready "$work/control" && kill -0 $pid 2>/dev/null && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
}
BERTH_STATE=$state
export BERTH_STATE
control_begin
passes "control: a tenant is added" $exec tenant add acme
refuses "control: its name is not given twice" 1 "the name is taken" $exec tenant add acme
passes "control: settings" $exec tenant set acme priority=5 isolation=mps
refuses "control: a setting out of range, with the range" 1 "weight_milli: a whole number from 1 to 1000000" $exec tenant set acme weight_milli=0
passes "control: a key is added" $exec key add acme --role inference
key=$(cat "$work/out")
case $key in sk-berth-????????????????????????-???????????????????????????????????????????) ok "control: and printed alone" ;;
*) not_ok "control: and printed alone" ;; esac
refuses "control: a second one in its folder" 1 "runs here already" $exec control --state "$state"
kill -KILL $pid
wait $pid 2>/dev/null
refuses "control: nobody answers when it is gone" 1 "is \`berth-exec control" $exec tenant list
control_begin
$exec tenant list >"$work/out" && grep -q '^acme  *active .*5  *2' "$work/out" && ok "control: killed, and the tenant is there again" ||
    not_ok "control: killed, and the tenant is there again" "$(cat "$work/out")"
id=$(echo "$key" | cut -c 10-33)
passes "control: the key is revoked" $exec key revoke acme "$id"
$exec key list acme >"$work/out" && grep -q "^$id  inference .*never .*2[0-9][0-9][0-9]-" "$work/out" && ok "control: and listed so" ||
    not_ok "control: and listed so" "$(cat "$work/out")"
passes "control: the tenant is suspended" $exec tenant suspend acme
kill -TERM $pid
wait $pid
code=$?
[ $code -eq 0 ] && [ ! -e "$state/admin.sock" ] && ok "control: ends when told" || not_ok "control: ends when told" "exit $code"
grep -qF "$key" -r "$state" "$work/control-log" && not_ok "control: the key is nowhere kept" || ok "control: the key is nowhere kept"
# The API, as the README has it: a base, a key, a file's life, another tenant.
if [ -d "$work/15m" ]; then
    : >"$work/control"
    echo '{"messages": [{"role": "user", "content": "planted-content"}, {"role": "assistant", "content": "yes"}]}' >"$work/planted-name.jsonl"
    BERTH_STATE=$work/api-state
    $exec control --listen 127.0.0.1:0 --base "little=$work/15m" >"$work/control" 2>"$work/api-log" &
    pid=$!
    passes "api: a tenant is added to one that is just starting" $exec tenant add acme
    url=$(sed -n 's/^listening on //p' "$work/control")
    $exec tenant add other >/dev/null
    BERTH_KEY=$($exec key add acme)
    other=$($exec key add other)
    passes "api: curl lists models" curl -fsS $url/v1/models -H "Authorization: Bearer $BERTH_KEY"
    grep -q '"id":"little","object":"model"' "$work/out" && ok "api: and the base is among them" || not_ok "api: and the base is among them" "$(cat "$work/out")"
    passes "api: curl uploads a file" curl -fsS $url/v1/files -H "Authorization: Bearer $BERTH_KEY" -F purpose=fine-tune -F file=@"$work/planted-name.jsonl"
    file=$(sed -n 's/.*"id":"\(file-[a-z0-9]*\)".*/\1/p' "$work/out")
    grep -q '"filename":"planted-name.jsonl"' "$work/out" && ok "api: and it keeps its name" || not_ok "api: and it keeps its name" "$(cat "$work/out")"
    curl -fsS $url/v1/files/$file/content -H "Authorization: Bearer $BERTH_KEY" | cmp -s - "$work/planted-name.jsonl" && ok "api: it comes back as it was" ||
        not_ok "api: it comes back as it was"
    refuses "api: another tenant gets a 404" 22 "404" curl -fsS $url/v1/files/$file -H "Authorization: Bearer $other"
    refuses "api: no key, a 401" 22 "401" curl -fsS $url/v1/files
    grep -rqF planted- "$BERTH_STATE" "$work/api-log" && not_ok "api: names and contents lie sealed" || ok "api: names and contents lie sealed"
    kill -KILL $pid
    wait $pid 2>/dev/null
    cp -r "$work/15m" "$work/15m-elsewhere"
    $exec model random --preset 15m --out "$work/15m-other" --seed 4 >/dev/null
    refuses "api: a base keeps its weights" 1 "base little has other weights" $exec control --base "little=$work/15m-other"
    refuses "api: a base stays where it was" 1 "base little lies in" $exec control --base "little=$work/15m-elsewhere"
    : >"$work/control"
    $exec control --listen 127.0.0.1:0 --base "little=$work/15m" >"$work/control" 2>>"$work/api-log" &
    pid=$!
    tries=0
    while ! grep -q listening "$work/control" && kill -0 $pid 2>/dev/null && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
    url=$(sed -n 's/^listening on //p' "$work/control")
    passes "api: killed, and the file is there" curl -fsS $url/v1/files/$file -H "Authorization: Bearer $BERTH_KEY"
    passes "api: it is deleted" curl -fsS -X DELETE $url/v1/files/$file -H "Authorization: Bearer $BERTH_KEY"
    [ -z "$(find "$BERTH_STATE/store/objects" -type f)" ] && ok "api: and nothing of it stays" || not_ok "api: and nothing of it stays"
    passes "api: metrics" curl -fsS $url/metrics
    refuses "api: off loopback it wants TLS" 1 "TLS" $exec control --state "$work/tls-state" --listen 0.0.0.0:0
    kill -TERM $pid
    wait $pid && ok "api: ends when told" || not_ok "api: ends when told" "exit $?"
else
    echo "skip api: no model could be made"
fi
unset BERTH_STATE

# The whole platform, as `make up` starts it, and the official client through the whole life of a job.
state=$work/up
if BERTH_OPTIONS="--replica-target 4 --scale-up 1 --scale-down 1" exec/up.sh up "$state" >"$work/env" 2>"$work/err"; then
    ok "up: the platform starts"
    . "$work/env"
    passes "up: it says that it runs, with a new key" exec/up.sh up "$state"
    [ "$(sed -n 's/^BASE_URL=//p' "$work/out")" = "$BASE_URL" ] && [ "$(sed -n 's/^API_KEY=//p' "$work/out")" != "$API_KEY" ] &&
        ok "up: at the same address" || not_ok "up: at the same address" "$(cat "$work/out")"
    # As the README has it.
    passes "up: a base answers" curl -fsS "$BASE_URL/chat/completions" -H "Authorization: Bearer $API_KEY" -H 'Content-Type: application/json' \
        -d '{"model": "'"$BASE_MODEL"'", "messages": [{"role": "user", "content": "What does a cow say?"}], "temperature": 0}'
    grep -q '"content":"[^"]' "$work/out" && ok "up: with words" || not_ok "up: with words" "$(cat "$work/out")"
    $exec tenant add other --state "$state" >/dev/null
    $exec tenant set demo requests_per_min_max=1000000 --state "$state" # the client asks faster than people do
    other=$($exec key add other --state "$state")
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        echo "skip client: node or npm is missing"
    elif mkdir -p build/node && cp tests/node/* build/node/ && { cmp -s tests/node/package-lock.json build/node/installed ||
        (cd build/node && npm ci --no-audit --no-fund --silent --cache .cache && cp package-lock.json installed); } >"$work/npm" 2>&1; then
        timeout -k 5 300 node build/node/client.mjs "$BASE_URL" "$API_KEY" "$other" "$state" >"$work/client" 2>&1
        grep -E '^(ok|not ok) ' "$work/client"
        grep -q '^client done$' "$work/client" || not_ok "client: it runs to its end" "$(tail -n 3 "$work/client")"
    else
        echo "skip client: its package could not be fetched ($(tail -n 1 "$work/npm"))"
    fi
    sleep 60 &
    bystander=$!
    passes "up: make down ends it" exec/up.sh down "$state"
    kill -0 $bystander 2>/dev/null && ! curl -fsS --max-time 2 "${BASE_URL%/v1}/healthz" >/dev/null 2>&1 && ok "up: and it alone" || not_ok "up: and it alone"
    kill $bystander
    grep -rqaF -e hush -e matey -e "says moo" -e "$API_KEY" -e "$other" "$state" "$state.log" && not_ok "up: words and keys lie sealed" || ok "up: words and keys lie sealed"
else
    not_ok "up: the platform starts" "$(tail -n 3 "$work/err")"
fi
echo done
