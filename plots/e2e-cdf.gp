# How long does a whole answer take? One line a variant, and the objective where there is one.
load "data/cdf.gp"
set xlabel "end-to-end latency"
plot for [v in shown] "data/e2e-cdf.dat" index (v - 1) using 2:1 with lines linestyle v title label(v)
