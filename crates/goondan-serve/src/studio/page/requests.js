// Approval requests that conversations wait for: their own, and those of the agents that they called.

import { callees, turns } from "./facts.js";
import { nameOf, state } from "./state.js";

/**
 * Returns the open approval request of a call.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {string} toolCallId
 */
export function questionOf(whose, toolCallId) {
  for (const question of state.questions.values()) {
    if (question.toolCallId === toolCallId && nameOf(question) === nameOf(whose)) return question;
  }
  return undefined;
}

/**
 * Returns the approval request that a call waits for in the agent that it called, however long the chain of calls is.
 * @param {import("./facts.js").Call|undefined} call
 * @param {Set<string>} [seen] conversations on the way, which may call each other
 */
export function calledQuestion(call, seen = new Set()) {
  const callee = call?.status === "" ? callees.get(call.spanId) : undefined;
  if (!callee || state.running.get(nameOf(callee))?.turnId !== callee.turnId) return undefined;
  return openQuestion(nameOf(callee), seen);
}

/**
 * Returns an approval request that a conversation waits for.
 * @param {string} name
 * @param {Set<string>} [seen]
 */
export function openQuestion(name, seen = new Set()) {
  if (!state.questions.size || seen.has(name)) return undefined;
  seen.add(name);
  for (const question of state.questions.values()) if (nameOf(question) === name) return question;
  const calls = turns.get(state.running.get(name)?.turnId)?.calls.values() ?? [];
  for (const call of calls) {
    const question = calledQuestion(call, seen);
    if (question) return question;
  }
  return undefined;
}
