# Sourced by scripts that test a served swarm: starts a server with a separate state, which ends with the script.

GDN=$PWD/target/debug/gdn
STATE=$(mktemp -d)
SERVER=
export GOONDAN_STATE_ROOT=$STATE
trap 'stop; rm -rf "$STATE"' EXIT

step() { printf '\n== %s\n' "$*"; }
skip() { printf 'skipped: %s\n' "$*"; }

stop() {
  [ -z "$SERVER" ] || { kill "$SERVER" && wait "$SERVER"; } || true
  SERVER=
}

# Serves a project at a free port, and sets URL.
serve() {
  stop
  # The background process creates the file too late for the loop below.
  : >"$STATE/listening"
  "$GDN" serve "$1" --listen 127.0.0.1:0 --json >"$STATE/listening" 2>"$STATE/log" &
  SERVER=$!
  URL=
  until [ -n "$URL" ]; do
    kill -0 "$SERVER" || { cat "$STATE/log" && return 1; }
    URL=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$STATE/listening")
    sleep 0.05
  done
}
