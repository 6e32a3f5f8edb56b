#!/bin/sh
# A tuned model's answers against its base's, and its first token cold against warm, over the API of a platform with two organizations, two
# bases and 5,000 models of one of them (5 GB), every one of which is asked for; with a larger base, 100. Cold: its sealed object was never read,
# and the page cache has forgotten it.
#   tests/bench/tunes.sh build/MODE
set -u
build=$1
tunes=$build/tests/bench/exec/tunes
. tests/bench/platform.sh

# preset, models, rounds, answers by Zipf's law
measure() {
    base=$place/base-$1
    state=$place/state-$1
    log=$place/$1.log
    "$exec" model random --preset "$1" --adapters 1 --out "$base" >/dev/null 2>"$log" || die "no base"
    "$tunes" fill "$state" "$1=$base" "$2" >"$place/models" 2>"$log" || die "no models"
    start "$state" "$log" 2 --base "$1=$base" --base "beside=$place/beside"
    "$tunes" ask "${url##*:}" "$1" "$3" "$4" <"$place/models" || die "no measurement"
    end
    rm -rf "$base" "$state"
}

"$exec" model random --preset 15m --seed 1 --out "$place/beside" >/dev/null 2>"$place/beside.log" || die "no base"
measure 15m 5000 40 4000
measure 250m 100 4 0
