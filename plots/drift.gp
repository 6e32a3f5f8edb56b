# Misses of each interval of a trace. A line a policy.
set xrange [0:*]
set yrange [0:*]
set xlabel "requests"
set ylabel "requests that miss"
set format x "%.0s%c"
set format y "%g %%"
plot for [v=1:variants] "data/drift.dat" using 1:(column(v + 1)) with lines linestyle v title label(v)
