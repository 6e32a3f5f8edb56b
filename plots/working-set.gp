# How much is asked for in a while? Distinct objects of each window, and, below, their bytes.
set xrange [0:*]
set yrange [0:*]
set format y "%.0f"
set ylabel "objects"
if (with_bytes) {
    set multiplot
    set bmargin at screen 0.485
    set format x ""
} else {
    set xlabel axis_title
}
plot for [v=1:variants] "data/working-set.dat" using ($1 / axis_unit):(column(v + 1)) with steps linestyle v title label(v)
if (with_bytes) {
    unset label 1001
    unset label 1002
    set tmargin at screen 0.445
    set bmargin at screen 0.105
    set xlabel axis_title
    set format x "%g"
    set format y "%g"
    set ylabel bytes_title
    plot "data/working-set.dat" using ($1 / axis_unit):($4 / bytes_unit) with steps linestyle 1 notitle
    unset multiplot
}
