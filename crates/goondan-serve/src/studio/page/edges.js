// Edges of the swarm: which agents use or call which parts, and which edges are active now.

import { turns } from "./facts.js";
import { questionOf } from "./requests.js";
import { state } from "./state.js";

/** @typedef {{from: string, to: string, words: string}} Edge both ends as `kind/name` */

/** How long an edge stays active after its last call began, in milliseconds. */
const ACTIVE = 1_500;
/** Age up to which an event makes an edge active, in milliseconds. The page also reads older events. */
const RECENT = 5_000;

/**
 * Returns all edges of the swarm.
 * @param {any} topology
 * @param {any[]} schedules
 * @returns {Edge[]}
 */
export function edgesOf(topology, schedules) {
  const edges = [];
  for (const connection of topology.connections ?? []) {
    for (const agent of connection.agents) edges.push({ from: `connection/${connection.name}`, to: `agent/${agent}`, words: "sends events to" });
  }
  for (const { agentName } of schedules) {
    if (agentName) edges.push({ from: `schedule/${agentName}`, to: `agent/${agentName}`, words: "starts turns of" });
  }
  for (const agent of topology.agents) {
    const own = `agent/${agent.name}`;
    for (const model of agent.models) edges.push({ from: `model/${model}`, to: own, words: "answers" });
    for (const other of agent.calls ?? []) edges.push({ from: own, to: `agent/${other}`, words: "can call" });
    const tools = topology.tools.filter((tool) => tool.exports.some((one) => agent.exports.includes(one.name)));
    for (const tool of tools) edges.push({ from: own, to: `tool/${tool.name}`, words: "can use" });
  }
  return [...new Map(edges.map((edge) => [nameOfEdge(edge), edge])).values()];
}

/** @param {{from: string, to: string}} edge */
export const nameOfEdge = ({ from, to }) => `${from} ${to}`;

/** Returns the names of the edges that a tool call uses. */
function edgesOfCall(agentName, toolName, input) {
  const own = `agent/${agentName}`;
  const tool = toolName.split("__")[0];
  const names = [nameOfEdge({ from: own, to: `tool/${tool}` })];
  if (tool === "agents" && typeof input?.target === "string") names.push(nameOfEdge({ from: own, to: `agent/${input.target}` }));
  return names;
}

/** Creates the list of active edges. */
export function activity() {
  /** @type {Map<string, number>} time of the end, by edge */
  const until = new Map();
  /**
   * Notes the calls that begin.
   * @param {any[]} events
   */
  function note(events) {
    const now = Date.now();
    for (const event of events) {
      // A call that waits for an approval does not run yet.
      if (event.type === "approval.requested") edgesOfCall(event.agentName, event.toolName, undefined).forEach((name) => until.delete(name));
      if (event.type !== "tool.called" || Date.parse(event.timestamp) < now - RECENT) continue;
      for (const name of edgesOfCall(event.agentName, event.toolName, event.arguments)) until.set(name, now + ACTIVE);
    }
  }
  /** Returns the names of the active edges. An agent without an open call waits for its model. */
  function active() {
    const now = Date.now();
    const names = new Set();
    for (const [name, end] of until) {
      if (end > now) names.add(name);
      else until.delete(name);
    }
    for (const [whose, { turnId }] of state.running) {
      const agentName = whose.slice(0, whose.indexOf(":"));
      const open = [...(turns.get(turnId)?.calls.values() ?? [])].filter((call) => call.status === "");
      const instance = { agentName, instanceKey: whose.slice(agentName.length + 1) };
      for (const call of open.filter((one) => !questionOf(instance, one.id))) edgesOfCall(agentName, call.name, call.arguments).forEach((name) => names.add(name));
      const model = state.topology?.agents.find((agent) => agent.name === agentName)?.models[0];
      if (!open.length && model) names.add(nameOfEdge({ from: `model/${model}`, to: `agent/${agentName}` }));
    }
    return names;
  }
  return { note, active, isEnding: () => until.size > 0 };
}
