// The A2A door, as the official client for Node sees it, in the versions 1.0 and 0.3.
//
// Usage: a2a.mjs FOLDER URL TOKEN, with the package `@a2a-js/sdk` in FOLDER/node_modules and the swarm of tests/doors/swarm
// behind URL. Prints a line for each check; fails at the first that does not hold.

import { createRequire } from "node:module";

const [folder, url, token] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } =
  require("@a2a-js/sdk/client");
const { Role, TaskState } = require("@a2a-js/sdk");

function check(what, holds, seen) {
  if (!holds) {
    console.error(`FAILED: ${what}:`, JSON.stringify(seen, null, 1));
    process.exit(1);
  }
  console.log(`ok: ${what}`);
}

const authorized = (address, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return fetch(address, { ...init, headers });
};

let count = 0;
const message = (text, more = {}) => ({
  messageId: `${process.pid}-${++count}`,
  contextId: "",
  taskId: "",
  role: Role.ROLE_USER,
  parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
  ...more,
});
const request = (said) => ({ tenant: "", message: said, configuration: undefined, metadata: undefined });
const words = (parts) => parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");
const answer = (task) => words((task.artifacts ?? []).flatMap((artifact) => artifact.parts));

// The answer, as the pieces of a stream make it.
function streamed(pieces) {
  let text = "";
  for (const { payload } of pieces) {
    if (payload.$case !== "artifactUpdate") continue;
    text = (payload.value.append ? text : "") + words(payload.value.artifact.parts);
  }
  return text;
}
const states = (pieces) =>
  pieces.filter(({ payload }) => payload.$case === "statusUpdate").map(({ payload }) => payload.value.status.state);

async function stream(client, said) {
  const pieces = [];
  for await (const piece of client.sendMessageStream(request(said))) pieces.push(piece);
  return pieces;
}

// A client that speaks that version.
async function connect(agent, version) {
  const legacy = { legacyCompat: { enabled: true } };
  const factory = new ClientFactory({
    ...ClientFactoryOptions.default,
    transports: [new JsonRpcTransportFactory({ fetchImpl: authorized, ...legacy })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl: authorized, ...legacy }),
  });
  const card = await new DefaultAgentCardResolver({ fetchImpl: authorized }).resolve(`${url}/a2a/${agent}/`);
  check(`${agent} has a card`, card.name === agent, card);
  card.supportedInterfaces = card.supportedInterfaces.filter((one) => one.protocolVersion === version);
  return factory.createFromAgentCard(card);
}

async function all(version) {
  console.log(`version ${version}`);
  const echo = await connect("echo", version);
  check("the client speaks that version", echo.protocolVersion.startsWith(version), echo.protocolVersion);
  const said = message("hello");
  const task = await echo.sendMessage(request(said));
  check("a message is answered", task.status.state === TaskState.TASK_STATE_COMPLETED && answer(task) === "1: hello", task);
  const again = await echo.sendMessage(request(said));
  check("sent again, it is the same task", again.id === task.id, again);
  const more = await echo.sendMessage(request(message("more", { contextId: task.contextId })));
  check("a context goes on", answer(more) === "2: more", more);
  const known = await echo.getTask({ tenant: "", id: task.id, historyLength: 1 });
  check("a task is known", answer(known) === "1: hello" && known.history.length === 1, known);
  const pieces = await stream(echo, message("a b c d"));
  check("a stream begins with the task", pieces[0].payload.$case === "task", pieces);
  check("it brings the answer in pieces", streamed(pieces) === "1: a b c d" && pieces.length > 4, pieces);
  check("it ends with the end", states(pieces).at(-1) === TaskState.TASK_STATE_COMPLETED, pieces);
  await cancels(echo);
  await asks(await connect("careful", version));
}

async function cancels(echo) {
  const pieces = [];
  for await (const piece of echo.sendMessageStream(request(message("slowly please")))) {
    pieces.push(piece);
    if (pieces.length > 1) continue;
    const ended = await echo.cancelTask({ tenant: "", id: piece.payload.value.id, metadata: undefined });
    check("a task is cancelled", ended.status.state === TaskState.TASK_STATE_CANCELED, ended);
  }
  check("its stream ends with that", states(pieces).at(-1) === TaskState.TASK_STATE_CANCELED, pieces);
  try {
    await echo.cancelTask({ tenant: "", id: pieces[0].payload.value.id, metadata: undefined });
    check("what is over can't be cancelled", false);
  } catch (error) {
    check("what is over can't be cancelled", error.name === "TaskNotCancelableError", error);
  }
}

async function asks(careful) {
  const pieces = await stream(careful, message("buy bread"));
  const last = pieces.at(-1).payload.value;
  check("a question is put to the client", last.status.state === TaskState.TASK_STATE_INPUT_REQUIRED, pieces);
  const { taskId, contextId } = last;
  const done = await careful.sendMessage(request(message("once", { taskId, contextId })));
  check("its answer lets the task go on", answer(done) === "Noted.", done);
}

for (const version of ["1.0", "0.3"]) await all(version);
