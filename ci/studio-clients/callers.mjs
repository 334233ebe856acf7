// Agents that wait for each other, and long conversations: node callers.mjs TOOLS ADDRESS PROJECT PICTURES TOKEN

import { readFileSync, writeFileSync } from "node:fs";
import { checkView, holds, launch, more, show, visit } from "./browser.mjs";

const [, , , address, project, pictures, token] = process.argv;
const url = new URL(address);
const browser = await launch();
const { context, page, wrong } = await visit(browser, address);

const WIDE = { width: 1280, height: 800 };
const NARROW = { width: 390, height: 844 };

/** Makes a request as a program does. */
async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(`${url.origin}${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json().catch(() => null);
}

const send = (text, instanceKey) => api("POST", "/api/inputs?wait=true", { text, instanceKey });
const begin = (text, instanceKey) => api("POST", "/api/inputs", { text, instanceKey });
const item = (name) => page.locator(".list .item", { hasText: `${name} ·` });

/** Checks the current view in all sizes and colors. */
const checked = (name) => checkView(page, pictures, name);

/** A hidden label below the visible part of an answer does not make the page scroll. */
async function taskLists() {
  console.log("task lists");
  await send("many lines", "long");
  await show(page, "conversations/desk/long");
  await page.locator(".messages").getByText("last").waitFor();
  for (const size of [WIDE, NARROW]) {
    await page.setViewportSize(size);
    const isFixed = await page.evaluate(() => document.scrollingElement.scrollHeight <= innerHeight && document.querySelector(".scroll").scrollHeight > document.querySelector(".scroll").clientHeight);
    holds(isFixed, `only the conversation scrolls at ${size.width} pixels`);
  }
  await page.setViewportSize(WIDE);
}

/** An input that is sent is shown, and new content below is a button away. */
async function latest() {
  console.log("latest messages");
  await show(page, "conversations/desk/long");
  const isAtEnd = () => page.waitForFunction(() => {
    const scroll = document.querySelector(".scroll");
    return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
  });
  const scrollUp = () => page.locator(".scroll").evaluate((scroll) => (scroll.scrollTop = 0));
  await page.locator(".messages").getByText("last").waitFor();
  await scrollUp();
  const words = page.getByLabel("Input for desk:long");
  await words.fill("good morning");
  await words.press("Enter");
  await page.locator(".message.user", { hasText: "good morning" }).waitFor();
  await isAtEnd();
  await page.getByText("You said: good morning.").waitFor();
  await scrollUp();
  await send("good evening", "long");
  const jump = page.getByRole("button", { name: "Jump to latest" });
  await jump.waitFor();
  await checked("jump");
  await jump.click();
  await isAtEnd();
  await jump.waitFor({ state: "hidden" });
  holds(true, "a sent input is in sight, and a button leads to new messages");
}

/** An approval of a called agent is answered in the conversation of each caller. */
async function chain() {
  console.log("called agents that wait");
  await show(page, "conversations/desk/main");
  const words = page.getByLabel("Input for desk:main");
  await words.fill("ask them");
  await words.press("Enter");
  await page.locator(".call .mark.ask", { hasText: /^waits for approval in scribe:/ }).first().waitFor();
  await item("desk:main").getByText("waiting", { exact: true }).waitFor();
  await page.locator(".detail .head .mark.ask", { hasText: "waiting" }).waitFor();
  await page.locator("article.question", { hasText: "Agent scribe requests to call fs__write" }).waitFor();
  await checked("called-question");
  await show(page, "swarm");
  for (const agent of ["desk", "lead", "scribe"]) await page.locator(`.counts[data-agent=${agent}]`).getByText("1 waiting").waitFor();
  await page.locator("details.edges > summary").click();
  const edge = (name) => page.locator(`td[data-edge="${name}"]`);
  await edge("agent/desk agent/lead").filter({ hasText: "active" }).waitFor();
  holds((await edge("agent/scribe tool/fs").innerText()) === "", "all callers wait, and the tool that needs approval is not active");
  await show(page, "conversations/desk/main");
  await page.getByRole("button", { name: "Yes" }).click();
  await page.locator(".turn-end").waitFor();
  await page.locator("article.question").waitFor({ state: "detached" });
  holds((await page.locator(".call .mark.ok", { hasText: "ended" }).count()) === 1, "an answer there lets the called agent continue");
  await page.locator(".call summary .outcome").first().waitFor();
  // A call that a user stops did not fail.
  await show(page, "conversations/desk/stopped");
  await begin("ask them", "stopped");
  await page.locator(".call .mark.ask").first().waitFor();
  await page.getByRole("button", { name: "Cancel the turn" }).click();
  await page.locator(".call .mark.plain", { hasText: "cancelled" }).waitFor();
  holds((await page.locator(".call .mark.bad").count()) === 0, "a cancelled call is not a failed one");
  await send("read nothing", "outcome");
  await show(page, "conversations/desk/outcome");
  const outcome = page.locator(".call summary .outcome.bad");
  await outcome.waitFor();
  holds((await outcome.innerText()).includes("nothing-here.txt"), "a failed call shows its error while it is closed");
}

/** Waits of called agents are no part of the time of a turn, and are shown the same in conversations and traces. */
async function waits() {
  console.log("waits");
  // The page asks for the messages of the conversation that the events name.
  await send("good morning", "waits");
  const words = await page.evaluate(async () => {
    const { addEvent, notify, state } = await import("/studio/state.js");
    const { turns, waited, waitedInCall } = await import("/studio/facts.js");
    const begin = Date.now() - 600_000;
    const at = (seconds) => new Date(begin + seconds * 1000).toISOString();
    const event = (type, agentName, seconds, more) => ({ type, agentName, instanceKey: "waits", traceId: "trace-waits", turnId: `turn-waits-${agentName}`, sequence: seconds * 1000, timestamp: at(seconds), ...more });
    const events = [
      event("turn.started", "desk", 0, { spanId: "w1", eventId: "evt-w1" }),
      event("tool.called", "desk", 1, { spanId: "w2", toolCallId: "lead", toolName: "agents__request", stepId: "s1", arguments: { target: "scribe" } }),
      event("turn.started", "scribe", 1, { spanId: "w3", parentSpanId: "w2", eventId: "evt-w3" }),
      event("tool.called", "scribe", 2, { spanId: "w4", toolCallId: "note", toolName: "fs__write", stepId: "s2", arguments: {} }),
      event("approval.requested", "scribe", 2, { spanId: "w4", toolCallId: "note", toolName: "fs__write", approvalId: "a1" }),
      event("approval.resolved", "scribe", 181, { spanId: "w4", toolCallId: "note", toolName: "fs__write", approvalId: "a1", answer: "allow" }),
      event("tool.completed", "scribe", 185, { spanId: "w4", toolCallId: "note", toolName: "fs__write", stepId: "s2", status: "ok", duration: 4_000 }),
      event("turn.completed", "scribe", 186, { spanId: "w3", duration: 6_000, finishReason: "text_response" }),
      event("tool.completed", "desk", 186, { spanId: "w2", toolCallId: "lead", toolName: "agents__request", stepId: "s1", status: "ok", duration: 6_000 }),
      event("turn.completed", "desk", 187, { spanId: "w1", duration: 8_000, finishReason: "text_response" }),
    ];
    for (const one of events) addEvent(one);
    notify("events", events);
    const turn = turns.get("turn-waits-desk");
    return { turn: waited(turn), call: waitedInCall(turn, [...turn.calls.values()][0]), isLoaded: state.isLoaded };
  });
  holds(words.turn === 179_000 && words.call === 179_000, "a turn and its call include the wait of the called agent");
  await show(page, "traces/trace-waits");
  await page.locator(".detail .head", { hasText: "8.00 s · waited 2 min 59 s for approval" }).waitFor();
  await page.locator(".span-row", { hasText: "agents__request → scribe" }).locator(".took", { hasText: /6.00 s\s*waited 2 min 59 s/ }).waitFor();
  await page.locator(".span-row", { hasText: "fs__write" }).locator(".took", { hasText: /4.00 s\s*waited 2 min 59 s/ }).waitFor();
  holds(true, "traces show the same time, with the waits separate");
}

/** While events load, a conversation that has ended does not run. */
async function loading() {
  console.log("loading events");
  const second = await context.newPage();
  await second.addInitScript(() => {
    const ask = globalThis.fetch;
    globalThis.fetch = async (to, options) => {
      const response = await ask(to, options);
      if (!String(to).startsWith("/api/events")) return response;
      // The ends of the latest turns are held back until the check releases them.
      let text = "";
      const decoder = new TextDecoder();
      const held = new TransformStream({
        async transform(chunk, control) {
          if (text === null) return control.enqueue(chunk);
          text += decoder.decode(chunk, { stream: true });
          if (!text.includes("stored.complete")) return;
          const at = text.lastIndexOf("turn.completed");
          const from = text.lastIndexOf("\n\n", at) + 2;
          control.enqueue(new TextEncoder().encode(text.slice(0, from)));
          await new Promise((release) => (globalThis.release = release));
          control.enqueue(new TextEncoder().encode(text.slice(from)));
          text = null;
        },
      });
      return new Response(response.body.pipeThrough(held), { status: response.status, headers: response.headers });
    };
  });
  await send("good night", "ended");
  await second.goto(`${url.origin}/studio/#/conversations/desk/ended`);
  await second.waitForFunction(() => globalThis.release !== undefined);
  await second.getByText("You said: good night.").waitFor();
  await second.locator("#status").getByText("Loading events…").waitFor();
  const isIdle = async () => (await second.locator(".list .mark.busy").count()) === 0 && (await second.getByRole("button", { name: "Cancel the turn" }).count()) === 0;
  holds(await isIdle(), "no ended conversation runs while events load");
  await second.evaluate(() => globalThis.release());
  await second.getByText("Live", { exact: true }).waitFor();
  await second.locator(".turn-end").waitFor();
  holds(await isIdle(), "nor after that");
  await second.close();
}

