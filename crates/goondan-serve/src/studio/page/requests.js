// Open approval requests of conversations and of the agents that they called.

import { callees, turns } from "./facts.js";
import { nameOf, state } from "./state.js";

/**
 * Returns the open approval request of a call.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {string} toolCallId
 */
export function approvalOf(conversation, toolCallId) {
  for (const approval of state.approvals.values()) {
    if (approval.toolCallId === toolCallId && nameOf(approval) === nameOf(conversation)) return approval;
  }
  return undefined;
}

/**
 * Returns the approval request for which a call waits in the called agent, or in agents that it called in turn.
 * @param {import("./facts.js").Call|undefined} call
 * @param {Set<string>} [seen] visited conversations, because agents may call each other
 */
export function calleeApproval(call, seen = new Set()) {
  const callee = call?.status === "" ? callees.get(call.spanId) : undefined;
  if (!callee || state.running.get(nameOf(callee))?.turnId !== callee.turnId) return undefined;
  return openApproval(nameOf(callee), seen);
}

/**
 * Returns an approval request for which a conversation waits.
 * @param {string} name
 * @param {Set<string>} [seen]
 */
export function openApproval(name, seen = new Set()) {
  if (!state.approvals.size || seen.has(name)) return undefined;
  seen.add(name);
  for (const approval of state.approvals.values()) if (nameOf(approval) === name) return approval;
  const calls = turns.get(state.running.get(name)?.turnId)?.calls.values() ?? [];
  for (const call of calls) {
    const approval = calleeApproval(call, seen);
    if (approval) return approval;
  }
  return undefined;
}
