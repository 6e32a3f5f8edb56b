# Goes on below the first panel of a figure with two: same time axis, no second title.
unset label 1001
unset label 1002
unset label 1
unset label 2
set tmargin at screen 0.445
set bmargin at screen 0.105
set xlabel "simulated time (".time_unit.")"
set format x "%g"
