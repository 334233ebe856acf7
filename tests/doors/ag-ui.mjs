// The AG-UI door, as the official client sees it.
//
// Usage: ag-ui.mjs FOLDER URL TOKEN, with the package `@ag-ui/client` in FOLDER/node_modules and the swarm of tests/doors/swarm
// behind URL. Prints a line for each check; fails at the first that does not hold. The client itself checks the order of events.

import { createRequire } from "node:module";

const [folder, url, token] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { HttpAgent } = require("@ag-ui/client");
const headers = { authorization: `Bearer ${token}` };

// The client complains of every error there, also of those that are wanted.
const complain = console.error;
console.error = () => {};

function check(what, holds, seen) {
  if (!holds) {
    complain(`FAILED: ${what}:`, JSON.stringify(seen, null, 1));
    process.exit(1);
  }
  console.log(`ok: ${what}`);
}

async function get(path) {
  return (await fetch(url + path, { headers })).json();
}

// How often something was said to an agent in a conversation.
async function turns(agent, key) {
  const { messages } = await get(`/api/instances/${agent}/${key}/messages`);
  return messages.filter((message) => message.data.role === "user").length;
}

let count = 0;
const thread = (agent) =>
  new HttpAgent({ url: `${url}/ag-ui/${agent}`, headers, threadId: `${agent}-${process.pid}-${++count}` });
const say = (agent, content) => agent.addMessage({ id: `m${++count}`, role: "user", content });

// Runs an agent: the events, and the error where there is one.
async function run(agent, parameters = {}) {
  const events = [];
  let failed;
  const subscriber = {
    onEvent: ({ event }) => void events.push(event),
    onRunErrorEvent: ({ event }) => void (failed = event),
  };
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    failed ??= error;
  }
  return { events, failed, kinds: events.map((event) => event.type) };
}
const last = (agent) => agent.messages.at(-1);

async function runs() {
  const echo = thread("echo");
  say(echo, "a b c d");
  const { kinds, events } = await run(echo, { runId: "r1" });
  check("a run begins and ends", kinds[0] === "RUN_STARTED" && kinds.at(-1) === "RUN_FINISHED", kinds);
  check("its text comes in pieces", kinds.filter((kind) => kind === "TEXT_MESSAGE_CONTENT").length > 1, kinds);
  check("it has the answer", last(echo).role === "assistant" && last(echo).content === "1: a b c d", echo.messages);
  check("it tells what it has cost", events.at(-1).usage[0].outputTokens === 5, events.at(-1));
  say(echo, "more");
  await run(echo, { runId: "r2" });
  check("a thread goes on", last(echo).content === "2: more", echo.messages);
  const again = await run(echo, { runId: "r2" });
  check("the same run starts no second turn", (await turns("echo", echo.threadId)) === 2, again.kinds);
  check("it brings the conversation", again.kinds.includes("MESSAGES_SNAPSHOT"), again.kinds);
  const seen = echo.messages.map(({ role, content }) => `${role}: ${content}`);
  const wanted = ["user: a b c d", "assistant: 1: a b c d", "user: more", "assistant: 2: more"];
  check("as it was said", JSON.stringify(seen) === JSON.stringify(wanted), echo.messages);
}

async function calls() {
  const echo = thread("echo");
  say(echo, "shout hi");
  const { kinds } = await run(echo, { runId: "c1" });
  const call = echo.messages.flatMap((message) => message.toolCalls ?? [])[0];
  check("a call of a tool is told", call.function.name === "text-transform__case", echo.messages);
  check("with its arguments", JSON.parse(call.function.arguments).to === "upper", call);
  const result = echo.messages.find((message) => message.role === "tool");
  check("and its result", result.toolCallId === call.id && result.content.includes("SHOUT HI"), result);
  check("steps are told", kinds.filter((kind) => kind === "STEP_FINISHED").length === 2, kinds);
  check("the answer comes last", last(echo).content === "SHOUT HI!", echo.messages);
  const live = echo.messages.map(({ id, role }) => `${id} ${role}`);
  const { failed } = await run(echo, { runId: "c2" });
  check("a run without anything new is refused", failed.code === "E_SERVE_REQUEST", failed);
  check("the same run again brings all of it", (await run(echo, { runId: "c1" })).kinds.includes("MESSAGES_SNAPSHOT"));
  check("what was said keeps its ids", JSON.stringify(echo.messages.map(({ id, role }) => `${id} ${role}`)) ===
    JSON.stringify(live), echo.messages);
}

async function errors() {
  const echo = thread("echo");
  say(echo, "overload");
  const { failed } = await run(echo);
  check("a turn that fails fails the run", /too much/.test(failed.message) && failed.code === "E_MODEL_STATUS", failed);
  const nobody = thread("nobody");
  say(nobody, "hi");
  check("an unknown agent", /404/.test((await run(nobody)).failed.message));
  const stranger = new HttpAgent({ url: `${url}/ag-ui/echo`, threadId: "t" });
  say(stranger, "hi");
  check("a page without the token", /401/.test((await run(stranger)).failed.message));
}

async function resets() {
  const stumbler = thread("stumbler");
  say(stumbler, "go");
  await run(stumbler);
  const said = stumbler.messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
  check("an answer that was begun again is there once", JSON.stringify(said) === '["one two three"]', stumbler.messages);
}

async function asks() {
  const careful = thread("careful");
  say(careful, "buy bread");
  const { events } = await run(careful);
  const [interrupt] = events.at(-1).outcome.interrupts;
  check("a question ends the run", careful.pendingInterrupts.length === 1, events.at(-1));
  check("in words", interrupt.message.includes("file-system__write"), interrupt);
  const call = careful.messages.flatMap((message) => message.toolCalls ?? [])[0];
  check("it is about the call", interrupt.reason === "tool_call" && interrupt.toolCallId === call.id, interrupt);
  const blocked = await (await fetch(`${url}/ag-ui/careful`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ threadId: careful.threadId, runId: "x", messages: [{ id: "1", role: "user", content: "hi" }] }),
  })).text();
  check("nothing else begins meanwhile", blocked.includes("RUN_ERROR") && !blocked.includes("RUN_STARTED"), blocked);
  const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }];
  const { kinds } = await run(careful, { resume });
  check("yes lets it go on", last(careful).content === "Noted." && kinds.at(-1) === "RUN_FINISHED", careful.messages);
  check("the result belongs to the call", careful.messages.find(({ role }) => role === "tool").toolCallId === call.id);
  say(careful, "buy milk");
  await run(careful);
  const [next] = careful.pendingInterrupts;
  await run(careful, { resume: [{ interruptId: next.id, status: "resolved", payload: { approved: false } }] });
  check("no is told to the agent", last(careful).content === "I was not allowed to.", careful.messages);
}

for (const part of [runs, calls, errors, resets, asks]) await part();
