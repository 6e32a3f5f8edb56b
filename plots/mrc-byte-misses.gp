# How many bytes miss, in a cache of so many bytes? A line a policy.
set logscale x
set xrange [size_low:size_high]
set yrange [0:100]
set xlabel "size of the cache"
set ylabel "bytes that miss"
eval "set xtics ".size_ticks
set ytics 20 format "%g %%"
plot for [v=1:variants] "data/mrc-byte-misses.dat" using 1:(column(v + 1)) with linespoints linestyle v pointtype 7 pointsize 0.6 title label(v)
