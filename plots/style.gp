# What all figures share. Colours are the page's: it turns these greys into its own on a dark screen.
reset
set encoding utf8
ink = "#000000"
axis = "#606060"
faint = "#dddddd"

set border 3 linecolor rgb axis
set tics nomirror
set grid xtics ytics linetype 1 linewidth 1 linecolor rgb faint
set style fill solid noborder
set lmargin at screen 0.085
set rmargin at screen 0.975
set bmargin at screen 0.105
set tmargin at screen 0.80
set key at screen 0.083, 0.905 left top horizontal Left reverse samplen 1.5 width 1 height 0 maxrows 3

# A variant has the same colour everywhere; every other one is dashed, for those who print in black.
do for [v=1:variants] {
    set style line v linewidth 2.5 linecolor rgb word(variant_colours, v) dashtype 2 - v % 2
}
label(v) = name[v + 0].(unstable[v + 0] ? " (unstable)" : "")
colour(v) = word(variant_colours, v + 0)

set label 1001 question at screen 0.02, 0.965 left font ",22"
set label 1002 subtitle at screen 0.02, 0.925 left textcolor rgb axis
