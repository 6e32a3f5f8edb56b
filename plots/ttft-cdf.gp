# How long do users wait for the first token? One line a variant, and the objective where there is one.
load "data/cdf.gp"
set xlabel "time to first token"
plot for [v in shown] "data/ttft-cdf.dat" index (v - 1) using 2:1 with lines linestyle v title label(v)
