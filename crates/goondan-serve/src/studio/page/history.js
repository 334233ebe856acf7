// Messages of a conversation: the latest ones, and earlier ones on demand.

import { get, place as placeOf } from "./api.js";

/** @typedef {import("./message.js").Message} Message */

/** Maximum number of messages that a request reads. */
const READ = 200;

/** Number of messages of the first request, so that a screen of them is shown soon. */
const FIRST = 40;

/**
 * Messages that are loaded: all from `start` to the end.
 * @typedef {{list: Message[], start: number, total: number}} LoadedMessages
 */

/**
 * Creates the history of a conversation. It is empty at first.
 * @param {{agentName: string, instanceKey: string}} whose
 */
export function history(whose) {
  const address = `${placeOf(whose)}/messages`;
  /** @type {LoadedMessages} */
  const loaded = { list: [], start: 0, total: 0 };

  /** Reads the latest messages. Earlier ones stay if the server still has them at their place. */
  async function latest(count = READ) {
    // One more than is shown, because an input is edited with the message before it.
    const { messages, start, total } = await get(`${address}?last=${count + 1}`);
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
    const { messages, start } = await get(`${address}?last=${READ}&before=${encodeURIComponent(first.id)}`);
    if (loaded.list[0] !== first) return;
    loaded.list = [...messages, ...loaded.list];
    loaded.start = start;
  }

  return { loaded, latest, earlier, first: () => latest(FIRST), all: async () => (await get(address)).messages };
}

/** Returns the known message if it is the same, because a drawn message is not drawn again. */
function unchanged(known, message) {
  return known && JSON.stringify(known) === JSON.stringify(message) ? known : message;
}

/**
 * Returns the index of the first loaded message to show: the beginning of a turn if one is near.
 * @param {LoadedMessages} loaded
 */
export function firstShown({ list, start }) {
  if (start === 0) return 0;
  const near = list.findIndex((message, number) => number > 0 && message.data.role === "user");
  return near > 0 && near <= READ / 2 ? near : Math.min(1, list.length);
}
