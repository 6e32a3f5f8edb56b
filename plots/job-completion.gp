# How soon is a job done? One line a variant, and the two hours that a customer is promised.
load "data/job-cdf.gp"
set ylabel "jobs done within that time"
set xlabel "from submitted to done"
set arrow 1 from 7200, graph 0 to 7200, graph 1 nohead linewidth 1.5 dashtype 3 linecolor rgb ink
plot for [v in shown] "data/job-completion.dat" index (v - 1) using 2:1 with lines linestyle v title label(v)
