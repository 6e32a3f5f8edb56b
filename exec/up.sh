#!/bin/sh
# The platform on this machine, with two tiny bases of its own, for whoever wants to try it: `up` starts it and prints what a client needs,
# fit for eval, on stdout; `down` stops that one and no other. What is kept lies in build/: bases once, the state until somebody removes it.
#   exec/up.sh up|down STATE
# $BERTH_OPTIONS: more of `berth-exec control`'s options.
set -u
state=${2:-build/up}
exec=bin/berth-exec
bases=build/bases
say() { echo "$@" >&2; }
die() { say "$@"; exit 1; }

# The keeper that has this folder: the process whose lock the kernel knows there. Empty: none.
keeper() {
    [ -f "$state/lock" ] || return 0
    inode=$(stat -c %i "$state/lock")
    awk -v inode="$inode" '$2 == "POSIX" && $4 == "WRITE" { n = split($6, at, ":"); if (at[n] == inode) { print $5; exit } }' /proc/locks
}

# name, seed: a model that answers and can be taught, made whole or not at all.
base() {
    [ -d "$bases/$1" ] && return 0
    say "making the base $1, once: some 20 s"
    mkdir -p "$bases"
    $exec model create-tiny --out "$bases/$1" --steps 150 --seed "$2" >/dev/null 2>"$bases/$1.log" || die "$(cat "$bases/$1.log")"
}

serves() { curl -fsS --max-time 2 "$1/readyz" >/dev/null 2>&1 && curl -fsS --max-time 2 "$1/metrics" 2>/dev/null | grep -q '^berth_servers_up 2$'; }

start() {
    base tiny 0
    base tiny-b 1
    mkdir -p "$(dirname "$state")"
    : >"$state.out"
    setsid $exec control --state "$state" --listen "127.0.0.1:${BERTH_PORT:-0}" --base tiny=$bases/tiny --base tiny-b=$bases/tiny-b --gate off \
        ${BERTH_OPTIONS:-} </dev/null >"$state.out" 2>>"$state.log" &
    pid=$!
    tries=0
    until url=$(sed -n 's/^listening on //p' "$state.out") && [ -n "$url" ] && serves "$url"; do
        kill -0 $pid 2>/dev/null || die "it has ended: $(grep '^berth-exec' "$state.log" | tail -n 3)"
        tries=$((tries + 1))
        [ $tries -lt 300 ] || die "no server is up after 30 s; $state.log says why"
        sleep 0.1
    done
    say "runs as process $pid; its log is $state.log, its state $state"
}

up() {
    if [ -n "$(keeper)" ]; then
        say "it runs already, as process $(keeper); this is a new key"
        serves "$(sed -n 's/^listening on //p' "$state.out")" || die "it does not serve; $state.log says why"
    else
        start
    fi
    $exec tenant list --state "$state" | grep -q '^demo ' || $exec tenant add demo --state "$state" >&2 || exit 1
    key=$($exec key add demo --state "$state") || exit 1
    echo "BASE_URL=$(sed -n 's/^listening on //p' "$state.out")/v1"
    echo "API_KEY=$key"
    echo "BASE_MODEL=tiny"
}

down() {
    pid=$(keeper)
    [ -n "$pid" ] || { say "nothing runs in $state"; return 0; }
    kill -TERM "$pid"
    while [ "$(keeper)" = "$pid" ]; do sleep 0.1; done
    say "process $pid has ended; what it kept is in $state"
}

case ${1:-} in
up) up ;;
down) down ;;
*) die "usage: exec/up.sh up|down STATE" ;;
esac
