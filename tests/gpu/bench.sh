#!/bin/sh
# make bench-gpu: what the GPU is and how fast it was clocked, then the numbers. The roofline's bandwidth is that of the GPU's name, or H100's.
set -u
bench=$1
name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
clocks() { nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader 2>/dev/null | head -n 1; }
case $name in
*H200*) bandwidth=4800 ;;
*H100*PCIe*) bandwidth=2000 ;;
*A100*80*) bandwidth=2039 ;;
*A100*) bandwidth=1555 ;;
*) bandwidth=3350 ;;
esac
[ -n "$name" ] && echo "gpu=$name clocks_before=$(clocks)"
timeout 540 "$bench" $bandwidth
code=$?
[ -n "$name" ] && echo "clocks_after=$(clocks)"
exit $code
