// What a person does with the studio, done by a program: node studio.mjs TOOLS ADDRESS PROJECT PICTURES TOKEN

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { accessibility, holds, launch, photograph, show, visit } from "./browser.mjs";
import { provider } from "./provider.mjs";

const [, , , address, project, pictures, token] = process.argv;
const url = new URL(address);
const browser = await launch();
const { context, page, wrong } = await visit(browser, address);

/** Asks the API as a program does. */
async function api(path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(`${url.origin}${path}`, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

const send = (text, instanceKey = "main") => api("/api/inputs?wait=true", { text, instanceKey });
const seen = (text, options = {}) => page.getByText(text, options).first().waitFor();

async function signedIn() {
  console.log("signing in");
  holds(!page.url().includes("code="), "the address holds no code any more");
  await seen("Live", { exact: true });
  const stranger = await context.newPage();
  await stranger.goto(address);
  await stranger.getByText("This tab is not signed in").waitFor();
  holds(true, "the code works once");
  await stranger.close();
  // What the refused code makes the console say is meant.
  wrong.length = 0;
  holds((await context.cookies()).length === 0, "there is no cookie");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`  first paint after ${Math.round(paint)} ms`);
  await page.reload();
  await seen("Live", { exact: true });
  holds(true, "a reload of the page stays signed in");
}

async function conversation() {
  console.log("conversations");
  await show(page, "conversations/desk/main");
  const words = page.getByLabel("Input for desk:main");
  await words.fill("good morning");
  await words.press("Enter");
  await seen("You said: good morning. That is all there is to say about it.");
  holds((await words.inputValue()) === "", "a message is sent, and its answer is there");
  await words.fill("please help me");
  await words.press("Enter");
  await seen("SHOUT PLEASE HELP ME");
  await page.locator("details.call summary").first().click();
  await page.locator("details.call[open]").getByText("shout please help me").first().waitFor();
  holds(true, "a tool call opens with its arguments and its result");
  await words.fill("be hostile");
  await words.press("Enter");
  await page.locator(".escape", { hasText: "\\u{202e}" }).first().waitFor();
  holds((await page.evaluate(() => window.hacked)) === undefined && (await page.locator("main img, main script").count()) === 0, "hostile text is text");
  await words.fill("read nothing");
  await words.press("Enter");
  await page.locator("details.call .mark.bad").first().waitFor();
  await words.fill("take long please");
  await words.press("Enter");
  await page.getByRole("button", { name: "Cancel the turn" }).click();
  await page.locator(".live .mark").waitFor({ state: "detached" });
  holds(true, "a turn is cancelled");
}

/** The answer comes in pieces: each is seen before the next one is said. */
async function streaming() {
  console.log("streaming");
  const model = await provider();
  const file = `${project}/goondan.yaml`;
  writeFileSync(file, readFileSync(file, "utf8").replace("http://127.0.0.1:9/v1", model.address));
  await seen("generation 2");
  await show(page, "conversations/slow/main");
  const words = page.getByLabel("Input for slow:main");
  await words.fill("well?");
  await words.press("Enter");
  await model.asked;
  const live = page.locator(".live .words");
  let said = "";
  for (const word of ["Bees ", "fly ", "far."]) {
    model.say(word);
    said += word;
    await live.getByText(said.trim(), { exact: true }).waitFor();
  }
  await picture("streaming");
  holds(true, "an answer is seen while it is written, a word at a time");
  model.end();
  await live.waitFor({ state: "detached" });
  await page.locator(".messages .message.assistant").getByText(said).waitFor();
}

async function forks() {
  console.log("fork and export");
  await show(page, "conversations/desk/main");
  const first = page.locator("article.message.assistant").first();
  await first.getByRole("button", { name: "Fork here" }).click();
  await page.waitForFunction(() => location.hash.includes("/fork-"));
  await seen("You said: good morning. That is all there is to say about it.");
  holds((await page.locator("article.message").count()) === 2, "a fork begins with the messages up to that one");
  const key = decodeURIComponent(await page.evaluate(() => location.hash.split("/").at(-1)));
  const words = page.getByLabel(`Input for desk:${key}`);
  await words.fill("and on");
  await words.press("Enter");
  await seen("You said: and on.");
  await show(page, "conversations/desk/main");
  const file = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as HTML" }).click();
  const text = readFileSync(await (await file).path(), "utf8");
  holds(text.includes("&lt;img src=x") && !/<(img|script|link)/.test(text), "the exported page holds text alone");
  const alone = await context.newPage();
  await alone.setContent(text);
  await alone.getByText("You said: good morning.").first().waitFor();
  holds((await alone.evaluate(() => window.hacked)) === undefined, "and shows itself");
  await alone.close();
  return key;
}

/** A case is made of a turn and of a conversation: it is shown, copied and saved. */
async function cases() {
  console.log("cases");
  await send("good morning", "played");
  await send("be hostile", "played");
  await show(page, "conversations/desk/played");
  const dialog = page.locator("dialog.made-case");
  const open = async (button) => {
    await button.click();
    await dialog.waitFor();
    return dialog.locator(".data").innerText();
  };
  const turn = await open(page.getByRole("button", { name: "Record this turn" }).first());
  holds(turn.includes("case: desk-played-turn-1") && turn.includes("good morning") && !turn.includes("hostile"), "a turn becomes a case");
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "detached" });
  const whole = await open(page.getByRole("button", { name: "Record test case" }));
  holds(whole.includes("be hostile") && whole.includes("\\u202egnp.exe") && !whole.includes("\u202e"), "a conversation becomes one, and what is hidden in it is seen");
  holds((await page.evaluate(() => window.hacked)) === undefined && (await dialog.locator("img, script").count()) === 0, "hostile text is text");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await accessibility(page);
    holds(found.length === 0, `the case, ${colorScheme}: axe-core finds nothing serious ${found.join("\n")}`);
  }
  await picture("case");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await dialog.getByRole("button", { name: "Copy" }).click();
  await dialog.getByText("Copied to the clipboard.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const download = page.waitForEvent("download");
  await dialog.getByRole("button", { name: "Save" }).click();
  const file = await download;
  holds(file.suggestedFilename() === "desk-played.case.yaml", "it is saved under its name");
  const saved = readFileSync(await file.path(), "utf8");
  holds(copied === saved && saved.includes("steps:"), "what is copied is what is saved");
  writeFileSync(`${project}/${file.suggestedFilename()}`, saved);
  execFileSync(process.env.GDN, ["test", `${project}/${file.suggestedFilename()}`], { stdio: "inherit" });
  await dialog.getByRole("button", { name: "Close" }).click();
  // A turn of it was cancelled.
  await show(page, "conversations/desk/main");
  await page.getByRole("button", { name: "Record test case" }).click();
  await page.locator(".notice.bad", { hasText: "CASE_NOT_RECORDED" }).waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
  // What the console says of the refusal is meant.
  holds(wrong.length === 1 && wrong.pop().endsWith("/case"), "what can't be played is refused with a reason");
}

