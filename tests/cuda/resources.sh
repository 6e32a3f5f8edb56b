#!/bin/sh
# What ptxas made of the kernels, against resources.txt: registers, blocks that fit an SM at once, counts of tensor-core, ldmatrix and cp.async
# instructions; and that what kernels.txt says must be there is there. `make cuda` comes first.
#   tests/cuda/resources.sh [--write]
set -u
here=tests/cuda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

plain() { c++filt | sed -e 's/void //' -e 's/unsigned short/bf16/g' -e 's/(.*//'; }

# arch, kernel, registers
cat build/cuda/exec/engine/ops/cuda/*.log | awk -F"'" '
    /Compiling entry function/ { kernel = $2; arch = $4 }
    /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); print arch, kernel, substr($0, RSTART + 5, RLENGTH - 5) }' |
    while read -r arch kernel registers; do echo "$arch $(echo "$kernel" | plain | tr -d ' ') $registers"; done | sort >"$work/registers"
# arch, kernel, HMMA, LDSM, LDGSTS
${CC:-cc} -O1 -o "$work/opcodes" $here/opcodes.c || exit 1
"$work/opcodes" build/cuda/keep/*/*.cubin | while read -r file kernel counts; do
    case $file in *_90*) arch=sm_90 ;; *) arch=sm_80 ;; esac
    echo "$arch $(echo "$kernel" | plain | tr -d ' ') $counts"
done | sort >"$work/opcodes.txt"

awk -v opcodes="$work/opcodes.txt" -v kernels=$here/kernels.txt '
    function least(a, b) { return a < b ? a : b }
    BEGIN {
        while ((getline line < opcodes) > 0) { split(line, f, " "); count[f[1] " " f[2]] = f[3] " " f[4] " " f[5] }
        while ((getline line < kernels) > 0) {
            if (line ~ /^#/) continue
            split(line, f, " "); threads[f[1]] = f[2]; shared[f[1]] = f[3]; needs[f[1]] = f[4]
        }
        print "# arch kernel registers blocks/SM HMMA LDSM LDGSTS"
    }
    {
        if (!($2 in threads)) { print "not in kernels.txt: " $2; next }
        warps = threads[$2] / 32
        blocks = int(64 / warps)
        blocks = least(blocks, int(65536 / (int(($3 * 32 + 255) / 256) * 256 * warps)))
        memory = $1 == "sm_80" ? 167936 : 233472
        blocks = least(blocks, int(memory / (shared[$2] + 1024)))
        split(count[$1 " " $2], has, " ")
        if (needs[$2] != "-" && (has[1] == 0 || has[2] == 0 || has[3] == 0))
            print "lacks tensor-core, ldmatrix or cp.async instructions: " $1 " " $2
        print $1, $2, $3, least(blocks, 32), count[$1 " " $2]
        seen[$2] = 1
    }
    END { for (kernel in threads) if (!(kernel in seen)) print "was not compiled: " kernel }' "$work/registers" >"$work/resources"

bad=0
if grep -E '^(not in|lacks|was not)' "$work/resources"; then bad=1; fi
# Threads and shared memory in kernels.txt are those of a launch.
grep -v '^#' $here/kernels.txt | while read -r kernel threads shared _; do
    grep -qE "^${kernel%%<*}(<.*>)? \($threads threads, $shared bytes\)" $here/access.txt || echo "$kernel"
done | grep -vE '^(fill_bias|attend_prefill<128>|attend_simple<bf16>)$' >"$work/strangers"
if [ -s "$work/strangers" ]; then echo "no launch in access.txt has the threads and bytes of kernels.txt: $(tr '\n' ' ' <"$work/strangers")"; bad=1; fi
if [ "${1:-}" = --write ]; then cp "$work/resources" $here/resources.txt; fi
if ! diff $here/resources.txt "$work/resources"; then
    echo "what ptxas made differs from $here/resources.txt (make cuda-goldens takes it)"
    bad=1
fi
[ $bad = 0 ] && echo "$(grep -vc '^#' $here/resources.txt) kernels: registers, occupancy and instructions are those of resources.txt"
exit $bad
