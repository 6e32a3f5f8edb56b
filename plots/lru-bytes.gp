# How many bytes must an LRU cache hold? Miss ratios, exact and from a sample.
set logscale x 2
set yrange [0:100]
set xlabel "size of the cache"
set ylabel "requests that miss"
set xtics 4
set format x "%.0b %BB"
set ytics 20 format "%g %%"
set style line 2 dashtype 2
plot for [v=1:variants] "data/lru-bytes.dat" using 1:(column(v + 1)) with lines linestyle v title label(v)
