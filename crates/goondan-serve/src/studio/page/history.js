// Messages of a conversation: the latest ones, and earlier ones on demand.

import { get, conversationPath } from "./api.js";

/** @typedef {import("./message.js").Message} Message */

/** Maximum number of messages per request. */
const MAX_MESSAGES = 200;

/** Number of messages of the first request: enough for a screen, and fast. */
const FIRST_MESSAGES = 40;

/**
 * The loaded messages: all messages from index `start` to the end.
 * @typedef {{list: Message[], start: number, total: number}} LoadedMessages
 */

/**
 * Creates the history of a conversation. It is empty at first.
 * @param {{agentName: string, instanceKey: string}} conversation
 */
export function history(conversation) {
  const path = `${conversationPath(conversation)}/messages`;
  /** @type {LoadedMessages} */
  const loaded = { list: [], start: 0, total: 0 };

  /** Reads the latest messages. Keeps loaded earlier messages if their positions have not changed. */
  async function latest(count = MAX_MESSAGES) {
    // One message more than is shown, because editing an input needs the message before it.
    const { messages, start, total } = await get(`${path}?last=${count + 1}`);
    const known = new Map(loaded.list.map((message) => [message.id, message]));
    const at = loaded.list.findIndex((message) => message.id === messages[0]?.id);
    const before = at > 0 && loaded.start + at === start ? loaded.list.slice(0, at) : [];
    loaded.list = [...before, ...messages.map((message) => unchanged(known.get(message.id), message))];
    loaded.start = start - before.length;
    loaded.total = total;
  }

  /** Reads the messages before the loaded ones. */
  async function earlier() {
    const first = loaded.list[0];
    const { messages, start } = await get(`${path}?last=${MAX_MESSAGES}&before=${encodeURIComponent(first.id)}`);
    if (loaded.list[0] !== first) return;
    loaded.list = [...messages, ...loaded.list];
    loaded.start = start;
  }

  return { loaded, latest, earlier, first: () => latest(FIRST_MESSAGES), all: async () => (await get(path)).messages };
}

/** Returns the loaded message if it is equal, so that it is not drawn again. */
function unchanged(known, message) {
  return known && JSON.stringify(known) === JSON.stringify(message) ? known : message;
}

/**
 * Returns the index of the first loaded message to show, preferably the start of a turn.
 * @param {LoadedMessages} loaded
 */
export function firstShown({ list, start }) {
  if (start === 0) return 0;
  const near = list.findIndex((message, number) => number > 0 && message.data.role === "user");
  return near > 0 && near <= MAX_MESSAGES / 2 ? near : Math.min(1, list.length);
}
