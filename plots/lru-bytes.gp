# How many bytes must an LRU cache hold? Miss ratios, exact and from a sample, beside simulated caches.
set logscale x 2
set yrange [0:100]
set xlabel "size of the cache"
set ylabel "requests that miss"
set xtics 4
set format x "%.0b %BB"
set ytics 20 format "%g %%"
set style line 2 dashtype 2
set style line 3 pointtype 7 pointsize 1.1
curves = "data/lru-bytes.dat"
if (variants > 2) {
    plot for [v=1:2] curves index 0 using 1:(column(v + 1)) with lines linestyle v title label(v), \
         curves index 1 using 1:2 with points linestyle 3 title label(3)
} else {
    plot for [v=1:2] curves using 1:(column(v + 1)) with lines linestyle v title label(v)
}
