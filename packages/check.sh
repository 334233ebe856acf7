#!/usr/bin/env bash
# Checks the types of packages/types and packages/python against what is written with them, and packs both into target/packages.
# What npm, Python or the network do not give is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."

TYPESCRIPT_VERSION=5.9.3
MYPY_VERSION=1.18.2
tools=$PWD/target/types
packed=$PWD/target/packages
mkdir -p "$tools" "$packed"

skip() { printf 'skipped: %s\n' "$*"; }

typescript() {
  command -v npm >/dev/null || { skip "there is no npm"; return; }
  local tsc=$tools/node_modules/.bin/tsc
  if [ ! -x "$tsc" ] && ! npm install --silent --no-audit --no-fund --no-save --prefix "$tools" "typescript@$TYPESCRIPT_VERSION"; then
    skip "npm could not install typescript"
    return
  fi
  "$tsc" -p packages/types
  echo "TypeScript: the examples and templates fit the types"
  (cd packages/types && npm pack --silent --pack-destination "$packed")
}

python() {
  command -v python3 >/dev/null || { skip "there is no python3"; return; }
  local bin=$tools/python/bin
  if [ ! -x "$bin/mypy" ]; then
    if ! python3 -m venv "$tools/python" || ! "$bin/pip" install --quiet "mypy==$MYPY_VERSION" build hatchling; then
      rm -rf "$tools/python"
      skip "pip could not install mypy"
      return
    fi
  fi
  (cd packages/python && "$bin/mypy" --cache-dir "$tools/mypy" --config-file pyproject.toml goondan_types check)
  (cd packages/python && "$bin/python" -m build --quiet --wheel --no-isolation --outdir "$packed" .)
  (cd "$packed" && ls goondan_types-*.whl)
}

typescript
python
