#!/usr/bin/env bash
# Tests completion in bash, zsh and fish with the scripts that are installed below a prefix.
# Usage: tests/completions.sh [prefix]. Missing shells are reported and skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
PREFIX=$(realpath "${1:-$HOME/.local}")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export PATH=$PREFIX/bin:$PATH HOME=$WORK GOONDAN_STATE_ROOT=$WORK/state TERM=dumb

# A hostile project: the test fails if a shell executes or expands a part of it.
mkdir -p "$WORK/p" && cd "$WORK/p"
cat >goondan.yaml <<'YAML'
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: beekeeper}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/text-transform, exports: [case]}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: apiary}
spec: {entryAgent: Agent/beekeeper, agents: [{ref: Agent/beekeeper}]}
YAML
printf 'default: {text: Buzz.}\n' >script.yaml
# The name of a conversation that a shell would run.
gdn run --input hello >/dev/null
# shellcheck disable=SC2016
gdn run --input hello --instance-key '$(touch executed)' >/dev/null
gdn run --input hello --instance-key "$(printf 'a\033[2Jb')" >/dev/null

# From here on, the project needs trust, but is not trusted.
printf 'require("fs").writeFileSync("executed", "")\n' >trap.js
cat >>goondan.yaml <<'YAML'
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: trap}
spec:
  entry: ./trap.js
  runtime: node
  build: {command: [touch, built]}
  exports: [{name: go, description: It must not run., parameters: {type: object}}]
YAML

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

# Prints the completions of each shell after the words.
in_bash() {
  # shellcheck disable=SC2016
  bash --norc -c 'source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
    _clap_complete_gdn gdn "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$PREFIX/share/bash-completion/completions/gdn" "$@"
}

in_fish() {
  # shellcheck disable=SC2016
  fish --no-config -c 'source $argv[1]; complete -C (string join " " -- $argv[2..])' \
    "$PREFIX/share/fish/vendor_completions.d/gdn.fish" "$@" | cut -f 1
}

# zsh completes only in a terminal. It drops a listing when more is typed, so the script types nothing until $WANTED appears or the
# time is over.
in_zsh() {
  # shellcheck disable=SC2016
  timeout 30 zsh -f -c 'zmodload zsh/zpty
    zpty shell "zsh -f -i"
    zpty -w shell "PS1= ; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; zstyle \":completion:*\" list-prompt \"\""
    zpty -w shell "bindkey \"^I\" list-choices; LISTMAX=0; echo REA""DY"
    zpty -r shell said "*READY*"
    shift
    zpty -w -n shell "$*"$'"'\t'"'
    zpty -r shell listed "*$WANTED*"
    # The listing is complete when the shell answers the next input.
    zpty -w -n shell $'"'\x15'"'
    zpty -w shell "echo DO""NE"
    zpty -r shell said "*DONE*"
    zpty -d shell
    print -r -- $listed $said' zsh "$PREFIX/share/zsh/site-functions" "$@" | tr -s ' \r' '\n' || true
}

# Compares what a shell offers: the shell, a word that must be offered, the words of the line.
offers() {
  local shell=$1 wanted=$2 offered
  shift 2
  offered=$(WANTED=$wanted "in_$shell" "$@")
  grep -q -x -F -- "$wanted" <<<"$offered" || fail "$shell: \`$*\` does not offer $wanted but: $offered"
  ! grep -q 'touch\|\[2J' <<<"$offered" || fail "$shell: \`$*\` offers something hostile: $offered"
}

for shell in bash zsh fish; do
  if ! command -v "$shell" >/dev/null; then
    printf 'skipped: there is no %s\n' "$shell"
    continue
  fi
  offers "$shell" validate gdn va
  offers "$shell" --strict gdn validate --st
  offers "$shell" beekeeper gdn run --agent b
  offers "$shell" apiary gdn run --swarm a
  offers "$shell" text-transform__case gdn tool call t
  offers "$shell" E_TOOL_DENIED gdn explain E_TOOL_DEN
  offers "$shell" trap gdn build --tool t
  offers "$shell" beekeeper:main gdn conversation show b
  printf '%s completes\n' "$shell"
done
if [ -e executed ] || [ -e built ]; then fail "something of the project was executed"; fi
