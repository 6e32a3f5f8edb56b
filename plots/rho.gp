# Are all jobs slowed down alike? One line a variant: time to done over the time alone.
set logscale x
set xrange [rho_low:rho_high]
eval "set xtics ".rho_ticks
set yrange [0:100]
set ytics ("0 %%" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "90 %%" 90, "99 %%" 99)
set ylabel "jobs slowed down at most so much"
set xlabel "time from submitted to done, over the time alone"
plot for [v in shown] "data/rho.dat" index (v - 1) using 2:1 with lines linestyle v title label(v)