async function approvals() {
  console.log("approvals");
  const asked = send("write a note", "asked");
  await show(page, "approvals");
  await page.locator("article.question").getByText("note.txt").first().waitFor();
  holds(true, "a question shows what will run");
  await picture("question");
  await page.getByRole("button", { name: "Allow once" }).click();
  const answer = await asked;
  holds(answer.text.includes("The tool said"), "an answer lets the call run");
  await page.locator(".lines-list .mark.ok").first().waitFor();
  const denied = send("write a note", "denied");
  await page.getByRole("button", { name: "Deny" }).click();
  holds((await denied).text.includes("DENIED") || (await denied).text.length > 0, "another one is denied");
  await page.locator(".lines-list .mark.bad").first().waitFor();
}

async function problems() {
  console.log("problems");
  await send("break please", "broken");
  await send("break again", "broken");
  await show(page, "problems");
  const letters = page.locator("section[aria-label='Failed inputs'] article");
  await letters.nth(1).waitFor();
  await letters.first().getByRole("button", { name: "Discard" }).click();
  await letters.nth(1).waitFor({ state: "detached" });
  holds((await letters.count()) === 1, "a failed input is discarded");
  await letters.first().getByRole("button", { name: "Try again" }).click();
  await page.getByText("retries the input as").waitFor();
  holds(true, "and another one is tried again");
  await page.locator("section[aria-label='Failed turns, models and calls'] .failure").first().waitFor();
}

