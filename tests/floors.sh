#!/bin/sh
# Who may include whom (from the compiler's own dependency files), and what libshared.a may call.
#   tests/floors.sh build/MODE
set -u
build=$1
bad=0

# folder, and the folders it may include besides itself; a policy sees views, never a core's inside.
allowed() {
    case $1 in
    shared/base)    echo "shared/base" ;;
    shared/model)   echo "shared/base" ;;
    shared/journal) echo "shared/base" ;;
    shared/policy)  echo "shared/base shared/model shared/cache/view.h shared/cache/ghost.h shared/cache/sketch.h shared/fleet/view.h shared/fleet/event.h" ;;
    shared/cache)   echo "shared/base shared/model shared/journal shared/policy/policy.h" ;;
    shared/replica|shared/node|shared/fleet)
                    echo "shared/base shared/model shared/journal shared/cache shared/policy/policy.h" ;;
    shared/host)    echo "shared/base" ;;
    traces)         echo "shared/base" ;;
    exec/crypto)    echo "shared/base exec/engine/files/refusal.h" ;;
    # Frames of whoever took a worker over: nothing but bytes and sockets.
    exec/wire)      echo "shared/base" ;;
    exec/keeper)    echo "shared/base exec/engine/files/refusal.h" ;;
    exec/store)     echo "shared/base exec/engine/files/refusal.h exec/crypto/names.h" ;;
    # What reads a stranger's bytes opens nothing: no files, no sockets, no devices, no models.
    exec/validate)  echo "shared/base shared/host/words.h exec/engine/train/data/data.h exec/engine/tokenizer/tokenizer.h exec/engine/tokenizer/utf8.h" \
                         "exec/engine/files/refusal.h exec/engine/safetensors/safetensors.h exec/engine/device/dtype.h" ;;
    exec/control/metadata)
                    echo "shared/base shared/host exec/engine/files/refusal.h exec/crypto/names.h exec/crypto/secret.h" ;;
    exec/control/admin)
                    echo "shared/base exec/control/metadata exec/engine/files/refusal.h exec/crypto/names.h" ;;
    exec/control/core)
                    echo "shared/base shared/cache/view.h shared/cache/ghost.h shared/fleet shared/policy shared/journal exec/control/metadata exec/keeper/launcher.h exec/wire" \
                         "exec/engine/files/refusal.h exec/crypto/names.h" ;;
    exec/control/http)
                    echo "shared/base shared/host exec/engine/files/refusal.h" ;;
    # Composes the others; prompts are rendered and tokenized here. What the core's and the
    # driver's headers speak of comes with them.
    exec/control/api)
                    echo "shared/base shared/host exec/control/http/http.h exec/control/metadata exec/engine/files/refusal.h exec/store/store.h" \
                         "exec/crypto/envelope.h exec/crypto/names.h exec/crypto/secret.h exec/crypto/vault.h exec/control/objects/objects.h" \
                         "exec/control/driver/driver.h exec/control/core/core.h" \
                         "exec/wire/wire.h exec/wire/frame.h exec/keeper/launcher.h shared/fleet/event.h exec/link/bundle.h exec/engine/files/file.h" \
                         "exec/engine/tokenizer/tokenizer.h exec/engine/tokenizer/utf8.h exec/engine/chat/chat.h" ;;
    exec/control/objects)
                    echo "shared/base exec/control/metadata exec/engine/files/refusal.h exec/store/store.h exec/crypto" ;;
    exec|exec/*)    echo "shared exec" ;;
    sim|sim/*)      echo "shared traces sim" ;;
    *)              echo "" ;;
    esac
}

for file in $(find "$build/shared" "$build/traces" "$build/sim" "$build/exec" -name '*.d' | sort); do
    unit=${file#"$build/"}
    [ -f "${unit%.d}.c" ] || continue # it was removed since
    folder=$(dirname "$unit")
    may="$folder $(allowed "$folder")"
    # -MMD leaves system headers out; a header is named once in the first rule.
    for header in $(sed -e '/^$/,$d' -e 's/\\$//' "$file" | tr ' ' '\n' | grep '\.h$' | sort -u); do
        fine=no
        for prefix in $may; do
            case $header in "$prefix"|"$prefix"/*) fine=yes ;; esac
        done
        # traces is one flat folder: its headers stand beside its sources.
        if [ $fine = no ]; then
            echo "floors: ${unit%.d}.c includes $header; it may include: $may"
            bad=1
        fi
    done
done

# The core may not know the hour, touch a file or take memory: only these may stay undefined.
calls=$(nm -u "$build/libshared.a" 2>/dev/null | awk '/ U /{print $2}' | sort -u)
own=$(nm --defined-only "$build/libshared.a" 2>/dev/null | awk 'NF==3{print $3}' | sort -u)
for call in $calls; do
    case $call in
    memcpy|memset|memmove|memcmp|strlen|strcmp|strncmp|check_failed|__stack_chk_fail) continue ;;
    __divti3|__udivti3|__umodti3|__udivmodti4|__floatuntidf|__popcountdi2) continue ;; # arithmetic of the compiler's runtime
    __asan_*|__ubsan_*|__tsan_*|_GLOBAL_OFFSET_TABLE_|__sanitizer_*) continue ;;
    esac
    if ! printf '%s\n' "$own" | grep -qx "$call"; then
        echo "floors: libshared.a calls $call"
        bad=1
    fi
done
if grep -nE '^[[:space:]]*#[[:space:]]*if.*(SIM|EXEC|CUDA)' -r shared --include='*.[ch]'; then
    echo "floors: shared/ must not know its host"
    bad=1
fi
# A name is one function: of two in archives the linker would take whichever it meets first, and say nothing.
for program in "exec shared" "sim traces shared"; do
    for folder in $program; do
        find "$folder" -name '*.c' | sed "s|^|$build/|; s|c$|o|"
    done | while read -r object; do [ -r "$object" ] && echo "$object"; done | xargs nm -g --defined-only |
        awk 'NF==3 && $2 ~ /[TDBR]/ && $3 != "main" {print $3}' | sort | uniq -d >"$build/names-twice"
    if [ -s "$build/names-twice" ]; then
        echo "floors: defined twice in $program: $(tr '\n' ' ' <"$build/names-twice")"
        bad=1
    fi
done
[ $bad = 0 ] && echo "floors hold"
exit $bad
