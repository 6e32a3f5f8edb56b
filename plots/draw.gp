# Draws the figure named in `figure` twice: a PNG to paste and an SVG for the page.
do for [kind in "png svg"] {
    if (kind eq "png") {
        set terminal pngcairo size 1200,750 noenhanced font "DejaVu Sans,13" background "#ffffff"
    } else {
        set terminal svg size 1200,750 dynamic noenhanced font "DejaVu Sans,17" background "#ffffff"
    }
    set output figure.".".kind
    load "data/style.gp"
    load "data/".figure.".gp"
    set output
}
