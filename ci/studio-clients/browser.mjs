// A browser that looks at pages, and at the studio writes down what it must not see.

import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";

const [, , folder] = process.argv;
const require = createRequire(`${folder}/package.json`);
const { chromium } = require("playwright-core");

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** Ends the script where something does not hold. */
export function holds(is, words) {
  if (!is) throw new Error(`does not hold: ${words}`);
  console.log(`  ok  ${words}`);
}

/** Starts Chromium with a profile of its own. */
export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
}

/** A page that looks at the studio of that address. What goes wrong in it is in `wrong`, and so is a request to another host. */
export async function visit(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...options });
  // Other work may keep the machine busy.
  context.setDefaultTimeout(Number(process.env.STUDIO_TIMEOUT ?? 120_000));
  const page = await context.newPage();
  const wrong = [];
  const host = new URL(url).host;
  context.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol.startsWith("http") && to.host !== host) wrong.push(`a request to ${to.host}`);
  });
  page.on("pageerror", (error) => wrong.push(`an error: ${error}`));
  page.on("console", (message) => {
    if (message.type() === "error") wrong.push(`${message.text()} ${message.location().url}`);
  });
  page.on("dialog", (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  if (process.env.STUDIO_PAGE) await standIn(context, process.env.STUDIO_PAGE);
  await page.goto(url);
  await page.waitForSelector("#nav a").catch(async (error) => {
    throw new Error(`${error}\n${wrong.join("\n")}\n${await page.textContent("body")}`);
  });
  return { context, page, wrong };
}

/** Saves a screenshot of the page in both color schemes, if there is a folder for them. */
export async function photograph(page, folder, name) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
  await page.emulateMedia({ colorScheme: "light" });
}

/** Saves screenshots of the page in both sizes. */
export async function photographBoth(page, folder, name) {
  await photograph(page, folder, name);
  await page.setViewportSize({ width: 390, height: 844 });
  await photograph(page, folder, `${name}-narrow`);
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** Takes the files of the page from a folder, with the headers of the program: to try a change without building it. */
async function standIn(context, folder) {
  await context.route((to) => to.pathname.startsWith("/studio/"), async (route) => {
    const name = new URL(route.request().url()).pathname.slice("/studio/".length) || "index.html";
    const headers = (await route.fetch()).headers();
    delete headers["content-length"];
    // The program does not know a new file.
    if (name.endsWith(".js")) headers["content-type"] = "text/javascript; charset=utf-8";
    await route.fulfill({ headers, body: readFileSync(`${folder}/${name}`) });
  });
}

/** Shows a view. */
export async function show(page, view) {
  await page.evaluate((name) => (location.hash = `#/${name}`), view);
  await page.waitForSelector(`main.view-${view.split("/")[0]}`);
  // One frame, so that it is drawn.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** What axe-core finds that is moderate or worse. It is evaluated by the debugger, which no policy of the page concerns. */
export async function accessibility(page) {
  await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const grave = found.violations.filter((one) => one.impact !== "minor");
  return grave.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
}

/** Checks a view in both sizes and both colors: axe-core finds nothing, and the view is not wider than the window. */
export async function checkView(page, pictures, name) {
  for (const [width, height] of [[1280, 800], [390, 844]]) {
    await page.setViewportSize({ width, height });
    await photograph(page, pictures, width === 390 ? `${name}-narrow` : name);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const found = await accessibility(page);
      holds(found.length === 0, `${name}, ${width} pixels, ${colorScheme}: axe-core finds nothing ${found.join("\n")}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    holds(wide <= 0, `${name} fits into ${width} pixels`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** Opens the menu of the conversation, and chooses an action. */
export async function more(page, action) {
  await page.locator(".detail .menu > summary").click();
  await page.locator(".detail .menu").getByRole("button", { name: action }).click();
}
