# Do jobs pile up? Above those that wait, below the GPUs they ask for and (dotted) the GPUs there are, over time.
load "data/time-axis.gp"
set yrange [0:pending_high]
set multiplot
set bmargin at screen 0.485
set xlabel ""
set format x ""
set ylabel "jobs waiting"
plot for [v in shown] "data/job-series.dat" index (v - 1) using ($1 / time_unit_s):2 with lines linestyle v title label(v)
load "data/lower-panel.gp"
set yrange [0:pending_gpus_high]
set ylabel "GPUs they ask for"
plot for [v in shown] "data/job-series.dat" index (v - 1) using ($1 / time_unit_s):4 with lines linewidth 2 linecolor rgb colour(v) dashtype 3 notitle, \
     for [v in shown] "data/job-series.dat" index (v - 1) using ($1 / time_unit_s):3 with lines linestyle v notitle
unset multiplot