/** The link to the conversations opens the last one, and an event leads to everything around it. */
async function links() {
  console.log("links");
  await show(page, "conversations/desk/long");
  await show(page, "events");
  await page.getByLabel("Only events of this type").selectOption("model.completed");
  const row = page.locator(".event-row").first();
  await row.click();
  const number = await page.locator(".event-row[aria-pressed=true] .number").innerText();
  const detail = page.locator(".event-detail");
  holds((await detail.locator("h2").innerText()) === `${number} model.completed`, "an event has one number");
  for (const name of ["Trace", "Model call"]) await detail.getByRole("link", { name }).waitFor();
  await checked("event");
  await page.getByLabel("Only events of this type").selectOption("");
  const file = `${project}/goondan.yaml`;
  writeFileSync(file, readFileSync(file, "utf8").replace("You lead.", "You lead all."));
  await page.getByText("generation 2").first().waitFor();
  await page.getByLabel("Only events of this type").selectOption("reload.completed");
  await page.locator(".event-row .whose").first().getByText("swarm", { exact: true }).waitFor();
  await detail.getByRole("link", { name: "Trace" }).waitFor();
  await page.locator("#nav").getByRole("link", { name: "Conversations" }).click();
  await page.waitForFunction(() => location.hash === "#/conversations/desk/long");
  await show(page, "reloads");
  await page.locator(".effects").getByText("lead uses the new prompt from the next").waitFor();
  holds(true, "links and reloads are in words");
}

