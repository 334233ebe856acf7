// Test cases and files of a project in the studio: node project.mjs TOOLS ADDRESS PROJECT PICTURES TOKEN

import { existsSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { checkView, holds, launch, more, photograph, show, visit } from "./browser.mjs";

const [, , , address, project, pictures, token] = process.argv;
const url = new URL(address);
const browser = await launch();
const { page, wrong } = await visit(browser, address);

/** Makes a request as a program does, and returns its status and its body. */
async function api(method, path, body, headers = { Authorization: `Bearer ${token}` }) {
  const options = { method, headers: { "Content-Type": "application/json", ...headers }, body: body && JSON.stringify(body) };
  const response = await fetch(`${url.origin}${path}`, options);
  const text = await response.text();
  return { status: response.status, text, body: text.startsWith("{") ? JSON.parse(text) : null };
}

/** Checks the current view in all sizes and colors. */
const checked = (name) => checkView(page, pictures, name);

/** The test cases of the project run, one of them or all. */
async function cases() {
  console.log("test cases");
  await show(page, "cases");
  const one = (name) => page.locator(`[data-case="${name}"]`);
  await page.getByRole("status").filter({ hasText: "3 test cases" }).waitFor();
  await page.getByRole("button", { name: "Run the-keeper-answers" }).click();
  await one("the-keeper-answers").locator(".mark.ok", { hasText: "passed" }).waitFor();
  holds(/\d+ ms|\d s/.test(await one("the-keeper-answers").innerText()), "a test case runs alone, and shows its time");
  holds((await page.locator(".case .mark", { hasText: "not run" }).count()) === 2, "the others do not run");
  holds((await page.evaluate(() => document.activeElement.getAttribute("aria-label"))) === "Run the-keeper-answers", "the button keeps the focus");
  await page.getByRole("button", { name: "Run all" }).click();
  await page.getByRole("status").filter({ hasText: "1 passed, 1 failed, 1 skipped." }).waitFor();
  const failed = one("the-keeper-knows-the-season");
  await failed.locator(".diff .removed", { hasText: "It is ready in July." }).waitFor();
  await failed.locator(".diff .added", { hasText: "You said: when is honey ready." }).waitFor();
  await one("a-missing-program-skips-the-case").getByText("no-such-program").waitFor();
  holds(true, "all run: a failed one shows the difference, a skipped one its reason");
  await checked("cases");
  await failed.scrollIntoViewIfNeeded();
  await page.getByRole("link", { name: "answers.case.yaml" }).click();
  await page.waitForSelector("main.view-files");
}

/** A file is edited: it is checked while it is written, its changes are shown, and it is saved. */
async function files() {
  console.log("files");
  await show(page, "files");
  for (const path of ["AGENTS.md", "answers.case.yaml", "goondan.yaml", "prompts/keeper.md"]) await page.getByRole("link", { name: path }).waitFor();
  holds((await page.locator(".file-list .item").count()) === 4, "the files that the project loads are listed");
  await page.getByRole("link", { name: "goondan.yaml" }).click();
  const text = page.getByLabel("Text of goondan.yaml");
  await page.getByText("no problems").waitFor();
  const before = await text.inputValue();
  await text.fill(before.replace("Model/main}", "Model/mian}"));
  await page.locator(".diagnostic", { hasText: "goondan.yaml:16:" }).first().waitFor();
  await page.getByText("1 error").waitFor();
  holds(readFileSync(`${project}/goondan.yaml`, "utf8") === before, "an error is shown with its line while the text is written, and nothing is saved");
  await page.getByRole("button", { name: "Go to line 16" }).click();
  holds((await text.evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd))).includes("mian"), "the error leads to its place");
  await checked("editor");
  // The draft stays while another view is shown.
  await show(page, "reloads");
  await show(page, "files/goondan.yaml");
  await page.locator(".file-list .mark", { hasText: "not saved" }).waitFor();
  holds((await text.inputValue()).includes("mian"), "an unsaved text stays");
  await text.fill(before.replace("Answers questions", "Answers all questions"));
  await page.getByText("no problems").waitFor();
  await page.getByRole("button", { name: "Save…" }).click();
  const dialog = page.locator("dialog");
  await dialog.locator(".diff .added", { hasText: "Answers all questions" }).waitFor();
  holds((await dialog.locator(".diff .removed").count()) === 1, "the changes are shown before they are saved");
  await photograph(page, pictures, "editor-save");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved goondan.yaml.").waitFor();
  holds(readFileSync(`${project}/goondan.yaml`, "utf8").includes("Answers all questions"), "a confirmed text is on the disk");
  await page.getByText("generation 2").first().waitFor();
  holds(true, "and the swarm runs it");
}

