# Where does a request's time go? Bars stacked to 100 %, one a band of latency, for each variant; the latency above.
unset key
set key at screen 0.985, 0.80 right top vertical noreverse Right invert samplen 1 spacing 1.25 maxrows 20
set rmargin at screen 0.83
set tmargin at screen 0.86
set bmargin at screen 0.14
set grid noxtics
crowded = variants > 4
set yrange [0:crowded ? 122 : 108]
set ytics ("0 %%" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "100 %%" 100)
set ylabel "part of end-to-end latency"
set xrange [-0.8:variants * (bands + 1) - 1.2]
if (crowded) { set xtics scale 0 rotate by 90 right offset 0, -0.4 } else { set xtics scale 0 offset 0, -0.4 }
room = int(95. / variants)
short(text) = strlen(text) > room ? text[1:room - 1]."…" : text
do for [v in shown] {
    first_bar = (v - 1) * (bands + 1) - 0.4
    set object (v + 0) rectangle from first_bar, graph -0.016 to first_bar + bands - 0.2, graph -0.006 noclip \
        fillcolor rgb colour(v) fillstyle solid noborder
    set label (v + 0) short(label(v)) at ((v - 1) * (bands + 1) + (bands - 1) / 2.), graph 0 offset 0, (crowded ? -3.8 : -2.8) center
}
part_colour(i) = i <= words(blame_colours) ? word(blame_colours, i) : "#444444"
plot for [i=1:words(blame_parts)] "data/blame.dat" \
         using 1:(0):($1 - 0.4):($1 + 0.4):(column(i + 3)):(column(i + 4)) \
         with boxxyerrorbars linecolor rgb part_colour(i) title word(blame_parts, i), \
     "data/blame.dat" using 1:(crowded ? NaN : 103):3:xticlabels(2) with labels center notitle, \
     "data/blame.dat" using 1:(crowded ? 102 : NaN):3 with labels left rotate by 90 notitle
