#!/usr/bin/env bash
# Starts a separate PostgreSQL on a Unix socket in a temporary directory, runs a command with its address in
# GOONDAN_TEST_POSTGRES, and deletes everything: tests/postgres.sh cargo test -p goondan-store-postgres
# Without a command it runs until Ctrl-C. Exits with 77 if PostgreSQL is not installed. With GOONDAN_POSTGRES_DISK=512m, root gives it
# a disk of that size in memory.
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
# Only the user who runs the tests may use the socket.
chmod 755 "$folder"
control() { (cd "$folder" && "${as[@]}" "$programs/pg_ctl" -D "$data" -s "$@"); }
end() {
  control stop -m immediate || true
  if [ -n "${GOONDAN_TEST_POSTGRES_DISK:-}" ]; then
    umount "$GOONDAN_TEST_POSTGRES_DISK" || true
  fi
  rm -rf "$folder"
}
trap end EXIT

data=$folder/data
if [ -n "${GOONDAN_POSTGRES_DISK:-}" ]; then
  mkdir "$folder/disk"
  if mount -t tmpfs -o "size=$GOONDAN_POSTGRES_DISK,mode=755" gdn-pg "$folder/disk"; then
    export GOONDAN_TEST_POSTGRES_DISK=$folder/disk
    data=$folder/disk/data
    mkdir -m 700 "$data"
    [ ${#as[@]} = 0 ] || chown postgres "$data"
  else
    echo "the database gets no disk of its own: none can be mounted here" >&2
  fi
fi
(cd "$folder" && "${as[@]}" "$programs/initdb" -D "$data" -U gdn -A trust -E UTF8 --locale=C >/dev/null)
# A script that starts the server again.
cat >>"$data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$folder'
max_connections = 300
EOF
if [ -n "${GOONDAN_TEST_POSTGRES_DISK:-}" ]; then
  printf '%s\n' 'min_wal_size = 32MB' 'max_wal_size = 64MB' >>"$data/postgresql.conf"
fi
control start -w -l "$folder/log" -o "${GOONDAN_POSTGRES_OPTIONS:-}"
export GOONDAN_TEST_POSTGRES="postgres://gdn@${folder//\//%2F}/postgres"
# For tests that stop and start the server.
export GOONDAN_TEST_POSTGRES_CONTROL="${as[*]} $programs/pg_ctl -D $data"
export GOONDAN_TEST_POSTGRES_LOG=$folder/log
if [ $# -gt 0 ]; then
  "$@"
else
  echo "$GOONDAN_TEST_POSTGRES"
  sleep infinity
fi