/** A file that changed on the disk is not overwritten. */
async function conflict() {
  console.log("changed files");
  const path = `${project}/prompts/keeper.md`;
  await show(page, "files/prompts%2Fkeeper.md");
  const text = page.getByLabel("Text of prompts/keeper.md");
  await page.getByText("no problems").waitFor();
  await text.fill("You keep hornets.\n");
  await page.getByText("no problems").waitFor();
  await page.getByRole("button", { name: "Save…" }).click();
  const dialog = page.locator("dialog");
  await dialog.locator(".diff .added").first().waitFor();
  writeFileSync(path, "You keep wasps.\n");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.locator(".notice.bad", { hasText: "E_SERVE_FILE_CHANGED" }).waitFor();
  holds(readFileSync(path, "utf8") === "You keep wasps.\n" && (await text.inputValue()) === "You keep hornets.\n", "a file that changed meanwhile is not overwritten, and the text is kept");
  // What the console says of the refusal is meant.
  holds(wrong.length === 1 && wrong.pop().includes("412"), "the server refuses with status 412");
  await page.getByRole("button", { name: "Discard changes" }).click();
  await page.waitForFunction(() => document.querySelector("textarea").value === "You keep wasps.\n");
  // Line ends of Windows stay.
  writeFileSync(path, "One\r\ntwo\r\n");
  await show(page, "files");
  await show(page, "files/prompts%2Fkeeper.md");
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "One\ntwo\n");
  await text.fill("One\ntwo\nthree\n");
  await page.getByRole("button", { name: "Save…" }).click();
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved prompts/keeper.md.").waitFor();
  holds(readFileSync(path, "utf8") === "One\r\ntwo\r\nthree\r\n", "line ends stay as they are");
}

/** A recorded test case is saved in the project, after its changes were shown. */
async function recording() {
  console.log("recorded test cases");
  const sent = await api("POST", "/api/inputs?wait=true", { input: "when do bees sleep", instanceKey: "night" });
  holds(sent.status === 200, "a conversation is there");
  const path = `${project}/keeper-night.case.yaml`;
  const made = page.locator("dialog", { hasText: "Test case keeper-night" });
  const offer = page.locator("dialog", { hasText: "Save keeper-night.case.yaml?" });
  const open = async () => {
    await more(page, "Record test case");
    await made.getByRole("button", { name: "Save…" }).click();
  };
  await show(page, "conversations/keeper/night");
  await open();
  await offer.getByText("This is a new file.").waitFor();
  await offer.locator(".diff .added", { hasText: "when do bees sleep" }).first().waitFor();
  await checked("case-save");
  holds(!existsSync(path), "nothing is saved before the changes are confirmed");
  await offer.getByRole("button", { name: "Cancel" }).click();
  const download = page.waitForEvent("download");
  await made.getByRole("button", { name: "Download" }).click();
  holds((await download).suggestedFilename() === "keeper-night.case.yaml" && !existsSync(path), "it can also be downloaded");
  await made.getByRole("button", { name: "Save…" }).click();
  await offer.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved keeper-night.case.yaml.").waitFor();
  const text = readFileSync(path, "utf8");
  holds(text.includes("when do bees sleep") && text.includes('project: "."'), "a confirmed test case is in the project");
  await open();
  await made.getByText("The file in the project already has this text.").waitFor();
  await made.getByRole("button", { name: "Close" }).click();
  writeFileSync(path, text.replace("when do bees sleep", "when do bees wake"));
  await open();
  await offer.getByText("another test case in this file").waitFor();
  holds((await offer.locator(".diff .removed", { hasText: "when do bees wake" }).count()) > 0, "a file with another text shows the difference");
  await offer.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved keeper-night.case.yaml.").waitFor();
  holds(readFileSync(path, "utf8") === text, "and is replaced after the confirmation");
  await show(page, "cases");
  await page.getByRole("button", { name: "Run keeper-night" }).click();
  await page.locator('[data-case="keeper-night"] .mark.ok', { hasText: "passed" }).waitFor();
  holds(true, "the saved test case is listed, and passes");
  unlinkSync(path);
}

/** The prompt of an agent leads to its file. */
async function prompts() {
  console.log("prompts");
  await show(page, "swarm");
  const card = page.locator("[data-id='agent/keeper']");
  await card.getByText("System prompt", { exact: true }).click();
  await card.getByLabel("System prompt of keeper").waitFor();
  await card.getByRole("link", { name: "prompts/keeper.md" }).click();
  await page.getByLabel("Text of prompts/keeper.md").waitFor();
  holds(true, "the prompt of an agent leads to its file");
}

/** The routes of the editor need the token, and reach nothing but the files of the project. */
async function walls() {
  console.log("the walls of the editor");
  const edit = { path: "goondan.yaml", text: "x", hash: "" };
  const refused = async (headers) => (await api("PUT", "/api/project/file", edit, headers)).status;
  holds((await refused({})) === 401, "without the token nothing is written");
  const authorized = { Authorization: `Bearer ${token}` };
  holds((await refused({ ...authorized, Origin: "http://evil.example" })) === 403, "nor for the page of another origin");
  holds((await refused(authorized)) === 412, "nor without the hash of the file");
  symlinkSync("/etc", `${project}/prompts/etc`);
  for (const path of ["../x.case.yaml", "prompts/etc/x.case.yaml", ".hidden/x.case.yaml", "x.md"]) {
    const created = await api("PUT", "/api/project/file", { ...edit, path });
    holds(created.status === 404, `${path} can't be created`);
  }
  for (const path of ["/etc/passwd", "../x.md", "prompts/../goondan.yaml", "prompts/etc/hosts", ".env"]) {
    const read = await api("GET", `/api/project/file?path=${encodeURIComponent(path)}`);
    const written = await api("PUT", "/api/project/file", { ...edit, path });
    holds(read.status === 404 && written.status === 404, `${path} can't be reached`);
  }
  unlinkSync(`${project}/prompts/etc`);
}

await cases();
await files();
await conflict();
await recording();
await prompts();
await walls();
holds(wrong.length === 0, `nothing went wrong in the page ${wrong.join("\n")}`);
await browser.close();
console.log("the project is edited and tested");
