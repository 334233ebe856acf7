# Sourced by the parts in ci/: the working directory, a separate state root, and output.
# Sets GDN, the program under test. Default: target/debug/gdn.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec </dev/null
GDN=$(realpath -m "${GDN:-target/debug/gdn}")
export GDN
if [ -z "${GOONDAN_STATE_ROOT:-}" ]; then
  GOONDAN_STATE_ROOT=$(mktemp -d)
  export GOONDAN_STATE_ROOT
  trap 'rm -rf "$GOONDAN_STATE_ROOT"' EXIT
fi

step() { printf '\n== %s (after %s s)\n' "$*" "$SECONDS"; }
skip() { printf 'skipped: %s\n' "$*"; }
