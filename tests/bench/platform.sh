# For benches that need the whole platform (sourced, with $build set): a place for its files, and no process of it left behind, however the
# bench ends.
exec=$build/bin/berth-exec
place=$(mktemp -d)
keeper=
end() { [ -z "$keeper" ] || { kill -TERM "$keeper" && wait "$keeper"; } 2>/dev/null; keeper=; }
trap 'end; rm -rf "$place"' EXIT
trap 'exit 1' INT TERM HUP PIPE
die() { echo "$0: $*" >&2; tail -n 5 "$place"/*.log >&2; exit 1; }

# state, log, servers that will be up, further options of `control`; sets keeper and url.
start() {
    state=$1 log=$2 servers=$3
    shift 3
    : >"$place/out"
    "$exec" control --state "$state" --listen 127.0.0.1:0 "$@" >"$place/out" 2>"$log" &
    keeper=$!
    tries=0
    until url=$(sed -n 's/^listening on //p' "$place/out") && [ -n "$url" ] &&
        curl -fsS --max-time 2 "$url/metrics" 2>/dev/null | grep -q "^berth_servers_up $servers\$"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || die "no server is up after 30 s"
        sleep 0.1
    done
}
