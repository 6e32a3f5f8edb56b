#!/bin/sh
# The slower tests: a clang build with equal numbers, long random histories, threads under
# ThreadSanitizer, short fuzzing.
set -u
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
missing=
for package in clang libclang-rt-14-dev postgresql; do
    dpkg-query -W -f '${Status}' $package 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "installing:$missing"
    $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
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

# What is slow, most of it where every instruction is watched.
for mode in release asan; do
    make --no-print-directory -j"$(nproc)" MODE=$mode all tests >/dev/null && tests/run.sh --unit --slow $mode >"$work/slow.log" 2>&1
    slow=$?
    note $slow "the slow programs, $mode: $(tail -n 1 "$work/slow.log")"
done

# Jobs: no sizes or prices may depend on the compiler either.
for compiler in release-clang release; do
    "build/$compiler/bin/berth-sim" run scenarios/spot-third.yaml --set duration_s=172800 --quiet --json |
        grep -oE '"(digest|cost_total_nano|jobs_done)": "?[0-9a-f]*' >"$work/jobs.$compiler"
done
[ -s "$work/jobs.release" ] && cmp -s "$work/jobs.release-clang" "$work/jobs.release"; note $? "clang and gcc: equal jobs, digests and bills"

# The scheduler of jobs under a million random events for each pair of policies, every promise after every event.
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/shared/fleet/jobs/test_jobs_random >/dev/null &&
    BERTH_TEST_EVENTS=250000 build/release/tests/shared/fleet/jobs/test_jobs_random >"$work/random.log" 2>&1
random=$?
note $random "a million random events a pair of policies: $(grep -E 'ERROR: |PASSED' "$work/random.log" | head -n 1)"

# A trainer killed at hundreds of moments ends in the bytes of one that was not.
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/exec/engine/train/run/test_run >/dev/null &&
    BERTH_TEST_KILLED=60 build/release/tests/exec/engine/train/run/test_run >"$work/killed.log" 2>&1
killed=$?
note $killed "a trainer killed at random: $(grep -E 'ERROR: |killed' "$work/killed.log" | head -n 1)"

# The metadata's writer killed at a thousand moments: nothing acknowledged is lost, nothing is there twice.
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/exec/control/metadata/test_killed >/dev/null &&
    BERTH_TEST_KILLED=1000 build/release/tests/exec/control/metadata/test_killed >"$work/killed.log" 2>&1
killed=$?
note $killed "the metadata's writer killed at random: $(grep -E 'ERROR: |acts told' "$work/killed.log" | head -n 1)"

# One text of SQL: the same tests on PostgreSQL.
make --no-print-directory -j"$(nproc)" MODE=release $(for test in jobs models owner records; do echo build/release/tests/exec/control/metadata/test_$test; done) >/dev/null &&
    tests/postgres.sh build/release >"$work/postgres.log" 2>&1
postgres=$?
note $postgres "the metadata on PostgreSQL: $(grep -E 'ERROR|SKIP|PASSED' "$work/postgres.log" | head -n 1)"

# Control planes killed under their workers' traffic for half a minute: no frame is lost or counted twice.
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/exec/keeper/test_keeper >/dev/null &&
    BERTH_TEST_KILLED_S=30 build/release/tests/exec/keeper/test_keeper >"$work/keeper.log" 2>&1
keeper=$?
note $keeper "control planes killed at random: $(grep -E 'ERROR: |killed,' "$work/keeper.log" | head -n 1)"

# The whole platform under load, a random process killed every 0.3 to 2 s: nothing acknowledged is lost, nothing is billed twice.
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/exec/control/api/test_kill_points >/dev/null &&
    BERTH_TEST_KILLED_S=120 build/release/tests/exec/control/api/test_kill_points >"$work/platform.log" 2>&1
platform=$?
note $platform "the platform killed at random: $(grep -E 'ERROR: |^seed|crashed;' "$work/platform.log" | head -n 3 | tr '\n' ' ')"

# Threads: the team that kernels run on, ranks, the loader beside a worker, servers beside their clients.
threaded="device/test_team model/test_shard train/test_train_ranks ../worker/test_random ../worker/test_versions ../worker/test_server ../worker/test_server_bounds \
    ../crypto/test_vault ../store/test_store ../control/metadata/test_jobs ../control/metadata/test_killed ../control/admin/test_admin \
    ../control/core/test_requests ../control/core/test_adapters ../control/core/test_usage ../control/core/test_storm \
    ../control/driver/test_driver ../control/driver/test_driver_fleet ../control/api/test_files ../control/api/test_jobs ../task/test_validator \
    ../control/http/test_http ../control/http/test_guards ../control/http/test_streams ../control/http/test_uploads"
