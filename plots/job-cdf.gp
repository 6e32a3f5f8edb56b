# The axes of a distribution of jobs: percent of them against a logarithm of time, from seconds to days.
set logscale x
set xrange [seconds_low:seconds_high]
eval "set xtics ".seconds_ticks
set yrange [0:100]
set ytics ("0 %%" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "90 %%" 90, "99 %%" 99)
