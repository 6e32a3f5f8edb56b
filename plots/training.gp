# What did the adapter learn? Above the loss, below how much was right, over the steps. berth-exec train draws it from results.csv of the
# current folder: gnuplot -c training.gp VALIDATED PREFERS BEST SUBTITLE, with the folder of style.gp in GNUPLOT_LIB.
validated = int(ARG1)  # are there validation columns?
prefers = int(ARG2)    # is it about pairs of answers?
best = int(ARG3)       # the step that was kept; 0: the last one

question = "What did the adapter learn?"
subtitle = ARG4
variants = 1 + validated
array name[2] = ["training", "validation"]
array unstable[2] = [0, 0]
variant_colours = "#0072b2 #d55e00"

set terminal svg size 1200,750 dynamic noenhanced font "DejaVu Sans,17" background "#ffffff"
set output ".loss.svg"
load "style.gp"
set datafile separator comma
set style line 1 linewidth 1.5
set style line 2 linewidth 2.5 pointtype 7 pointsize 0.6
if (best > 0) {
    set arrow 1 from best, graph 0 to best, graph 1 nohead linewidth 1.5 dashtype 3 linecolor rgb ink
    set label 2 "kept" at best, graph 1 offset 0, 0.6 center textcolor rgb axis
}
set xrange [0:*]
set multiplot
set bmargin at screen 0.485
set format x ""
set ylabel prefers ? "loss of a pair" : "loss of a token"
# Columns by number keep a line whole where cells are empty.
if (validated) {
    plot "results.csv" skip 1 using 1:2 with lines linestyle 1 title name[1], \
         "results.csv" skip 1 using 1:4 with linespoints linestyle 2 title name[2]
} else {
    plot "results.csv" skip 1 using 1:2 with lines linestyle 1 title name[1]
}
unset label 2
unset label 1001
unset label 1002
set tmargin at screen 0.445
set bmargin at screen 0.105
set xlabel "step"
set format x "%g"
set yrange [0:1]
set ytics ("0 %%" 0, "20 %%" 0.2, "40 %%" 0.4, "60 %%" 0.6, "80 %%" 0.8, "100 %%" 1)
set ylabel prefers ? "pairs won" : "learned tokens right" offset 1.2, 0
if (validated) {
    plot "results.csv" skip 1 using 1:3 with lines linestyle 1 notitle, \
         "results.csv" skip 1 using 1:5 with linespoints linestyle 2 notitle
} else {
    plot "results.csv" skip 1 using 1:3 with lines linestyle 1 notitle
}
unset multiplot
set output
