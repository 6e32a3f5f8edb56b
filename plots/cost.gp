# What does the pool cost, and what for? A bar a variant, stacked by component; the sum above.
unset key
set key at screen 0.985, 0.80 right top vertical noreverse Right invert samplen 1 spacing 1.25 maxrows 20
set rmargin at screen 0.80
set tmargin at screen 0.86
set bmargin at screen 0.14
set grid noxtics
set xrange [0.3:variants + 0.7]
set yrange [0:*]
set ylabel "currency units"
set format y "%.8g"
set lmargin at screen 0.11
set xtics scale 0 ("" 1)
room = int(95. / variants)
short(text) = strlen(text) > room ? text[1:room - 1]."…" : text
half = variants > 2 ? 0.36 : 0.2
do for [v in shown] {
    set object (v + 0) rectangle from v - half, graph -0.016 to v + half, graph -0.006 noclip \
        fillcolor rgb colour(v) fillstyle solid noborder
    set label (v + 0) short(label(v)) at (v + 0), graph 0 offset 0, -1.6 center
}
plot for [i in charges_shown] "data/cost.dat" \
         using 1:(0):($1 - half):($1 + half):(column(i + 2)):(column(i + 3)) \
         with boxxyerrorbars linecolor rgb word(charge_colours, i + 0) title charge_name[i + 0], \
     "data/cost.dat" using 1:(column(charges + 3)):2 with labels center offset 0, 0.7 notitle
