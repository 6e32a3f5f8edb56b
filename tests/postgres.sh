#!/bin/sh
# The metadata's tests on PostgreSQL: a server of their own, without a network, on a folder that goes again.
#   tests/postgres.sh build/MODE
set -u
build=$1
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -x "$bin/initdb" ] || { echo "SKIP: no PostgreSQL server is installed (apt-get install postgresql)"; exit 0; }
data=$(mktemp -d)
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --init-groups env HOME="$data" "$@"; else "$@"; fi; }
stop() { as "$bin/pg_ctl" -D "$data/data" -m immediate -w stop >/dev/null 2>&1; rm -rf "$data"; }
trap stop EXIT
trap 'exit 1' INT TERM
if [ "$(id -u)" = 0 ]; then chown postgres "$data"; fi
as "$bin/initdb" -D "$data/data" -U app --auth=trust --no-sync -E UTF8 --locale=C >"$data/log" 2>&1 || { cat "$data/log"; exit 1; }
printf "listen_addresses=''\nunix_socket_directories='%s'\nfsync=off\nsynchronous_commit=off\nfull_page_writes=off\n" "$data" |
    as tee -a "$data/data/postgresql.conf" >/dev/null
as "$bin/pg_ctl" -D "$data/data" -w -l "$data/log.server" start >/dev/null || exit 1
BERTH_TEST_POSTGRES="host=$data user=app dbname=postgres"
export BERTH_TEST_POSTGRES
failed=0
for test in jobs models owner records; do
    "$build/tests/exec/control/metadata/test_$test" >"$data/log" 2>&1 || failed=1
    grep -E 'PASSED|FAILED|ERROR' "$data/log"
done
exit $failed
