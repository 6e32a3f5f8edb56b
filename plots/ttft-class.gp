# What does a cold adapter cost the first token? Median, 90th and 99th percentile by class of request; one colour a variant.
set logscale y
set yrange [seconds_low:seconds_high]
eval "set ytics ".seconds_ticks
set ylabel "time to first token"
set grid noxtics
set xrange [-0.5:3.5]
set xtics ("base\n(no adapter)" 0, "warm\n(in a GPU slot)" 1, "host\n(in host memory)" 2, "store\n(in the object store)" 3) scale 0
set bmargin at screen 0.12
at(class, v) = class + (v - (variants + 1) / 2.) * 0.8 / (variants + 1)
plot for [v in shown] "data/ttft-class.dat" index (v - 1) using (at($1, v)):2:(0):($4 - $2) with vectors nohead linestyle v dashtype 1 notitle, \
     for [v in shown] "data/ttft-class.dat" index (v - 1) using (at($1, v)):2 with points pointtype 7 pointsize 1.6 linecolor rgb colour(v) title label(v), \
     for [v in shown] "data/ttft-class.dat" index (v - 1) using (at($1, v)):3 with points pointtype 5 pointsize 1.3 linecolor rgb colour(v) notitle, \
     for [v in shown] "data/ttft-class.dat" index (v - 1) using (at($1, v)):4 with points pointtype 9 pointsize 1.6 linecolor rgb colour(v) notitle
