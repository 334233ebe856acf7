// First words of the inputs that turns began with. Events have no texts, so the messages are read.

import { get, place as placeOf } from "./api.js";
import { excerpt } from "./format.js";
import { nameOf } from "./state.js";
import { turnIdOf } from "./turn.js";

/** Maximum number of messages that are read of a conversation, the latest. */
const READ = 60;
/** Longest excerpt, in characters. */
const LENGTH = 90;

/** @type {Map<string, string>} words by turn id */
const words = new Map();
/** @type {Map<string, Promise<any>>} the latest request of each conversation */
const requests = new Map();
/** @type {Set<string>} turns that were looked for */
const tried = new Set();

/**
 * Returns the words of the input of a turn if they are known.
 * @param {string} turnId
 */
export const inputWords = (turnId) => words.get(turnId);

/**
 * Reads the words of the input of a turn, once.
 * @param {{agentName: string, instanceKey: string}} whose
 * @param {string} turnId
 * @returns {Promise<boolean>} true if there are new words
 */
export async function readInputWords(whose, turnId) {
  if (words.has(turnId) || tried.has(turnId)) return false;
  const name = nameOf(whose);
  // A running request may find the turn.
  await requests.get(name);
  if (words.has(turnId) || tried.has(turnId)) return words.has(turnId);
  tried.add(turnId);
  const request = read(whose).catch(() => null);
  requests.set(name, request);
  await request;
  return words.has(turnId);
}

async function read(whose) {
  const { messages } = await get(`${placeOf(whose)}/messages?last=${READ}`);
  for (const message of messages) {
    const turnId = turnIdOf(message);
    if (message.data.role !== "user" || turnId === null || words.has(turnId)) continue;
    const text = message.data.content.filter((part) => part.type === "text").map((part) => part.text).join(" ");
    if (text.trim()) words.set(turnId, excerpt(text, LENGTH));
  }
}
