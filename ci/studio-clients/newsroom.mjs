// The newsroom in the studio: node newsroom.mjs TOOLS ADDRESS PICTURES

import { holds, launch, photographBoth, show, visit } from "./browser.mjs";

const [, , , address, pictures] = process.argv;
const browser = await launch();
const { page, wrong } = await visit(browser, address);

const picture = (name) => photographBoth(page, pictures, `newsroom-${name}`);

await show(page, "conversations/coordinator/main");
const words = page.getByLabel("Input for coordinator:main");
await words.fill("Write about bees");
await words.press("Enter");
await page.locator(".words", { hasText: "our researcher found in the archive." }).first().waitFor();
await page.locator(".live .mark").waitFor({ state: "detached" });
await picture("conversation");
await show(page, "swarm");
await page.locator(".card.agent").nth(2).waitFor();
holds((await page.locator(".lines path").count()) >= 7, "the agents are drawn with their models and tools");
await picture("swarm");
await show(page, "traces");
await page.locator(".span-name", { hasText: "researcher:" }).first().waitFor();
await page.locator(".span-name", { hasText: "writer:" }).first().waitFor();
holds(true, "the trace of an input shows all three agents");
await picture("trace");
// This studio is open without `--edit`.
const edit = await fetch(new URL("/api/project/files", address), { headers: { Authorization: `Bearer ${process.env.GOONDAN_TOKEN}` } });
holds(edit.status === 404 && (await page.getByRole("link", { name: "Files" }).count()) === 0, "without --edit there is no editor");
holds(wrong.length === 0, `nothing went wrong in the page ${wrong.join("\n")}`);
await browser.close();
console.log("the newsroom is seen");
