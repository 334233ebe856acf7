// Excerpts of the inputs of turns. Events contain no text, so they are read from messages.

import { get, conversationPath } from "./api.js";
import { excerpt } from "./format.js";
import { nameOf } from "./state.js";
import { turnIdOf } from "./turn.js";

/** Maximum number of messages to read per conversation, the latest. */
const MAX_MESSAGES = 60;
/** Maximum length of an excerpt, in characters. */
const MAX_LENGTH = 90;

/** @type {Map<string, string>} excerpts by turn id */
const excerpts = new Map();
/** @type {Map<string, Promise<any>>} the latest request of each conversation */
const requests = new Map();
/** @type {Set<string>} ids of turns that were already searched for */
const attempted = new Set();

/**
 * Returns the excerpt of the input of a turn if it is loaded.
 * @param {string} turnId
 */
export const inputExcerpt = (turnId) => excerpts.get(turnId);

/**
 * Reads the excerpt of the input of a turn, once.
 * @param {{agentName: string, instanceKey: string}} conversation
 * @param {string} turnId
 * @returns {Promise<boolean>} true if there is a new excerpt
 */
export async function readInputExcerpt(conversation, turnId) {
  if (excerpts.has(turnId) || attempted.has(turnId)) return false;
  const name = nameOf(conversation);
  // A running request for the same conversation may find it.
  await requests.get(name);
  if (excerpts.has(turnId) || attempted.has(turnId)) return excerpts.has(turnId);
  attempted.add(turnId);
  const request = read(conversation).catch(() => null);
  requests.set(name, request);
  await request;
  return excerpts.has(turnId);
}

async function read(conversation) {
  const { messages } = await get(`${conversationPath(conversation)}/messages?last=${MAX_MESSAGES}`);
  for (const message of messages) {
    const turnId = turnIdOf(message);
    if (message.data.role !== "user" || turnId === null || excerpts.has(turnId)) continue;
    const text = message.data.content.filter((part) => part.type === "text").map((part) => part.text).join(" ");
    if (text.trim()) excerpts.set(turnId, excerpt(text, MAX_LENGTH));
  }
}
