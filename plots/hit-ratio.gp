# How often is the adapter already on the GPU? One line a variant, over time.
load "data/time-axis.gp"
set yrange [0:100]
set ytics 20 format "%g %%"
set ylabel "hits of lookups in GPU slots"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):2 with lines linestyle v title label(v)
