#!/usr/bin/env bash
# Starts a PostgreSQL of its own on a Unix socket in a temporary folder, runs a command with its address in
# GOONDAN_TEST_POSTGRES, and throws everything away again: tests/postgres.sh cargo test -p goondan-store-postgres
# Without a command it runs until Ctrl-C. Ends with 77 where there is no PostgreSQL.
set -euo pipefail

find_programs() {
  local folder
  if command -v initdb >/dev/null; then
    dirname "$(command -v initdb)"
    return
  fi
  for folder in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
    if [ -x "$folder/initdb" ]; then
      echo "$folder"
      return
    fi
  done
  return 1
}

if ! programs=$(find_programs); then
  echo "there is no PostgreSQL: apt-get install postgresql" >&2
  exit 77
fi
folder=$(mktemp -d /tmp/gdn-pg-XXXXXX)
# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  if ! id postgres >/dev/null 2>&1; then
    echo "there is no user postgres for it to run as" >&2
    exit 77
  fi
  as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
  chown postgres "$folder"
fi
# The socket is for whoever runs the tests.
chmod 755 "$folder"
control() { (cd "$folder" && "${as[@]}" "$programs/pg_ctl" -D "$folder/data" -s "$@"); }
end() {
  control stop -m immediate || true
  rm -rf "$folder"
}
trap end EXIT

(cd "$folder" && "${as[@]}" "$programs/initdb" -D "$folder/data" -U gdn -A trust -E UTF8 --locale=C >/dev/null)
control start -w -l "$folder/log" \
  -o "-c listen_addresses='' -c unix_socket_directories='$folder' -c max_connections=300 ${GOONDAN_POSTGRES_OPTIONS:-}"
export GOONDAN_TEST_POSTGRES="postgres://gdn@${folder//\//%2F}/postgres"
# For tests that end and start it.
export GOONDAN_TEST_POSTGRES_CONTROL="${as[*]} $programs/pg_ctl -D $folder/data"
if [ $# -gt 0 ]; then
  "$@"
else
  echo "$GOONDAN_TEST_POSTGRES"
  sleep infinity
fi
