// A person settles a call that was cut off when the process was killed: node uncertain.mjs TOOLS ADDRESS PICTURES

import { accessibility, holds, launch, photographBoth, show, visit } from "./browser.mjs";

const [, , , address, pictures] = process.argv;
const browser = await launch();
const { page, wrong } = await visit(browser, address);

const picture = (name) => photographBoth(page, pictures, name);

console.log("uncertain calls");
// The turn goes on with what is known of the call.
await show(page, "conversations/desk/main");
await page.getByText("I can't tell whether it happened.").first().waitFor();
await show(page, "problems");
const card = page.locator("article.uncertain");
await card.getByText("sleep 20").waitFor();
holds((await card.count()) === 1, "a call that was cut off is listed once");
await card.locator(".escape", { hasText: "\\u{202e}" }).waitFor();
const untouched = async () => (await page.evaluate(() => window.hacked)) === undefined && (await page.locator("main img, main script").count()) === 0;
holds(await untouched(), "with its arguments, which are text however hostile they are");
const found = await accessibility(page);
holds(found.length === 0, `axe-core finds nothing ${found.join("\n")}`);
await picture("uncertain");
await card.getByRole("button", { name: "It did not" }).click();
await card.getByText("settled").waitFor();
holds((await card.getByRole("button").count()) === 0, "it is settled once");
await show(page, "conversations/desk/main");
await page.locator(".message.user", { hasText: "The user checked your call of bash__exec" }).getByText("It did not happen").waitFor();
await page.locator(".message.assistant", { hasText: "Thank you: The user checked" }).waitFor();
holds(true, "the agent was told, and answers");
await page.reload();
await page.waitForSelector("#nav a");
await show(page, "problems");
await card.getByText("settled").waitFor();
holds((await card.count()) === 1 && (await card.getByRole("button").count()) === 0, "another look at the page finds it settled");
holds(await untouched(), "hostile text has done nothing");
holds(wrong.length === 0, `nothing went wrong in the page ${wrong.join("\n")}`);
await browser.close();
console.log("uncertain calls are settled");
