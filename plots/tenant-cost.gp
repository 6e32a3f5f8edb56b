# Who pays how much? One line a variant: the tenants in the order of what they pay.
set logscale y
set xrange [0:rank_max + 1]
set yrange [amount_low:amount_high]
eval "set ytics ".amount_ticks
set xlabel "tenants, the largest first"
set ylabel "paid, currency units"
plot for [v in shown] "data/tenant-cost.dat" index (v - 1) using 1:2 with lines linestyle v title label(v)
