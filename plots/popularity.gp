# How much more are the popular objects asked for? Requests by rank, and Zipf's law over the ranks that it was fitted to.
set logscale xy
set xrange [1:*]
set yrange [0.8:*]
set xlabel "rank of the object"
set ylabel "requests"
set format x "%.0s%c"
set format y "%.0s%c"
set style line 1 pointtype 7 pointsize 0.5
if (variants > 1) {
    plot "data/popularity.dat" using 1:3 with lines linestyle 2 title label(2), \
         "data/popularity.dat" using 1:2 with points linestyle 1 title label(1)
} else {
    plot "data/popularity.dat" using 1:2 with points linestyle 1 title label(1)
}