/** Traces say why an answer is incomplete, and which agent is called. */
async function traces() {
  console.log("traces");
  await send("cut it", "cut");
  await show(page, "traces");
  await page.locator(".list .item[aria-current] .mark.ask", { hasText: "cut off at the token limit" }).waitFor();
  await checked("trace-list");
}

/** Each failure is listed once, with its message, and a user's own answer is none. */
async function problems() {
  console.log("problems");
  await send("break please", "broken");
  await send("break again", "broken");
  const asked = send("ask them", "denied");
  await show(page, "approvals");
  await page.getByRole("button", { name: "No", exact: true }).click();
  await asked;
  await show(page, "problems");
  await page.locator("section[aria-label='Failed inputs'] article").nth(1).waitFor();
  const failures = page.locator("section[aria-label='Failed turns, models and calls'] .failure summary");
  await failures.first().waitFor();
  const words = await failures.allInnerTexts();
  holds(words.length === 1 && words[0].includes("nothing-here.txt"), `only the failed call is listed, with its message: ${words}`);
  await show(page, "conversations/desk/broken");
  await page.locator(".turn-error").nth(1).waitFor();
  await checked("two-errors");
}

/** A fork names its original, here and in the file, and a comparison names the conversations. */
async function forks() {
  console.log("forks");
  await send("good morning", "origin");
  const { instanceKey } = await api("POST", "/api/instances/desk/origin/fork", {});
  await send("and on", instanceKey);
  await show(page, `conversations/desk/${instanceKey}`);
  await page.locator(".detail .head", { hasText: "Fork of desk:origin" }).waitFor();
  await item(`desk:${instanceKey}`).getByText("fork of desk:origin").waitFor();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.locator(".compare-mark", { hasText: `only in desk:${instanceKey}` }).first().waitFor();
  await show(page, "conversations/desk/origin");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.locator(".notice.ok").waitFor();
  await show(page, "events");
  await page.locator(".notice.ok").waitFor({ state: "detached" });
  holds(true, "a fork names its original, and a notice disappears with its page");
  await show(page, "conversations/desk/long");
  const file = page.waitForEvent("download");
  await more(page, "Save as HTML");
  const alone = await context.newPage();
  await alone.setContent(readFileSync(await (await file).path(), "utf8"));
  holds((await alone.locator("td.end").first().evaluate((cell) => getComputedStyle(cell).textAlign)) === "end", "numbers of a saved table stay at the right");
  holds((await alone.locator("header time").first().innerText()).includes(String(new Date().getFullYear())), "a saved message has its date");
  const sign = (pseudo) => alone.locator("details.reasoning summary").first().evaluate((summary, name) => getComputedStyle(summary, name).content, pseudo);
  holds((await sign("::before")) === '"▸"', "saved reasoning can be seen to be folded");
  await alone.close();
}

