// Loads events and state of the swarm. One event stream serves the whole page, and resumes after a lost connection.

import { get, headers, ApiError } from "./api.js";
import { readEvents } from "./server-events.js";
import { clearText, nameOf, state, addEvent, notify } from "./state.js";

/** Maximum number of stored events to load at the start, the latest. */
const MAX_STORED_EVENTS = 20_000;
/** Interval of applying received events, in milliseconds. */
const BATCH_INTERVAL = 60;

/** Name of the server-sent event after the stored events. */
const STORED_COMPLETE = "stored.complete";

let lastId = 0;
/** @type {any[]} */
let pendingEvents = [];
let timer = 0;
/** Aborts the stream at a sign-out. */
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
      await readStream(() => (pause = 250));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        setConnection("lost");
        throw error;
      }
    }
    if (control.signal.aborted) return;
    setConnection("lost");
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

function setConnection(now) {
  state.connection = now;
  notify("connection");
}

async function readStream(onOpen) {
  // If the connection broke before all stored events arrived, they are loaded again.
  if (!state.isLoaded) {
    clearTimeout(timer);
    [lastId, pendingEvents, timer] = [0, [], 0];
  }
  const limit = lastId > 0 ? "" : `&last=${MAX_STORED_EVENTS}`;
  const requestHeaders = { Accept: "text/event-stream", ...(lastId > 0 ? { "Last-Event-ID": String(lastId) } : {}) };
  const response = await fetch(`/api/events?approvals=true${limit}`, { headers: headers(requestHeaders), signal: control.signal });
  if (!response.ok || !response.body) {
    throw new ApiError(`The server returned status ${response.status}.`, { status: response.status });
  }
  onOpen();
  setConnection("live");
  refreshAll();
  await readEvents(response, (name, body, id) => {
    lastId = Number(id) || lastId;
    pendingEvents.push([name, body]);
    // Stored events are applied all at once, because a turn without its end event would be shown as running.
    if (state.isLoaded || name === STORED_COMPLETE) timer ||= setTimeout(flush, BATCH_INTERVAL);
  });
}

/** Applies the received events in order, and then notifies the listeners once per topic. */
function flush() {
  timer = 0;
  const batch = pendingEvents;
  pendingEvents = [];
  const events = [];
  let textChanged = false;
  let approvalsChanged = false;
  let isComplete = false;
  for (const [name, body] of batch) {
    if (name === STORED_COMPLETE) {
      isComplete = true;
      state.isLoaded = true;
    } else if (name === "text.delta" || name === "reasoning.delta" || name === "text.reset") {
      const turn = state.running.get(nameOf(body));
      if (turn && name === "text.delta") turn.text += body.delta;
      else if (turn && name === "reasoning.delta") turn.reasoning += body.delta;
      else if (turn) clearText(turn);
      textChanged = true;
    } else if (name === "approval.request") {
      state.approvals.set(body.id, body);
      approvalsChanged = true;
    } else if (name === "approval.closed") {
      state.approvals.delete(body.id);
      approvalsChanged = true;
    } else {
      addEvent(body);
      events.push(body);
    }
  }
  if (events.length) {
    notify("events", events);
    refreshAfter(events);
  }
  if (approvalsChanged) notify("approvals");
  if (isComplete) notify("connection");
  if (textChanged) notify("text");
}

/** Reloads the data that events have changed. */
function refreshAfter(events) {
  const types = new Set(events.map((event) => event.type));
  const has = (...wanted) => wanted.some((type) => types.has(type));
  if (has("turn.started", "turn.completed", "turn.failed")) scheduleRefresh("instances", loadConversations);
  if (has("turn.failed", "turn.started")) scheduleRefresh("deadLetters", loadDeadLetters);
  if (has("reload.completed", "reload.failed")) scheduleRefresh("reloads", loadReloads);
}

/** Minimum pause before a request, in milliseconds. */
const MIN_PAUSE = 150;

/** Scheduled and running requests, with a flag for another request after them. */
const planned = new Map();

/**
 * Sends a request after a pause, once for all callers until then. A slow response makes the next pause longer, so that a long
 * list of conversations does not keep the page and the server busy.
 */
function scheduleRefresh(name, work, pause = MIN_PAUSE) {
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
    if (plan.again) scheduleRefresh(name, work, Math.max(MIN_PAUSE, 5 * (performance.now() - begin)));
  }, pause);
}

/** Loads all state that is not part of the event stream. */
export function refreshAll() {
  for (const work of [loadConversations, loadDeadLetters, loadReloads, loadApprovals]) work().catch(() => null);
}

/** Loads the conversations. */
export async function loadConversations() {
  state.instances = (await get("/api/instances")).instances;
  notify("instances");
}

/** Loads the inputs whose turns failed. */
export async function loadDeadLetters() {
  state.deadLetters = (await get("/api/dead-letters")).deadLetters;
  notify("deadLetters");
}

/** Loads the optional features of the server. They do not change while the process runs. */
export async function loadFeatures() {
  state.features = await get("/api/studio/features");
}

/** Loads the history of reloads, and the current swarm. */
export async function loadReloads() {
  const [response, topology, swarm] = await Promise.all([get("/api/reloads"), get("/api/topology"), get("/api/swarm")]);
  state.reloads = response.reloads;
  state.topology = topology;
  state.swarm = swarm;
  notify("reloads");
  notify("topology");
}

async function loadApprovals() {
  const open = await get("/api/approvals");
  state.approvals = new Map(open.map((approval) => [approval.id, approval]));
  notify("approvals");
}