programs=$(for test in $threaded; do echo "build/tsan/tests/exec/engine/$test"; done | sed 's#engine/\.\./##')
# shellcheck disable=SC2086
make --no-print-directory -j"$(nproc)" MODE=tsan $programs >/dev/null; note $? "the programs with threads are built with ThreadSanitizer"
for program in $programs; do
    "$program" >"$work/tsan.log" 2>&1; note $? "ThreadSanitizer: $program: $(grep -E 'WARNING: Thread|PASSED' "$work/tsan.log" | head -n 1)"
done

# Short fuzzing: bytes as traces, half a minute; what it finds is kept beside the log.
# shellcheck disable=SC2046
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_TRACE -Ishared -Itraces \
    $(pkg-config --cflags hdf5) tests/fuzz/fuzz_trace.c traces/*.c shared/base/*.c shared/host/check_failed.c -ljansson -lz -lzstd \
    $(pkg-config --libs hdf5) -lm -o "$work/fuzz_trace"
note $? "the fuzzer of trace readers is built"
mkdir "$work/corpus" && cp traces/samples/*sample* "$work/corpus/"
printf '\042%s\n' 'time,id,size' '1,7,100' '2.5,"a,b",5' >"$work/corpus/objects"
"$work/fuzz_trace" -max_total_time=30 -max_len=4096 -artifact_prefix="$work/" "$work/corpus" >"$work/fuzz.log" 2>&1
note $? "thirty seconds of fuzzing: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"
# The same for safetensors files, twenty seconds, from seeds made here: length, header, data.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_SAFETENSORS -Ishared -Iexec \
    tests/fuzz/fuzz_safetensors.c exec/engine/safetensors/*.c exec/engine/files/*.c shared/base/*.c shared/host/check_failed.c \
    shared/host/words.c -ljansson -lcrypto -o "$work/fuzz_safetensors"
note $? "the fuzzer of the safetensors reader is built"
mkdir "$work/corpus-safetensors"
seed() { # name, header of less than 256 bytes, data
    # shellcheck disable=SC2059
    { printf "\\$(printf '%03o' "${#2}")\\0\\0\\0\\0\\0\\0\\0"; printf '%s' "$2$3"; } >"$work/corpus-safetensors/$1"
}
seed empty '{}' ''
seed one '{"a.b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 'abcdefghijklmnopqrstuvwx'
seed two '{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"a":{"dtype":"F16","shape":[2,1],"data_offsets":[4,8]}}' 'abcdefgh'
seed odd '{"s":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"z":{"dtype":"I64","shape":[0,5],"data_offsets":[1,1]}}' 'a'
"$work/fuzz_safetensors" -max_total_time=20 -max_len=4096 -artifact_prefix="$work/" "$work/corpus-safetensors" >"$work/fuzz.log" 2>&1
note $? "twenty seconds of fuzzing: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"

# The same for tokenizers and chat templates; the first byte chooses between them.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_TOKENIZER -Ishared -Iexec \
    tests/fuzz/fuzz_tokenizer.c exec/engine/tokenizer/*.c exec/engine/chat/*.c shared/base/*.c shared/host/words.c shared/host/check_failed.c \
    -ljansson -lz -lpcre2-8 -lutf8proc -lm -o "$work/fuzz_tokenizer"
note $? "the fuzzer of tokenizers and templates is built"
mkdir "$work/templates"
printf '\1%s' '{% set ns = namespace(n=0) %}{% for m in messages if m.content %}{{ m.content|trim ~ loop.index }}{% endfor %}' >"$work/templates/chat"
printf '\0%s' '{"added_tokens": [], "model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}' >"$work/templates/json"
"$work/fuzz_tokenizer" -max_total_time=30 -max_len=4096 -artifact_prefix="$work/" "$work/templates" >"$work/fuzz.log" 2>&1
note $? "thirty seconds of fuzzing them: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"

# The same for sealed objects, twenty seconds, from two of them; without the key none opens.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_ENVELOPE -Ishared -Iexec \
    tests/fuzz/fuzz_envelope.c exec/crypto/envelope*.c exec/crypto/secret.c exec/crypto/wrap.c exec/engine/files/refusal.c shared/base/*.c \
    shared/host/words.c shared/host/check_failed.c -lsodium -o "$work/fuzz_envelope"
note $? "the fuzzer of sealed objects is built"
mkdir "$work/objects"
object() { # name, key's name of less than 64 bytes, bytes after it
    { printf 'BERTHOBJ\1\0\0\0\0\0\1\0%s' "$2"; head -c $((64 - ${#2} + $3)) /dev/zero; } >"$work/objects/$1"
}
object empty file-1 80
object some file-abc_DEF 180
"$work/fuzz_envelope" -max_total_time=20 -max_len=4096 -artifact_prefix="$work/" "$work/objects" >"$work/fuzz.log" 2>&1
note $? "twenty seconds of fuzzing: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"

# The same for frames of workers and of control planes, twenty seconds.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_WIRE -Ishared -Iexec \
    tests/fuzz/fuzz_wire.c exec/wire/*.c shared/base/*.c shared/host/check_failed.c -o "$work/fuzz_wire"
note $? "the fuzzer of frames is built"
mkdir "$work/frames"
frame() { # name, options, kind, bytes of the body
    { printf "\\$2\\$(printf '%03o' $((40 + $4)))\\0" && printf "%6s\\$(printf '%03o' "$3")\\0\\1" '' && head -c $((31 + $4)) /dev/zero; } >"$work/frames/$1"
}
frame hello 2 1 56
frame usage 6 9 40
frame tokens 6 11 32
frame request 3 36 72
"$work/fuzz_wire" -max_total_time=20 -max_len=4096 -artifact_prefix="$work/" "$work/frames" >"$work/fuzz.log" 2>&1
note $? "twenty seconds of fuzzing: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"

# The same for files of examples: what the validator accepts, the trainer's reader takes. And one of the longest files there may be.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_VALIDATE -Ishared -Iexec \
    tests/fuzz/fuzz_validate.c exec/validate/*.c exec/engine/train/data/*.c exec/engine/tokenizer/*.c exec/engine/chat/*.c exec/engine/files/*.c \
    exec/engine/model/byte_tokenizer.c shared/base/*.c shared/host/words.c shared/host/check_failed.c \
    -ljansson -lz -lpcre2-8 -lutf8proc -lcrypto -lm -o "$work/fuzz_validate"
note $? "the fuzzer of files of examples is built"
mkdir "$work/examples"
printf '\2%s' '{"messages": [{"role": "user", "content": "w?"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "4"}, {"role": "assistant", "content": "4", "weight": 1}], "tools": [{"function": {"name": "f"}}]}' >"$work/examples/chat"
printf '\1%s' '{"input": {"messages": [{"role": "user", "content": "a"}]}, "preferred_output": [{"role": "assistant", "content": "b"}], "non_preferred_output": [{"role": "assistant", "content": "c"}]}' >"$work/examples/preference"
printf '\3%s' '{"prompt": "a", "chosen": "\u00e9", "rejected": "c"}' >"$work/examples/choice"
"$work/fuzz_validate" -max_total_time=40 -max_len=4096 -artifact_prefix="$work/" "$work/examples" >"$work/fuzz.log" 2>&1
note $? "forty seconds of fuzzing them: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"
make --no-print-directory -j"$(nproc)" MODE=release build/release/tests/exec/validate/test_stream >/dev/null &&
    BERTH_TEST_STREAM_MB=511 build/release/tests/exec/validate/test_stream >"$work/stream.log" 2>&1
stream=$?
note $stream "half a gigabyte of examples: $(grep -E 'ERROR: |took' "$work/stream.log" | head -n 1)"

# And for what strangers send over HTTP: targets and multipart bodies.
clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -fsanitize=fuzzer,address,undefined -DFUZZ_HTTP -Ishared -Iexec \
    tests/fuzz/fuzz_http.c exec/control/http/target.c exec/control/http/multipart.c shared/base/*.c shared/host/check_failed.c \
    -ljansson -o "$work/fuzz_http"
note $? "the fuzzer of targets and multipart bodies is built"
mkdir "$work/http"
printf '\0%s' '/v1/models/ft%3Abase%2Fx/events?after=a&metadata%5Bteam%5D=x+y' >"$work/http/target"
printf '\1%s\r\n%s\r\n\r\n%s\r\n--b--' '--b' 'Content-Disposition: form-data; name="file"; filename="a%22b"' '{"a": 1}' >"$work/http/body"
"$work/fuzz_http" -max_total_time=20 -max_len=4096 -artifact_prefix="$work/" "$work/http" >"$work/fuzz.log" 2>&1
note $? "twenty seconds of fuzzing them: $(grep -oE 'DONE.*|SUMMARY.*' "$work/fuzz.log" | tail -n 1)"
echo
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
