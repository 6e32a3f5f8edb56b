# Does the fleet keep up with the requests? Above those that wait, below those that run, over time.
load "data/time-axis.gp"
set yrange [0:*]
set multiplot
set bmargin at screen 0.485
set xlabel ""
set format x ""
set ylabel "requests waiting"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):3 with lines linestyle v title label(v)
load "data/lower-panel.gp"
set ylabel "requests running"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):4 with lines linestyle v notitle
unset multiplot
