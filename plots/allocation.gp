# How much of what is held is used? Solid: held by a job. Dotted: a job computes. Over time.
load "data/time-axis.gp"
set yrange [0:105]
set ytics 25 format "%g %%"
set ylabel "part of the GPUs"
plot for [v in shown] "data/job-series.dat" index (v - 1) using ($1 / time_unit_s):6 with lines linewidth 2 linecolor rgb colour(v) dashtype 3 notitle, \
     for [v in shown] "data/job-series.dat" index (v - 1) using ($1 / time_unit_s):5 with lines linestyle v title label(v)
