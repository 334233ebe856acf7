// What a person does with the studio, done by a program: node studio.mjs TOOLS ADDRESS PROJECT PICTURES TOKEN

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { accessibility, checkView, holds, launch, more, photograph, photographBoth, show, visit } from "./browser.mjs";
import { provider } from "./provider.mjs";
import { stateSteps } from "./states.mjs";

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
  const strangers = await browser.newContext();
  const stranger = await strangers.newPage();
  await stranger.goto(address);
  await stranger.getByText("This browser is not signed in").waitFor();
  holds(!stranger.url().includes("code="), "the code works once: another browser is not let in");
  await strangers.close();
  // What the refused code makes the console say is meant.
  wrong.length = 0;
  holds((await context.cookies()).length === 0, "there is no cookie");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`  first paint after ${Math.round(paint)} ms`);
  await page.reload();
  await seen("Live", { exact: true });
  holds(true, "a reload of the page stays signed in");
  // Another tab is signed in, also with the used code, and a sign-out ends the session of all tabs.
  const second = await context.newPage();
  await second.goto(address);
  await second.getByText("Live", { exact: true }).waitFor();
  holds(!second.url().includes("code="), "another tab of this browser is signed in");
  await second.close();
  wrong.length = 0;
}

/** A sign-out in one tab signs out the others, and the token opens nothing any more. */
async function signOut() {
  console.log("signing out");
  const kept = await page.evaluate(() => localStorage.getItem("gdn-studio-session"));
  const second = await context.newPage();
  await second.goto(`${url.origin}/studio/`);
  await second.getByText("Live", { exact: true }).waitFor();
  await second.getByRole("button", { name: "Sign out" }).click();
  await second.getByText("You are signed out.").waitFor();
  await page.getByText("You are signed out.").waitFor();
  holds(wrong.length === 0, "no request is refused after that");
  holds((await page.evaluate(() => localStorage.length + sessionStorage.length)) === 0, "all tabs are signed out, and no token is kept");
  const refused = await fetch(`${url.origin}/api/swarm`, { headers: { Authorization: `Bearer ${kept}` } });
  holds(refused.status === 401, "the old token opens nothing");
  await second.close();
}

/** The first page is the conversation with the entry agent, ready for an input. */
async function firstPage() {
  console.log("first page");
  await page.goto(`${url.origin}/studio/`);
  const words = page.getByLabel("Input for desk:main");
  await words.waitFor();
  holds(await words.evaluate((one) => document.activeElement === one), "the first page has the cursor in the input of the entry agent");
  await page.getByRole("link", { name: "New conversation" }).click();
  const first = page.getByLabel("First input");
  await first.waitFor();
  holds(await first.evaluate((one) => document.activeElement === one), "a new conversation has it, too");
  await checked("new-conversation");
  await first.fill("tell me of honey");
  await first.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/conversations/desk/chat-"));
  await seen("You said: tell me of honey.");
  await page.locator(".list .item", { hasText: /tell me of honey.*desk:chat-\w+ · just now · \$/s }).waitFor();
  holds(true, "the list has first words, agent, age and cost");
  await send("a second one", "other");
  await page.locator(".list .item", { hasText: "a second one" }).waitFor();
  await page.getByLabel("Search conversations").fill("HONEY");
  await page.locator(".list .item", { hasText: "a second one" }).waitFor({ state: "detached" });
  holds((await page.locator(".list .item").count()) === 1, "the search finds first words");
  await page.getByLabel("Search conversations").fill("");
  await page.locator(".list .item", { hasText: "a second one" }).waitFor();
  // A click on an agent offers a conversation with it.
  await show(page, "swarm");
  await page.locator(".card.agent").getByRole("link", { name: "helper" }).click();
  await first.waitFor();
  holds((await page.getByLabel("Agent", { exact: true }).inputValue()) === "helper", "an agent of the swarm leads to a new conversation with it");
  await show(page, "swarm");
  const card = (name) => page.locator(".card.agent", { has: page.getByRole("link", { name, exact: true }) });
  await card("helper").getByText("Reading and writing: allowed. Programs and network: need approval.").waitFor();
  await card("desk").getByText("Calls without a matching rule: allowed.").waitFor();
  await card("desk").locator("summary", { hasText: "1 permission rule" }).click();
  await card("desk").getByText("calls that write: need approval").waitFor();
  holds(true, "permissions are shown as they apply");
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
  await page.locator(".turn-end .mark", { hasText: "cancelled" }).waitFor();
  holds(true, "a turn is cancelled");
}

