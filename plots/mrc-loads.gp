# How long does loading what is missed take, in a cache of so many bytes? A line a policy.
set logscale x
set xrange [size_low:size_high]
set yrange [0:*]
set xlabel "size of the cache"
set ylabel "loads (s)"
eval "set xtics ".size_ticks
set format y "%g"
plot for [v=1:variants] "data/mrc-loads.dat" using 1:(column(v + 1)) with linespoints linestyle v pointtype 7 pointsize 0.6 title label(v)
