// Edges between agents, models, tools, connections and schedules, and their current activity.

import { turns } from "./facts.js";
import { approvalOf } from "./requests.js";
import { state } from "./state.js";

/** @typedef {{from: string, to: string, relation: string}} Edge both ends as `kind/name` */

/** Time for which an edge stays active after the start of its last call, in milliseconds. */
const ACTIVE_TIME = 1_500;
/** Maximum age of an event that activates an edge, in milliseconds. The page also loads older events. */
const MAX_AGE = 5_000;

/**
 * Returns all edges of the swarm.
 * @param {any} topology
 * @param {any[]} schedules
 * @returns {Edge[]}
 */
export function edgesOf(topology, schedules) {
  const edges = [];
  for (const connection of topology.connections ?? []) {
    for (const agent of connection.agents) edges.push({ from: `connection/${connection.name}`, to: `agent/${agent}`, relation: "sends events to" });
  }
  for (const { agentName } of schedules) {
    if (agentName) edges.push({ from: `schedule/${agentName}`, to: `agent/${agentName}`, relation: "starts turns of" });
  }
  for (const agent of topology.agents) {
    const own = `agent/${agent.name}`;
    for (const model of agent.models) edges.push({ from: `model/${model}`, to: own, relation: "answers" });
    for (const other of agent.calls ?? []) edges.push({ from: own, to: `agent/${other}`, relation: "can call" });
    const tools = topology.tools.filter((tool) => tool.exports.some((one) => agent.exports.includes(one.name)));
    for (const tool of tools) edges.push({ from: own, to: `tool/${tool.name}`, relation: "can use" });
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
export function trackActivity() {
  /** @type {Map<string, number>} end of the activity, by edge */
  const until = new Map();
  /**
   * Activates the edges of new calls.
   * @param {any[]} events
   */
  function recordCalls(events) {
    const now = Date.now();
    for (const event of events) {
      // A call that waits for an approval does not run yet.
      if (event.type === "approval.requested") edgesOfCall(event.agentName, event.toolName, undefined).forEach((name) => until.delete(name));
      if (event.type !== "tool.called" || Date.parse(event.timestamp) < now - MAX_AGE) continue;
      for (const name of edgesOfCall(event.agentName, event.toolName, event.arguments)) until.set(name, now + ACTIVE_TIME);
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
    for (const [conversationName, { turnId }] of state.running) {
      const agentName = conversationName.slice(0, conversationName.indexOf(":"));
      const open = [...(turns.get(turnId)?.calls.values() ?? [])].filter((call) => call.status === "");
      const instance = { agentName, instanceKey: conversationName.slice(agentName.length + 1) };
      for (const call of open.filter((one) => !approvalOf(instance, one.id))) edgesOfCall(agentName, call.name, call.arguments).forEach((name) => names.add(name));
      const model = state.topology?.agents.find((agent) => agent.name === agentName)?.models[0];
      if (!open.length && model) names.add(nameOfEdge({ from: `model/${model}`, to: `agent/${agentName}` }));
    }
    return names;
  }
  return { recordCalls, active, isEnding: () => until.size > 0 };
}