/** The small things: keys of the editor, colors, a short placeholder on a phone. */
async function details() {
  console.log("details");
  await show(page, "conversations/desk/origin");
  await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  const field = page.getByLabel("Changed input");
  await page.getByText("Ctrl+Enter sends").waitFor();
  await field.fill("good day");
  await field.press("Control+Enter");
  await page.getByText("You said: good day.").waitFor();
  holds((await page.locator(".item-title").first().getAttribute("title")) !== null, "a title that is cut can be read");
  await page.getByLabel("Colors").selectOption("dark");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  holds((await ground()) === "rgb(17, 20, 26)", "dark colors are chosen");
  await page.reload();
  await page.waitForSelector("#nav a");
  holds((await ground()) === "rgb(17, 20, 26)", "a reload of the page keeps them");
  await page.getByLabel("Colors").selectOption("system");
  await page.setViewportSize(NARROW);
  await show(page, "conversations/desk/long");
  holds((await page.getByLabel("Input for desk:long").getAttribute("placeholder")) === "Write to the agent", "a phone shows a short hint");
  await page.setViewportSize(WIDE);
  const asked = send("run it", "command");
  await show(page, "approvals");
  const question = page.locator("article.question", { hasText: "bash__exec" });
  await question.waitFor();
  holds((await question.locator(".data").count()) === 1, "a command is shown once");
  await question.getByRole("button", { name: "No", exact: true }).click();
  await asked;
  await page.locator(".lines-list .mark").first().waitFor();
  await checked("answered");
  await show(page, "swarm");
  await page.locator("summary", { hasText: "1 permission rule" }).click();
  await page.getByText("fs__write: needs approval").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
}

const STEPS = [taskLists, latest, chain, waits, links, traces, problems, forks, loading, details];
try {
  const wanted = process.env.STUDIO_STEPS?.split(",");
  for (const step of STEPS) if (!wanted || wanted.includes(step.name)) await step();
  holds(wrong.length === 0, `nothing went wrong in the page ${wrong.join("\n")}`);
  console.log("callers are seen");
} catch (error) {
  console.error(`${error}\nwhat went wrong in the page: ${wrong.join("\n")}\nwhat is seen: ${(await page.innerText("body")).slice(0, 2000)}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
