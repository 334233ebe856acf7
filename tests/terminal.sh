#!/usr/bin/env bash
# Runs a swarm in tmux with texts that try to repaint the terminal, and checks every byte of the output.
# Usage: tests/terminal.sh [path of gdn]. Needs tmux and perl.
set -euo pipefail
cd "$(dirname "$0")/.."
GDN=$(realpath "${1:-target/debug/gdn}")
WORK=$(mktemp -d)
SESSION=gdn-terminal-$$
trap 'tmux kill-session -t "$SESSION" 2>/dev/null || true; rm -rf "$WORK"' EXIT
export GOONDAN_STATE_ROOT=$WORK/state
# The project permits its agent to run programs.
export GOONDAN_TRUST=1

mkdir "$WORK/p"
cat > "$WORK/p/goondan.yaml" <<'YAML'
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/bash}, {ref: Tool/fs}]
  permissions:
    default: allow
    rules: [{tool: bash__*, args: {command: "rm *"}, action: ask}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
YAML
cat > "$WORK/p/script.yaml" <<'YAML'
rules:
  - when: {role: user, contains: please ask}
    reply: {calls: [{id: c, tool: bash__exec, args: {command: "rm '{{ input }}'"}}]}
  - when: {role: user}
    reply:
      text: "I say {{ input }}"
      calls:
        - {id: b, tool: bash__exec, args: {command: "printf '%s' '{{ input }}'"}}
        - {id: f, tool: fs__write, args: {path: "{{ input }}", content: "{{ input }}"}}
        - {id: r, tool: fs__read, args: {path: "{{ input }}"}}
        - {id: u, tool: "x\e[2J\u202E\u200Bfs__read", args: {}}
  - when: {role: tool}
    reply: {text: "it said {{ results.b.output.stdout }} and {{ input }}"}
YAML

# One text per line, for `printf %b`: each attack at four places.
weapons=('\e[2J' '\e[H' '\e[5A' '\e[1000D' '\e[8m' '\e[30;40m' '\e[38;2;0;0;0m' '\e]0;title\a' '\e]8;;http://evil\e\\' '\e]52;c;aGk=\a'
  '\ec' '\e7' '\e[?1049h' '\e[6n' '\e' '\u9b2J' '\u9d0;t\u9c' '\u85' '\a' '\b\b\b' '\v' '\f' '\xe' '\r' '\x7f' '\uad' '\u34f' '\u61c'
  '\u115f' '\u1160' '\u17b4' '\u180e' '\u200b' '\u200c' '\u200d' '\u200e' '\u200f' '\u2028' '\u2029' '\u202a\u202c' '\u202d' '\u202e'
  '\u2060' '\u2064' '\u2066\u2069' '\u2067' '\u206a' '\u2800' '\u3164' '\ufe00' '\ufeff' '\uffa0' '\U000e0041' '\U0001d173')
for weapon in "${weapons[@]}"; do
  printf '%s\n' "${weapon}key" "key${weapon}" "a${weapon}b${weapon}" "x\\nerror[E]: ${weapon}y"
done > "$WORK/texts"

cat > "$WORK/turns" <<'BASH'
set -u
export LC_ALL=C.UTF-8
cd "$WORK"
while IFS= read -r text <&3; do
  printf -v key %b "$text"
  "$GDN" run p -v --instance-key "$key" --input "$key" </dev/null
done 3< texts
"$GDN" instance list --all
"$GDN" logs -n 100000
"$GDN" logs -n 100000 --json
"$GDN" instance show "a:$key"
"$GDN" instance export --all
echo "turns"" are over"
"$GDN" run p --plain --instance-key "$key"
echo "plain chat"" is over"
"$GDN" run p --instance-key "$key" --agent a
echo "last chat"" is over"
BASH
export WORK GDN

# Waits until the pane shows a text after the previous one.
seen=0
await() {
  local at
  for _ in $(seq 1200); do
    at=$(tail -c "+$((seen + 1))" "$WORK/pane" | grep -abom1 -F "$1" | head -n1 | cut -d: -f1 || true)
    if [ -n "$at" ]; then
      seen=$((seen + at + ${#1}))
      return 0
    fi
    sleep 0.1
  done
  echo "\"$1\" never came" >&2
  tail -c 2000 "$WORK/pane" | cat -v >&2
  return 1
}

tmux new-session -d -s "$SESSION" -x 120 -y 40 "exec bash --norc --noprofile -c 'read -r; . \"$WORK/turns\"; read -r'"
: > "$WORK/pane"
tmux pipe-pane -t "$SESSION" "exec cat >> '$WORK/pane'"
tmux send-keys -t "$SESSION" Enter
await "turns are over"
await "a> "
# Typed text belongs to the user; the model repeats it in a command line.
tmux send-keys -t "$SESSION" "please ask" Enter
await "Allow this?"
tmux send-keys -t "$SESSION" n Enter
await "it said"
await "a> "
tmux send-keys -t "$SESSION" C-d
await "plain chat is over"

# The chat runs while its terminal changes its size.
await "a>"
tmux send-keys -t "$SESSION" "please ask" Enter
await "Allow this?"
tmux resize-window -t "$SESSION" -x 60 -y 20
tmux send-keys -t "$SESSION" n Enter
await "it said"
tmux resize-window -t "$SESSION" -x 100 -y 30
tmux send-keys -t "$SESSION" "/usage" Enter
await "/usage"
shown=$(tmux capture-pane -p -t "$SESSION" -S - | sed '1,/plain chat is over/d' | grep -c '^you → a> *$' || true)
tmux send-keys -t "$SESSION" C-d C-d
await "last chat is over"
if [ "$shown" != 1 ]; then
  echo "there were $shown prompts on the screen" >&2
  exit 1
fi

# Permitted output of gdn: styles, the status line, the prompt, and frames at the bottom with a cursor position. All other bytes must
# be visible.
LC_ALL=C.UTF-8 perl -CSD -0777 -ne '
  my $bytes = length;
  s{\e\[\?2026h\e\[\?25l(.*?)\e\[\?25h\e\[\?2026l}{
    my $frame = $1;
    $frame =~ s/\e8$//;
    $frame =~ s/\e7//;
    $frame =~ s/\e\[\d+A//g;
    $frame
  }gse;
  my $own = s/\e\[(?:[0-4]?|3[1-79]|9[0-7])m|\e\[\d*K|\e\[J|\e\[1[AB]|\e\[\d+C|\e\[\?(?:25|2004|2026)[hl]//g;
  my @hidden = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}]/g;
  my $shown = () = /\\u\{[0-9a-f]+\}|\\u[0-9a-f]{4}/g;
  printf "%d characters, %d sequences of its own, %d escapes shown, %d hidden characters\n", $bytes, $own, $shown, scalar @hidden;
  exit(@hidden ? 1 : 0);
' "$WORK/pane"
echo "$(wc -l < "$WORK/texts") hostile texts did nothing to the terminal"
