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
label(v) = name[v + 0].(unstable[v + 0] ? " (unstable)" : "")
colour(v) = word(variant_colours, v + 0)

# The key stands above the plot, in as many rows as it needs (long names come cut).
longest = 0
do for [v=1:variants] { if (strlen(label(v)) > longest) { longest = strlen(label(v)) } }
key_columns = int(118. / (longest + 7))
if (key_columns < 1) { key_columns = 1 }
if (key_columns > variants) { key_columns = variants }
key_rows = int(ceil(variants / (1. * key_columns)))
set tmargin at screen 0.865 - 0.034 * key_rows
set key at screen 0.083, 0.905 left top horizontal Left reverse samplen 1.5 width 1 height 0 maxcols key_columns

# A variant has the same colour everywhere; the second four are dashed as well.
do for [v=1:variants] {
    set style line v linewidth 2.5 linecolor rgb colour(v) dashtype 1 + (v > 4)
}

set label 1001 question at screen 0.02, 0.965 left font ",22"
set label 1002 subtitle at screen 0.02, 0.925 left textcolor rgb axis
