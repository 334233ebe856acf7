#!/usr/bin/env bash
# 64 conversations at once with `gdn serve`, LangGraph's server and ADK's, one after another: turns a second, and how long one
# takes. The model takes 50 ms and is on the same cores, as are the clients. It needs Python and PyPI, and a machine that does
# nothing else:
#
#   cargo build --release -p goondan-cli -p goondan-benches
#   benches/peers/run.sh [SECONDS [gdn|langgraph|adk]...]
set -euo pipefail
cd "$(dirname "$0")/../.."

SECONDS_EACH=${1:-20}
NAMES=("${@:2}")
[ "${#NAMES[@]}" -gt 0 ] || NAMES=(gdn langgraph adk)
LANGGRAPH=("langgraph-cli[inmem]==0.4.40" langgraph-api==0.16.7 langgraph==1.2.22 langchain-openai==1.7.3)
ADK=(google-adk==2.13.0 litellm==1.106.2)
BIN=${BIN:-$PWD/target/release}
FOLDER=${PEERS:-$PWD/target/peers}
WORK=$(mktemp -d)
PIDS=()
stop() {
  for pid in "${PIDS[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  PIDS=()
}
trap 'stop; kill "$MODEL_PID" 2>/dev/null; rm -rf "$WORK"' EXIT
set -m

environment() {
  [ -x "$FOLDER/$1/bin/python" ] && return
  python3 -m venv "$FOLDER/$1"
  "$FOLDER/$1/bin/pip" install --quiet "${@:2}"
}

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Waits until something answers there.
await_server() {
  for _ in $(seq 600); do
    curl -s -o "$WORK/ready" "http://127.0.0.1:$1$2" && return
    sleep 0.1
  done
  cat "$WORK/log"
  return 1
}

measure() {
  printf '%s (load before: %s)\n  ' "$1" "$(cut -d' ' -f1 /proc/loadavg)"
  shift
  "$BIN/load" "$@" --seconds "$SECONDS_EACH"
}

"$BIN/model-server" >"$WORK/model" &
MODEL_PID=$!
until grep -q http "$WORK/model"; do sleep 0.1; done
MODEL=$(cat "$WORK/model")
uptime

gdn() {
  mkdir -p "$WORK/gdn"
  cat >"$WORK/gdn/goondan.yaml" <<YAML
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: openai-compatible, model: "after:50:text", endpoint: "$MODEL"}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, prompt: {system: You are an agent.}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
YAML
  local port
  port=$(port)
  GOONDAN_STATE_ROOT=$WORK/state GOONDAN_TOKEN=a-token-for-the-benchmarks-alone \
    "$BIN/gdn" serve "$WORK/gdn" --trust --listen "127.0.0.1:$port" >"$WORK/log" 2>&1 &
  PIDS+=($!)
  await_server "$port" /
  measure "gdn serve" "127.0.0.1:$port" --wants text_response \
    --turn '/api/inputs?wait=true' '{"text": "go", "instanceKey": "c{n}"}'
  stop
}

langgraph() {
  environment langgraph "${LANGGRAPH[@]}"
  mkdir -p "$WORK/langgraph"
  cat >"$WORK/langgraph/agent.py" <<PYTHON
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="after:50:text", base_url="$MODEL", api_key="none")


async def answer(state: MessagesState):
    return {"messages": [await model.ainvoke([("system", "You are an agent."), *state["messages"]])]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()
PYTHON
  printf '{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}' >"$WORK/langgraph/langgraph.json"
  local port
  port=$(port)
  (cd "$WORK/langgraph" && LANGSMITH_TRACING=false exec "$FOLDER/langgraph/bin/langgraph" dev --no-browser --no-reload \
    --allow-blocking --n-jobs-per-worker 64 --port "$port") >"$WORK/log" 2>&1 &
  PIDS+=($!)
  await_server "$port" /ok
  measure "LangGraph's server, in development mode" "127.0.0.1:$port" --wants '"ai"' \
    --open /threads '{"thread_id": "00000000-0000-4000-8000-{n}", "if_exists": "do_nothing"}' \
    --turn '/threads/00000000-0000-4000-8000-{n}/runs/wait' \
    '{"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}}'
  stop
}

adk() {
  environment adk "${ADK[@]}"
  mkdir -p "$WORK/adk/agent"
  cat >"$WORK/adk/agent/agent.py" <<PYTHON
from google.adk.agents import Agent
from google.adk.models.lite_llm import LiteLlm

model = LiteLlm(model="openai/after:50:text", api_base="$MODEL", api_key="none")
root_agent = Agent(name="agent", model=model, instruction="You are an agent.")
PYTHON
  printf 'from . import agent\n' >"$WORK/adk/agent/__init__.py"
  local port
  port=$(port)
  LITELLM_LOCAL_MODEL_COST_MAP=True "$FOLDER/adk/bin/adk" api_server --port "$port" --log_level warning \
    --session_service_uri memory:// "$WORK/adk" \
    >"$WORK/log" 2>&1 &
  PIDS+=($!)
  await_server "$port" /list-apps
  measure "ADK's api_server" "127.0.0.1:$port" --wants '"model"' \
    --open '/apps/agent/users/u/sessions' '{"sessionId": "s{n}"}' \
    --turn /run '{"appName": "agent", "userId": "u", "sessionId": "s{n}", "newMessage": {"role": "user", "parts": [{"text": "go"}]}}'
  stop
}

for name in "${NAMES[@]}"; do "$name"; done
uptime
