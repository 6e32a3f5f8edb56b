# Do tenants with few requests wait for the busy ones? One point a tenant: requests against mean end-to-end latency.
set logscale xy
set xrange [requests_low:requests_high]
set yrange [seconds_low:seconds_high]
eval "set ytics ".seconds_ticks
eval "set xtics ".requests_ticks
set xlabel "requests of the tenant"
set ylabel "mean end-to-end latency"
plot for [v in shown] "data/fairness.dat" index (v - 1) using 1:2 with points pointtype (4 + 2 * ((v - 1) % 5)) \
         pointsize 1 linewidth 1.5 linecolor rgb colour(v) title label(v)
