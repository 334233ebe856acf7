// Alignment of two conversations: equal messages side by side, differences between them.

/** @typedef {import("./message.js").Message} Message */
/**
 * A row: equal messages, different messages at the same place, or a message of one conversation.
 * @typedef {{kind: "same"|"changed"|"left"|"right", left?: Message, right?: Message}} Row
 */

/** Maximum number of comparisons. Beyond that, messages are paired in their order. */
const COMPARISONS = 1_000_000;

/** Returns the results of the calls in messages, by call id and the message that has the call. */
function resultsOf(messages) {
  const found = new Map();
  for (const message of messages) {
    for (const part of message.data.content) if (part.type === "tool-result") found.set(part.toolCallId, part);
  }
  return found;
}

/** Returns the content of a message without ids, which differ between equal messages. */
function signOf(message, results) {
  const parts = message.data.content.map((part) => {
    const { toolCallId, providerMetadata, ...rest } = part;
    return part.type === "tool-call" ? { ...rest, output: results.get(toolCallId)?.output } : rest;
  });
  return JSON.stringify([message.data.role, parts]);
}

/**
 * Aligns the messages of two conversations.
 * @param {Message[]} left
 * @param {Message[]} right
 * @returns {Row[]}
 */
export function align(left, right) {
  const shown = (messages) => messages.filter((message) => message.data.role !== "tool");
  const [lefts, rights] = [shown(left), shown(right)];
  const [leftResults, rightResults] = [resultsOf(left), resultsOf(right)];
  const leftSigns = lefts.map((message) => signOf(message, leftResults));
  const rightSigns = rights.map((message) => signOf(message, rightResults));
  const rows = [];
  let [at, beside] = [0, 0];
  for (const [nextLeft, nextRight] of [...equalPairs(leftSigns, rightSigns), [lefts.length, rights.length]]) {
    rows.push(...differences(lefts.slice(at, nextLeft), rights.slice(beside, nextRight)));
    if (nextLeft < lefts.length) rows.push({ kind: "same", left: lefts[nextLeft], right: rights[nextRight] });
    [at, beside] = [nextLeft + 1, nextRight + 1];
  }
  return rows;
}

/** Returns the index pairs of a longest common subsequence. */
function equalPairs(left, right) {
  let begin = 0;
  while (begin < left.length && begin < right.length && left[begin] === right[begin]) begin += 1;
  const pairs = Array.from({ length: begin }, (_, number) => [number, number]);
  const [rows, columns] = [left.length - begin, right.length - begin];
  if (rows * columns > COMPARISONS) return pairs;
  // Length of the longest common subsequence of the rest, from each pair of places on.
  const lengths = Array.from({ length: rows + 1 }, () => new Uint32Array(columns + 1));
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      const isEqual = left[begin + row] === right[begin + column];
      lengths[row][column] = isEqual ? lengths[row + 1][column + 1] + 1 : Math.max(lengths[row + 1][column], lengths[row][column + 1]);
    }
  }
  let [row, column] = [0, 0];
  while (row < rows && column < columns) {
    if (left[begin + row] === right[begin + column]) {
      pairs.push([begin + row, begin + column]);
      row += 1;
      column += 1;
    } else if (lengths[row + 1][column] >= lengths[row][column + 1]) row += 1;
    else column += 1;
  }
  return pairs;
}

/** Pairs messages of the same role between equal ones. */
function differences(left, right) {
  const rows = [];
  let beside = 0;
  for (const message of left) {
    const at = right.findIndex((other, number) => number >= beside && other.data.role === message.data.role);
    if (at < 0) {
      rows.push({ kind: "left", left: message });
      continue;
    }
    for (; beside < at; beside += 1) rows.push({ kind: "right", right: right[beside] });
    rows.push({ kind: "changed", left: message, right: right[at] });
    beside = at + 1;
  }
  for (; beside < right.length; beside += 1) rows.push({ kind: "right", right: right[beside] });
  return rows;
}