/** Checks the current view in all sizes and colors. */
const checked = (name) => checkView(page, pictures, name);

/** A failed turn shows its error under the input, with a way to try again. */
async function failedTurns() {
  console.log("failed turns");
  await show(page, "conversations/desk/failing");
  const words = page.getByLabel("Input for desk:failing");
  await words.fill("break please");
  await words.press("Enter");
  const error = page.locator(".message.user + .turn-error");
  await error.getByText("E_MODEL_STATUS").waitFor();
  holds((await error.innerText()).includes("the provider does not like this question"), "an error is shown under the input that caused it");
  await checked("failed-turn");
  await error.getByRole("button", { name: "Try again" }).click();
  await page.locator(".message.user + .turn-error").nth(1).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".turn-error button").length === 1);
  holds((await page.locator(".message.user").count()) === 2, "it is tried again, once");
  await page.reload();
  await page.locator(".message.user + .turn-error").nth(1).waitFor();
  holds(true, "a reload of the page shows the same errors");
  // The list of problems is checked later.
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await show(page, "problems");
  await page.getByRole("button", { name: "Discard" }).click();
  await seen("No failed inputs");
}

/** A call is drawn once, with its live state, and is approved where it is. */
async function liveCalls() {
  console.log("live calls");
  await show(page, "conversations/desk/calls");
  const words = page.getByLabel("Input for desk:calls");
  await words.fill("write a note");
  await words.press("Enter");
  const question = page.locator("article.question");
  await question.getByText("Agent desk requests to call fs__write with").waitFor();
  await page.locator(".messages .call .mark.ask").waitFor();
  holds((await page.locator("details.call").count()) === 1 && (await page.getByText("I write it down.").count()) === 1, "a call that waits is drawn once, with its request");
  const names = await question.getByRole("button").allInnerTexts();
  holds(names[0] === "Yes" && names.at(-1) === "No" && names.length === 4, `it has the answers of the terminal: ${names}`);
  await checked("inline-question");
  await question.getByRole("button", { name: "Yes" }).click();
  await page.locator("details.call .mark.ok", { hasText: "ended" }).waitFor();
  await question.waitFor({ state: "detached" });
  await page.locator(".turn-end", { hasText: "2 steps" }).waitFor();
  holds((await page.locator("details.call").count()) === 1, "the call has ended where it was asked for");
  // The same id again, in another turn: each result stays with its call.
  await words.fill("change the note");
  await words.press("Enter");
  await question.locator(".diff .added", { hasText: "+Bees fly far." }).waitFor();
  holds((await question.locator(".diff .removed").count()) === 1, "the preview of a change has colors");
  await bothPictures("change-question");
  await question.getByRole("button", { name: "For this conversation" }).click();
  await page.locator("details.call .mark.ok").nth(1).waitFor();
  await page.locator("details.call summary").nth(1).click();
  await page.locator("details.call[open] .diff .removed", { hasText: "-Bees fly." }).first().waitFor();
  holds((await page.locator("details.call").count()) === 2, "a change is shown as colored lines");
  await checked("changed-file");
}

