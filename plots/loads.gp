# How many adapters are loaded each second? One line a variant, over time.
load "data/time-axis.gp"
set yrange [0:*]
set ylabel "adapters loaded a second"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):9 with lines linestyle v title label(v)
