# The axes of a distribution: percent of requests against a logarithm of time.
set logscale x
set xrange [seconds_low:seconds_high]
eval "set xtics ".seconds_ticks
set yrange [0:100]
set ytics ("0 %%" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "90 %%" 90, "99 %%" 99)
set ylabel "requests served within that time"
if (objective_s > 0) {
    set arrow 1 from objective_s, graph 0 to objective_s, graph 1 nohead linewidth 1.5 dashtype 3 linecolor rgb ink
    set label 1 "objective: ".objective."  " at objective_s, graph 0.03 right
}