/** Answers have their marks, and hostile ones stay text. */
async function marks() {
  console.log("marks");
  await show(page, "conversations/desk/marks");
  const words = page.getByLabel("Input for desk:marks");
  await words.fill("show marks");
  await words.press("Enter");
  const answer = page.locator(".messages .message.assistant .markdown");
  await answer.getByRole("heading", { name: "Review" }).waitFor();
  for (const [selector, count] of [["strong", 1], ["em", 1], ["del", 1], ["ol > li", 2], ["ol ul > li", 1], ["td", 2], ["th", 2], [".code pre", 1], ["blockquote", 1]]) {
    holds((await answer.locator(selector).count()) === count, `an answer has ${count} of ${selector}`);
  }
  const links = await answer.locator("a").evaluateAll((all) => all.map((one) => `${one.protocol} ${one.rel}`));
  holds(links.join() === "https: noopener noreferrer,mailto: noopener noreferrer,http: noopener noreferrer", `links lead to the web or to a mail address: ${links}`);
  await answer.getByText("[not this](javascript:window.hacked=1)").waitFor();
  holds((await page.evaluate(() => window.hacked)) === undefined && (await page.locator("main img, main script").count()) === 0, "hostile text is text");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await answer.getByRole("button", { name: "Copy" }).click();
  await answer.getByText("Copied.").waitFor();
  holds((await page.evaluate(() => navigator.clipboard.readText())) === 'print("hello")', "code is copied");
  holds(!(await page.locator("details.reasoning").evaluate((one) => one.open)), "reasoning is folded");
  await words.fill("cut it");
  await words.press("Enter");
  await page.locator(".message .mark.ask", { hasText: "cut off at the token limit" }).waitFor();
  await words.fill("good morning");
  await words.press("Enter");
  await page.locator(".turn-end", { hasText: "32 tokens (20 in, 12 out) · $0.00024" }).waitFor();
  holds(true, "a turn has its time, tokens and cost");
  const red = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
  await api("/api/inputs?wait=true", { text: "look", instanceKey: "marks", files: [{ mediaType: "image/png", data: red, name: "red.png" }] });
  await page.waitForFunction(() => document.querySelector("figure.image img")?.naturalWidth === 1);
  holds(true, "an attached image is shown");
  await page.locator(".scroll").evaluate((one) => (one.scrollTop = 0));
  await checked("marks");
}

/** A changed input starts a new conversation with everything before it. */
async function edits() {
  console.log("edits");
  await send("good morning", "edited");
  await send("good evening", "edited");
  await show(page, "conversations/desk/edited");
  const change = async (number, words) => {
    await page.locator(".message.user").nth(number).getByRole("button", { name: "Edit" }).click();
    const field = page.getByLabel("Changed input");
    holds((await field.inputValue()).startsWith("good"), "the editor has the input");
    await field.fill(words);
    if (number === 1) await checked("edit");
    await page.locator(".editing").getByRole("button", { name: "Send" }).click();
    await seen(`You said: ${words}.`);
  };
  await change(1, "good night");
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 4);
  holds((await page.locator(".message.user").nth(1).innerText()).includes("good night"), "a changed input is sent after the messages before it");
  await page.waitForFunction(() => location.hash.includes("/fork-"));
  await show(page, "conversations/desk/edited");
  await page.locator(".message.user").nth(1).getByText("good evening").waitFor();
  await change(0, "good day");
  await page.waitForFunction(() => location.hash.includes("/chat-"));
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
  holds((await page.locator(".message.user").count()) === 1, "a changed first input starts an empty conversation");
}

/** Returns true if the first fetch is a screen, and none reads the whole conversation. An event can add a fetch of the latest messages. */
function isBounded(numbers) {
  return numbers[0] === 41 && numbers.length > 1 && numbers.every((number) => number <= 201);
}

