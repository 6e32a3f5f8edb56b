# How many objects must an LRU cache hold? Miss ratios, exact and from a sample.
set logscale x
set xrange [1:*]
set yrange [0:100]
set xlabel "size of the cache (objects)"
set ylabel "requests that miss"
set format x "%.0s%c"
set ytics 20 format "%g %%"
set style line 2 dashtype 2
plot for [v=1:variants] "data/lru-objects.dat" using 1:(column(v + 1)) with lines linestyle v title label(v)
