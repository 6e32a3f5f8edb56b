# How long do jobs wait? One line a kind of job; a variant has its colour, or a kind where there is one variant.
load "data/job-cdf.gp"
set ylabel "jobs computing within that time"
set xlabel "from submitted to computing"
longest_curve = 0
do for [i=1:curves] { if (strlen(curve_name[i]) > longest_curve) { longest_curve = strlen(curve_name[i]) } }
key_columns = int(118. / (longest_curve + 7))
if (key_columns < 1) { key_columns = 1 }
if (key_columns > curves) { key_columns = curves }
set tmargin at screen 0.865 - 0.034 * int(ceil(curves / (1. * key_columns)))
set key at screen 0.083, 0.905 left top horizontal Left reverse samplen 2.5 width 1 height 0 maxcols key_columns
plot for [i=1:curves] "data/job-wait.dat" index (i - 1) using 2:1 with lines linewidth 2.5 \
         linecolor rgb colour(curve_colour[i]) dashtype curve_dash[i] title curve_name[i]