/** A conversation of 10,000 messages: its first messages are drawn on demand, so the page stays small. */
async function manyMessages() {
  console.log("many messages");
  const history = Array.from({ length: 9_998 }, (_, number) => ({ role: number % 2 ? "assistant" : "user", content: `Message ${number}: bees **fly** far.` }));
  const messages = [...history, { role: "user", content: "the last one" }];
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const response = await fetch(`${url.origin}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify({ model: "desk", messages }) });
  if (!response.ok) throw new Error(await response.text());
  const { instances } = await api("/api/instances");
  const { instanceKey } = instances.at(-1);
  const numbers = [];
  const count = (answer) => {
    const asked = /\/messages(?:\?last=(\d+)|$)/.exec(answer.url());
    if (asked) numbers.push(Number(asked[1] ?? 1e9));
  };
  page.on("response", count);
  const path = `/api/instances/desk/${encodeURIComponent(instanceKey)}/messages`;
  const begin = performance.now();
  await api(`${path}?last=41`);
  console.log(`  the server returns the latest 41 of 10,000 messages after ${Math.round(performance.now() - begin)} ms`);
  const painted = await page.evaluate(async (key) => {
    performance.clearResourceTimings();
    const from = performance.now();
    location.hash = `#/conversations/desk/${key}`;
    const isThere = () => [...document.querySelectorAll(".messages .words")].at(-1)?.textContent.startsWith("You said: the last one.");
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    while (!isThere()) await frame();
    return performance.now() - from;
  }, instanceKey);
  await page.getByText("10,000 messages").waitFor();
  const fetched = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => /\/messages\?last=/.test(one.name)).map((one) => Math.round(one.duration)));
  console.log(`  first paint after ${Math.round(painted)} ms; the messages took ${fetched} ms`);
  await page.waitForFunction(() => document.querySelectorAll(".messages > .message").length > 100);
  holds(isBounded(numbers), `${numbers} messages are fetched: a screen for the first paint, the others after it`);
  const drawn = () => page.locator(".messages > .message").count();
  holds((await drawn()) <= 201 && (await page.locator(".messages *").count()) < 5_000, `${await drawn()} of 10,000 messages are drawn`);
  const median = await page.evaluate(async () => {
    const list = document.querySelector(".scroll");
    const times = [];
    for (let at = list.scrollHeight; at > 0; at -= list.scrollHeight / 120) {
      const before = performance.now();
      list.scrollTop = at;
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - before);
    }
    return times.sort((a, b) => a - b)[60];
  });
  console.log(`  a frame of the scroll took ${median.toFixed(1)} ms`);
  await page.getByRole("button", { name: "Show earlier messages" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".messages > .message").length > 300);
  holds((await drawn()) <= 401, `${await drawn()} messages are drawn after "Show earlier messages"`);
  holds(isBounded(numbers), `${numbers} messages are fetched in all`);
  await page.getByText("Message 9700:").waitFor();
  // A new turn keeps the earlier messages.
  await page.getByLabel(`Input for desk:${instanceKey}`).fill("one more");
  await page.getByLabel(`Input for desk:${instanceKey}`).press("Enter");
  await page.getByText("You said: one more.").waitFor();
  await page.getByText("10,002 messages").waitFor();
  holds((await page.getByText("Message 9700:").count()) === 1 && Math.max(...numbers) <= 201, "a new turn fetches only the latest messages, and earlier ones stay");
  page.off("response", count);
}

/** Files are attached to an input, and can be removed before. */
async function attach() {
  console.log("attached files");
  await show(page, "conversations/desk/attached");
  const form = page.locator(".composer");
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await form.locator("input[type=file]").setInputFiles([
    { name: "bee.png", mimeType: "image/png", buffer: pixel },
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("not this") },
  ]);
  await form.getByText("bee.png · 70 bytes").waitFor();
  await form.getByRole("button", { name: "Remove notes.txt" }).click();
  await page.getByLabel("Input for desk:attached").fill("look at this");
  await picture("attached");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".message.user figure.image", { hasText: "70 bytes" }).locator("img").waitFor();
  await form.locator(".attachments li").waitFor({ state: "detached" });
  holds((await page.getByText("notes.txt").count()) === 0, "an attached image is part of the input, and a removed file is not");
}

/** A model call opens as request and response, can be copied for a shell, and shows the raw bodies on demand. */
async function modelCalls() {
  console.log("model calls");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const unfold = page.locator(".messages .message.assistant details.call-link").first();
  await unfold.locator("summary").first().click();
  await unfold.getByText("Finish reason: stop").waitFor();
  holds(page.url().includes("conversations/slow/main"), "a model call unfolds below its message");
  await unfold.getByRole("link", { name: "Show in the trace" }).click();
  const call = page.locator(".model-call");
  const request = call.getByRole("group", { name: "Request", exact: true });
  await request.getByText("System prompt").first().click();
  await request.getByText("Take your time.").waitFor();
  await request.getByText("Messages").first().click();
  await request.locator(".call-message", { hasText: "well?" }).waitFor();
  const response = call.getByRole("group", { name: "Response", exact: true });
  await response.getByText("Finish reason: stop").waitFor();
  await response.getByText("Bees fly far.").waitFor();
  holds((await call.locator(".raw > *").count()) === 0, "the raw bodies are not loaded before they are wanted");
  await call.getByRole("button", { name: "Copy as curl" }).click();
  await call.getByText("Copied.").waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  holds(/^curl 'http:\/\/127.0.0.1:\d+\/v1\/chat\/completions'/.test(command) && command.includes('"authorization: Bearer $API_KEY"'), "the call is copied as a command, with a variable in place of the key");
  holds(!command.includes("sk-slow"), "the command does not have the key");
  execFileSync("bash", ["-n"], { input: command });
  await call.getByRole("button", { name: "Show raw bodies" }).click();
  await call.getByRole("group", { name: "Response body" }).getByText("[DONE]").waitFor();
  holds((await call.getByRole("group", { name: "Request body" }).innerText()).includes('\n  "model": '), "a JSON body is indented");
  await call.getByRole("button", { name: "Copy the request body" }).click();
  await call.getByText("Copied.", { exact: true }).waitFor();
  holds(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())).model !== undefined, "a raw body is copied");
  await bothPictures("model-call");
  await page.locator(".span-row").first().click();
  await request.getByText("Take your time.").waitFor();
  holds(true, "its open parts stay open while the trace changes");
  await page.setViewportSize({ width: 390, height: 844 });
  holds((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, "the call fits into 390 pixels");
  await page.setViewportSize({ width: 1280, height: 800 });
  const found = await accessibility(page);
  holds(found.length === 0, `axe-core finds nothing ${found.join("\n")}`);
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
  await more(page, "Save as HTML");
  const text = readFileSync(await (await file).path(), "utf8");
  holds(text.includes("&lt;img src=x") && !/<(img|script|link)/.test(text), "the exported page holds text alone");
  const alone = await context.newPage();
  await alone.setContent(text);
  await alone.getByText("You said: good morning.").first().waitFor();
  holds((await alone.evaluate(() => window.hacked)) === undefined, "and shows itself");
  await alone.close();
  return key;
}

