#!/usr/bin/env bash
# Long trials of several nodes at one database, each with a separate PostgreSQL: all faults for 300 seconds, 1,000 kills, 100 pauses
# longer than the lease, and repeated outages of the database for ten seconds. Prints how soon turns of lost nodes resume on other
# nodes. Takes about forty-five minutes and needs target/debug/trials: cargo build -p goondan-tests
set -euo pipefail
cd "$(dirname "$0")/.."

trial() {
  printf '\n== chaos %s\n' "$*"
  tests/postgres.sh sh -c 'exec target/debug/trials chaos --store "$GOONDAN_TEST_POSTGRES" "$@"' sh "$@"
}

export GOONDAN_POSTGRES_DISK=512m
trial --nodes 3 --with everything --seconds 300
unset GOONDAN_POSTGRES_DISK
trial --nodes 3 --with kills --kills 1000 --seconds 7200
trial --nodes 5 --with pauses --pauses 100 --seconds 7200
trial --nodes 3 --with outages --seconds 120

printf '\n== failover\n'
tests/postgres.sh sh -c 'exec target/debug/trials failover --store "$GOONDAN_TEST_POSTGRES" --times 12'
