#!/bin/sh
# A tuned model's answers against its base's, and its first token cold against warm, over the API of a platform with two organizations, two
# bases and 5,000 models of one of them. Cold: its sealed object was never read, and the page cache has forgotten it.
#   tests/bench/tunes.sh build/MODE
set -u
build=$1
exec=$build/bin/berth-exec
tunes=$build/tests/bench/exec/tunes
place=$(mktemp -d)
keeper=
end() { [ -z "$keeper" ] || { kill -TERM "$keeper" && wait "$keeper"; } 2>/dev/null; keeper=; }
trap 'end; rm -rf "$place"' EXIT
trap 'exit 1' INT TERM HUP PIPE
die() { echo "tests/bench/tunes.sh: $*" >&2; tail -n 5 "$place"/*.log >&2; exit 1; }

# preset, rounds
measure() {
    base=$place/base-$1
    state=$place/state-$1
    log=$place/$1.log
    "$exec" model random --preset "$1" --adapters 1 --out "$base" >/dev/null 2>"$log" || die "no base"
    "$tunes" fill "$state" "$1=$base" >"$place/models" 2>"$log" || die "no models"
    find "$state/store/objects" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none ';'
    "$exec" control --state "$state" --listen 127.0.0.1:0 --base "$1=$base" --base "beside=$place/beside" >"$place/out" 2>"$log" &
    keeper=$!
    tries=0
    until url=$(sed -n 's/^listening on //p' "$place/out") && [ -n "$url" ] &&
        curl -fsS --max-time 2 "$url/metrics" 2>/dev/null | grep -q '^berth_servers_up 2$'; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || die "no server is up after 30 s"
        sleep 0.1
    done
    "$tunes" ask "${url##*:}" "$1" "$2" <"$place/models" || die "no measurement"
    end
    rm -rf "$base" "$state"
}

"$exec" model random --preset 15m --seed 1 --out "$place/beside" >/dev/null 2>"$place/beside.log" || die "no base"
measure 15m 24
measure 250m 4
