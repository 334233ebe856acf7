// Alignment of two conversations: equal messages side by side, differences between them.

/** @typedef {import("./message.js").Message} Message */
/**
 * A row: equal messages, different messages at the same position, or a message of only one conversation.
 * @typedef {{kind: "same"|"changed"|"left"|"right", left?: Message, right?: Message}} Row
 */

/** Maximum number of comparisons. Beyond it, messages are paired in order. */
const MAX_COMPARISONS = 1_000_000;

/** Returns the tool results of messages by call id. */
function resultsOf(messages) {
  const found = new Map();
  for (const message of messages) {
    for (const part of message.data.content) if (part.type === "tool-result") found.set(part.toolCallId, part);
  }
  return found;
}

/** Returns a string to compare messages. It omits ids, which differ between equal messages. */
function comparableText(message, results) {
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
  const withoutToolMessages = (messages) => messages.filter((message) => message.data.role !== "tool");
  const [lefts, rights] = [withoutToolMessages(left), withoutToolMessages(right)];
  const [leftResults, rightResults] = [resultsOf(left), resultsOf(right)];
  const leftTexts = lefts.map((message) => comparableText(message, leftResults));
  const rightTexts = rights.map((message) => comparableText(message, rightResults));
  const rows = [];
  let [leftIndex, rightIndex] = [0, 0];
  for (const [nextLeft, nextRight] of [...equalPairs(leftTexts, rightTexts), [lefts.length, rights.length]]) {
    rows.push(...differences(lefts.slice(leftIndex, nextLeft), rights.slice(rightIndex, nextRight)));
    if (nextLeft < lefts.length) rows.push({ kind: "same", left: lefts[nextLeft], right: rights[nextRight] });
    [leftIndex, rightIndex] = [nextLeft + 1, nextRight + 1];
  }
  return rows;
}

/** Returns the index pairs of a longest common subsequence. */
function equalPairs(left, right) {
  let begin = 0;
  while (begin < left.length && begin < right.length && left[begin] === right[begin]) begin += 1;
  const pairs = Array.from({ length: begin }, (_, number) => [number, number]);
  const [rows, columns] = [left.length - begin, right.length - begin];
  if (rows * columns > MAX_COMPARISONS) return pairs;
  // Length of the longest common subsequence after each pair of indexes.
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

/** Pairs different messages of the same role. */
function differences(left, right) {
  const rows = [];
  let rightIndex = 0;
  for (const message of left) {
    const rightMatch = right.findIndex((other, number) => number >= rightIndex && other.data.role === message.data.role);
    if (rightMatch < 0) {
      rows.push({ kind: "left", left: message });
      continue;
    }
    for (; rightIndex < rightMatch; rightIndex += 1) rows.push({ kind: "right", right: right[rightIndex] });
    rows.push({ kind: "changed", left: message, right: right[rightMatch] });
    rightIndex = rightMatch + 1;
  }
  for (; rightIndex < right.length; rightIndex += 1) rows.push({ kind: "right", right: right[rightIndex] });
  return rows;
}
