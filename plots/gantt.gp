# Which base is where, and who works on it? A row a GPU: grey while a base loads, faint while it is there, full while held.
unset key
set grid noytics
set border 1
panels = words(shown)
gap = 0.035
top = 0.875
bottom = 0.105
tall = (top - bottom - gap * (panels - 1)) / panels
base_colour(b) = word(variant_colours, 1 + int(b) % words(variant_colours))
rgb(b) = int("0x".(base_colour(b)[2:7]))
clear(c, part) = int(part * 255) * 16777216 + c
set xrange [gantt_from_s / time_unit_s:gantt_until_s / time_unit_s]
set yrange [gantt_rows - 0.5:-0.5]
set style fill solid noborder
# Labels of rows while there is room for them: node/GPU.
every_row = int(ceil(gantt_rows * panels / 40.))
set ytics scale 0 font ",9"
set lmargin at screen 0.07
set rmargin at screen 0.975
do for [b=1:bases] {
    spot = 0.07 + (b - 1) * 0.9 / (bases > 4 ? bases : 4)
    set object (b + 0) rectangle from screen spot, screen 0.888 to screen spot + 0.014, screen 0.906 fillcolor rgb base_colour(b - 1) fillstyle solid noborder
    set label (b + 0) base_name[b] at screen spot + 0.02, screen 0.897 left font ",12"
}
set multiplot
do for [p=1:panels] {
    v = word(shown, p) + 0
    set tmargin at screen top - (p - 1) * (tall + gap)
    set bmargin at screen top - (p - 1) * (tall + gap) - tall
    set ytics ("" 0)
    do for [r=1:gantt_rows:every_row] { set ytics add (gantt_gpu[(p - 1) * gantt_rows + r] (r - 1)) }
    if (panels > 1) { set ylabel label(v) } else { set ylabel "node/GPU" }
    if (p < panels) { set format x ""; set xlabel "" } else { set format x "%g"; set xlabel "simulated time (".time_unit.")" }
    plot "data/gantt.dat" index (3 * (p - 1) + 1) using ($1 / time_unit_s):3:($1 / time_unit_s):($2 / time_unit_s):($3 - 0.42):($3 + 0.42):(clear(rgb($4), 0.72)) \
             with boxxyerrorbars linecolor rgb variable notitle, \
         "data/gantt.dat" index (3 * (p - 1)) using ($1 / time_unit_s):3:($1 / time_unit_s):($2 / time_unit_s):($3 - 0.42):($3 + 0.42) \
             with boxxyerrorbars linecolor rgb "#888888" notitle, \
         "data/gantt.dat" index (3 * (p - 1) + 2) using ($1 / time_unit_s):3:($1 / time_unit_s):($2 / time_unit_s):($3 - 0.3):($3 + 0.3):(clear(rgb($4), 0.25)) \
             with boxxyerrorbars linecolor rgb variable notitle
    unset label 1001
    unset label 1002
}
unset multiplot
