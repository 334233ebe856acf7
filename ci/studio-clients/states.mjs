// Steps of studio.mjs that check states: queued inputs, badges, approvals by keyboard, traces, unknown addresses.

import { holds, more, show } from "./browser.mjs";

/**
 * Returns the steps.
 * @param {{page: any, send: (text: string, instanceKey?: string) => Promise<any>, api: (path: string, body?: any) => Promise<any>, checked: (name: string) => Promise<void>}} tools
 */
export function stateSteps({ page, send, api, checked }) {
  const item = (name) => page.locator(".list .item", { hasText: `desk:${name} ·` });
  const input = async (key, text) => {
    const words = page.getByLabel(`Input for desk:${key}`);
    await words.fill(text);
    await words.press("Enter");
  };
  const activeClass = () => page.evaluate(() => document.activeElement.className);

  /** An input that is sent during a turn is shown until its turn begins. */
  async function queuedInputs() {
    console.log("queued inputs");
    await show(page, "conversations/desk/queued");
    await input("queued", "take long please");
    await page.getByRole("button", { name: "Cancel the turn" }).waitFor();
    await input("queued", "good morning");
    const queued = page.locator(".message.queued");
    await queued.getByText("waits for the end of the turn").waitFor();
    await item("queued").getByText("1 queued").waitFor();
    await checked("queued");
    await page.reload();
    await queued.getByText("good morning").waitFor();
    holds((await queued.count()) === 1, "a queued input is shown, including after a reload of the page");
    await queued.getByRole("button", { name: "Remove" }).click();
    await queued.waitFor({ state: "detached" });
    await input("queued", "good evening");
    await queued.getByText("good evening").waitFor();
    await page.getByRole("button", { name: "Cancel the turn" }).click();
    await page.getByText("You said: good evening.").waitFor();
    await page.locator(".message.sent").waitFor({ state: "detached" });
    holds((await page.locator(".message.user", { hasText: "good evening" }).count()) === 1, "it becomes a message, once");
    holds((await page.locator(".scroll").getByText("good morning").count()) === 0, "a removed input has no turn");
  }

  /** Lists show which conversations wait or have failed, and an approval by keyboard keeps the focus. */
  async function badges() {
    console.log("badges");
    await send("break please", "badge-failed");
    await show(page, "conversations/desk/badge");
    await item("badge-failed").getByText("failed", { exact: true }).waitFor();
    await show(page, "conversations/desk/badge-failed");
    await page.locator(".turn-error details.call-link summary").first().click();
    await page.locator(".turn-error .call-side").first().waitFor();
    holds(true, "the error has its model call");
    // Later steps count the failed inputs.
    await show(page, "problems");
    await page.getByRole("button", { name: "Discard" }).click();
    await page.getByText("No failed inputs").waitFor();
    await show(page, "conversations/desk/badge");
    await input("badge", "write a note");
    const question = page.locator("article.question");
    await question.waitFor();
    await item("badge").getByText("waiting", { exact: true }).waitFor();
    await page.waitForFunction(() => document.title.startsWith("(1) "));
    await page.getByLabel("State of the conversations").selectOption("waiting");
    await item("badge-failed").waitFor({ state: "detached" });
    holds((await page.locator(".list .item").count()) === 1, "the list shows only conversations that wait");
    await page.getByLabel("State of the conversations").selectOption("");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("link", { name: "1 approval", exact: true }).waitFor();
    await page.setViewportSize({ width: 1280, height: 800 });
    holds(true, "a narrow page shows the number of open requests");
    await question.getByRole("button", { name: "No", exact: true }).press("Enter");
    await question.waitFor({ state: "detached" });
    holds((await activeClass()) === "messages", "the focus is on the messages after an answer");
    await page.locator("details.call .mark", { hasText: "denied" }).waitFor();
    await item("badge").locator(".mark").waitFor({ state: "detached" });
    holds(true, "a denied call is not a failed one, and the badge disappears");
    await page.waitForFunction(() => !document.title.startsWith("("));
  }

  /** Traces have the words of their inputs and totals of all agents. A called agent is a link away. */
  async function tracesInWords() {
    console.log("traces in words");
    await send("help with words", "worded");
    await show(page, "traces");
    await page.locator(".list .item[aria-current]", { hasText: "help with words" }).waitFor();
    await page.locator(".detail .head", { hasText: /4 model calls · 2 tool calls · desk, helper/ }).waitFor();
    await page.locator(".span-row", { hasText: "agents__request" }).click();
    await page.locator(".tool-call").getByText('"target": "helper"').first().waitFor();
    await checked("trace-in-words");
    await show(page, "conversations/desk/worded");
    await page.locator(".callee").getByRole("link", { name: /^helper:/ }).click();
    await page.locator(".detail h1", { hasText: "helper:" }).waitFor();
    await page.locator(".list .called .item[aria-current]").waitFor();
    holds(true, "a call leads to the conversation that it started, below its caller in the list");
  }

  /** A fork is compared with its original, and an address that leads nowhere says so. */
  async function addresses() {
    console.log("addresses");
    await send("good morning", "original");
    const fork = await api("/api/instances/desk/original/fork", {});
    await show(page, `conversations/desk/${fork.instanceKey}`);
    await page.locator(".messages").getByText("You said: good morning.").waitFor();
    holds((await page.locator(".turn-end").count()) === 0, "a fork does not show the end of a turn of its original");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("No differences").waitFor();
    holds(page.url().includes("compare/desk/original/desk/fork-"), "a fork is compared with its original");
    await show(page, "conversations/nobody/main");
    await page.getByText("The swarm has no agent nobody").waitFor();
    holds((await page.locator(".composer").count()) === 0, "an unknown agent gets no input");
    await page.evaluate(() => (location.hash = "#/nonsense"));
    await page.getByText("The studio has no view nonsense").waitFor();
    await show(page, "conversations/desk");
    await page.getByText("Only conversations of desk.").waitFor();
    await page.getByRole("link", { name: "Show all" }).click();
    await page.getByText("Only conversations of desk.").waitFor({ state: "detached" });
    holds(true, "the list says that it is filtered");
    await show(page, "conversations/desk/original");
    await more(page, "Record test case");
    await page.locator("dialog.made-case").waitFor();
    await show(page, "traces");
    await page.locator("dialog.made-case").waitFor({ state: "detached" });
    holds(true, "a test case closes with its view");
  }

  return [queuedInputs, badges, tracesInWords, addresses];
}
