// What happens in the swarm: one stream for the whole page, which goes on where it was cut off.

import { get, headers, Problem } from "./api.js";
import { clear, nameOf, state, take, tell } from "./state.js";

/** So many stored events are shown at the beginning, the latest. */
const BEFORE = 20_000;
/** Events are taken in together, that many milliseconds at a time. */
const TOGETHER = 60;

let last = 0;
/** @type {any[]} */
let waiting = [];
let timer = 0;

/** Follows the swarm as long as the page is open. */
export async function follow() {
  let pause = 250;
  for (;;) {
    try {
      await listen(() => (pause = 250));
    } catch (error) {
      if (error instanceof Problem && error.status === 401) {
        connection("lost");
        throw error;
      }
    }
    connection("lost");
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

function connection(now) {
  state.connection = now;
  tell("connection");
}

async function listen(begun) {
  const asked = last > 0 ? "" : `&last=${BEFORE}`;
  const more = { Accept: "text/event-stream", ...(last > 0 ? { "Last-Event-ID": String(last) } : {}) };
  const response = await fetch(`/api/events?approvals=true${asked}`, { headers: headers(more) });
  if (!response.ok || !response.body) {
    throw new Problem(`The server returned status ${response.status}.`, { status: response.status });
  }
  begun();
  connection("live");
  refresh();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    blocks.forEach(read);
  }
}

/** @param {string} block an event of the stream */
function read(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("id:")) last = Number(line.slice(3)) || last;
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (!data.length) return;
  waiting.push([name, JSON.parse(data.join("\n"))]);
  timer ||= setTimeout(flush, TOGETHER);
}

/** Applies everything that has arrived, in its order, and then reports each kind of change once. */
function flush() {
  timer = 0;
  const batch = waiting;
  waiting = [];
  const events = [];
  let texts = false;
  let questions = false;
  for (const [name, body] of batch) {
    if (name === "text.delta" || name === "reasoning.delta" || name === "text.reset") {
      const turn = state.running.get(nameOf(body));
      if (turn && name === "text.delta") turn.text += body.delta;
      else if (turn && name === "reasoning.delta") turn.reasoning += body.delta;
      else if (turn) clear(turn);
      texts = true;
    } else if (name === "approval.request") {
      state.questions.set(body.id, body);
      questions = true;
    } else if (name === "approval.closed") {
      state.questions.delete(body.id);
      questions = true;
    } else {
      take(body);
      events.push(body);
    }
  }
  if (events.length) {
    tell("events", events);
    react(events);
  }
  if (questions) tell("questions");
  if (texts) tell("text");
}

/** Asks again for what events say has changed. */
function react(events) {
  const types = new Set(events.map((event) => event.type));
  const has = (...wanted) => wanted.some((type) => types.has(type));
  if (has("turn.started", "turn.completed", "turn.failed")) later("instances", instances);
  if (has("turn.failed", "turn.started")) later("letters", letters);
  if (has("reload.completed", "reload.failed")) later("reloads", reloads);
}

/** Shortest pause before a request is repeated, in milliseconds. */
const PAUSE = 150;

/** Requests that are planned or running, and whether each is wanted again. */
const planned = new Map();

/**
 * Makes a request soon, once for all who want it. A slow answer makes the pause longer, so that a long list of conversations
 * does not keep the page and the server busy.
 */
function later(name, work, pause = PAUSE) {
  if (planned.has(name)) {
    planned.get(name).again = true;
    return;
  }
  const plan = { again: false };
  planned.set(name, plan);
  setTimeout(async () => {
    const begin = performance.now();
    plan.again = false;
    await work().catch(() => null);
    planned.delete(name);
    if (plan.again) later(name, work, Math.max(PAUSE, 5 * (performance.now() - begin)));
  }, pause);
}

/** Asks for everything that is no event. */
export function refresh() {
  for (const work of [instances, letters, reloads, questions]) work().catch(() => null);
}

/** The conversations. */
export async function instances() {
  state.instances = (await get("/api/instances")).instances;
  tell("instances");
}

/** The events whose turns failed. */
export async function letters() {
  state.letters = (await get("/api/dead-letters")).deadLetters;
  tell("letters");
}

/** What reloads have changed, and the swarm as it is now. */
export async function reloads() {
  const [told, topology, swarm] = await Promise.all([get("/api/reloads"), get("/api/topology"), get("/api/swarm")]);
  state.reloads = told.reloads;
  state.topology = topology;
  state.swarm = swarm;
  tell("reloads");
  tell("topology");
}

async function questions() {
  const open = await get("/api/approvals");
  state.questions = new Map(open.map((question) => [question.id, question]));
  tell("questions");
}
