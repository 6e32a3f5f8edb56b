# The axis of every figure over time: the warm-up is shaded, as its requests are in no statistic; a line ends the arrivals.
set xrange [0:time_end_s / time_unit_s]
set xlabel "simulated time (".time_unit.")"
set xtics autofreq
if (warmup_s > 0) {
    set object 1 rectangle from 0, graph 0 to warmup_s / time_unit_s, graph 1 behind fillcolor rgb "#eeeeee" fillstyle solid noborder
    set label 1 "warm-up" at 0, graph 1 offset 0, 0.6 left textcolor rgb axis
}
if (arrivals_end_s > 0 && arrivals_end_s < time_end_s * 0.98) {
    set arrow 1 from arrivals_end_s / time_unit_s, graph 0 to arrivals_end_s / time_unit_s, graph 1 nohead \
        linewidth 1.5 dashtype 3 linecolor rgb ink
    set label 2 "arrivals end" at arrivals_end_s / time_unit_s, graph 1 offset 0, 0.6 right textcolor rgb axis
}