async function reloads() {
  console.log("reloads");
  const file = `${project}/goondan.yaml`;
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace("You shout.", "You shout loudly."));
  await show(page, "reloads");
  await seen("Generation 3");
  await page.locator(".change").getByText("Agent/helper").waitFor();
  holds(true, "a saved file makes a generation, and it says what has changed");
  writeFileSync(file, text.replace("Model/main}", "Model/gone}"));
  await page.locator(".entry.failed").first().waitFor();
  await page.locator(".diagnostic").first().waitFor();
  await picture("reloads");
  await show(page, "swarm");
  await seen("The last reload failed");
  await picture("swarm-failed");
  holds(true, "a project that is not taken says why, and the old generation serves");
  writeFileSync(file, text);
  await page.getByText("The last reload failed").waitFor({ state: "detached" });
}

async function traces() {
  console.log("traces");
  await send("help with the trace", "traced");
  await show(page, "traces");
  await page.locator(".span-name", { hasText: "helper:" }).first().waitFor();
  await page.locator(".span-row", { hasText: "agents__request" }).first().click();
  await page.locator(".span-details .data").first().waitFor();
  holds((await page.locator(".bar-fill.model").count()) >= 3, "a trace shows turns, models and tools of both agents");
}

/** Ten thousand events: the page holds a screen of rows, and each frame of a long scroll is drawn in time. */
async function manyEvents() {
  console.log("events");
  const wanted = 10_000;
  const before = await page.evaluate(() => performance.now());
  for (let sent = 0; sent < wanted / 5; sent += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, nth) => send("count", `many-${nth}`)));
  }
  await show(page, "events");
  await page.waitForFunction((least) => Number(document.querySelector(".head .muted")?.textContent?.replace(/\D/g, "")) >= least, wanted);
  console.log(`  ${wanted} events were there after ${Math.round((await page.evaluate(() => performance.now())) - before)} ms`);
  const rows = await page.locator(".rows li").count();
  holds(rows > 10 && rows < 100, `${rows} rows are there of all events`);
  const frames = await page.evaluate(async () => {
    const list = document.querySelector(".log");
    const times = [];
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    list.scrollTop = 0;
    await frame();
    for (let at = 0; at < list.scrollHeight; at += list.scrollHeight / 240) {
      const begin = performance.now();
      list.scrollTop = at;
      await frame();
      times.push(performance.now() - begin);
    }
    times.sort((a, b) => a - b);
    return { median: times[Math.floor(times.length / 2)], p95: times[Math.floor(times.length * 0.95)], rows: document.querySelectorAll(".rows li").length };
  });
  console.log(`  a frame of the scroll took ${frames.median.toFixed(1)} ms, one of twenty longer than ${frames.p95.toFixed(1)} ms`);
  holds(frames.rows < 100, "after the scroll there is still a screen of rows");
  await page.getByLabel("Only events of this agent").selectOption("helper");
  await page.waitForFunction(() => [...document.querySelectorAll(".rows .whose")].every((one) => one.textContent.startsWith("helper:")));
  holds(true, "a filter leaves the events of one agent");
  await page.getByLabel("Only events of this agent").selectOption("");
  await page.locator(".event-row").nth(3).click();
  await page.locator(".event-detail .data").waitFor();
}

const VIEWS = ["swarm", "conversations/desk/main", "traces", "events", "approvals", "problems", "reloads"];

const picture = (name) => photograph(page, pictures, name);

/** Each view in both colours and both sizes: what axe-core finds, and whether anything stands out at the side. */
async function looks() {
  console.log("looks");
  for (const [width, height] of [[1280, 800], [400, 800]]) {
    await page.setViewportSize({ width, height });
    for (const view of VIEWS) {
      await show(page, view);
      const name = `${view.split("/")[0]}${width === 400 ? "-narrow" : ""}`;
      await page.waitForTimeout(300);
      await picture(name);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const found = await accessibility(page);
        holds(found.length === 0, `${name}, ${colorScheme}: axe-core finds nothing serious ${found.join("\n")}`);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      holds(wide <= 0, `${name} fits into ${width} pixels`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

const STEPS = [signedIn, conversation, streaming, forks, cases, approvals, problems, traces, reloads, manyEvents, looks];
try {
  const wanted = process.env.STUDIO_STEPS?.split(",");
  for (const step of STEPS) if (!wanted || wanted.includes(step.name)) await step();
  holds(wrong.length === 0, `nothing went wrong in the page, and no other host was asked ${wrong.join("\n")}`);
  console.log("the studio holds");
} catch (error) {
  console.error(`${error}\nwhat went wrong in the page: ${wrong.join("\n")}\nwhat is seen: ${(await page.innerText("body")).slice(0, 2000)}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
