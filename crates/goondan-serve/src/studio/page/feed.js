// What happens in the swarm: one stream for the whole page, which goes on where it was cut off.

import { get, headers, Problem } from "./api.js";
import { readEvents } from "./server-events.js";
import { clear, nameOf, state, take, tell } from "./state.js";

/** So many stored events are shown at the beginning, the latest. */
const BEFORE = 20_000;
/** Events are taken in together, that many milliseconds at a time. */
const TOGETHER = 60;

/** The server event after the stored events. */
const LOADED = "stored.complete";

let last = 0;
/** @type {any[]} */
let waiting = [];
let timer = 0;
/** Ends the stream at a sign-out. */
const control = new AbortController();

/** Ends the stream. */
export function stop() {
  control.abort();
  clearTimeout(timer);
}

/** Follows the swarm as long as the page is open and signed in. */
export async function follow() {
  let pause = 250;
  while (!control.signal.aborted) {
    try {
      await listen(() => (pause = 250));
    } catch (error) {
      if (error instanceof Problem && error.status === 401) {
        connection("lost");
        throw error;
      }
    }
    if (control.signal.aborted) return;
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
  // Stored events that did not all arrive are read again.
  if (!state.isLoaded) {
    clearTimeout(timer);
    [last, waiting, timer] = [0, [], 0];
  }
  const asked = last > 0 ? "" : `&last=${BEFORE}`;
  const more = { Accept: "text/event-stream", ...(last > 0 ? { "Last-Event-ID": String(last) } : {}) };
  const response = await fetch(`/api/events?approvals=true${asked}`, { headers: headers(more), signal: control.signal });
  if (!response.ok || !response.body) {
    throw new Problem(`The server returned status ${response.status}.`, { status: response.status });
  }
  begun();
  connection("live");
  refresh();
  await readEvents(response, (name, body, id) => {
    last = Number(id) || last;
    waiting.push([name, body]);
    // A turn whose end is still to come would look as if it ran.
    if (state.isLoaded || name === LOADED) timer ||= setTimeout(flush, TOGETHER);
  });
}

/** Applies everything that has arrived, in its order, and then reports each kind of change once. */
function flush() {
  timer = 0;
  const batch = waiting;
  waiting = [];
  const events = [];
  let texts = false;
  let questions = false;
  let isComplete = false;
  for (const [name, body] of batch) {
    if (name === LOADED) {
      isComplete = true;
      state.isLoaded = true;
    } else if (name === "text.delta" || name === "reasoning.delta" || name === "text.reset") {
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
  if (isComplete) tell("connection");
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

/** The features of the studio that the server offers. They do not change while the process runs. */
export async function features() {
  state.features = await get("/api/studio/features");
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