/** A conversation gets a title, shows its states, is saved as JSON Lines, and is deleted. */
async function conversationActions() {
  console.log("titles and deletion");
  await send("good morning", "titled");
  await show(page, "conversations/desk/titled");
  const dialog = page.locator("dialog");
  const rename = async (title) => {
    await more(page, "Rename");
    await dialog.getByLabel("Title").fill(title);
    await dialog.getByLabel("Title").press("Enter");
    await dialog.waitFor({ state: "detached" });
  };
  const summary = page.getByText("More", { exact: true });
  await summary.click();
  await checked("more");
  await page.keyboard.press("Escape");
  holds((await page.locator(".menu[open]").count()) === 0, "Escape closes the menu");
  await summary.click();
  await page.locator(".detail h1").click();
  await page.locator(".menu[open]").waitFor({ state: "detached" });
  await more(page, "Rename");
  await dialog.waitFor();
  holds((await page.evaluate(() => document.activeElement.tagName)) === "INPUT", "the field of the title has the focus");
  await checked("rename");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await rename("About <b>bees</b> \u202e");
  await page.locator(".detail h1", { hasText: "About <b>bees</b> \\u{202e}" }).waitFor();
  await page.waitForFunction(() => document.activeElement.textContent === "More");
  holds(true, "the menu has the focus again");
  await page.locator(".list .item[aria-current] .item-title", { hasText: "About <b>bees</b>" }).waitFor();
  await page.getByLabel("Search conversations").fill("about <b>");
  await page.waitForFunction(() => document.querySelectorAll(".list .item").length === 1);
  await page.getByLabel("Search conversations").fill("");
  await checked("titled");
  await page.reload();
  await page.locator(".detail h1", { hasText: "About <b>bees</b>" }).waitFor();
  holds(true, "a title is shown as text in the heading and in the list, is found, and stays");
  await rename("");
  await page.locator(".detail h1", { hasText: "desk:titled" }).waitFor();
  holds(true, "an empty title removes it");
  await send("plan the harvest", "titled");
  await more(page, "States");
  await dialog.locator(".stored-state", { hasText: "todo" }).getByText("harvest", { exact: false }).waitFor();
  holds((await dialog.locator(".stored-state").count()) === 1, "the states of tools are shown");
  await checked("states");
  await dialog.getByRole("button", { name: "Close" }).click();
  const download = page.waitForEvent("download");
  await more(page, "Save as JSON");
  const file = await download;
  const lines = readFileSync(await file.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  holds(file.suggestedFilename() === "desk-titled.jsonl" && lines[0].format === "goondan-instance" && lines.length === 7, "it is saved as JSON Lines");
  await more(page, "Delete");
  await checked("delete");
  holds((await page.evaluate(() => document.activeElement.textContent)) === "Cancel", "Cancel has the focus");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  holds((await api("/api/instances/desk/titled/messages")).total === 6, "without a confirmation it stays");
  await more(page, "Delete");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await seen("Deleted desk:titled.");
  holds((await page.locator(".list .item", { hasText: "desk:titled ·" }).count()) === 0, "a deleted conversation is no longer listed");
  const { instances } = await api("/api/instances");
  holds(instances.every((meta) => meta.instanceKey !== "titled"), "and no longer there");
}

/** The prompt of an agent is in its card, with its place. */
async function prompts() {
  console.log("prompts");
  await show(page, "swarm");
  const card = page.locator("[data-id='agent/helper']");
  await card.getByText("System prompt", { exact: true }).click();
  await card.getByLabel("System prompt of helper").getByText("You shout.", { exact: true }).waitFor();
  holds(/goondan\.yaml:\d+/.test(await card.innerText()), "an inline prompt has the line of its agent");
  await checked("prompt");
  await card.getByText("System prompt", { exact: true }).click();
}

/** A fork and its original are compared: equal messages are folded, differences are side by side. */
async function comparison() {
  console.log("comparison");
  await send("good morning", "first");
  await send("good evening", "first");
  const { messages } = await api("/api/instances/desk/first/messages");
  const fork = await api("/api/instances/desk/first/fork", { messageId: messages[1].id });
  await send("help me out", fork.instanceKey);
  await send("good evening", fork.instanceKey);
  await show(page, "conversations/desk/first");
  await page.getByRole("button", { name: "Compare" }).click();
  await seen("Choose two conversations");
  await page.getByLabel("Second conversation").selectOption(`desk:${fork.instanceKey}`);
  await seen("3 differences");
  await page.locator("details.compare-same summary", { hasText: "2 equal messages" }).first().waitFor();
  const kinds = await page.locator("section.compare-row").evaluateAll((all) => all.map((one) => one.classList[1]));
  holds(kinds.every((kind) => kind === "right") && kinds.length === 3, `messages of the fork are marked: ${kinds}`);
  const total = (name, side) => page.locator("tr", { hasText: name }).locator("td").nth(side).innerText();
  holds((await total("Messages", 0)) === "4" && Number(await total("Messages", 1)) > 5, "both have their totals");
  holds((await total("Cost", 0)).startsWith("$") && /m?s$/.test(await total("Time of turns", 1)), "cost and time are shown");
  await page.locator("details.compare-same summary").first().click();
  await page.locator("details.compare-same[open]").getByText("good morning", { exact: true }).waitFor();
  await checked("compare");
  await send("good night", "other-end");
  await show(page, `compare/desk/first/desk/other-end`);
  await page.locator("section.compare-row.changed .message.user").nth(1).getByText("good night").waitFor();
  holds((await page.locator("section.compare-row.left").count()) === 2, "different inputs are side by side, and the rest is on one side");
}

/** The swarm as a graph: its edges are lines and a table, and show who is at work. */
async function graph() {
  console.log("graph");
  await show(page, "swarm");
  await page.locator(".card", { hasText: "0 8 29 2 *" }).getByText(/Next run: Feb 29|Next run: 29 Feb/).waitFor();
  holds((await page.locator(".lines path.tip").count()) === 2, "arrows lead from an agent to the agents that it can call");
  await page.locator(".card[data-id='tool/agents'] summary").focus();
  holds((await page.locator(".lines path.lit").count()) === 1, "a card is reached by the keyboard, and its edges stand out");
  await page.locator("details.edges > summary").click();
  const table = page.locator("details.edges table");
  for (const words of [/connection leap\s*sends events to\s*agent helper/, /agent desk\s*can call\s*agent helper/, /agent desk\s*can use\s*tool fs/, /model main\s*answers\s*agent desk/]) {
    await table.locator("tr", { hasText: words }).waitFor();
  }
  const active = (edge) => table.locator(`td[data-edge="${edge}"]`, { hasText: "active" });
  await send("help me out", "graph");
  await active("agent/desk agent/helper").waitFor();
  holds((await page.locator(".lines path.call.active").count()) === 1, "an edge is active while agents talk");
  await active("agent/desk agent/helper").waitFor({ state: "detached" });
  const waiting = send("take long please", "graph");
  await active("model/main agent/desk").waitFor();
  await picture("graph-active");
  await fetch(`${url.origin}/api/instances/desk/graph/turn`, { method: "DELETE", headers: { Authorization: `Bearer ${token}` } });
  await waiting.catch(() => null);
  await active("model/main agent/desk").waitFor({ state: "detached" });
  holds(true, "and no longer when they have ended");
  await checked("graph");
}

/** A case is made of a turn and of a conversation: it is shown, copied and saved. */
async function cases() {
  console.log("cases");
  await send("good morning", "played");
  await send("be hostile", "played");
  await show(page, "conversations/desk/played");
  const dialog = page.locator("dialog.made-case");
  const open = async (record) => {
    await record();
    await dialog.waitFor();
    return dialog.locator(".data").innerText();
  };
  const turn = await open(() => page.getByRole("button", { name: "Record this turn" }).first().click());
  holds(turn.includes("case: desk-played-turn-1") && turn.includes("good morning") && !turn.includes("hostile"), "a turn becomes a case");
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ state: "detached" });
  const whole = await open(() => more(page, "Record test case"));
  holds(whole.includes("be hostile") && whole.includes("\\u202egnp.exe") && !whole.includes("\u202e"), "a conversation becomes one, and what is hidden in it is seen");
  holds((await page.evaluate(() => window.hacked)) === undefined && (await dialog.locator("img, script").count()) === 0, "hostile text is text");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await accessibility(page);
    holds(found.length === 0, `the case, ${colorScheme}: axe-core finds nothing ${found.join("\n")}`);
  }
  await photographBoth(page, pictures, "case");
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
  await more(page, "Record test case");
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
  await page.getByRole("button", { name: "Yes" }).click();
  const answer = await asked;
  holds(answer.text.includes("The tool said"), "an answer lets the call run");
  await page.locator(".lines-list .mark.ok").first().waitFor();
  const denied = send("write a note", "denied");
  const question = page.locator("article.question", { hasText: "desk:denied" });
  await question.getByRole("button", { name: "No", exact: true }).click();
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
  // The view of the swarm is shown meanwhile: it counts turns. Each of its drawings puts one badge of the agent's work there.
  await show(page, "swarm");
  await page.locator(".counts[data-agent=helper]").waitFor();
  await page.evaluate(() => {
    globalThis.seen = { frames: 0, drawings: 0 };
    const frame = () => requestAnimationFrame(frame, (seen.frames += 1));
    frame();
    const added = (records) => records.flatMap((record) => [...record.addedNodes]).filter((node) => node.matches?.(".mark.plain, .mark.busy"));
    new MutationObserver((records) => (seen.drawings += added(records).length)).observe(document.querySelector(".counts[data-agent=helper]"), { childList: true });
  });
  const before = await page.evaluate(() => performance.now());
  for (let sent = 0; sent < wanted / 5; sent += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, nth) => send("count", `many-${nth}`)));
  }
  const drawn = await page.evaluate(() => seen);
  holds(drawn.drawings > 0 && drawn.drawings <= drawn.frames + 1, `${drawn.drawings} drawings in ${drawn.frames} frames: at most one in each`);
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
  // The rows are drawn again with the next frame. A click on a row that is replaced has no effect.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.locator(".event-row").nth(3).click();
  await page.locator(".event-detail .data").waitFor();
}

const VIEWS = ["swarm", "conversations/desk/main", "traces", "events", "approvals", "problems", "reloads"];

const picture = (name) => photograph(page, pictures, name);
const bothPictures = (name) => photographBoth(page, pictures, name);

/** Each view in both colours and both sizes: what axe-core finds, and whether anything stands out at the side. */
async function looks() {
  console.log("looks");
  for (const [width, height] of [[1280, 800], [390, 844]]) {
    await page.setViewportSize({ width, height });
    for (const view of VIEWS) {
      await show(page, view);
      const name = `${view.split("/")[0]}${width === 390 ? "-narrow" : ""}`;
      await page.waitForTimeout(300);
      await picture(name);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const found = await accessibility(page);
        holds(found.length === 0, `${name}, ${colorScheme}: axe-core finds nothing ${found.join("\n")}`);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      holds(wide <= 0, `${name} fits into ${width} pixels`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

const STEPS = [signedIn, firstPage, conversation, failedTurns, liveCalls, marks, edits, streaming, modelCalls, attach, manyMessages, forks, conversationActions, comparison, ...stateSteps({ page, send, api, checked }), graph, prompts, cases, approvals, problems, traces, reloads, manyEvents, looks, signOut];
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
