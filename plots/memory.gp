# How full are KV memory and adapter slots? Above KV memory, below slots: mean of the replicas and the fullest one.
load "data/time-axis.gp"
set yrange [0:105]
set ytics 25 format "%g %%"
set multiplot
set bmargin at screen 0.485
set xlabel ""
set format x ""
set ylabel "KV memory used"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):6 with lines linewidth 2 linecolor rgb colour(v) dashtype 3 notitle, \
     for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):5 with lines linestyle v title label(v)
load "data/lower-panel.gp"
set ylabel "adapter slots used"
plot for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):8 with lines linewidth 2 linecolor rgb colour(v) dashtype 3 notitle, \
     for [v in shown] "data/series.dat" index (v - 1) using ($1 / time_unit_s):7 with lines linestyle v notitle
unset multiplot
